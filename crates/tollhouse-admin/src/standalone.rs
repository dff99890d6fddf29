//! Admin API of a gateway without a store: one document in memory, replaced as a whole.
//!
//! A document has a digest, which identifies equal documents, and a version per list. A list with
//! an unchanged version keeps its contents. A restart loses the document. Accepted documents are
//! passed to a [`DocumentSink`](crate::document::DocumentSink), which puts them into service.

use std::collections::BTreeMap;

use hyper::{Method, StatusCode};
use serde_json::Value;
use time::OffsetDateTime;
use tollhouse_model::Kind;
use tollhouse_model::change_row::{BothSides, ChangeOrigin, ChangeRow, OBJECTS_TOLD_MAX};
use tollhouse_model::encryption::Keyring;
use tollhouse_plugin::sealing::{self, ObjectRef};

use crate::auth;
use crate::body::{self, RequestBody};
use crate::call::Call;
use crate::chronicle;
use crate::config_files;
use crate::context::Admin;
use crate::crud::way_of;
use crate::document::{CurrentDocument, DIGEST, Document};
use crate::encrypt::Author;
use crate::limits::DOCUMENT_BYTES_MAX;
use crate::object::Fields;
use crate::options::Role;
use crate::problems;
use crate::reply::Reply;
use crate::scripts;
use crate::validate::{self, Extent, LISTS};
use crate::yaml;

/// Call to a gateway without a store.
pub(crate) struct Request<'a> {
    pub(crate) admin: &'a Admin,
    pub(crate) current: &'a CurrentDocument,
    pub(crate) call: &'a Call,
}

/// Handles a call; only a few paths exist without a store.
pub(crate) async fn answer<B>(
    request: Request<'_>,
    segments: &[&str],
    body: B,
) -> Result<Reply, Reply>
where
    B: RequestBody,
{
    let Request { admin, current, call } = request;
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
        if auth::reader_role(&self.admin.parts.options, self.call) != Role::Admin {
            hide_secrets(&mut fields, self.admin, &unkept_keyring()?);
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
        let whole = Value::Object(fields);
        let author = Author::new(self.admin, self.call, None);
        scripts::check_author(&whole, &author)?;
        config_files::check_document(&whole, &author)?;
        let Value::Object(fields) = whole else { return Err(Reply::bad("not an object")) };
        if let Some(fault) = validate::check(self.admin, &fields, Extent::First).await.pop() {
            return Err(Reply::bad(fault.error));
        }
        let keyring = unkept_keyring()?;
        let (mut changed, mut more) = (BTreeMap::new(), 0);
        let (reply, revision) = self.current.replace(|before| {
            let next = succeed(before, fields)?;
            let before = before.map(|document| &document.fields);
            (changed, more) = differences(self.admin, &keyring, before, &next);
            Ok(Document {
                fields: next,
                digest: digest.to_owned(),
                last_modified_s: OffsetDateTime::now_utc().unix_timestamp(),
            })
        })?;
        let actor = auth::caller(&self.admin.parts.options, self.call);
        let actor = actor.map(|key| key.name.clone());
        let origin = ChangeOrigin { at_ms: chronicle::now_ms(), actor, way: way_of(self.call) };
        let row = ChangeRow::about_many(origin, DOCUMENT, &changed, more);
        chronicle::keep(self.admin, row).await;
        if let Some(in_service) = &self.admin.parts.in_service {
            in_service.meets_write(revision).await;
        }
        Ok(problems::with_all_warnings(self.admin, reply))
    }
}

/// Path in change rows that stands for the document.
const DOCUMENT: &str = "document/standalone";

/// Returns the objects that differ between two documents, with secrets sealed, and the number of
/// further ones that are left out.
fn differences(
    admin: &Admin,
    keyring: &Keyring,
    old: Option<&Fields>,
    new: &Fields,
) -> (BTreeMap<String, BothSides>, usize) {
    let (mut old, new) = (old.map(objects).unwrap_or_default(), objects(new));
    let mut differing: Vec<(String, Option<&Value>, Option<&Value>)> = Vec::new();
    for (path, value) in new {
        let before = old.remove(&path);
        if before != Some(value) {
            differing.push((path, before, Some(value)));
        }
    }
    differing.extend(old.into_iter().map(|(path, value)| (path, Some(value), None)));
    let more = differing.len().saturating_sub(OBJECTS_TOLD_MAX);
    // Sealed after the comparison, because sealing is randomised.
    let seal = |path: &str, value: &Value| {
        let mut value = value.clone();
        let list = path.split('/').next().unwrap_or_default();
        if let Some(kind) = Kind::from_list_name(list) {
            sealing::seal(ObjectRef::new(kind, ""), &mut value, &admin.parts.catalogue, keyring);
        }
        value.to_string()
    };
    let told = differing.into_iter().take(OBJECTS_TOLD_MAX).map(|(path, before, after)| {
        let both = (before.map(|it| seal(&path, it)), after.map(|it| seal(&path, it)));
        (path, both)
    });
    (told.collect(), more)
}

/// Returns the objects of a document by path; an object without an id is named by its position.
fn objects(fields: &Fields) -> BTreeMap<String, &Value> {
    let mut objects = BTreeMap::new();
    for list in LISTS {
        let items = fields.get(list).and_then(Value::as_array).into_iter().flatten();
        for (place, item) in items.enumerate() {
            let id = ["id", "username", "name"].iter().find_map(|name| match item.get(name)? {
                Value::String(id) => Some(id.clone()),
                Value::Number(id) => Some(id.to_string()),
                _ => None,
            });
            objects.insert(format!("{list}/{}", id.unwrap_or_else(|| format!("#{place}"))), item);
        }
    }
    objects
}

/// Returns a temporary keyring to seal values in answers. The values are never opened again,
/// because a document contains no sealed secrets.
fn unkept_keyring() -> Result<Keyring, Reply> {
    Keyring::generate().map_err(|error| Reply::unavailable(error.to_string()))
}

/// Seals the secrets that a viewer must not see.
fn hide_secrets(fields: &mut Fields, admin: &Admin, keyring: &Keyring) {
    for list in LISTS {
        let (Some(kind), Some(Value::Array(items))) =
            (Kind::from_list_name(list), fields.get_mut(list))
        else {
            continue;
        };
        for item in items {
            sealing::seal(ObjectRef::new(kind, ""), item, &admin.parts.catalogue, keyring);
        }
    }
}

fn version_key(list: &str) -> String {
    format!("{list}_conf_version")
}

/// Returns the new document: lists with an unchanged version keep their previous contents.
fn succeed(before: Option<&Document>, mut fields: Fields) -> Result<Fields, Reply> {
    let before = before.map(|document| &document.fields);
    let mut next = Fields::new();
    for list in LISTS {
        let key = version_key(list);
        let old = before.and_then(|fields| fields.get(&key)).and_then(Value::as_f64);
        let old = old.unwrap_or_default();
        let new = match fields.get(&key) {
            // A list without a version is always replaced.
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

/// Returns the version as an integer if it has no fraction, because some clients send floats.
fn whole(version: f64) -> Value {
    if version.fract() == 0.0 && version.abs() < 9e15 {
        return Value::from(version as i64);
    }
    Value::from(version)
}
