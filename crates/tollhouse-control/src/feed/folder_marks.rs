//! The marks of the folders of objects in an etcd that APISIX's nodes may read too: one key for each folder, named as
//! the folder is. Those nodes take the first key of a folder for its mark and pass it over, so a folder without one
//! costs them an object. Marks are put at the start, and put back when somebody has removed them with a folder.

use std::collections::BTreeSet;

use tollhouse_config::store_keys::kind_prefix;
use tollhouse_model::Kind;
use tollhouse_store::{Event, Listing, Store, StoreError, Transaction};

/// What a mark holds, as APISIX writes it.
const MARK: &str = "init_dir";

/// See the module.
#[derive(Debug, Clone)]
pub struct FolderMarks(BTreeSet<String>);

impl FolderMarks {
    /// Those below a prefix.
    pub fn below(prefix: &str) -> Self {
        Self(Kind::ALL.into_iter().map(|kind| kind_prefix(prefix, kind)).collect())
    }

    /// Whether one is removed by these events.
    pub fn lose(&self, events: &[Event]) -> bool {
        events.iter().any(|event| match event {
            Event::Delete { key, .. } => self.0.contains(&**key),
            Event::Put(_) => false,
        })
    }

    /// Whether a listing has all of them.
    pub fn are_in(&self, listing: &Listing) -> bool {
        let found = listing.entries.iter().filter(|entry| self.0.contains(&*entry.key));
        found.count() == self.0.len()
    }

    /// Puts those that are missing, in one commit; another gateway may be faster.
    ///
    /// # Errors
    /// The store cannot be read or written.
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
