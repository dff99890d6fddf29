//! Input of consistent hashing, taken from a request.

use std::borrow::Cow;

use tollhouse_model::template::Template;
use tollhouse_model::upstream::{Balance, HashOn};
use tollhouse_model::variable::{Lookup, Variable};

/// Compiled `hash_on` and `key` of an upstream.
#[derive(Debug, Clone)]
pub enum HashKey {
    Variable(Variable),
    /// Several variables, written one after another.
    Combination(Template),
}

impl HashKey {
    /// Returns the hash key of `balance`; `None` if its algorithm does not hash.
    pub fn compile(balance: &Balance) -> Option<HashKey> {
        Some(match balance.hash_on.as_ref()? {
            HashOn::Variable(name) => HashKey::Variable(Variable::parse(name)),
            HashOn::Header(name) => HashKey::Variable(Variable::parse(&format!("http_{name}"))),
            HashOn::Cookie(name) => HashKey::Variable(Variable::Cookie(name.clone())),
            HashOn::Consumer => HashKey::Variable(Variable::Named("consumer_name".into())),
            HashOn::Combination(text) => HashKey::Combination(Template::parse(text)),
        })
    }

    /// Returns the bytes to hash; the client's address if the request has no such value.
    pub fn value<'a>(&self, request: &'a dyn Lookup) -> Cow<'a, [u8]> {
        let value = match self {
            HashKey::Variable(variable) => request.variable(variable),
            HashKey::Combination(template) => {
                let mut out = Vec::new();
                let resolved = template.resolve(request, &mut out);
                (resolved > 0).then_some(Cow::Owned(out))
            }
        };
        value
            .filter(|value| !value.is_empty())
            .or_else(|| request.variable(&Variable::RemoteAddr))
            .unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A request of a client with an address and one header.
    struct Request;

    impl Lookup for Request {
        fn variable(&self, variable: &Variable) -> Option<Cow<'_, [u8]>> {
            match variable {
                Variable::RemoteAddr => Some(Cow::Borrowed(b"10.0.0.9")),
                other if *other == Variable::parse("http_x_user") => Some(Cow::Borrowed(b"jack")),
                other if *other == Variable::parse("http_x_empty") => Some(Cow::Borrowed(b"")),
                _ => None,
            }
        }
    }

    #[test]
    fn without_any_value_the_clients_address_is_hashed() {
        let combination = |text: &str| HashKey::Combination(Template::parse(text));
        let variable = |name: &str| HashKey::Variable(Variable::parse(name));
        for (key, expected) in [
            (combination("$http_x_user"), "jack"),
            (combination("$http_x_user-$http_x_none"), "jack-"),
            (combination("$http_x_none-$arg_none"), "10.0.0.9"),
            (combination("fixed"), "10.0.0.9"),
            (variable("http_x_user"), "jack"),
            (variable("http_x_empty"), "10.0.0.9"),
            (variable("http_x_none"), "10.0.0.9"),
        ] {
            let value = key.value(&Request);
            assert_eq!(value, expected.as_bytes(), "{key:?}");
        }
    }
}
