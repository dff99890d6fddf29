//! Change rows about writes to the registry by people, with the object before and after.
//! Registrations by services themselves have no rows, because they would displace all other rows;
//! the registry records events about them.

use bytes::Bytes;
use hyper::Method;
use serde_json::Value;
use tollhouse_model::change_row::{ChangeKind, ChangeOrigin, ChangeRow, Way};

use super::bulk;
use super::request::Request;
use crate::arguments::Arguments;
use crate::auth;
use crate::call::Call;
use crate::chronicle;
use crate::context::Admin;
use crate::crud;
use crate::reply::Reply;

/// Object that a write changes, in its state before the write.
pub(super) struct Before {
    /// Path without the prefix `registry/`. For a creation, the path follows from the answer.
    path: String,
    object: Option<Value>,
}

/// Reads the object that a call is about to change; `None` if the call is not recorded.
pub(super) async fn look(request: &Request<'_>, segments: &[&str]) -> Option<Before> {
    let call = request.call;
    let is_write =
        [Method::POST, Method::PUT, Method::PATCH, Method::DELETE].contains(&call.method);
    let is_noted = match (segments, &call.method) {
        (["instances", _, "heartbeat"], _) => false,
        // An import of a whole registry is not recorded, because it has thousands of objects, whose
        // history is in the source registry.
        (["objects", ..], _) => false,
        // Registrations are not recorded unless they come from the console, because programs make
        // them.
        (["instances", ..] | ["services", _, _, "instances"], &Method::POST | &Method::PUT) => {
            crud::way_of(call) == Way::Console
        }
        _ => true,
    };
    if !is_write || !is_noted {
        return None;
    }
    if is_bulk(segments, call) {
        let before = bulk::named(request).into_iter().collect();
        return Some(Before { path: segments.join("/"), object: Some(before) });
    }
    let object = if call.method == Method::POST { None } else { read(request, segments).await };
    Some(Before { path: segments.join("/"), object })
}

/// Whether a call changes many instances at once.
fn is_bulk(segments: &[&str], call: &Call) -> bool {
    segments == ["instances"] && call.method == Method::PATCH
}

/// Stores one change row about all instances that a call has changed.
async fn keep_bulk(admin: &Admin, call: &Call, before: &Value, answer: &Value) {
    let after = bulk::changed(answer);
    if after.is_empty() {
        return;
    }
    let text = |value: &Value| Some(value.to_string());
    let both = after.iter().map(|(path, after)| {
        let before = before.get(path).and_then(text);
        (path.clone(), (before, text(after)))
    });
    let both = both.collect();
    let actor = auth::caller(&admin.parts.options, call).map(|key| key.name.clone());
    let origin = ChangeOrigin { at_ms: chronicle::now_ms(), actor, way: crud::way_of(call) };
    let row = ChangeRow::about_many(origin, "registry/instances", &both, 0);
    chronicle::keep(admin, ChangeRow { deed: ChangeKind::Patch, ..row }).await;
}

/// Returns the object at a path, as a GET does.
async fn read(request: &Request<'_>, segments: &[&str]) -> Option<Value> {
    let arguments = Arguments::default();
    let call = Call { method: Method::GET, arguments, ..request.call.clone() };
    let reading = Request { part: request.part, call: &call, body: Bytes::new() };
    Box::pin(super::route(&reading, segments)).await.ok()?.value()
}

/// Stores the change row about a successful write.
pub(super) async fn keep(
    admin: &Admin,
    request: &Request<'_>,
    segments: &[&str],
    before: Before,
    reply: &Reply,
) {
    let call = request.call;
    if is_bulk(segments, call) {
        let (before, answer) = (before.object.unwrap_or_default(), reply.value());
        keep_bulk(admin, call, &before, &answer.unwrap_or_default()).await;
        return;
    }
    let after = match call.method {
        Method::DELETE => None,
        _ => reply.value().filter(Value::is_object),
    };
    // No row is stored if the answer contains no object, or if the object is unchanged.
    if call.method != Method::DELETE && (after.is_none() || after == before.object) {
        return;
    }
    let path = match call.method {
        Method::POST => new_path(segments, after.as_ref()),
        _ => before.path,
    };
    let deed = match (&call.method, &before.object) {
        (&Method::DELETE, _) => ChangeKind::Delete,
        (&Method::PATCH, _) => ChangeKind::Patch,
        (_, Some(_)) => ChangeKind::Replace,
        (_, None) => ChangeKind::Create,
    };
    let row = ChangeRow {
        at_ms: chronicle::now_ms(),
        actor: auth::caller(&admin.parts.options, call).map(|key| key.name.clone()),
        way: crud::way_of(call),
        deed,
        path: format!("registry/{path}"),
        before: before.object.map(|object| object.to_string()),
        after: after.map(|object| object.to_string()),
        below: Vec::new(),
        was_to_end: false,
        is_cut: false,
        undoes: None,
    };
    chronicle::keep(admin, row).await;
}

/// Returns the path of an object that a call created in a collection.
fn new_path(segments: &[&str], made: Option<&Value>) -> String {
    let text = |name: &str| made.and_then(|made| made.get(name)).and_then(Value::as_str);
    let collection = segments.join("/");
    match segments {
        ["services", _, _, "instances"] => format!("instances/{}", text("id").unwrap_or_default()),
        ["services" | "aliases"] => {
            let name = text("name").unwrap_or_default();
            format!("{collection}/{}/{name}", text("namespace").unwrap_or_default())
        }
        ["namespaces"] => format!("{collection}/{}", text("name").unwrap_or_default()),
        _ => format!("{collection}/{}", text("id").unwrap_or_default()),
    }
}
