//! The Admin API of a gateway without a store: one document in memory, replaced as a whole.
//!
//! A document carries a digest, by which an equal one is recognised, and a version a list, by which
//! a list that has not changed keeps what it has. A restart empties it. What becomes of a document
//! that was accepted is the sink's business.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hyper::body::Body;
use hyper::header::{HeaderName, HeaderValue};
use hyper::{Method, StatusCode};
use serde_json::{Map, Value};
use time::OffsetDateTime;
use tollhouse_model::Kind;

use crate::api::Admin;
use crate::auth;
use crate::body;
use crate::call::Call;
use crate::encrypt;
use crate::limits::DOCUMENT_BYTES_MAX;
use crate::object::Fields;
use crate::options::Role;
use crate::reply::Reply;
use crate::validate::{self, Extent, LISTS};
use crate::yaml;

const DIGEST: &str = "X-Digest";
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
    /// Takes one; it must not wait.
    fn accept(&self, document: &Document);
}

/// The one document.
pub(crate) struct Standalone {
    sink: Arc<dyn DocumentSink>,
    current: Mutex<Option<Document>>,
}

impl Standalone {
    /// Of no document yet.
    pub(crate) fn new(sink: Arc<dyn DocumentSink>) -> Self {
        Self { sink, current: Mutex::new(None) }
    }

    /// Answers a call; few paths are registered in this mode.
    pub(crate) async fn answer<B>(
        &self,
        admin: &Admin,
        call: &Call,
        segments: &[&str],
        body: B,
    ) -> Result<Reply, Reply>
    where
        B: Body,
        B::Error: std::error::Error + Send + Sync + 'static,
    {
        let check_key = || auth::check_key(&admin.parts.options, call);
        match (segments, &call.method) {
            (["configs"], &Method::GET) => check_key().and_then(|()| self.show(admin, call)),
            (["configs"], &Method::HEAD) => {
                check_key()?;
                Ok(self.labelled(Reply::empty(StatusCode::OK)))
            }
            (["configs"], &Method::PUT) => {
                check_key()?;
                let digest = call.header(DIGEST).filter(|digest| !digest.is_empty());
                let digest = digest.ok_or_else(|| Reply::bad("missing digest header"))?;
                let body = body::read(body, DOCUMENT_BYTES_MAX).await?;
                self.replace(admin, call, digest, &body).await
            }
            (["configs", "validate"], &Method::POST) => {
                check_key()?;
                let body = body::read(body, DOCUMENT_BYTES_MAX).await?;
                validate::answer(admin, call, &body).await
            }
            _ => Err(Reply::page(StatusCode::NOT_FOUND)),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Option<Document>> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn show(&self, admin: &Admin, call: &Call) -> Result<Reply, Reply> {
        let mut fields = match &*self.lock() {
            Some(document) => document.shown(),
            None => LISTS.iter().map(|list| (version_key(list), Value::from(0))).collect(),
        };
        if auth::role(&admin.parts.options, call) == Role::Viewer {
            hide_secrets(&mut fields, admin);
        }
        let value = Value::Object(fields);
        let wants_yaml =
            call.header("accept").is_some_and(|accepted| accepted.starts_with("application/yaml"));
        let reply = if wants_yaml {
            let text = yaml::write(&value)
                .map_err(|error| Reply::refusal(StatusCode::INTERNAL_SERVER_ERROR, error))?;
            Reply::yaml(StatusCode::OK, text)
        } else {
            Reply::text(StatusCode::OK, value.to_string())
        };
        Ok(self.labelled(reply))
    }

    fn labelled(&self, reply: Reply) -> Reply {
        match &*self.lock() {
            Some(document) => document.label(reply),
            None => reply,
        }
    }

    async fn replace(
        &self,
        admin: &Admin,
        call: &Call,
        digest: &str,
        body: &[u8],
    ) -> Result<Reply, Reply> {
        let fields = validate::read_document(call, body)?;
        if self.lock().as_ref().is_some_and(|document| document.digest == digest) {
            return Ok(Reply::empty(StatusCode::NO_CONTENT));
        }
        if let Some(fault) = validate::check(admin, &fields, Extent::First).await.pop() {
            return Err(Reply::bad(fault.error));
        }
        let mut current = self.lock();
        let document = Document {
            fields: succeed(current.as_ref(), fields)?,
            digest: digest.to_owned(),
            last_modified_s: OffsetDateTime::now_utc().unix_timestamp(),
        };
        let reply = document.label(Reply::empty(StatusCode::ACCEPTED));
        self.sink.accept(&document);
        *current = Some(document);
        Ok(reply)
    }
}

impl Document {
    fn shown(&self) -> Fields {
        let mut fields = self.fields.clone();
        fields.insert(LAST_MODIFIED.into(), self.last_modified_s.into());
        fields.insert(DIGEST.into(), self.digest.as_str().into());
        fields
    }

    fn label(&self, reply: Reply) -> Reply {
        let reply = reply.with(LAST_MODIFIED_HEADER, HeaderValue::from(self.last_modified_s));
        match HeaderValue::from_str(&self.digest) {
            Ok(digest) => reply.with(DIGEST_HEADER, digest),
            Err(_) => reply,
        }
    }
}

/// Seals what a viewer must not read, with a key that nobody keeps.
fn hide_secrets(fields: &mut Fields, admin: &Admin) {
    for list in LISTS {
        let (Some(kind), Some(Value::Array(items))) = (Kind::of_list(list), fields.get_mut(list))
        else {
            continue;
        };
        items.iter_mut().for_each(|item| encrypt::hide(kind, item, &admin.parts));
    }
}

fn version_key(list: &str) -> String {
    format!("{list}_conf_version")
}

/// What a document becomes after the one before it: lists of an equal version stay as they were.
fn succeed(before: Option<&Document>, mut fields: Fields) -> Result<Fields, Reply> {
    let before = before.map(|document| &document.fields);
    let mut next = Fields::new();
    for list in LISTS {
        let key = version_key(list);
        let old = before.and_then(|fields| fields.get(&key)).and_then(Value::as_f64);
        let old = old.unwrap_or_default();
        let new = match fields.get(&key) {
            None | Some(Value::Null) => old + 1.0,
            Some(version) => {
                version.as_f64().ok_or_else(|| Reply::bad(format!("{key} must be a number")))?
            }
        };
        if new < old {
            return Err(Reply::bad(format!("{key} must be greater than or equal to ({old})")));
        }
        next.insert(key, whole(new));
        let items = if new == old {
            before.and_then(|fields| fields.get(list)).cloned()
        } else {
            fields.shift_remove(list)
        };
        if let Some(items) = items.filter(|items| items.as_array().is_some_and(|i| !i.is_empty())) {
            next.insert(list.to_owned(), items);
        }
    }
    Ok(next)
}

/// Versions are whole numbers, whatever a client's language makes of them.
fn whole(version: f64) -> Value {
    if version.fract() == 0.0 && version.abs() < 9e15 {
        return Value::from(version as i64);
    }
    Value::from(version)
}
