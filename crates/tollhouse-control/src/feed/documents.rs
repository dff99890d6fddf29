//! Source of whole documents, put through the Admin API and kept in memory only.

use std::fmt;
use std::sync::Arc;
use std::time::Instant;

use serde_json::Value;
use tokio::sync::watch;
use tollhouse_admin::{DocumentSink, Mode};
use tollhouse_config::bootstrap::Secret;
use tollhouse_config::{Bootstrap, declarative};
use tollhouse_model::encryption::Keyring;
use tollhouse_store::{InService, Location, Revision, Store};

use super::event::{AdminAccess, Event, Reading};
use crate::secrets;

/// Feed of documents that the Admin API accepts.
pub struct DocumentFeed {
    documents: watch::Receiver<NumberedDocument>,
    sink: Arc<Sink>,
    /// Number of the document that was last returned by `next`.
    given_out: Revision,
    /// Number of the document in service.
    applied: watch::Sender<Revision>,
    /// In-memory store for the Admin API's other data; lost at exit.
    store: Arc<dyn Store>,
    keyring: Arc<Keyring>,
    key: Secret,
}

/// A document with its number. Number 0 is the initial empty document.
#[derive(Default)]
struct NumberedDocument {
    number: Revision,
    text: String,
}

/// Accepts documents as text, so that they take the same path into service as files. Only the
/// newest is kept.
struct Sink(watch::Sender<NumberedDocument>);

// Documents hold credentials and private keys, so that only the number is printed.
impl fmt::Debug for Sink {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Sink({})", self.0.borrow().number)
    }
}

impl DocumentSink for Sink {
    fn accept(&self, document: &tollhouse_admin::Document) -> Revision {
        let text = Value::Object(document.fields.clone()).to_string();
        let mut number = Revision::ZERO;
        self.0.send_modify(|newest| {
            number = newest.number.next();
            *newest = NumberedDocument { number, text };
        });
        number
    }
}

impl DocumentFeed {
    /// Returns the feed before the first document.
    pub fn open(bootstrap: &Bootstrap) -> anyhow::Result<Self> {
        let (sender, documents) = watch::channel(NumberedDocument::default());
        Ok(Self {
            documents,
            sink: Arc::new(Sink(sender)),
            given_out: Revision::ZERO,
            applied: watch::Sender::new(Revision::ZERO),
            store: tollhouse_store::open(&Location::Memory)?,
            keyring: Arc::new(Keyring::generate()?),
            key: secrets::admin_key(bootstrap)?,
        })
    }

    pub async fn next(&mut self) -> Event {
        // `self.sink` owns the sender.
        self.documents.changed().await.expect("the sender lives as long as the receiver");
        let began = Instant::now();
        let (number, document) = {
            let newest = self.documents.borrow_and_update();
            // Literal: the author of a document must not read this process's environment variables.
            (newest.number, declarative::parse_literal(&newest.text))
        };
        self.given_out = number;
        Event::Document(Reading { document, began })
    }

    /// Records that the last returned document is in service.
    pub fn note_applied(&self) {
        self.applied.send_replace(self.given_out);
    }

    /// Returns the data access for an Admin API in standalone mode.
    pub fn admin_access(&self) -> AdminAccess {
        let sink: Arc<dyn DocumentSink> = Arc::<Sink>::clone(&self.sink);
        AdminAccess {
            store: Arc::clone(&self.store),
            keyring: Arc::clone(&self.keyring),
            key: self.key.clone(),
            mode: Mode::Standalone(sink),
            in_service: Some(InService::new(self.applied.subscribe())),
            shenyu_in_service: None,
        }
    }
}
