//! Consumers and credentials, compiled into the snapshot.
//!
//! One index finds a consumer by its auth configurations and by its credential objects. All entries
//! of a consumer are inserted and removed together, so the cost of a change is limited to that
//! consumer.

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

/// Id of a credential object; `None` for an auth configuration of the consumer itself.
type CredentialId = Option<Box<str>>;

/// State of consumers that is not part of the snapshot.
#[derive(Debug, Default)]
pub(super) struct ConsumerTable {
    consumers: HashMap<Id, ConsumerState>,
    /// Credentials whose key was later taken by another credential; the most recent is last.
    displaced: HashMap<Key, Vec<Arc<Credential>>>,
    /// Keys that are reserved by invalid credentials. The snapshot's index does not contain them.
    nobody: HashMap<Key, Arc<Credential>>,
    numbers: Numbers,
}

/// A consumer, or a name that only credential objects refer to.
#[derive(Debug, Default)]
struct ConsumerState {
    /// `None` if the consumer does not exist or is invalid.
    object: Option<model::Consumer>,
    /// Whether the consumer is invalid: all its keys are reserved and identify no consumer.
    is_refused: bool,
    /// Identities by credential, in the order of their ids; the consumer's own come first.
    identities: Vec<(CredentialId, Box<[FoundBy]>)>,
    /// Keys in the snapshot's index.
    indexed: Box<[(Key, CredentialId)]>,
}

impl ConsumerState {
    fn set_identities(&mut self, credential: CredentialId, found: Vec<FoundBy>) {
        let found = found.into();
        match self.place_of(&credential) {
            Ok(place) => self.identities[place].1 = found,
            Err(place) => {
                // Nearly all consumers have a single credential.
                self.identities.reserve_exact(1);
                self.identities.insert(place, (credential, found));
            }
        }
    }

    fn remove_identities(&mut self, credential: &CredentialId) {
        if let Ok(place) = self.place_of(credential) {
            self.identities.remove(place);
        }
    }

    fn place_of(&self, credential: &CredentialId) -> Result<usize, usize> {
        self.identities.binary_search_by(|(other, _)| other.cmp(credential))
    }

    fn is_empty(&self) -> bool {
        self.object.is_none() && !self.is_refused && self.identities.is_empty()
    }
}

/// An identity and the key that finds it.
#[derive(Clone)]
pub(super) struct FoundBy {
    key: Key,
    identity: Arc<dyn std::any::Any + Send + Sync>,
}

