//! Steps of every write: validation, timestamps, and sealing of secrets.

use std::time::{SystemTime, UNIX_EPOCH};

use hyper::StatusCode;
use serde_json::Value;
use tollhouse_model::Kind;
use tollhouse_store::Entry;

use super::guards::Guards;
use super::request::Request;
use crate::auth;
use crate::console::validation;
use crate::context::Admin;
use crate::encrypt::{self, Author};
use crate::reply::Reply;
use crate::resource::{self, Candidate, Layout, ReferenceCheck, Resource, consumers};

/// Validates an object by itself and against all other objects. Returns the guards for its commit
/// (see [`guards`](super::guards)).
///
/// # Errors
/// Returns the first fault as a reply.
pub(super) fn validate(
    admin: &Admin,
    resource: &Resource,
    path: &str,
    value: &Value,
) -> Result<Guards, Reply> {
    let contents = admin.index.contents();
    let parts = &admin.parts;
    let references = ReferenceCheck::On;
    let candidate = Candidate { path, value, contents: &contents, parts, references };
    resource::validate(resource, &candidate)
        .map_err(|reply| with_hint(reply, resource, &candidate))?;
    if resource.holds_identities() {
        consumers::check_unique(&candidate)?;
    }
    Ok(Guards::for_write(admin, resource, &candidate))
}

/// Adds the field `hint` to a refusal, if something similar was probably meant. `error_msg` stays as
/// it is, because clients of APISIX compare it.
fn with_hint(reply: Reply, resource: &Resource, candidate: &Candidate<'_>) -> Reply {
    match validation::hint(resource, candidate, &reply.error_text()) {
        Some(hint) => reply.with_field("hint", hint.into()),
        None => reply,
    }
}

/// Refuses calls about children of a missing object.
pub(super) fn check_parent(admin: &Admin, request: &Request<'_>) -> Result<(), Reply> {
    let (Layout::Child(above), Some(parent)) = (request.resource.layout, &request.parent) else {
        return Ok(());
    };
    if admin.index.contents().exists(&format!("{above}/{parent}")) {
        return Ok(());
    }
    let noun = above.strip_suffix('s').unwrap_or(above);
    Err(Reply::refusal(StatusCode::NOT_FOUND, format!("{noun} not found")))
}

/// Returns the value for the answer to a write, which is the stored value. Secret managers are
/// returned as a read would return them, because APISIX stores them in plain text, and clients
/// compare the answer with the object that they sent.
pub(super) fn value_of_answer(
    admin: &Admin,
    request: &Request<'_>,
    path: &str,
    stored: Value,
) -> Value {
    let mut value = stored;
    if request.resource.object_kind() == Some(Kind::Secret) {
        let role = auth::reader_role(&admin.parts.options, request.call);
        encrypt::reveal(path, &mut value, &admin.parts, role);
    }
    value
}

/// Returns the author of a write that replaces `before`.
pub(super) fn author<'a>(
    admin: &'a Admin,
    request: &Request<'_>,
    before: Option<&'a Entry>,
) -> Author<'a> {
    Author::new(admin, request.call, before)
}

/// Returns the value to store. Secrets are sealed; an unchanged secret keeps its sealed text.
pub(super) fn seal(admin: &Admin, path: &str, plain: &Value, before: Option<&Entry>) -> Value {
    let before = before.and_then(|entry| serde_json::from_slice(&entry.value).ok());
    let mut value = plain.clone();
    encrypt::seal_over(path, &mut value, before, &admin.parts);
    value
}

/// Returns the current time in seconds since 1970.
pub(super) fn now_s() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
}
