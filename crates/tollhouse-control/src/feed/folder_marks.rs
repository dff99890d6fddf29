//! Marker keys of object folders, for APISIX nodes that read the same etcd. Each folder has one
//! marker, whose key is the folder's name. Such a node takes the first key of a folder for the
//! marker and skips it, so that a folder without a marker loses its first object there. Markers are
//! written at the start, and again when they are deleted together with a folder.

use std::collections::BTreeSet;

use tollhouse_config::store_keys::kind_prefix;
use tollhouse_model::Kind;
use tollhouse_store::{Event, Listing, Store, StoreError, Transaction};

/// Value of a marker, as APISIX writes it.
const MARK: &str = "init_dir";

#[derive(Debug, Clone)]
pub struct FolderMarks(BTreeSet<String>);

impl FolderMarks {
    /// Returns the markers of all object folders below a prefix.
    pub fn below(prefix: &str) -> Self {
        Self(Kind::ALL.into_iter().map(|kind| kind_prefix(prefix, kind)).collect())
    }

    /// Whether one of these events deletes a marker.
    pub fn lose(&self, events: &[Event]) -> bool {
        events.iter().any(|event| match event {
            Event::Delete { key, .. } => self.0.contains(&**key),
            Event::Put(_) => false,
        })
    }

    /// Whether a listing contains all markers.
    pub fn are_in(&self, listing: &Listing) -> bool {
        let found = listing.entries.iter().filter(|entry| self.0.contains(&*entry.key));
        found.count() == self.0.len()
    }

    /// Writes the missing markers in one commit. A conflict is ignored, because it means that
    /// another gateway has written them.
    ///
    /// # Errors
    /// If the store cannot be read or written.
    pub async fn put(&self, store: &dyn Store) -> Result<(), StoreError> {
        let mut missing = Vec::new();
        for key in &self.0 {
            if store.get(key).await?.is_none() {
                missing.push(key);
            }
        }
        if missing.is_empty() {
            return Ok(());
        }
        let marks = missing.into_iter().fold(Transaction::new(), |marks, key| {
            marks.put(key.as_str(), MARK).when_absent(key.as_str())
        });
        match store.commit(marks).await {
            Ok(_) | Err(StoreError::Conflict { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }
}
