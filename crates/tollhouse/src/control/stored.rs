//! The store as the source of the configuration: everything once, then each change as it happens.

use std::sync::Arc;

use serde_json::Value;
use tollhouse_config::store_keys::parse_store_key;
use tollhouse_model::encryption::Keyring;
use tollhouse_model::{Id, Kind, Problem};
use tollhouse_plugin::{Catalogue, sealing};
use tollhouse_proxy::Change;
use tollhouse_store::{Entry, Event, Store, StoreError, Watch};

use super::metrics::ModifyIndexes;

/// Changes taken together at most: what has queued up while the last ones were compiled.
const CHANGES_BATCHED_MAX: usize = 10_000;

/// What the store is read with.
pub struct StoredParts {
    /// The store.
    pub store: Arc<dyn Store>,
    /// The plugins that exist.
    pub catalogue: Arc<Catalogue>,
    /// What encrypted fields are opened with.
    pub keyring: Arc<Keyring>,
    /// Where revisions are noted.
    pub indexes: Arc<ModifyIndexes>,
}

/// The store, followed.
pub struct Stored {
    parts: StoredParts,
    prefix: String,
    watch: Watch,
    /// What is in service, to be able to tell what has gone after a gap.
    known: hashbrown::HashSet<(Kind, Id)>,
}

impl std::fmt::Debug for Stored {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "Stored({} objects)", self.known.len())
    }
}

impl Stored {
    /// Reads everything, and follows from there.
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn open(parts: StoredParts, prefix: &str) -> Result<(Self, Vec<Change>), StoreError> {
        let listing = parts.store.list(&format!("{prefix}/")).await?;
        let watch = parts.store.watch(listing.revision).await?;
        let known = hashbrown::HashSet::new();
        let mut stored = Self { parts, prefix: prefix.to_owned(), watch, known };
        let changes = listing.entries.into_iter().filter_map(|entry| stored.put(entry)).collect();
        Ok((stored, changes))
    }

    /// The next changes; waits for them.
    ///
    /// # Errors
    /// The store cannot be read any more.
    pub async fn next(&mut self) -> Result<Vec<Change>, StoreError> {
        let mut batch = match self.watch.next().await {
            Ok(changes) => changes.events,
            Err(StoreError::Compacted { .. }) => return self.start_over().await,
            Err(error) => return Err(error),
        };
        while batch.len() < CHANGES_BATCHED_MAX {
            match self.watch.try_next() {
                Ok(Some(changes)) => batch.extend(changes.events),
                Ok(None) | Err(_) => break,
            }
        }
        Ok(batch.into_iter().filter_map(|event| self.change(event)).collect())
    }

    /// Reads everything again after a gap.
    async fn start_over(&mut self) -> Result<Vec<Change>, StoreError> {
        tracing::info!("the store is read anew, since too much has changed meanwhile");
        let listing = self.parts.store.list(&format!("{}/", self.prefix)).await?;
        self.watch = self.parts.store.watch(listing.revision).await?;
        let before = std::mem::take(&mut self.known);
        let mut changes: Vec<Change> =
            listing.entries.into_iter().filter_map(|entry| self.put(entry)).collect();
        let gone = before.difference(&self.known);
        changes.extend(gone.map(|(kind, id)| Change::Delete { kind: *kind, id: id.clone() }));
        Ok(changes)
    }

    fn change(&mut self, event: Event) -> Option<Change> {
        match event {
            Event::Put(entry) => self.put(entry),
            Event::Delete { key, revision } => {
                let (kind, id) = parse_store_key(&self.prefix, &key)?;
                self.parts.indexes.note(kind, revision.0);
                self.known.remove(&(kind, id.clone()));
                Some(Change::Delete { kind, id })
            }
        }
    }

    fn put(&mut self, entry: Entry) -> Option<Change> {
        let (kind, id) = parse_store_key(&self.prefix, &entry.key)?;
        self.parts.indexes.note(kind, entry.mod_revision.0);
        self.known.insert((kind, id.clone()));
        let path = format!("{kind}/{id}");
        let value = serde_json::from_slice(&entry.value)
            .map(|value| self.opened(kind, value))
            .map_err(|error| Problem::error(path.clone(), format!("no JSON: {error}")));
        Some(Change::Upsert { kind, id, value, path })
    }

    fn opened(&self, kind: Kind, mut value: Value) -> Value {
        sealing::unseal(kind, &mut value, &self.parts.catalogue, &self.parts.keyring);
        value
    }
}
