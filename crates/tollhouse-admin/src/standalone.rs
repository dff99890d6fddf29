//! The Admin API of a gateway without a store: one document in memory, replaced as a whole.
//!
//! A document carries a digest, by which an equal one is recognised, and a version a list, by which
//! a list that has not changed keeps what it has. A restart empties it. What becomes of a document
//! that was accepted is the sink's business.

use hyper::body::Body;
use hyper::{Method, StatusCode};
use serde_json::Value;
use time::OffsetDateTime;
use tollhouse_model::Kind;

use crate::auth;
use crate::body;
use crate::call::Call;
use crate::context::Admin;
use crate::document::{CurrentDocument, DIGEST, Document};
use crate::encrypt;
use crate::limits::DOCUMENT_BYTES_MAX;
use crate::object::Fields;
use crate::options::Role;
use crate::reply::Reply;
use crate::validate::{self, Extent, LISTS};
use crate::yaml;

/// A call of an Admin API that has one document.
struct Request<'a> {
    admin: &'a Admin,
    current: &'a CurrentDocument,
    call: &'a Call,
}

/// Answers a call; few paths are registered in this mode.
pub(crate) async fn answer<B>(
    admin: &Admin,
    current: &CurrentDocument,
    call: &Call,
    (segments, body): (&[&str], B),
) -> Result<Reply, Reply>
where
    B: Body,
    B::Error: std::error::Error + Send + Sync + 'static,
{
    let request = Request { admin, current, call };
    let check_key = || auth::check_key(&admin.parts.options, call);
    match (segments, &call.method) {
        (["configs"], &Method::GET) => check_key().and_then(|()| request.read()),
        (["configs"], &Method::HEAD) => {
            check_key()?;
            Ok(current.label(Reply::empty(StatusCode::OK)))
        }
        (["configs"], &Method::PUT) => {
            check_key()?;
            let digest = call.header(DIGEST).filter(|digest| !digest.is_empty());
            let digest = digest.ok_or_else(|| Reply::bad("missing digest header"))?;
            let body = body::read(body, DOCUMENT_BYTES_MAX).await?;
            request.replace(digest, &body).await
        }
        (["configs", "validate"], &Method::POST) => {
            check_key()?;
            let body = body::read(body, DOCUMENT_BYTES_MAX).await?;
            validate::answer(admin, call, &body).await
        }
        _ => Err(Reply::page(StatusCode::NOT_FOUND)),
    }
}

impl Request<'_> {
    fn read(&self) -> Result<Reply, Reply> {
        let mut fields = match &*self.current.lock() {
            Some(document) => document.to_fields(),
            None => LISTS.iter().map(|list| (version_key(list), Value::from(0))).collect(),
        };
        if auth::role(&self.admin.parts.options, self.call) != Role::Admin {
            hide_secrets(&mut fields, self.admin);
        }
        let value = Value::Object(fields);
        let accepted = self.call.header("accept").unwrap_or_default();
        let reply = if accepted.starts_with("application/yaml") {
            let text = yaml::write(&value)
                .map_err(|error| Reply::refusal(StatusCode::INTERNAL_SERVER_ERROR, error))?;
            Reply::yaml(StatusCode::OK, text)
        } else {
            Reply::text(StatusCode::OK, value.to_string())
        };
        Ok(self.current.label(reply))
    }

    async fn replace(&self, digest: &str, body: &[u8]) -> Result<Reply, Reply> {
        let fields = validate::read_document(self.call, body)?;
        if self.current.lock().as_ref().is_some_and(|document| document.digest == digest) {
            return Ok(Reply::empty(StatusCode::NO_CONTENT));
        }
        if let Some(fault) = validate::check(self.admin, &fields, Extent::First).await.pop() {
            return Err(Reply::bad(fault.error));
        }
        self.current.replace(|before| {
            Ok(Document {
                fields: succeed(before, fields)?,
                digest: digest.to_owned(),
                last_modified_s: OffsetDateTime::now_utc().unix_timestamp(),
            })
        })
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
            // Who says no version wants the list replaced, whatever it was.
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
