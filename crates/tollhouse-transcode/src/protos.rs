//! The definitions of a configuration, by the ids of their objects.

use std::collections::BTreeMap;
use std::sync::Arc;

use tollhouse_model::Id;

use crate::definition::Definition;

/// Definitions by id.
#[derive(Debug, Default)]
pub struct Protos {
    by_id: BTreeMap<Id, Arc<Definition>>,
}

impl Protos {
    /// The definition of that id.
    pub fn get(&self, id: &Id) -> Option<&Arc<Definition>> {
        self.by_id.get(id)
    }

    /// Keeps a definition in the place of the one before.
    pub fn insert(&mut self, id: Id, definition: Definition) {
        self.by_id.insert(id, Arc::new(definition));
    }

    /// Forgets a definition.
    pub fn remove(&mut self, id: &Id) {
        self.by_id.remove(id);
    }
}
