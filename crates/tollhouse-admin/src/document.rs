//! The document of a gateway without a store: what it holds, and who keeps the newest.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hyper::header::{HeaderName, HeaderValue};
use serde_json::{Map, Value};
use tollhouse_store::Revision;

use crate::object::Fields;
use crate::reply::Reply;

/// By which clients say what they send, and the API what it has.
pub(crate) const DIGEST: &str = "X-Digest";
const LAST_MODIFIED: &str = "X-Last-Modified";
const DIGEST_HEADER: HeaderName = HeaderName::from_static("x-digest");
const LAST_MODIFIED_HEADER: HeaderName = HeaderName::from_static("x-last-modified");

/// A document that was accepted.
#[derive(Clone, PartialEq)]
pub struct Document {
    /// Its lists, each with its version: `routes` and `routes_conf_version`, and so on.
    pub fields: Map<String, Value>,
    /// By which an equal one is recognised.
    pub digest: String,
    /// When it came, in seconds of Unix time.
    pub last_modified_s: i64,
}

// Documents hold credentials and private keys.
impl fmt::Debug for Document {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Document({}, {} fields, ***)", self.digest, self.fields.len())
    }
}

/// Takes documents that were accepted.
pub trait DocumentSink: Send + Sync + fmt::Debug {
    /// Takes one, and says which it is by a number that rises; it must not wait.
    fn accept(&self, document: &Document) -> Revision;
}

/// The newest document that was accepted, if any was.
pub(crate) struct CurrentDocument {
    sink: Arc<dyn DocumentSink>,
    current: Mutex<Option<Document>>,
}

impl CurrentDocument {
    /// None yet.
    pub(crate) fn new(sink: Arc<dyn DocumentSink>) -> Self {
        Self { sink, current: Mutex::new(None) }
    }

    /// The document, for as long as nobody replaces it. Not to be held while waiting.
    pub(crate) fn lock(&self) -> MutexGuard<'_, Option<Document>> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Replaces it by what is made of it, and hands that on: the answer, and which document it is.
    ///
    /// # Errors
    /// It is refused.
    pub(crate) fn replace(
        &self,
        make: impl FnOnce(Option<&Document>) -> Result<Document, Reply>,
    ) -> Result<(Reply, Revision), Reply> {
        let mut current = self.lock();
        let document = make(current.as_ref())?;
        let reply = document.label(Reply::empty(hyper::StatusCode::ACCEPTED));
        let revision = self.sink.accept(&document);
        *current = Some(document);
        Ok((reply, revision))
    }

    /// An answer about it.
    pub(crate) fn label(&self, reply: Reply) -> Reply {
        match &*self.lock() {
            Some(document) => document.label(reply),
            None => reply,
        }
    }
}

impl Document {
    /// Its lists as they are answered, with what it is recognised by.
    pub(crate) fn to_fields(&self) -> Fields {
        let mut fields = self.fields.clone();
        fields.insert(LAST_MODIFIED.into(), self.last_modified_s.into());
        fields.insert(DIGEST.into(), self.digest.as_str().into());
        fields
    }

    /// An answer about it.
    pub(crate) fn label(&self, reply: Reply) -> Reply {
        let reply = reply.with(LAST_MODIFIED_HEADER, HeaderValue::from(self.last_modified_s));
        match HeaderValue::from_str(&self.digest) {
            Ok(digest) => reply.with(DIGEST_HEADER, digest),
            Err(_) => reply,
        }
    }
}
