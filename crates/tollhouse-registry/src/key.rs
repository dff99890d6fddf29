//! Names of services: a namespace and a name within it, owned or borrowed.

use std::fmt;
use std::sync::Arc;

use hashbrown::Equivalent;
use serde::{Deserialize, Serialize};

/// Full name of a service or alias.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ServiceKey {
    pub namespace: Arc<str>,
    pub name: Arc<str>,
}

impl ServiceKey {
    pub fn new(namespace: &str, name: &str) -> Self {
        Self { namespace: namespace.into(), name: name.into() }
    }

    pub fn borrowed(&self) -> ServiceRef<'_> {
        ServiceRef { namespace: &self.namespace, name: &self.name }
    }
}

impl fmt::Display for ServiceKey {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.borrowed().fmt(out)
    }
}

/// Borrowed form of [`ServiceKey`], for look-ups without allocation.
// Field order must equal that of the key, because both must hash alike.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ServiceRef<'a> {
    pub namespace: &'a str,
    pub name: &'a str,
}

impl ServiceRef<'_> {
    pub fn to_key(self) -> ServiceKey {
        ServiceKey::new(self.namespace, self.name)
    }
}

impl fmt::Display for ServiceRef<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}/{}", self.namespace, self.name)
    }
}

impl Equivalent<ServiceKey> for ServiceRef<'_> {
    fn equivalent(&self, key: &ServiceKey) -> bool {
        self.namespace == &*key.namespace && self.name == &*key.name
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tollhouse_stdx::CowMap;

    #[test]
    fn a_borrowed_key_finds_what_an_owned_one_stored() {
        let mut map = CowMap::new();
        map.insert(ServiceKey::new("a", "b/c"), 1);
        assert_eq!(map.get(&ServiceRef { namespace: "a", name: "b/c" }), Some(&1));
        assert_eq!(map.get(&ServiceRef { namespace: "a/b", name: "c" }), None);
    }
}
