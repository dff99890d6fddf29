//! Documents that the Admin API takes as a whole, kept in memory only.

use std::fmt;
use std::sync::Arc;
use std::time::Instant;

use serde_json::Value;
use tokio::sync::watch;
use tollhouse_admin::{DocumentSink, Mode};
use tollhouse_config::bootstrap::Secret;
use tollhouse_config::declarative;
use tollhouse_model::encryption::Keyring;
use tollhouse_store::{InService, Location, Revision, Store};

use super::event::{AdminAccess, Event, Reading};
use crate::context::ControlContext;
use crate::secrets;

/// See the module.
pub struct DocumentFeed {
    documents: watch::Receiver<Numbered>,
    sink: Arc<Sink>,
    /// Which document was given out last.
    given_out: Revision,
    /// Which is in service.
    applied: watch::Sender<Revision>,
    /// What the Admin API keeps beside documents: nothing that lasts.
    store: Arc<dyn Store>,
    keyring: Arc<Keyring>,
    key: Secret,
}

/// A document with its number; none has that of a store that nothing was written to.
#[derive(Default)]
struct Numbered {
    number: Revision,
    text: String,
}

/// A document goes on as text, for the same way into service as a file's. The newest is enough.
struct Sink(watch::Sender<Numbered>);

// Documents hold credentials and private keys.
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
            *newest = Numbered { number, text };
        });
        number
    }
}

impl DocumentFeed {
    /// Nothing has been put yet.
    pub fn open(cx: &ControlContext) -> anyhow::Result<Self> {
        let (sender, documents) = watch::channel(Numbered::default());
        Ok(Self {
            documents,
            sink: Arc::new(Sink(sender)),
            given_out: Revision::ZERO,
            applied: watch::Sender::new(Revision::ZERO),
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
        let (number, document) = {
            let newest = self.documents.borrow_and_update();
            // Whoever may put documents may not read what the process was started with.
            (newest.number, declarative::parse_literal(&newest.text))
        };
        self.given_out = number;
        Event::Document(Reading { document, began })
    }

    /// The document that was given out last is in service.
    pub fn note_applied(&self) {
        self.applied.send_replace(self.given_out);
    }

    /// What the Admin API takes documents for.
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
