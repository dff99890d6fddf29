//! Objects in service: routes, services, upstreams, and plugin metadata.
//!
//! Each request reads the source of the configuration: the store with its revisions, or the last
//! document, whose number serves as the revision. Secret fields are shown encrypted, as in the
//! store.

use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::Response;
use serde_json::Value;
use tollhouse_config::Fingerprints;
use tollhouse_config::diff::ItemRecord;
use tollhouse_config::store_keys::{DEFAULT_PREFIX, kind_prefix, parse_store_key, store_key};
use tollhouse_model::{Id, Kind};
use tollhouse_plugin::sealing::{self, ObjectRef};
use tollhouse_store::{Entry, Store, StoreError};

use super::object_view::{self, StoredObject};
use super::reply::{found, refusal};
use super::state::Introspection;
use crate::configuration::ObjectSource;

/// Error response; boxed, because responses are large.
type ErrorResponse = Box<Response>;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Exists {
    Yes,
    No,
}

type Ask = State<Introspection>;

pub(super) async fn routes(State(introspection): Ask) -> Response {
    list(introspection, Kind::Route).await
}

pub(super) async fn route(State(introspection): Ask, Path(id): Path<String>) -> Response {
    one(introspection, Kind::Route, &id).await
}

pub(super) async fn services(State(introspection): Ask) -> Response {
    list(introspection, Kind::Service).await
}

pub(super) async fn service(State(introspection): Ask, Path(id): Path<String>) -> Response {
    one(introspection, Kind::Service, &id).await
}

pub(super) async fn upstreams(State(introspection): Ask) -> Response {
    list(introspection, Kind::Upstream).await
}

pub(super) async fn upstream(State(introspection): Ask, Path(id): Path<String>) -> Response {
    one(introspection, Kind::Upstream, &id).await
}

pub(super) async fn plugin_metadatas(State(introspection): Ask) -> Response {
    list(introspection, Kind::PluginMetadata).await
}

pub(super) async fn plugin_metadata(
    State(introspection): Ask,
    Path(name): Path<String>,
) -> Response {
    one(introspection, Kind::PluginMetadata, &name).await
}

pub(super) async fn exists(
    introspection: &Introspection,
    kind: Kind,
    id: &Id,
) -> Result<Exists, ErrorResponse> {
    let object = read_one(introspection, kind, id).await?;
    Ok(if object.is_some() { Exists::Yes } else { Exists::No })
}

async fn one(introspection: Introspection, kind: Kind, id: &str) -> Response {
    match read_one(&introspection, kind, &Id::new(id)).await {
        Ok(Some(object)) => found(&to_json(kind, object)),
        Ok(None) => {
            let text = format!("{}[{id}] not found", object_view::singular(kind).replace('_', " "));
            refusal(StatusCode::NOT_FOUND, text)
        }
        Err(response) => *response,
    }
}

async fn list(introspection: Introspection, kind: Kind) -> Response {
    let objects = match read_all(&introspection, kind).await {
        Ok(objects) => objects,
        Err(response) => return *response,
    };
    // Rendered on a blocking thread, because filling in defaults of many objects takes long and
    // would delay other tasks.
    let rendered = tokio::task::spawn_blocking(move || {
        let all: Vec<Value> = objects.into_iter().map(|object| to_json(kind, object)).collect();
        found(&Value::Array(all))
    });
    rendered.await.unwrap_or_else(|error| {
        refusal(StatusCode::INTERNAL_SERVER_ERROR, format!("objects cannot be shown: {error}"))
    })
}

/// Converts an object to JSON. Plugin metadata is shown without the wrapper that other objects
/// have.
fn to_json(kind: Kind, object: StoredObject) -> Value {
    match kind {
        Kind::PluginMetadata => object_view::completed(kind, &object.id, object.value),
        _ => object_view::to_json(kind, object),
    }
}

async fn read_one(
    introspection: &Introspection,
    kind: Kind,
    id: &Id,
) -> Result<Option<StoredObject>, ErrorResponse> {
    match introspection.configuration.objects() {
        ObjectSource::None => Ok(None),
        ObjectSource::Store(store, prefix) => {
            let key = store_key(&prefix, kind, id);
            // An id that contains slashes could form the key of an object of another kind.
            if parse_store_key(&prefix, &key) != Some((kind, id.clone())) {
                return Ok(None);
            }
            let entry = store.get(&key).await.map_err(|error| unreadable(&error))?;
            let stored = entry.and_then(|entry| stored_object(&prefix, kind, &entry));
            Ok(stored.map(|stored| hidden(introspection, kind, stored)))
        }
        ObjectSource::Document(document) => {
            let item = document.get(kind, id);
            Ok(item.and_then(|item| document_object(introspection, kind, &item)))
        }
    }
}

async fn read_all(
    introspection: &Introspection,
    kind: Kind,
) -> Result<Vec<StoredObject>, ErrorResponse> {
    match introspection.configuration.objects() {
        ObjectSource::None => Ok(Vec::new()),
        ObjectSource::Store(store, prefix) => {
            let read = read_store(&*store, &prefix, kind).await;
            let all = read.map_err(|error| unreadable(&error))?;
            Ok(all.into_iter().map(|object| hidden(introspection, kind, object)).collect())
        }
        ObjectSource::Document(document) => Ok(read_document(introspection, &document, kind)),
    }
}

async fn read_store(
    store: &dyn Store,
    prefix: &str,
    kind: Kind,
) -> Result<Vec<StoredObject>, StoreError> {
    let listing = store.list(&kind_prefix(prefix, kind)).await?;
    Ok(listing.entries.iter().filter_map(|entry| stored_object(prefix, kind, entry)).collect())
}

fn read_document(
    introspection: &Introspection,
    document: &Fingerprints,
    kind: Kind,
) -> Vec<StoredObject> {
    let items = document.items_by_kind(kind);
    items.iter().filter_map(|item| document_object(introspection, kind, item)).collect()
}

fn stored_object(prefix: &str, kind: Kind, entry: &Entry) -> Option<StoredObject> {
    let (of, id) = parse_store_key(prefix, &entry.key)?;
    let value = serde_json::from_slice(&entry.value).ok().filter(|_| of == kind)?;
    Some(StoredObject {
        key: entry.key.to_string(),
        id: id.as_str().to_owned(),
        value,
        created: entry.create_revision.0,
        modified: entry.mod_revision.0,
    })
}

fn document_object(
    introspection: &Introspection,
    kind: Kind,
    known: &ItemRecord,
) -> Option<StoredObject> {
    let stored = StoredObject {
        key: store_key(DEFAULT_PREFIX, kind, &known.id),
        id: known.id.as_str().to_owned(),
        value: serde_json::from_str(&known.text).ok()?,
        created: known.created,
        modified: known.modified,
    };
    Some(hidden(introspection, kind, stored))
}

/// Returns the object with its secrets sealed.
fn hidden(introspection: &Introspection, kind: Kind, mut object: StoredObject) -> StoredObject {
    let at = ObjectRef::new(kind, &object.id);
    sealing::hide(at, &mut object.value, &introspection.catalogue, &introspection.keyring);
    object
}

fn unreadable(error: &StoreError) -> ErrorResponse {
    let text = format!("the store cannot be read: {error}");
    Box::new(refusal(StatusCode::SERVICE_UNAVAILABLE, text))
}
