//! Key by which a limiter counts: a variable, a combination of variables, or a constant. If the
//! request has none of the variables, the client's address is used.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tollhouse_model::template::Template;
use tollhouse_model::variable::{Lookup, Variable};

/// Meaning of `key`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum KeyType {
    /// Name of a variable, such as `remote_addr`.
    #[default]
    Var,
    /// Text with variables, such as `$remote_addr $consumer_name`.
    VarCombination,
    /// Literal text.
    Constant,
}

/// Meaning of `key`, in plugins without constants.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum VariableKeyType {
    /// Name of a variable, such as `remote_addr`.
    #[default]
    Var,
    /// Text with variables, such as `$remote_addr $consumer_name`.
    VarCombination,
}

impl From<VariableKeyType> for KeyType {
    fn from(kind: VariableKeyType) -> Self {
        match kind {
            VariableKeyType::Var => KeyType::Var,
            VariableKeyType::VarCombination => KeyType::VarCombination,
        }
    }
}

/// Rule for the key by which requests are counted.
#[derive(Debug)]
pub(crate) enum LimitKey {
    /// Value of one variable as key.
    Variable(Variable),
    /// Text with variables as key.
    Combination(Template),
    /// Constant key, so that all requests are counted together.
    Constant(Box<[u8]>),
    /// Text with variables as key. The limit applies only if the request has at least one of the
    /// variables.
    Required(Template),
}

impl LimitKey {
    /// Parses the field `key` of a conf.
    pub(crate) fn parse(kind: KeyType, text: &str) -> Self {
        match kind {
            KeyType::Var => LimitKey::Variable(Variable::parse(text)),
            KeyType::VarCombination => LimitKey::Combination(Template::parse(text)),
            KeyType::Constant => LimitKey::Constant(text.as_bytes().into()),
        }
    }

    /// Parses the `key` of one of several rules.
    pub(crate) fn parse_rule(text: &str) -> Self {
        LimitKey::Required(Template::parse(text))
    }

    /// Whether the limit depends on the presence of variables.
    pub(crate) fn is_conditional(&self) -> bool {
        matches!(self, LimitKey::Required(_))
    }

    /// Whether a variable reads the request's body.
    pub(crate) fn reads_body(&self) -> bool {
        match self {
            LimitKey::Variable(variable) => variable.reads_body(),
            LimitKey::Combination(template) | LimitKey::Required(template) => template.reads_body(),
            LimitKey::Constant(_) => false,
        }
    }

    /// Calls `take` with the request's key; returns `None` if the limit does not apply. A single
    /// variable costs no allocation.
    pub(crate) fn with<R>(&self, request: &dyn Lookup, take: impl FnOnce(&[u8]) -> R) -> Option<R> {
        match self {
            LimitKey::Constant(key) => Some(take(key)),
            LimitKey::Variable(variable) => match request.variable(variable) {
                Some(key) => Some(take(&key)),
                None => Some(with_address(request, take)),
            },
            LimitKey::Combination(template) => {
                let mut key = Vec::new();
                match template.resolve(request, &mut key) {
                    0 => Some(with_address(request, take)),
                    _ => Some(take(&key)),
                }
            }
            LimitKey::Required(template) => {
                let mut key = Vec::new();
                (template.resolve(request, &mut key) > 0).then(|| take(&key))
            }
        }
    }
}

fn with_address<R>(request: &dyn Lookup, take: impl FnOnce(&[u8]) -> R) -> R {
    take(&request.variable(&Variable::RemoteAddr).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use tollhouse_plugin::testing::FakeExchange;

    use super::*;

    #[test]
    fn keys_are_what_the_request_has_or_its_address() {
        let request = FakeExchange::parse("GET / HTTP/1.1\nX-A: 1\n\n", 0);
        for (kind, text, expected) in [
            (KeyType::Var, "http_x_a", "1"),
            (KeyType::Var, "http_x_b", "127.0.0.1"),
            (KeyType::VarCombination, "$http_x_a $http_x_b", "1 "),
            (KeyType::VarCombination, "$http_x_b", "127.0.0.1"),
            (KeyType::VarCombination, "plain", "127.0.0.1"),
            (KeyType::Constant, "$http_x_a", "$http_x_a"),
        ] {
            let key = LimitKey::parse(kind, text).with(&request, <[u8]>::to_vec);
            assert_eq!(key.as_deref(), Some(expected.as_bytes()), "{text}");
        }
    }

    #[test]
    fn a_rule_applies_where_the_request_has_something_of_its_key() {
        let request = FakeExchange::parse("GET / HTTP/1.1\nX-A: 1\n\n", 0);
        for (text, expected) in [
            ("${http_x_a}", Some("1")),
            ("${http_x_b}", None),
            ("${http_x_b ?? all}", Some("all")),
            ("constant", None),
        ] {
            let key = LimitKey::parse_rule(text).with(&request, <[u8]>::to_vec);
            assert_eq!(key.as_deref(), expected.map(str::as_bytes), "{text}");
        }
    }
}
