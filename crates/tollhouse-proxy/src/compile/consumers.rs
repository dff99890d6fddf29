//! Consumers and their credentials on their way into the snapshot.
//!
//! A consumer's own auth confs and its credential objects are found by the same index. What hangs
//! on one consumer is put in and taken out together, so that a change costs that consumer.

use std::collections::BTreeMap;
use std::sync::Arc;

use hashbrown::HashMap;
use serde_json::Value;
use tollhouse_model as model;
use tollhouse_model::{Id, PluginSet, Problems};
use tollhouse_plugin::{Consumer, Credential, validation};

use super::numbers::Numbers;
use super::plugins::Plugins;
use super::secrets::Fields;
use crate::consumers::{Consumers, Key};
use crate::plugins::Chain;

/// A credential object's id; `None` for what stands in the consumer itself.
type CredentialId = Option<Box<str>>;

/// What is known about consumers beyond the snapshot.
#[derive(Debug, Default)]
pub(super) struct ConsumerTable {
    consumers: HashMap<Box<str>, model::Consumer>,
    /// Identities by consumer, then by credential; the consumer's own stand under `None`.
    identities: HashMap<Box<str>, BTreeMap<CredentialId, Vec<FoundBy>>>,
    /// Keys that stand in the snapshot's index, by consumer.
    indexed: HashMap<Box<str>, Vec<(Key, CredentialId)>>,
    /// Credentials whose key has come to be another's as well, who counts; the latest stands last.
    displaced: HashMap<Key, Vec<Arc<Credential>>>,
    numbers: Numbers,
}

/// One identity and what it is found by.
#[derive(Clone)]
pub(super) struct FoundBy {
    key: Key,
    identity: Arc<dyn std::any::Any + Send + Sync>,
}

impl std::fmt::Debug for FoundBy {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "FoundBy({}, ***)", self.key.plugin)
    }
}

impl ConsumerTable {
    /// Sets a consumer whose plugins have been compiled.
    pub(super) fn set(
        &mut self,
        consumer: model::Consumer,
        identities: Vec<FoundBy>,
        plugins: &Plugins,
        snapshot: &mut Consumers,
    ) {
        let name: Box<str> = consumer.username.as_str().into();
        self.identities.entry(name.clone()).or_default().insert(None, identities);
        self.consumers.insert(name.clone(), consumer);
        self.link(&name, plugins, snapshot);
    }

    /// Removes a consumer; its credentials stay until they are removed themselves, and count again
    /// when it comes back.
    pub(super) fn remove(&mut self, username: &str, snapshot: &mut Consumers) {
        self.unlink(username, snapshot);
        self.consumers.remove(username);
        if let Some(identities) = self.identities.get_mut(username) {
            identities.remove(&None);
        }
        snapshot.remove(username);
    }

    /// Sets a credential object.
    pub(super) fn set_credential(
        &mut self,
        credential: &model::Credential,
        identities: Vec<FoundBy>,
        plugins: &Plugins,
        snapshot: &mut Consumers,
    ) {
        let name: Box<str> = credential.consumer.as_str().into();
        let id: Box<str> = credential.id.as_str().into();
        self.identities.entry(name.clone()).or_default().insert(Some(id), identities);
        self.link(&name, plugins, snapshot);
    }

    /// Removes a credential object.
    pub(super) fn remove_credential(
        &mut self,
        key: &Id,
        plugins: &Plugins,
        snapshot: &mut Consumers,
    ) {
        let Some((username, id)) = model::Credential::split_key(key.as_str()) else { return };
        if let Some(identities) = self.identities.get_mut(username) {
            identities.remove(&Some(id.into()));
            if identities.is_empty() {
                self.identities.remove(username);
            }
        }
        self.link(username, plugins, snapshot);
    }

    /// All consumers that are in service.
    pub(super) fn objects(&self) -> impl Iterator<Item = &model::Consumer> {
        self.consumers.values()
    }

    /// Puts everything that hangs on a consumer into the snapshot, in place of what was there.
    pub(super) fn link(&mut self, username: &str, plugins: &Plugins, snapshot: &mut Consumers) {
        self.unlink(username, snapshot);
        let Some(object) = self.consumers.get(username) else { return };
        let id = Id::new(username);
        let chain = Chain::merge(plugins.get(model::Kind::Consumer, &id));
        let consumer = Arc::new(Consumer {
            username: username.into(),
            group_id: object.group_id.as_ref().map(|id| id.as_str().into()),
            custom_id: object.custom_id().map(Into::into),
            labels: object.labels.clone(),
            has_plugins: !chain.says_nothing() || object.group_id.is_some(),
            number: self.numbers.number_for(&id),
        });
        snapshot.set(Arc::clone(&consumer), chain);
        let mut keys = Vec::new();
        for (id, found) in self.identities.get(username).into_iter().flatten() {
            for FoundBy { key, identity } in found {
                let credential = Credential {
                    consumer: Arc::clone(&consumer),
                    credential_id: id.clone(),
                    identity: Arc::clone(identity),
                };
                // Two consumers with one key: the later counts, and the earlier is found again once that
                // one goes.
                let displaced = snapshot.set_credential(key.clone(), Arc::new(credential));
                if let Some(displaced) = displaced {
                    self.displaced.entry(key.clone()).or_default().push(displaced);
                }
                keys.push((key.clone(), id.clone()));
            }
        }
        self.indexed.insert(username.into(), keys);
    }

    fn unlink(&mut self, username: &str, snapshot: &mut Consumers) {
        for (key, id) in self.indexed.remove(username).unwrap_or_default() {
            let is_own = |held: &Credential| {
                &*held.consumer.username == username && held.credential_id == id
            };
            if let Some(others) = self.displaced.get_mut(&key) {
                others.retain(|held| !is_own(held));
            }
            if snapshot.remove_credential(&key, is_own) {
                // The key was somebody else's before.
                let before = self.displaced.get_mut(&key).and_then(Vec::pop);
                before.map(|before| snapshot.set_credential(key.clone(), before));
            }
            if self.displaced.get(&key).is_some_and(Vec::is_empty) {
                self.displaced.remove(&key);
            }
        }
    }
}

/// What the auth confs of a set are found by; `None` when one of them is refused.
pub(super) fn identities(
    set: &PluginSet,
    plugins: &Plugins,
    path: &str,
    problems: &mut Problems,
) -> Option<Vec<FoundBy>> {
    let mut found = Vec::new();
    for (plugin, conf) in plugins.identities(set) {
        let path = format!("{path}.plugins.{}", plugin.name);
        // All of them are looked at, so that every problem is reported at once.
        let schema = plugin.consumer_schema().unwrap_or(&Value::Null);
        let conf = match plugins.resolved(&conf.conf, (Fields::All, schema), &path) {
            Ok(resolved) => resolved.conf,
            Err(problem) => {
                problems.push(problem);
                continue;
            }
        };
        let identified = plugin.identify(&conf);
        match identified.and_then(|identified| identified.check().map(|()| identified)) {
            Ok(identified) => found.push(FoundBy {
                key: Key { plugin: plugin.name, key: identified.key.into_bytes().into() },
                identity: identified.identity,
            }),
            Err(error) => problems.push(validation::refused(plugin.name, path, &error)),
        }
    }
    (!problems.has_errors()).then_some(found)
}