/// Identity of an invalid credential. It reserves the key, because another consumer with an equal
/// key would otherwise be taken for the intended one.
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
    /// Adds or replaces a consumer whose plugins are compiled.
    pub(super) fn set(
        &mut self,
        consumer: model::Consumer,
        identities: Vec<FoundBy>,
        plugins: &Plugins,
        snapshot: &mut Consumers,
    ) {
        let name = Id::new(consumer.username.as_str());
        let state = self.consumers.entry(name.clone()).or_default();
        state.is_refused = false;
        state.set_identities(None, identities);
        state.object = Some(consumer);
        self.link(&name, plugins, snapshot);
    }

    pub(super) fn contains(&self, username: &Id) -> bool {
        self.consumers.get(username).is_some_and(|state| state.object.is_some())
    }

    /// Whether a credential object is valid; its consumer may be missing.
    pub(super) fn has_credential(&self, key: &Id) -> bool {
        let Some((username, id)) = parts_of(key) else { return false };
        let found = self.consumers.get(&username).and_then(|state| {
            let place = state.place_of(&id).ok()?;
            Some(&state.identities[place].1)
        });
        found.is_some_and(|found| !found.iter().any(|found| found.identity.is::<Nobody>()))
    }

    /// Marks a consumer as invalid and reserves the keys of all its credentials.
    pub(super) fn refuse(
        &mut self,
        username: &Id,
        keys: Vec<Key>,
        plugins: &Plugins,
        snapshot: &mut Consumers,
    ) {
        let state = self.consumers.entry(username.clone()).or_default();
        state.is_refused = true;
        state.set_identities(None, keys.into_iter().map(FoundBy::nobody).collect());
        self.link(username, plugins, snapshot);
    }

    /// Marks a credential object as invalid and reserves its keys.
    pub(super) fn refuse_credential(
        &mut self,
        key: &Id,
        keys: Vec<Key>,
        plugins: &Plugins,
        snapshot: &mut Consumers,
    ) {
        let Some((username, id)) = parts_of(key) else { return };
        let state = self.consumers.entry(username.clone()).or_default();
        state.set_identities(id, keys.into_iter().map(FoundBy::nobody).collect());
        self.link(&username, plugins, snapshot);
    }

    /// Removes a consumer. Its credential objects are kept and take effect again if the consumer
    /// returns.
    pub(super) fn remove(&mut self, username: &Id, snapshot: &mut Consumers) {
        self.unlink(username, snapshot);
        if let Some(state) = self.consumers.get_mut(username) {
            state.object = None;
            state.is_refused = false;
            state.remove_identities(&None);
            if state.is_empty() {
                self.consumers.remove(username);
            }
        }
        snapshot.remove(username.as_str());
    }

    pub(super) fn set_credential(
        &mut self,
        credential: &model::Credential,
        identities: Vec<FoundBy>,
        plugins: &Plugins,
        snapshot: &mut Consumers,
    ) {
        let name = Id::new(credential.consumer.as_str());
        let state = self.consumers.entry(name.clone()).or_default();
        state.set_identities(Some(credential.id.as_str().into()), identities);
        self.link(&name, plugins, snapshot);
    }

    pub(super) fn remove_credential(
        &mut self,
        key: &Id,
        plugins: &Plugins,
        snapshot: &mut Consumers,
    ) {
        let Some((username, id)) = parts_of(key) else { return };
        if let Some(state) = self.consumers.get_mut(&username) {
            state.remove_identities(&id);
        }
        self.link(&username, plugins, snapshot);
        if self.consumers.get(&username).is_some_and(ConsumerState::is_empty) {
            self.consumers.remove(&username);
        }
    }

    pub(super) fn objects(&self) -> impl Iterator<Item = &model::Consumer> {
        self.consumers.values().filter_map(|state| state.object.as_ref())
    }

    /// Replaces everything that belongs to a consumer in the snapshot.
    pub(super) fn link(&mut self, username: &Id, plugins: &Plugins, snapshot: &mut Consumers) {
        self.unlink(username, snapshot);
        let Some(state) = self.consumers.get(username) else { return };
        let consumer = match &state.object {
            Some(object) => {
                let chain = Chain::merge(plugins.get(model::Kind::Consumer, username));
                let consumer = Arc::new(Consumer {
                    username: username.as_str().into(),
                    group_id: object.group_id.as_ref().map(|id| id.as_str().into()),
                    custom_id: object.custom_id().map(Into::into),
                    labels: object.labels.clone(),
                    has_plugins: !chain.says_nothing() || object.group_id.is_some(),
                    number: self.numbers.number_for(username),
                });
                snapshot.set(Arc::clone(&consumer), chain);
                consumer
            }
            // An invalid consumer only gives its name to the keys that it reserves.
            None if state.is_refused => Arc::new(Consumer {
                username: username.as_str().into(),
                group_id: None,
                custom_id: None,
                labels: BTreeMap::new(),
                has_plugins: false,
                number: 0,
            }),
            None => return,
        };
        let is_refused = state.object.is_none();
        let found: Vec<_> = state
            .identities
            .iter()
            .flat_map(|(id, found)| found.iter().map(|found| (id.clone(), found.clone())))
            .collect();
        let mut keys = Vec::with_capacity(found.len());
        for (credential_id, FoundBy { key, identity }) in found {
            let identity = if is_refused { Arc::new(Nobody) } else { identity };
            let consumer = Arc::clone(&consumer);
            let credential = Credential { consumer, credential_id, identity };
            keys.push((key.clone(), credential.credential_id.clone()));
            // If two consumers have the same key, the later one wins. The earlier one is found
            // again when the later is removed.
            let displaced = self.hold(key.clone(), Arc::new(credential), snapshot);
            if let Some(displaced) = displaced {
                self.displaced.entry(key).or_default().push(displaced);
            }
        }
        if let Some(state) = self.consumers.get_mut(username) {
            state.indexed = keys.into();
        }
    }

    /// Assigns a key to a credential; returns the credential that had it before.
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

    fn unlink(&mut self, username: &Id, snapshot: &mut Consumers) {
        let Some(state) = self.consumers.get_mut(username) else { return };
        for (key, id) in std::mem::take(&mut state.indexed) {
            let is_own = |held: &Credential| {
                &*held.consumer.username == username.as_str() && held.credential_id == id
            };
            if let Some(others) = self.displaced.get_mut(&key) {
                others.retain(|held| !is_own(held));
            }
            let is_nobodys = self.nobody.get(&key).is_some_and(|held| is_own(held));
            if is_nobodys {
                self.nobody.remove(&key);
            }
            if is_nobodys || snapshot.remove_credential(&key, is_own) {
                // Gives the key back to the credential that had it before.
                let before = self.displaced.get_mut(&key).and_then(Vec::pop);
                before.map(|before| self.hold(key.clone(), before, snapshot));
            }
            if self.displaced.get(&key).is_some_and(Vec::is_empty) {
                self.displaced.remove(&key);
            }
        }
    }
}

