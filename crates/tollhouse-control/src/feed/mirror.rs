//! Mirror of the configuration file's objects in an in-memory store, which the read-only Admin API
//! serves. The mirror follows shortly after the data plane, and adds a row to the list of changes
//! for each change of the file.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};
use tokio::sync::watch;
use tollhouse_config::store_keys::store_key;
use tollhouse_config::{Fingerprints, ItemRecord};
use tollhouse_model::Kind;
use tollhouse_model::change_row::{
    self, BothSides, ChangeOrigin, ChangeRow, OBJECTS_TOLD_MAX, Way,
};
use tollhouse_model::encryption::Keyring;
use tollhouse_plugin::Catalogue;
use tollhouse_plugin::sealing::{self, ObjectRef};
use tollhouse_store::{Operation, Store, StoreError};

use tollhouse_store::Batches;

/// Limit of stored change rows: the file's history for operators, a few megabytes at most.
const ROWS_MAX: usize = 200;

/// In-memory store that mirrors a configuration file, for the Admin API's read-only view.
pub struct Mirror {
    pub store: Arc<dyn Store>,
    /// Keyring for the objects' secrets, as in any store.
    pub keyring: Arc<Keyring>,
    /// Plugins and kinds, which define the secret fields.
    pub catalogue: Arc<Catalogue>,
    pub prefix: String,
    /// Path of the configuration file, for messages.
    pub file: String,
}

impl Mirror {
    /// Mirrors each document, until the sender closes.
    pub async fn follow(self, mut documents: watch::Receiver<Arc<Fingerprints>>) {
        let mut before = None;
        loop {
            let document = Arc::clone(&documents.borrow_and_update());
            let shown = self.show(&document, before.as_deref()).await;
            // The initial value before the file was first read is not a document.
            if before.is_some() || !document.is_empty() {
                before = Some(document);
            }
            if let Err(error) = shown {
                tracing::warn!(%error, "the Admin API does not show all objects of the file");
            }
            if documents.changed().await.is_err() {
                return;
            }
        }
    }

    /// Updates the store to `document`, and adds a row with the differences from `before`.
    async fn show(
        &self,
        document: &Fingerprints,
        before: Option<&Fingerprints>,
    ) -> Result<(), StoreError> {
        let listing = self.store.list(&format!("{}/", self.prefix)).await?;
        let revision = listing.revision;
        let changes = format!("{}/{}", self.prefix, change_row::FOLDER);
        let (rows, objects): (Vec<_>, Vec<_>) =
            listing.entries.into_iter().partition(|entry| entry.key.starts_with(&changes));
        let mut gone: hashbrown::HashMap<_, _> =
            objects.into_iter().map(|entry| (entry.key, entry.value)).collect();
        let mut batches = Batches::new(self.store.limits());
        for (kind, known) in Kind::ALL.into_iter().flat_map(|kind| {
            document.items_by_kind(kind).into_iter().map(move |known| (kind, known))
        }) {
            let key = store_key(&self.prefix, kind, &known.id);
            let Some(value) = self.object(kind, &known.text, known.id.as_str()) else { continue };
            if gone.remove(key.as_str()).is_none_or(|before| before != value) {
                batches.add(Operation::put(key, value));
            }
        }
        gone.into_keys().for_each(|key| batches.add(Operation::delete(key)));
        if let Some(row) = before.and_then(|before| self.row(before, document)) {
            // The revision makes keys unique if the file is read twice in one millisecond.
            let suffix = format!("{:08x}", revision.0);
            let key = format!("{changes}{}", change_row::key_of(row.at_ms, &suffix));
            batches.add(Operation::put(key, row.to_text()));
            let oldest = rows.iter().take((rows.len() + 1).saturating_sub(ROWS_MAX));
            oldest.for_each(|row| batches.add(Operation::delete(row.key.clone())));
        }
        for transaction in batches.finish() {
            self.store.commit(transaction).await?;
        }
        Ok(())
    }

