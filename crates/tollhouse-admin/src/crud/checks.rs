//! What every write goes through: the object is checked, gets its times, and is sealed.

use std::time::{SystemTime, UNIX_EPOCH};

use hyper::StatusCode;
use serde_json::Value;
use tollhouse_model::Kind;
use tollhouse_store::Entry;

use super::guards::Guards;
use super::request::Request;
use crate::auth;
use crate::context::Admin;
use crate::encrypt::{self, Author};
use crate::reply::Reply;
use crate::resource::{self, Candidate, Layout, ReferenceCheck, Resource, consumers};

/// Validates an object against its resource and all that is known of others.
///
/// # Errors
/// What is wrong with it.
pub(super) fn validate(
    admin: &Admin,
    resource: &Resource,
    path: &str,
    value: &Value,
) -> Result<Guards, Reply> {
    let known = admin.index.known();
    let parts = &admin.parts;
    let references = ReferenceCheck::On;
    let candidate = Candidate { path, value, known: &known, parts, references };
    resource::validate(resource, &candidate)?;
    if resource.holds_identities() {
        consumers::check_unique(&candidate)?;
    }
    Ok(Guards::for_write(admin, resource, &candidate))
}

/// Refuses calls about children of an object that is not there.
pub(super) fn check_parent(admin: &Admin, request: &Request<'_>) -> Result<(), Reply> {
    let (Layout::Child(above), Some(parent)) = (request.resource.layout, &request.parent) else {
        return Ok(());
    };
    if admin.index.known().exists(&format!("{above}/{parent}")) {
        return Ok(());
    }
    let noun = above.strip_suffix('s').unwrap_or(above);
    Err(Reply::refusal(StatusCode::NOT_FOUND, format!("{noun} not found")))
}

/// The value as a write is answered: as it is stored. Keepers of secrets are answered as a read shows them to the
/// caller, because other gateways keep them in the clear, and clients compare what they sent.
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

/// The author of a write in the place of `before`.
pub(super) fn author<'a>(
    admin: &Admin,
    request: &Request<'_>,
    before: Option<&'a Entry>,
) -> Author<'a> {
    Author { role: auth::caller_role(&admin.parts.options, request.call), before }
}

/// The value as it is stored in the place of another: what must not lie open is sealed, and what is the same secret
/// as before stays as it was sealed.
pub(super) fn seal(admin: &Admin, path: &str, plain: &Value, before: Option<&Entry>) -> Value {
    let before = before.and_then(|entry| serde_json::from_slice(&entry.value).ok());
    let mut value = plain.clone();
    encrypt::seal_over(path, &mut value, before, &admin.parts);
    value
}

/// Now, in seconds of Unix time.
pub(super) fn now_s() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
}
