//! What consistent hashing hashes, taken from a request.

use std::borrow::Cow;

use tollhouse_model::template::Template;
use tollhouse_model::upstream::{Balance, HashOn};
use tollhouse_model::variable::{Lookup, Variable};

/// A compiled `hash_on` and `key`.
#[derive(Debug, Clone)]
pub enum HashKey {
    /// One variable.
    Variable(Variable),
    /// Several, written one after another.
    Combination(Template),
}

impl HashKey {
    /// What `balance` hashes; `None` for a balance that does not hash.
    pub fn compile(balance: &Balance) -> Option<HashKey> {
        Some(match balance.hash_on.as_ref()? {
            HashOn::Variable(name) => HashKey::Variable(Variable::parse(name)),
            HashOn::Header(name) => HashKey::Variable(Variable::parse(&format!("http_{name}"))),
            HashOn::Cookie(name) => HashKey::Variable(Variable::Cookie(name.clone())),
            HashOn::Consumer => HashKey::Variable(Variable::Named("consumer_name".into())),
            HashOn::Combination(text) => HashKey::Combination(Template::parse(text)),
        })
    }

    /// The bytes to hash; the client's address where the request has no such value.
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
