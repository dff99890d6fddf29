//! The state as read from the store: everything at the start, then the commits of this node and of
//! the nodes that share the store.

use std::sync::Arc;

use serde::de::DeserializeOwned;
use tollhouse_store::{Entry, Event};

use crate::alias::Alias;
use crate::config::{ConfigFileKey, ConfigObject};
use crate::event::InstanceEvent;
use crate::identity::{IdentityKind, IdentityObject};
use crate::instance::{Instance, StoredInstance};
use crate::journal::{
    ALIASES, CONFIG_FILES, CONFIG_GROUPS, CONFIG_HISTORY, CONFIG_RELEASES, CONFIG_TEMPLATES,
    CONTRACTS, IDENTITIES, INSTANCES, LOADED, NAMESPACES, RULES, SERVICES,
};
use crate::key::ServiceKey;
use crate::pulse::Pulse;
use crate::rule::{Rule, RuleKind};
use crate::service::Service;

use super::State;

/// An entry that cannot be decoded: damaged, or written by another version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Unreadable {
    pub(crate) key: Box<str>,
    pub(crate) reason: String,
}

impl State {
    /// Loads entries of a store; the caller passes prefixes in the order of [`LOADED`]. Returns the
    /// entries that cannot be decoded.
    pub(crate) fn load(&mut self, entries: &[Entry], now_ms: u64) -> Vec<Unreadable> {
        let outcomes = entries.iter().map(|entry| {
            let outcome = self.take_in(entry, now_ms);
            outcome.map_err(|reason| Unreadable { key: entry.key.clone(), reason })
        });
        outcomes.filter_map(Result::err).collect()
    }

    /// Applies the changes of one commit, and appends the effects on instances to `events`. Returns
    /// the entries that cannot be decoded.
    pub(crate) fn fold(
        &mut self,
        changes: &[Event],
        now_ms: u64,
        events: &mut Vec<InstanceEvent>,
    ) -> Vec<Unreadable> {
        let mut changes: Vec<_> = changes.iter().filter(|change| is_loaded(change.key())).collect();
        // A commit is atomic, so that its order is free: an object is added after the objects that
        // it refers to, and removed before them.
        changes.sort_by_key(|change| rank(change));
        let mut unreadable = Vec::new();
        for change in changes {
            match change {
                Event::Put(entry) => match self.take_in(entry, now_ms) {
                    Ok(event) => events.extend(event),
                    Err(reason) => unreadable.push(Unreadable { key: entry.key.clone(), reason }),
                },
                Event::Delete { key, .. } => events.extend(self.take_away(key)),
            }
        }
        unreadable
    }

    fn take_in(&mut self, entry: &Entry, now_ms: u64) -> Result<Option<InstanceEvent>, String> {
        let key = &*entry.key;
        if key.starts_with(NAMESPACES) {
            self.put_namespace(read(entry)?);
        } else if key.starts_with(SERVICES) {
            let service: Service = read(entry)?;
            self.restore_namespace(&service.key.namespace);
            self.put_service(service);
        } else if key.starts_with(ALIASES) {
            let alias: Alias = read(entry)?;
            self.restore_namespace(&alias.key.namespace);
            self.place_alias(alias);
        } else if key.starts_with(INSTANCES) {
            return self.take_in_instance(read(entry)?, now_ms).map(Some);
        } else if key.starts_with(RULES) {
            let rule: Rule = read(entry)?;
            self.remove_rule(rule.kind, Arc::clone(&rule.id));
            self.place_rule(rule);
        } else if key.starts_with(CONTRACTS) {
            self.place_contract(Arc::new(read(entry)?));
        } else if let Some((kind, _)) = to_identity_key(key) {
            let object = IdentityObject::from_value(kind, &entry.value);
            self.place_identity(object.map_err(|error| error.to_string())?);
        } else if let Some(object) = read_config(entry)? {
            self.restore_config(object);
        } else {
            return Err("this version knows nothing that is kept under such a key".to_owned());
        }
        Ok(None)
    }

    fn take_in_instance(
        &mut self,
        stored: StoredInstance,
        now_ms: u64,
    ) -> Result<InstanceEvent, String> {
        let current = self.instance(stored.id()).cloned();
        let pulse = match &current {
            Some(current) => Arc::clone(&current.pulse),
            None => match self.pulses.get(stored.id()) {
                Some(kept) => Arc::clone(kept),
                None => Pulse::new(Arc::clone(stored.id()), now_ms),
            },
        };
        let mut instance = stored.with_pulse(pulse);
        let view = self.services.get(&instance.service).ok_or("its service is missing")?;
        instance.service = view.service.key.clone();
        let instance = self.put_instance(instance);
        Ok(match current {
            Some(current) if !is_heard_of(&instance, &current) => {
                InstanceEvent::Changed(instance, current)
            }
            current => InstanceEvent::Registered(instance, current),
        })
    }

