//! Consumers and their credentials on their way into the snapshot.
//!
//! A consumer's own auth confs and its credential objects are found by the same index. What hangs
//! on one consumer is put in and taken out together, so that a change costs that consumer.

use std::collections::BTreeMap;
use std::sync::Arc;

use hashbrown::{HashMap, HashSet};
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
    /// Those that hold a key and identify nobody, which the snapshot's index does not have.
    nobody: HashMap<Key, Arc<Credential>>,
    /// Consumers that are there and cannot be used: all that is found by their keys is nobody.
    refused: HashSet<Box<str>>,
    numbers: Numbers,
}

/// One identity and what it is found by.
#[derive(Clone)]
pub(super) struct FoundBy {
    key: Key,
    identity: Arc<dyn std::any::Any + Send + Sync>,
}

/// Stands where a credential cannot be used, and keeps its key from others, who would come to be taken for whom
/// it was to identify.
struct Nobody;

impl FoundBy {
    fn nobody(key: Key) -> Self {
        Self { key, identity: Arc::new(Nobody) }
    }
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
        self.refused.remove(&name);
        self.identities.entry(name.clone()).or_default().insert(None, identities);
        self.consumers.insert(name.clone(), consumer);
        self.link(&name, plugins, snapshot);
    }

    /// Whether a consumer is in service.
    pub(super) fn contains(&self, username: &str) -> bool {
        self.consumers.contains_key(username)
    }

    /// Whether a credential object is in service, or would be if its consumer were.
    pub(super) fn has_credential(&self, key: &Id) -> bool {
        let Some((username, id)) = model::Credential::split_key(key.as_str()) else { return false };
        let found = self.identities.get(username).and_then(|of| of.get(&Some(id.into())));
        found.is_some_and(|found| !found.iter().any(|found| found.identity.is::<Nobody>()))
    }

    /// Has a consumer that cannot be used, with all its credentials, keep its keys from others.
    pub(super) fn refuse(
        &mut self,
        username: &str,
        keys: Vec<Key>,
        plugins: &Plugins,
        snapshot: &mut Consumers,
    ) {
        self.refused.insert(username.into());
        let keys = keys.into_iter().map(FoundBy::nobody).collect();
        self.identities.entry(username.into()).or_default().insert(None, keys);
        self.link(username, plugins, snapshot);
    }

    /// The same of a credential object.
    pub(super) fn refuse_credential(
        &mut self,
        key: &Id,
        keys: Vec<Key>,
        plugins: &Plugins,
        snapshot: &mut Consumers,
    ) {
        let Some((username, id)) = model::Credential::split_key(key.as_str()) else { return };
        let keys = keys.into_iter().map(FoundBy::nobody).collect();
        self.identities.entry(username.into()).or_default().insert(Some(id.into()), keys);
        self.link(username, plugins, snapshot);
    }

    /// Removes a consumer; its credentials stay until they are removed themselves, and count again
    /// when it comes back.
    pub(super) fn remove(&mut self, username: &str, snapshot: &mut Consumers) {
        self.unlink(username, snapshot);
        self.consumers.remove(username);
        self.refused.remove(username);
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
        let consumer = match self.consumers.get(username) {
            Some(object) => {
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
                consumer
            }
            // Known by name to its keys alone.
            None if self.refused.contains(username) => Arc::new(Consumer {
                username: username.into(),
                group_id: None,
                custom_id: None,
                labels: BTreeMap::new(),
                has_plugins: false,
                number: 0,
            }),
            None => return,
        };
        let is_refused = !self.consumers.contains_key(username);
        let found = self.identities.get(username).into_iter().flatten();
        let found: Vec<_> = found
            .flat_map(|(id, found)| found.iter().map(|found| (id.clone(), found.clone())))
            .collect();
        let mut keys = Vec::with_capacity(found.len());
        for (credential_id, FoundBy { key, identity }) in found {
            let identity = if is_refused { Arc::new(Nobody) } else { identity };
            let consumer = Arc::clone(&consumer);
            let credential = Credential { consumer, credential_id, identity };
            keys.push((key.clone(), credential.credential_id.clone()));
            // Two consumers with one key: the later counts, and the earlier is found again once that
            // one goes.
            let displaced = self.hold(key.clone(), Arc::new(credential), snapshot);
            if let Some(displaced) = displaced {
                self.displaced.entry(key).or_default().push(displaced);
            }
        }
        self.indexed.insert(username.into(), keys);
    }

    /// Gives a key to a credential; to whom it was given before.
    fn hold(
        &mut self,
        key: Key,
        credential: Arc<Credential>,
        snapshot: &mut Consumers,
    ) -> Option<Arc<Credential>> {
        let of_nobody = self.nobody.remove(&key);
        let before = if credential.identity.is::<Nobody>() {
            let before = snapshot.take_credential(&key);
            self.nobody.insert(key, credential);
            before
        } else {
            snapshot.set_credential(key, credential)
        };
        before.or(of_nobody)
    }

    fn unlink(&mut self, username: &str, snapshot: &mut Consumers) {
        for (key, id) in self.indexed.remove(username).unwrap_or_default() {
            let is_own = |held: &Credential| {
                &*held.consumer.username == username && held.credential_id == id
            };
            if let Some(others) = self.displaced.get_mut(&key) {
                others.retain(|held| !is_own(held));
            }
            let is_nobodys = self.nobody.get(&key).is_some_and(|held| is_own(held));
            if is_nobodys {
                self.nobody.remove(&key);
            }
            if is_nobodys || snapshot.remove_credential(&key, is_own) {
                // The key was somebody else's before.
                let before = self.displaced.get_mut(&key).and_then(Vec::pop);
                before.map(|before| self.hold(key.clone(), before, snapshot));
            }
            if self.displaced.get(&key).is_some_and(Vec::is_empty) {
                self.displaced.remove(&key);
            }
        }
    }
}

/// What the auth confs of an object are found by that cannot be used, as far as that can be read.
pub(super) fn claimed_keys(value: &Value, plugins: &Plugins) -> Vec<Key> {
    let confs = value.get("plugins").and_then(Value::as_object).into_iter().flatten();
    let keys = confs.filter_map(|(name, conf)| {
        let plugin = plugins.catalogue().get(name).filter(|plugin| plugin.is_auth())?;
        let field = plugin.consumer.as_ref()?.key_field;
        let is_off = conf.pointer("/_meta/disable").is_some_and(|off| off == true);
        // The conf need not be good as a whole for its key to be known.
        let key =
            Value::Object([(field.to_owned(), conf.get(field)?.clone())].into_iter().collect());
        let key = plugins.resolved(&key, (Fields::All, &Value::Null), "").ok()?;
        let key = key.conf.get(field)?.as_str().filter(|key| !key.is_empty() && !is_off)?;
        Some(Key { plugin: plugin.name, key: key.as_bytes().into() })
    });
    keys.collect()
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
