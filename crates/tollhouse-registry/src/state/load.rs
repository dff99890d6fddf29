//! The state as the store remembers it: everything back, and every instance alive from now on.

use std::sync::Arc;

use serde::de::DeserializeOwned;
use tollhouse_store::Entry;

use crate::instance::StoredInstance;
use crate::journal::{ALIASES, CONTRACTS, INSTANCES, NAMESPACES, RULES, SERVICES};

use super::State;

/// An entry that cannot be read: damaged, or of a version that writes otherwise.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Unreadable {
    pub(crate) key: Box<str>,
    pub(crate) reason: String,
}

impl State {
    /// Takes all entries of a store in. What cannot be read is told and left as it is.
    pub(crate) fn load(&mut self, mut entries: Vec<Entry>, now_ms: u64) -> Vec<Unreadable> {
        // Names before what stands under them.
        entries.sort_by_key(|entry| rank(&entry.key));
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
            self.put_service(read(entry)?);
        } else if key.starts_with(ALIASES) {
            self.place_alias(read(entry)?);
        } else if key.starts_with(INSTANCES) {
            let mut instance = read::<StoredInstance>(entry)?.revived(now_ms);
            let view = self.services.get(&instance.service).ok_or("its service is missing")?;
            instance.service = view.service.key.clone();
            self.put_instance(instance);
        } else if key.starts_with(RULES) {
            self.place_rule(read(entry)?);
        } else if key.starts_with(CONTRACTS) {
            let contract: crate::contract::Contract = read(entry)?;
            self.contracts.insert(Arc::clone(&contract.id), Arc::new(contract));
        } else {
            return Err("this version knows nothing that is kept under such a key".to_owned());
        }
        Ok(())
    }
}

fn rank(key: &str) -> usize {
    let order = [NAMESPACES, SERVICES, ALIASES, INSTANCES, RULES, CONTRACTS];
    order.iter().position(|prefix| key.starts_with(prefix)).unwrap_or(order.len())
}

fn read<T: DeserializeOwned>(entry: &Entry) -> Result<T, String> {
    serde_json::from_slice(&entry.value).map_err(|error| error.to_string())
}
