//! The objects of the file in service, in a store in memory: what the Admin API reads where it may not
//! write. It follows the file a moment after the data plane does.

use std::sync::Arc;

use serde_json::{Value, json};
use tokio::sync::watch;
use tollhouse_config::Fingerprints;
use tollhouse_config::store_keys::store_key;
use tollhouse_model::Kind;
use tollhouse_model::encryption::Keyring;
use tollhouse_plugin::{Catalogue, sealing};
use tollhouse_store::{Operation, Store, StoreError};

use tollhouse_store::Batches;

/// See the module.
pub struct Mirror {
    /// Where the objects are kept.
    pub store: Arc<dyn Store>,
    /// What their secrets are sealed with, as in any store.
    pub keyring: Arc<Keyring>,
    /// What knows their secrets.
    pub catalogue: Arc<Catalogue>,
    /// What keys begin with.
    pub prefix: String,
}

impl Mirror {
    /// Follows documents for as long as they come.
    pub async fn follow(self, mut documents: watch::Receiver<Arc<Fingerprints>>) {
        loop {
            let document = Arc::clone(&documents.borrow_and_update());
            if let Err(error) = self.show(&document).await {
                tracing::warn!(%error, "the Admin API does not show all objects of the file");
            }
            if documents.changed().await.is_err() {
                return;
            }
        }
    }

    /// Brings the store to what the document says.
    async fn show(&self, document: &Fingerprints) -> Result<(), StoreError> {
        let held = self.store.list(&format!("{}/", self.prefix)).await?;
        let mut gone: hashbrown::HashMap<_, _> =
            held.entries.into_iter().map(|entry| (entry.key, entry.value)).collect();
        let mut batches = Batches::new(self.store.limits());
        for (kind, known) in Kind::ALL
            .into_iter()
            .flat_map(|kind| document.of_kind(kind).into_iter().map(move |known| (kind, known)))
        {
            let key = store_key(&self.prefix, kind, &known.id);
            let Some(value) = self.object(kind, &known.text, known.id.as_str()) else { continue };
            if gone.remove(key.as_str()).is_none_or(|before| before != value) {
                batches.add(Operation::put(key, value));
            }
        }
        gone.into_keys().for_each(|key| batches.add(Operation::delete(key)));
        for transaction in batches.finish() {
            self.store.commit(transaction).await?;
        }
        Ok(())
    }

    fn object(&self, kind: Kind, text: &str, id: &str) -> Option<String> {
        let mut value: Value = serde_json::from_str(text).ok()?;
        let object = value.as_object_mut()?;
        if !matches!(kind, Kind::Consumer | Kind::PluginMetadata) {
            object.entry("id").or_insert_with(|| json!(id));
        }
        sealing::seal(kind, &mut value, &self.catalogue, &self.keyring);
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
        };
        for (document, expected) in [
            (json!({"routes": [{"id": 1, "uri": "/a"}, {"id": 2, "uri": "/b"}]}), "1:/a 2:/b"),
            (json!({"routes": [{"id": 2, "uri": "/c"}]}), "2:/c"),
            (json!({}), ""),
        ] {
            let document = declarative::parse(&document.to_string(), Format::Json, &|_| None);
            let document = document.expect("it is a document");
            mirror.show(&Fingerprints::from_document(&document)).await.expect("memory takes it");
            let held = store.list("/apisix/").await.expect("memory");
            let line = |value: &[u8]| {
                let value: Value = serde_json::from_slice(value).expect("JSON");
                format!("{}:{}", value["id"], value["uri"].as_str().unwrap_or_default())
            };
            let lines: Vec<_> = held.entries.iter().map(|entry| line(&entry.value)).collect();
            assert_eq!(lines.join(" ").replace('"', ""), expected);
        }
    }
}
