//! The current document of a gateway without a store.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hyper::header::{HeaderName, HeaderValue};
use serde_json::{Map, Value};
use tollhouse_store::Revision;

use crate::object::Fields;
use crate::reply::Reply;

/// Header and field with the digest of a document.
pub(crate) const DIGEST: &str = "X-Digest";
const LAST_MODIFIED: &str = "X-Last-Modified";
const DIGEST_HEADER: HeaderName = HeaderName::from_static("x-digest");
const LAST_MODIFIED_HEADER: HeaderName = HeaderName::from_static("x-last-modified");

/// Configuration document that passed validation.
#[derive(Clone, PartialEq)]
pub struct Document {
    /// Lists of objects, each with the version of the list: `routes` and `routes_conf_version`, and
    /// so on.
    pub fields: Map<String, Value>,
    /// Digest that the client sent with the document. An equal digest identifies an equal document.
    pub digest: String,
    /// Time of acceptance, in seconds of Unix time.
    pub last_modified_s: i64,
}

// Documents hold credentials and private keys, which are not printed.
impl fmt::Debug for Document {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Document({}, {} fields, ***)", self.digest, self.fields.len())
    }
}

/// Receiver of accepted documents: the data plane.
pub trait DocumentSink: Send + Sync + fmt::Debug {
    /// Accepts a document, and returns its number. Each number is greater than the one before. Must
    /// not block.
    fn accept(&self, document: &Document) -> Revision;
}

/// The current document, if there is one.
pub(crate) struct CurrentDocument {
    sink: Arc<dyn DocumentSink>,
    current: Mutex<Option<Document>>,
}

impl CurrentDocument {
    pub(crate) fn new(sink: Arc<dyn DocumentSink>) -> Self {
        Self { sink, current: Mutex::new(None) }
    }

    /// Locks the current document. Do not hold the lock across an await.
    pub(crate) fn lock(&self) -> MutexGuard<'_, Option<Document>> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Replaces the document by the result of `make`, and passes the new document to the sink.
    /// Returns the reply and the number of the document.
    ///
    /// # Errors
    /// If `make` refuses.
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

    /// Adds the headers of the current document to a reply.
    pub(crate) fn label(&self, reply: Reply) -> Reply {
        match &*self.lock() {
            Some(document) => document.label(reply),
            None => reply,
        }
    }
}

impl Document {
    /// Returns the lists, the digest and the time of the document, as fields of an answer.
    pub(crate) fn to_fields(&self) -> Fields {
        let mut fields = self.fields.clone();
        fields.insert(LAST_MODIFIED.into(), self.last_modified_s.into());
        fields.insert(DIGEST.into(), self.digest.as_str().into());
        fields
    }

    /// Adds the document's headers to a reply.
    pub(crate) fn label(&self, reply: Reply) -> Reply {
        let reply = reply.with(LAST_MODIFIED_HEADER, HeaderValue::from(self.last_modified_s));
        match HeaderValue::from_str(&self.digest) {
            Ok(digest) => reply.with(DIGEST_HEADER, digest),
            Err(_) => reply,
        }
    }
}
