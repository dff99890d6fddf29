//! What a limiter counts by: a variable, a combination of variables, or a constant; the client's
//! address where the request has nothing of it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tollhouse_model::template::Template;
use tollhouse_model::variable::{Lookup, Variable};

/// How `key` is read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum KeyType {
    /// The name of a variable, such as `remote_addr`.
    #[default]
    Var,
    /// A text with variables in it, such as `$remote_addr $consumer_name`.
    VarCombination,
    /// As it stands.
    Constant,
}

/// The same for plugins that have no constants.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum VariableKeyType {
    /// The name of a variable, such as `remote_addr`.
    #[default]
    Var,
    /// A text with variables in it, such as `$remote_addr $consumer_name`.
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

/// A key, ready to be looked up.
#[derive(Debug)]
pub(crate) enum LimitKey {
    /// A variable's value.
    Variable(Variable),
    /// Several.
    Combination(Template),
    /// The same for all requests.
    Constant(Box<[u8]>),
    /// Several, at least one of which the request must have for the limit to apply.
    Required(Template),
}

impl LimitKey {
    /// Reads a conf's `key`.
    pub(crate) fn parse(kind: KeyType, text: &str) -> Self {
        match kind {
            KeyType::Var => LimitKey::Variable(Variable::parse(text)),
            KeyType::VarCombination => LimitKey::Combination(Template::parse(text)),
            KeyType::Constant => LimitKey::Constant(text.as_bytes().into()),
        }
    }

    /// Reads the `key` of one of several rules.
    pub(crate) fn parse_rule(text: &str) -> Self {
        LimitKey::Required(Template::parse(text))
    }

    /// Whether the limit applies only to requests that have what it is made of.
    pub(crate) fn is_conditional(&self) -> bool {
        matches!(self, LimitKey::Required(_))
    }

    /// Whether the request's body must have been read.
    pub(crate) fn reads_body(&self) -> bool {
        match self {
            LimitKey::Variable(variable) => variable.reads_body(),
            LimitKey::Combination(template) | LimitKey::Required(template) => template.reads_body(),
            LimitKey::Constant(_) => false,
        }
    }

    /// Hands the request's key to `take`; `None` when the limit does not apply. A variable alone
    /// costs no allocation.
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