    /// Returns the change row for two documents; `None` if they are equal.
    fn row(&self, before: &Fingerprints, after: &Fingerprints) -> Option<ChangeRow> {
        let mut changed: BTreeMap<String, BothSides> = BTreeMap::new();
        let mut more = 0;
        for kind in Kind::ALL {
            let mut old: BTreeMap<_, _> = before
                .items_by_kind(kind)
                .into_iter()
                .map(|known| (known.id.clone(), known))
                .collect();
            let mut tell = |before: Option<ItemRecord>, after: Option<ItemRecord>| {
                let Some(known) = after.as_ref().or(before.as_ref()) else { return };
                if changed.len() == OBJECTS_TOLD_MAX {
                    more += 1;
                    return;
                }
                let key = store_key("", kind, &known.id);
                let path = key.strip_prefix('/').unwrap_or(&key).to_owned();
                let sealed = |known: ItemRecord| self.object(kind, &known.text, known.id.as_str());
                changed.insert(path, (before.and_then(sealed), after.and_then(sealed)));
            };
            // Compares the JSON text: the whole document is parsed again, and unchanged text is not
            // a change.
            for known in after.items_by_kind(kind) {
                let before = old.remove(&known.id);
                if before.as_ref().is_none_or(|before| before.text != known.text) {
                    tell(before, Some(known));
                }
            }
            old.into_values().for_each(|known| tell(Some(known), None));
        }
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let at_ms = u64::try_from(since.as_millis()).unwrap_or(u64::MAX);
        let origin = ChangeOrigin { at_ms, actor: Some(self.file.clone()), way: Way::File };
        let path = format!("file/{}", self.file);
        (!changed.is_empty()).then(|| ChangeRow::about_many(origin, &path, &changed, more))
    }

    fn object(&self, kind: Kind, text: &str, id: &str) -> Option<String> {
        let mut value: Value = serde_json::from_str(text).ok()?;
        let object = value.as_object_mut()?;
        if !matches!(kind, Kind::Consumer | Kind::PluginMetadata) {
            object.entry("id").or_insert_with(|| json!(id));
        }
        sealing::seal(ObjectRef::new(kind, id), &mut value, &self.catalogue, &self.keyring);
        Some(value.to_string())
    }
}

#[cfg(test)]
mod tests {
    use tollhouse_config::{Format, declarative};
    use tollhouse_store::Location;

    use super::*;

    #[tokio::test]
    async fn the_store_says_what_the_file_says_after_every_change_of_it() {
        let store = tollhouse_store::open(&Location::Memory).expect("memory");
        let mirror = Mirror {
            store: Arc::clone(&store),
            keyring: Arc::new(Keyring::generate().expect("random numbers")),
            catalogue: crate::plugins::catalogue(),
            prefix: "/apisix".to_owned(),
            file: "routes.json".to_owned(),
        };
        let mut before = None;
        for (document, expected) in [
            (json!({"routes": [{"id": 1, "uri": "/a"}, {"id": 2, "uri": "/b"}]}), "1:/a 2:/b"),
            (json!({"routes": [{"id": 2, "uri": "/c"}]}), "2:/c"),
            (json!({}), ""),
        ] {
            let document = declarative::parse(&document.to_string(), Format::Json, &|_| None);
            let document = document.expect("it is a document");
            let document = Fingerprints::from_document(&document);
            mirror.show(&document, before.as_ref()).await.expect("memory takes it");
            before = Some(document);
            let listing = store.list("/apisix/routes/").await.expect("memory");
            let line = |value: &[u8]| {
                let value: Value = serde_json::from_slice(value).expect("JSON");
                format!("{}:{}", value["id"], value["uri"].as_str().unwrap_or_default())
            };
            let lines: Vec<_> = listing.entries.iter().map(|entry| line(&entry.value)).collect();
            assert_eq!(lines.join(" ").replace('"', ""), expected);
        }
        // The first reading adds no row; each later one that differs adds one.
        let rows = store.list("/apisix/tollhouse/changes/").await.expect("memory").entries;
        let rows: Vec<_> = rows.iter().filter_map(|row| ChangeRow::parse(&row.value)).collect();
        assert_eq!(rows.len(), 2);
        assert_eq!(
            (&*rows[0].path, rows[0].actor.as_deref()),
            ("file/routes.json", Some("routes.json"))
        );
        let after: Value =
            serde_json::from_str(rows[0].after.as_deref().expect("it says")).expect("JSON");
        assert_eq!(after, json!({"routes/2": {"id": 2, "uri": "/c"}}));
        assert!(rows[0].before.as_deref().is_some_and(|before| before.contains("routes/1")));
    }
}
