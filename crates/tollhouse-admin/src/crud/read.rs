//! GET: a single object, or a list.

use hyper::StatusCode;
use serde_json::Value;
use tollhouse_store::Entry;

use super::precondition;
use super::request::Request;
use crate::auth;
use crate::context::Admin;
use crate::encrypt;
use crate::index;
use crate::limits::OBJECTS_PER_TURN;
use crate::object_rights::ObjectRights;
use crate::options::Role;
use crate::paging::{Filters, Slice};
use crate::reply::Reply;
use crate::resource::Layout;
use crate::shape;
use selection::Wanted;

mod selection;

pub(super) async fn run(admin: &Admin, request: &Request<'_>) -> Result<Reply, Reply> {
    match &request.id {
        Some(id) => one(admin, request, id).await,
        None => list(admin, request).await,
    }
}

async fn one(admin: &Admin, request: &Request<'_>, id: &str) -> Result<Reply, Reply> {
    let key = admin.key_of(&request.path_of(id));
    let entry = admin.parts.store.get(&key).await?;
    let entry = entry.filter(|entry| index::holds_object(&key, &entry.value));
    let entry = entry.ok_or_else(Reply::key_not_found)?;
    // The labels may have changed since the call was admitted.
    let rights = ObjectRights::from_call(admin, request.call);
    if rights.is_some_and(|rights| !rights.sees(&request.path_of(id), &entry.value)) {
        return Err(auth::refusal("no policy of this user allows the call"));
    }
    let reply = Reply::json(StatusCode::OK, &present(admin, request, &entry));
    Ok(precondition::with_tag(reply, entry.mod_revision))
}

/// Returns the object as the caller may see it, with its revisions.
pub(super) fn present(admin: &Admin, request: &Request<'_>, entry: &Entry) -> Value {
    let role = auth::reader_role(&admin.parts.options, request.call);
    let value = visible_value(admin, entry, role);
    shape::one(admin.parts.options.api_version, entry, value)
}

async fn list(admin: &Admin, request: &Request<'_>) -> Result<Reply, Reply> {
    let arguments = &request.call.arguments;
    let slice = Slice::parse(arguments)?;
    let filters = Filters::parse(arguments, request.resource)?;
    let collection = request.collection();
    admin.index.catch_up().await?;
    // A collection of children is answered with 404 while it is empty.
    let is_child = matches!(request.resource.layout, Layout::Child(_));
    if is_child && admin.index.contents().count(&collection) == 0 {
        return Err(Reply::key_not_found());
    }
    let role = auth::reader_role(&admin.parts.options, request.call);
    let (total, entries) = match ObjectRights::from_call(admin, request.call) {
        Some(rights) => {
            let wanted = Wanted { slice, filters: &filters, rights: &rights };
            selection::select_visible(admin, &collection, &wanted).await?
        }
        None => selection::select(admin, &collection, slice, &filters).await?,
    };
    let mut list = shape::List::new(admin.parts.options.api_version, &admin.key_of(&collection));
    for chunk in entries.chunks(OBJECTS_PER_TURN) {
        for entry in chunk {
            list.push(entry, visible_value(admin, entry, role));
        }
        tokio::task::yield_now().await;
    }
    Ok(Reply::json_text(StatusCode::OK, list.finish(total)))
}

/// Returns the value as the caller may see it. A value that is not JSON was written by another
/// program, and is returned as text.
fn visible_value(admin: &Admin, entry: &Entry, role: Role) -> Value {
    let parsed = serde_json::from_slice(&entry.value);
    let mut value =
        parsed.unwrap_or_else(|_| String::from_utf8_lossy(&entry.value).into_owned().into());
    let path = entry.key.strip_prefix(&admin.key_of("")).unwrap_or_default();
    encrypt::reveal(path, &mut value, &admin.parts, role);
    value
}
