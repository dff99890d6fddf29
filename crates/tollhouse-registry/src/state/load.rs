//! The state as the store remembers it: everything back, as it stood.

use std::sync::Arc;

use serde::de::DeserializeOwned;
use tollhouse_store::Entry;

use crate::alias::Alias;
use crate::instance::StoredInstance;
use crate::journal::{ALIASES, CONTRACTS, INSTANCES, NAMESPACES, RULES, SERVICES};
use crate::service::Service;

use super::State;

/// Parts of the store in the order in which they are taken in: names before what stands under them.
pub(crate) const LOADED: [&str; 6] = [NAMESPACES, SERVICES, ALIASES, INSTANCES, RULES, CONTRACTS];

/// An entry that cannot be read: damaged, or of a version that writes otherwise.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Unreadable {
    pub(crate) key: Box<str>,
    pub(crate) reason: String,
}

impl State {
    /// Takes entries of a store in, a part after the other in the order of [`LOADED`]. What cannot be
    /// read is named and left as it is.
    pub(crate) fn load(&mut self, entries: &[Entry], now_ms: u64) -> Vec<Unreadable> {
        let outcomes = entries.iter().map(|entry| {
            let outcome = self.load_entry(entry, now_ms);
            outcome.map_err(|reason| Unreadable { key: entry.key.clone(), reason })
        });
        outcomes.filter_map(Result::err).collect()
    }

    fn load_entry(&mut self, entry: &Entry, now_ms: u64) -> Result<(), String> {
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
            let mut instance = read::<StoredInstance>(entry)?.revived(now_ms);
            let view = self.services.get(&instance.service).ok_or("its service is missing")?;
            instance.service = view.service.key.clone();
            self.put_instance(instance);
        } else if key.starts_with(RULES) {
            self.place_rule(read(entry)?);
        } else if key.starts_with(CONTRACTS) {
            self.place_contract(Arc::new(read(entry)?));
        } else {
            return Err("this version knows nothing that is kept under such a key".to_owned());
        }
        Ok(())
    }

    /// The namespace of something that is there, where its own entry is damaged: what is in it counts.
    fn restore_namespace(&mut self, name: &Arc<str>) {
        if !self.namespaces.contains_key(name) {
            let namespace = self.new_namespace(name, 0);
            self.put_namespace(namespace);
        }
    }
}

fn read<T: DeserializeOwned>(entry: &Entry) -> Result<T, String> {
    serde_json::from_slice(&entry.value).map_err(|error| error.to_string())
}
