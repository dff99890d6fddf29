//! GET: one object, or a list of them.

use hyper::StatusCode;
use serde_json::Value;
use tollhouse_store::Entry;

use super::Request;
use crate::api::Admin;
use crate::encrypt;
use crate::limits::OBJECTS_PER_TURN;
use crate::paging::{Filters, Slice};
use crate::reply::Reply;
use crate::resource::{Layout, Resource};
use crate::shape;

pub(super) async fn run(admin: &Admin, request: &Request<'_>) -> Result<Reply, Reply> {
    match &request.id {
        Some(id) => one(admin, request, id).await,
        None => list(admin, request).await,
    }
}

async fn one(admin: &Admin, request: &Request<'_>, id: &str) -> Result<Reply, Reply> {
    let key = admin.key_of(&request.path_of(id));
    let entry = admin.parts.store.get(&key).await?.ok_or_else(Reply::key_not_found)?;
    let value = shown(admin, request.resource, &entry);
    let body = shape::one(admin.parts.options.api_version, &entry, value);
    Ok(Reply::json(StatusCode::OK, &body))
}

async fn list(admin: &Admin, request: &Request<'_>) -> Result<Reply, Reply> {
    let arguments = &request.call.arguments;
    let slice = Slice::parse(arguments)?;
    let filters = Filters::parse(arguments, request.resource)?;
    let collection = request.collection();
    let prefix = format!("{}/", admin.key_of(&collection));
    let listing = admin.parts.store.list(&prefix).await?;
    let mut entries = listing.entries;
    // Children lie below the objects they belong to, but are none of them.
    if request.resource.layout != Layout::Manager {
        entries.retain(|entry| !entry.key[prefix.len()..].contains('/'));
    }
    // Children have no place of their own until the first of them is there.
    if entries.is_empty() && matches!(request.resource.layout, Layout::Child(_)) {
        return Err(Reply::key_not_found());
    }
    if filters.are_any() {
        entries = matching(admin, request.resource, entries, &filters).await;
    }
    let total = entries.len();
    let entries = slice.of(entries);
    let mut list = shape::List::new(admin.parts.options.api_version, &admin.key_of(&collection));
    for chunk in entries.chunks(OBJECTS_PER_TURN) {
        for entry in chunk {
            list.push(entry, shown(admin, request.resource, entry));
        }
        tokio::task::yield_now().await;
    }
    Ok(Reply::json_text(StatusCode::OK, list.finish(total)))
}

async fn matching(
    admin: &Admin,
    resource: &Resource,
    entries: Vec<Entry>,
    filters: &Filters,
) -> Vec<Entry> {
    let mut kept = Vec::new();
    for (index, entry) in entries.into_iter().enumerate() {
        if filters.admit(&shown(admin, resource, &entry)) {
            kept.push(entry);
        }
        if index % OBJECTS_PER_TURN == OBJECTS_PER_TURN - 1 {
            tokio::task::yield_now().await;
        }
    }
    kept
}

/// The value as it leaves: decrypted, but for what never leaves. What is no JSON was not written
/// here, and is shown as text.
fn shown(admin: &Admin, resource: &Resource, entry: &Entry) -> Value {
    let parsed = serde_json::from_slice(&entry.value);
    let mut value =
        parsed.unwrap_or_else(|_| String::from_utf8_lossy(&entry.value).into_owned().into());
    encrypt::unseal(resource, &mut value, &admin.parts.catalogue, admin.parts.keyring.as_deref());
    encrypt::strip(resource, &mut value);
    value
}
