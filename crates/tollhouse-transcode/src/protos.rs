//! gRPC definitions of a configuration, by the IDs of their `protos` objects.

use std::collections::BTreeMap;
use std::sync::Arc;

use tollhouse_model::Id;

use crate::definition::Definition;

#[derive(Debug, Default)]
pub struct Protos {
    by_id: BTreeMap<Id, Arc<Definition>>,
}

impl Protos {
    /// Returns the definition stored under an ID.
    pub fn get(&self, id: &Id) -> Option<&Arc<Definition>> {
        self.by_id.get(id)
    }

    /// Adds a definition, replacing an existing one with this ID.
    pub fn insert(&mut self, id: Id, definition: Definition) {
        self.by_id.insert(id, Arc::new(definition));
    }

    pub fn remove(&mut self, id: &Id) {
        self.by_id.remove(id);
    }
}