    /// Removes the object of a key.
    fn take_away(&mut self, key: &str) -> Option<InstanceEvent> {
        if let Some(id) = key.strip_prefix(INSTANCES) {
            return self.remove_instance(id).map(InstanceEvent::Deregistered);
        }
        if let Some(key) = key.strip_prefix(SERVICES).and_then(to_service_key) {
            self.remove_service(&key);
        } else if let Some(name) = key.strip_prefix(NAMESPACES) {
            self.remove_namespace(name);
        } else if let Some(key) = key.strip_prefix(ALIASES).and_then(to_service_key) {
            self.remove_alias(&key);
        } else if let Some(id) = key.strip_prefix(CONTRACTS) {
            self.remove_contract(id);
        } else if let Some((kind, id)) = key.strip_prefix(RULES).and_then(|key| key.split_once('/'))
            && let Some(kind) = RuleKind::ALL.into_iter().find(|it| it.name() == kind)
        {
            self.remove_rule(kind, id.into());
        } else if let Some((kind, id)) = to_identity_key(key) {
            self.remove_identity(kind, id);
        } else {
            self.take_away_config(key);
        }
        None
    }

    fn take_away_config(&mut self, key: &str) {
        if let Some(group) = key.strip_prefix(CONFIG_GROUPS).and_then(to_service_key) {
            self.take_away_config_group(&group);
        } else if let Some(file) = key.strip_prefix(CONFIG_FILES).and_then(to_file_key) {
            self.take_away_config_file(&file);
        } else if let Some((file, id)) = key.strip_prefix(CONFIG_RELEASES).and_then(to_part_key) {
            self.take_away_config_release(&file, id);
        } else if let Some((file, id)) = key.strip_prefix(CONFIG_HISTORY).and_then(to_part_key) {
            self.take_away_config_event(&file, id);
        } else if let Some(name) = key.strip_prefix(CONFIG_TEMPLATES) {
            self.take_away_config_template(name);
        }
    }

    /// Creates the namespace of an existing object if the namespace's own entry is damaged.
    pub(super) fn restore_namespace(&mut self, name: &Arc<str>) {
        if !self.namespaces.contains_key(name) {
            let namespace = self.new_namespace(name, 0);
            self.put_namespace(namespace);
        }
    }
}

/// Whether an instance was registered again or has recovered, rather than been changed by an
/// operator.
fn is_heard_of(instance: &Instance, current: &Instance) -> bool {
    instance.created_at != current.created_at || (instance.healthy && !current.healthy)
}

fn is_loaded(key: &str) -> bool {
    LOADED.iter().any(|prefix| key.starts_with(prefix))
}

/// Returns the place of a change in the order in which a commit is applied.
fn rank(change: &Event) -> usize {
    let place = LOADED.iter().position(|prefix| change.key().starts_with(prefix));
    let place = place.unwrap_or(LOADED.len());
    let is_name = place < 2;
    match change {
        Event::Delete { .. } if !is_name => 0,
        Event::Put(_) => 1 + place,
        Event::Delete { .. } => 2 * LOADED.len() - place,
    }
}

/// Decodes the name after the prefix of a key.
fn to_service_key(name: &str) -> Option<ServiceKey> {
    let (namespace, name) = name.split_once('#')?;
    Some(ServiceKey::new(namespace, name))
}

/// Decodes the key of a user, group, role or policy.
fn to_identity_key(key: &str) -> Option<(IdentityKind, &str)> {
    let (kind, id) = key.strip_prefix(IDENTITIES)?.split_once('/')?;
    Some((IdentityKind::ALL.into_iter().find(|it| it.name() == kind)?, id))
}

/// Decodes the name of a configuration file after the prefix of a key.
fn to_file_key(name: &str) -> Option<ConfigFileKey> {
    let (namespace, rest) = name.split_once('#')?;
    let (group, name) = rest.split_once('#')?;
    Some(ConfigFileKey::new(namespace, group, name))
}

/// Decodes the file and id of a release, or of an entry of the history, after the prefix of a key.
fn to_part_key(name: &str) -> Option<(ConfigFileKey, u64)> {
    let (namespace, rest) = name.split_once('#')?;
    let (group, rest) = rest.split_once('#')?;
    let (id, name) = rest.split_once('#')?;
    Some((ConfigFileKey::new(namespace, group, name), u64::from_str_radix(id, 16).ok()?))
}

/// Decodes an object of the configuration centre; `None` for the key of another.
fn read_config(entry: &Entry) -> Result<Option<ConfigObject>, String> {
    let object = ConfigObject::from_entry(&entry.key, &entry.value);
    object.map_err(|error| error.to_string())
}

fn read<T: DeserializeOwned>(entry: &Entry) -> Result<T, String> {
    serde_json::from_slice(&entry.value).map_err(|error| error.to_string())
}
