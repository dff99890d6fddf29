//! Documents that the Admin API takes as a whole, kept in memory only.

use std::sync::Arc;
use std::time::Instant;

use serde_json::Value;
use tokio::sync::watch;
use tollhouse_admin::{DocumentSink, Mode};
use tollhouse_config::declarative;
use tollhouse_model::encryption::Keyring;
use tollhouse_store::{Location, Store};

use super::{AdminAccess, Event, Reading};
use crate::context::ControlContext;
use crate::secrets::{self, KeptSecret};

/// See the module.
pub struct DocumentFeed {
    documents: watch::Receiver<Option<String>>,
    sink: Arc<Sink>,
    /// What the Admin API keeps beside documents: nothing that lasts.
    store: Arc<dyn Store>,
    keyring: Arc<Keyring>,
    key: KeptSecret,
}

/// A document goes on as text, for the same way into service as a file's. The newest is enough.
#[derive(Debug)]
struct Sink(watch::Sender<Option<String>>);

impl DocumentSink for Sink {
    fn accept(&self, document: &tollhouse_admin::Document) {
        let text = Value::Object(document.fields.clone()).to_string();
        self.0.send_replace(Some(text));
    }
}

impl DocumentFeed {
    /// Nothing has been put yet.
    pub fn open(cx: &ControlContext) -> anyhow::Result<Self> {
        let (sender, documents) = watch::channel(None);
        Ok(Self {
            documents,
            sink: Arc::new(Sink(sender)),
            store: tollhouse_store::open(&Location::Memory)?,
            keyring: Arc::new(Keyring::generate()?),
            key: secrets::admin_key(&cx.bootstrap)?,
        })
    }

    /// The next document.
    pub async fn next(&mut self) -> Event {
        // The feed itself holds the sender.
        self.documents.changed().await.expect("the sender lives as long as the receiver");
        let began = Instant::now();
        let text = self.documents.borrow_and_update().clone().unwrap_or_default();
        // Whoever may put documents may not read what the process was started with.
        Event::Document(Reading { document: declarative::parse_literal(&text), began })
    }

    /// What the Admin API takes documents for.
    pub fn admin_access(&self) -> AdminAccess {
        let sink: Arc<dyn DocumentSink> = Arc::<Sink>::clone(&self.sink);
        AdminAccess {
            store: Arc::clone(&self.store),
            keyring: Arc::clone(&self.keyring),
            key: self.key.clone(),
            mode: Mode::Standalone(sink),
            applied: None,
        }
    }
}
