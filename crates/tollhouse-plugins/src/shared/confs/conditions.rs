//! Expressions in confs of plugins.

use serde_json::Value;
use tollhouse_model::Problems;
use tollhouse_model::expr::Expr;
use tollhouse_model::variable::Lookup;
use tollhouse_plugin::ConfError;

/// Prefix of problems with expressions in objects, which confs of plugins omit.
const OBJECT_PREFIX: &str = "failed to validate the 'vars' expression: ";

/// Expressions, at least one of which must hold.
#[derive(Debug)]
pub(crate) struct AnyOf(Box<[Expr]>);

impl AnyOf {
    pub(crate) fn parse(list: &[Value]) -> Result<Self, ConfError> {
        let expressions: Result<Vec<Expr>, ConfError> = list.iter().map(parse).collect();
        Ok(Self(expressions?.into()))
    }

    /// Whether an expression reads the request's body.
    pub(crate) fn reads_body(&self) -> bool {
        self.0.iter().any(Expr::reads_body)
    }

    /// Whether at least one expression holds.
    pub(crate) fn matches(&self, request: &dyn Lookup) -> bool {
        self.0.iter().any(|expression| expression.matches(request))
    }
}

pub(crate) fn parse(value: &Value) -> Result<Expr, ConfError> {
    // An empty list arrives as an empty object from clients in languages with one type for both.
    let is_empty = value.as_object().is_some_and(|fields| fields.is_empty());
    let value = if is_empty { &Value::Array(Vec::new()) } else { value };
    let mut problems = Problems::new();
    Expr::parse(value, "", &mut problems).ok_or_else(|| {
        let reason = problems.iter().next().map_or("invalid expression", |first| &first.reason);
        reason.strip_prefix(OBJECT_PREFIX).unwrap_or(reason).into()
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use tollhouse_plugin::testing::FakeExchange;

    use super::*;

    #[test]
    fn one_of_them_must_hold() {
        let request = FakeExchange::parse("GET /?a=1 HTTP/1.1\n\n", 0);
        for (list, holds) in [
            (json!([]), false),
            (json!([[]]), true),
            (json!([{}]), true),
            (json!([[["arg_a", "==", "2"]]]), false),
            (json!([[["arg_a", "==", "2"]], [["arg_a", "==", "1"]]]), true),
        ] {
            let any = AnyOf::parse(list.as_array().unwrap()).unwrap();
            assert_eq!(any.matches(&request), holds, "{list}");
        }
    }

    #[test]
    fn a_bad_one_is_told_without_the_name_of_a_field() {
        let refusal = parse(&json!([["arg_a", "=", "2"]])).unwrap_err();
        assert_eq!(refusal.text(), "invalid operator '='");
    }
}
