//! Who may ask, as the data plane finds it: by credential and by name, at any number of consumers.
//!
//! Part of the snapshot: clones share structure, and a change of one consumer costs that consumer.

use std::sync::Arc;

use hashbrown::Equivalent;
use tollhouse_plugin::{Consumer, ConsumerIndex, Credential};
use tollhouse_stdx::CowMap;

use crate::plugins::chain::Chain;

/// Consumers, their credentials, their plugins.
#[derive(Debug, Clone, Default)]
pub struct Consumers {
    by_key: CowMap<Key, Arc<Credential>>,
    by_name: CowMap<Box<str>, Arc<Consumer>>,
    chains: CowMap<Box<str>, Arc<Chain>>,
    groups: CowMap<Box<str>, Arc<Chain>>,
}

/// What a credential is found by.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Key {
    /// The auth plugin.
    pub plugin: &'static str,
    /// The value of its look-up field.
    pub key: Box<[u8]>,
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
    /// The plugins that a consumer brings.
    pub fn chain(&self, username: &str) -> Option<&Chain> {
        self.chains.get(username).map(|chain| &**chain)
    }

    /// The plugins of a consumer group; `None` when there is no such group.
    pub fn group(&self, id: &str) -> Option<&Chain> {
        self.groups.get(id).map(|chain| &**chain)
    }

    /// All consumers.
    pub fn all(&self) -> impl Iterator<Item = &Arc<Consumer>> {
        self.by_name.values()
    }

    /// How many consumers there are.
    pub fn len(&self) -> usize {
        self.by_name.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.by_name.is_empty()
    }

    /// Sets a consumer and what it brings.
    pub(crate) fn set(&mut self, consumer: Arc<Consumer>, chain: Chain) {
        let name = consumer.username.clone();
        if chain.is_empty() {
            self.chains.remove(&name);
        } else {
            self.chains.insert(name.clone(), Arc::new(chain));
        }
        self.by_name.insert(name, consumer);
    }

    /// Removes a consumer.
    pub(crate) fn remove(&mut self, username: &str) {
        self.by_name.remove(username);
        self.chains.remove(username);
    }

    /// Sets what a credential is found by; of two with one key the later counts, and the other is
    /// given back.
    pub(crate) fn set_credential(
        &mut self,
        key: Key,
        credential: Arc<Credential>,
    ) -> Option<Arc<Credential>> {
        self.by_key.insert(key, credential)
    }

    /// Takes out whatever is found by a key.
    pub(crate) fn take_credential(&mut self, key: &Key) -> Option<Arc<Credential>> {
        let found = self.by_key.get(key).cloned();
        if found.is_some() {
            self.by_key.remove(key);
        }
        found
    }

    /// Removes a credential, unless its key belongs to another by now; returns whether it did.
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

    /// Sets or removes a group.
    pub(crate) fn set_group(&mut self, id: &str, chain: Option<Chain>) {
        match chain {
            Some(chain) => drop(self.groups.insert(id.into(), Arc::new(chain))),
            None => drop(self.groups.remove(id)),
        }
    }
}
