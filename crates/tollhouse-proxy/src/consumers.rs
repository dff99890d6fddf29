//! Index of consumers and their credentials for the data plane.
//!
//! Part of the snapshot: clones share structure, so that a change of one consumer costs only that
//! consumer.

use std::sync::Arc;

use hashbrown::Equivalent;
use tollhouse_plugin::{Consumer, ConsumerIndex, Credential};
use tollhouse_stdx::CowMap;

use crate::plugins::chain::Chain;

/// Consumers, their credentials and their plugins.
#[derive(Debug, Clone, Default)]
pub struct Consumers {
    by_key: CowMap<Key, Arc<Credential>>,
    by_name: CowMap<Box<str>, Arc<Consumer>>,
    chains: CowMap<Box<str>, Arc<Chain>>,
    groups: CowMap<Box<str>, Arc<Chain>>,
}

/// Key by which a request's consumer is found.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Key {
    /// Name of the auth plugin that reads the credential.
    pub plugin: &'static str,
    /// Value of the plugin's look-up field, such as the API key.
    pub key: Arc<[u8]>,
}

#[derive(Hash)]
struct KeyRef<'a> {
    plugin: &'a str,
    key: &'a [u8],
}

impl Equivalent<Key> for KeyRef<'_> {
    fn equivalent(&self, key: &Key) -> bool {
        self.key == &*key.key && self.plugin == key.plugin
    }
}

impl ConsumerIndex for Consumers {
    #[inline]
    fn credential(&self, plugin: &str, key: &[u8]) -> Option<&Credential> {
        self.by_key.get(&KeyRef { plugin, key }).map(|credential| &**credential)
    }

    fn consumer(&self, username: &str) -> Option<&Arc<Consumer>> {
        self.by_name.get(username)
    }
}

impl Consumers {
    /// Returns the plugins of a consumer; `None` if it has none.
    pub fn chain(&self, username: &str) -> Option<&Chain> {
        self.chains.get(username).map(|chain| &**chain)
    }

    /// Returns the plugins of a consumer group; `None` if the group does not exist.
    pub fn group(&self, id: &str) -> Option<&Chain> {
        self.groups.get(id).map(|chain| &**chain)
    }

    pub fn all(&self) -> impl Iterator<Item = &Arc<Consumer>> {
        self.by_name.values()
    }

    pub fn len(&self) -> usize {
        self.by_name.len()
    }

    pub fn is_empty(&self) -> bool {
        self.by_name.is_empty()
    }

    /// Adds or replaces a consumer and its plugins.
    pub(crate) fn set(&mut self, consumer: Arc<Consumer>, chain: Chain) {
        let name = consumer.username.clone();
        if chain.is_empty() {
            self.chains.remove(&name);
        } else {
            self.chains.insert(name.clone(), Arc::new(chain));
        }
        self.by_name.insert(name, consumer);
    }

    pub(crate) fn remove(&mut self, username: &str) {
        self.by_name.remove(username);
        self.chains.remove(username);
    }

    /// Stores a credential under its key; returns the credential that had the key before.
    pub(crate) fn set_credential(
        &mut self,
        key: Key,
        credential: Arc<Credential>,
    ) -> Option<Arc<Credential>> {
        self.by_key.insert(key, credential)
    }

    /// Removes and returns the credential with a key.
    pub(crate) fn take_credential(&mut self, key: &Key) -> Option<Arc<Credential>> {
        let found = self.by_key.get(key).cloned();
        if found.is_some() {
            self.by_key.remove(key);
        }
        found
    }

    /// Removes the credential with `key` if `is_own` accepts it; returns whether it was removed.
    pub(crate) fn remove_credential(
        &mut self,
        key: &Key,
        is_own: impl FnOnce(&Credential) -> bool,
    ) -> bool {
        let removes = self.by_key.get(key).is_some_and(|held| is_own(held));
        if removes {
            self.by_key.remove(key);
        }
        removes
    }

    pub(crate) fn set_group(&mut self, id: &str, chain: Option<Chain>) {
        match chain {
            Some(chain) => drop(self.groups.insert(id.into(), Arc::new(chain))),
            None => drop(self.groups.remove(id)),
        }
    }
}