/// Returns the consumer and the id that the key of a credential object consists of.
fn parts_of(key: &Id) -> Option<(Id, CredentialId)> {
    let (username, id) = model::Credential::split_key(key.as_str())?;
    Some((Id::new(username), Some(id.into())))
}

/// Returns the keys in the auth configurations of an invalid object, as far as they can be read.
pub(super) fn claimed_keys(value: &Value, plugins: &Plugins) -> Vec<Key> {
    let confs = value.get("plugins").and_then(Value::as_object).into_iter().flatten();
    let keys = confs.filter_map(|(name, conf)| {
        let plugin = plugins.catalogue().get(name).filter(|plugin| plugin.is_auth())?;
        let field = plugin.consumer.as_ref()?.key_field;
        let is_off = conf.pointer("/_meta/disable").is_some_and(|off| off == true);
        // The key can be known even if another part of the configuration is invalid.
        let key =
            Value::Object([(field.to_owned(), conf.get(field)?.clone())].into_iter().collect());
        let key = plugins.resolved(&key, Fields::All, &Value::Null, "").ok()?;
        let key = key.conf.get(field)?.as_str().filter(|key| !key.is_empty() && !is_off)?;
        Some(Key { plugin: plugin.name, key: key.as_bytes().into() })
    });
    keys.collect()
}

/// Returns the identities and keys of a set's auth configurations; `None` if a configuration is
/// refused.
pub(super) fn identities(
    set: &PluginSet,
    plugins: &Plugins,
    path: &str,
    problems: &mut Problems,
) -> Option<Vec<FoundBy>> {
    let mut found = Vec::new();
    for (plugin, conf) in plugins.identities(set) {
        let path = format!("{path}.plugins.{}", plugin.name);
        // All configurations are checked, so that every problem is reported at once.
        let schema = plugin.consumer_schema().unwrap_or(&Value::Null);
        let conf = match plugins.resolved(&conf.conf, Fields::All, schema, &path) {
            Ok(resolved) => resolved.conf,
            Err(problem) => {
                problems.push(problem);
                continue;
            }
        };
        let identified = plugin.identify(&conf);
        match identified.and_then(|identified| identified.check().map(|()| identified)) {
            Ok(identified) => found.push(FoundBy {
                key: Key { plugin: plugin.name, key: Arc::from(identified.key.into_bytes()) },
                identity: identified.identity,
            }),
            Err(error) => problems.push(validation::refused(plugin.name, path, &error)),
        }
    }
    (!problems.has_errors()).then_some(found)
}
