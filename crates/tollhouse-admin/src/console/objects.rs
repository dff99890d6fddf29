//! `/console/v1/objects/{kind}`: search over all objects of a kind. Only the objects of the
//! returned page are read from the store.

use std::collections::{BTreeSet, HashMap};

use hyper::StatusCode;
use serde_json::{Map, Value, json};

use super::differences;
use super::search::{self, ListQuery, PathPage};
use crate::call::Call;
use crate::context::Admin;
use crate::crud::undo::place_of;
use crate::encrypt;
use crate::index;
use crate::options::Role;
use crate::problems::{object_at, place_in_store};
use crate::references;
use crate::reply::Reply;
use crate::resource::{self, Layout, Resource};

/// Default number of rows per page.
const ROWS: usize = 50;

/// Maximum number of rows per page.
const ROWS_MAX: usize = 500;

/// Maximum number of problems that are assigned to objects. More problems usually have a common
/// cause.
const PROBLEMS_MAX: usize = 10_000;

/// Maximum number of listed objects that refer to an object; the answer also contains their total
/// number.
const USERS_SHOWN_MAX: usize = 100;

/// Maximum number of secrets whose positions are returned; higher than any object needs.
const SECRETS_TOLD_MAX: usize = 1000;

/// Fields of an object that a row shows, besides the id and plugin names. They never contain
/// secrets.
const FIELDS: [&str; 22] = [
    "name",
    "desc",
    "uri",
    "uris",
    "host",
    "hosts",
    "methods",
    "priority",
    "status",
    "labels",
    "service_id",
    "upstream_id",
    "plugin_config_id",
    "group_id",
    "username",
    "type",
    "scheme",
    "sni",
    "snis",
    "server_port",
    "service_name",
    "update_time",
];

/// Returns one page of the objects that match a search (see [`search`](super::search)).
pub(super) async fn list(admin: &Admin, call: &Call, kind: &str) -> Result<Value, Reply> {
    search_in(admin, call, searchable(kind)?.name).await
}

/// Returns one page as [`list`] does, of the objects below another object, such as the credentials
/// of a consumer.
pub(super) async fn children(
    admin: &Admin,
    call: &Call,
    owner: &str,
    kind: &str,
) -> Result<Value, Reply> {
    search_in(admin, call, &format!("{owner}/{kind}")).await
}

/// Whether objects of `kind` belong below objects of the kind `above`.
pub(super) fn is_child(kind: &str, above: &str) -> bool {
    let resource = resource::find(kind);
    resource.is_some_and(|it| matches!(it.layout, Layout::Child(name) if name == above))
}

async fn search_in(admin: &Admin, call: &Call, collection: &str) -> Result<Value, Reply> {
    let number = |name: &str| call.arguments.get(name).and_then(|text| text.parse().ok());
    let page: usize = number("page").unwrap_or(1).max(1);
    let rows: usize = number("page_size").unwrap_or(ROWS).clamp(1, ROWS_MAX);
    let problems = problems(admin);
    let query = ListQuery::parse(call, &problems)?;
    admin.index.catch_up().await?;
    let skip = (page - 1).saturating_mul(rows);
    let range = skip..skip.saturating_add(rows);
    let PathPage { total, paths } = search::page(admin, collection, &query, range).await;
    let mut list = Vec::new();
    for path in &paths {
        let key = admin.key_of(path);
        if let Some(entry) = admin.parts.store.get(&key).await? {
            let id = &path[collection.len() + 1..];
            let mut row = row(id, &entry.value, entry.mod_revision.0);
            if let Some(problem) = problems.get(path) {
                row["problem"] = problem.as_str().into();
            }
            list.push(row);
        }
    }
    Ok(json!({ "total": total, "page": page, "page_size": rows, "rows": list }))
}

/// Returns the first problem that the data plane reports for each object, by object path.
fn problems(admin: &Admin) -> HashMap<String, String> {
    let told = admin.parts.console.as_ref().map_or(Value::Null, |source| source.problems());
    let contents = admin.index.contents();
    let mut texts = HashMap::new();
    for problem in told.as_array().into_iter().flatten().take(PROBLEMS_MAX) {
        let text = |name: &str| problem.get(name).and_then(Value::as_str).unwrap_or_default();
        let place = place_in_store(problem);
        if let Some(path) = object_at(&contents, &place) {
            let rest = place[path.len()..].trim_start_matches('.');
            let colon = if rest.is_empty() { "" } else { ": " };
            let told = format!("{rest}{colon}{}", text("reason"));
            texts.entry(path.to_owned()).or_insert(told);
        }
    }
    texts
}

/// Returns one object: its value with secrets sealed, its references in both directions, and its
/// last change.
pub(super) async fn one(admin: &Admin, kind: &str, id: &[&str]) -> Result<Value, Reply> {
    let path = format!("{kind}/{}", id.join("/"));
    let not_found = || Reply::refusal(StatusCode::NOT_FOUND, format!("there is no {path}"));
    place_of(&path).ok_or_else(not_found)?;
    let key = admin.key_of(&path);
    let entry = admin.parts.store.get(&key).await?;
    let entry = entry.filter(|entry| index::holds_object(&key, &entry.value));
    let entry = entry.ok_or_else(not_found)?;
    let mut value: Value = serde_json::from_slice(&entry.value)
        .map_err(|error| Reply::unavailable(format!("{path} is not valid JSON: {error}")))?;
    encrypt::reveal(&path, &mut value, &admin.parts, Role::Viewer);
    let opened = encrypt::opened(&path, &value, &admin.parts);
    let sealed = differences::between(&value, &opened, SECRETS_TOLD_MAX).into_iter();
    // The index catches up first, so that references in the caller's own last write are included.
    admin.index.catch_up().await?;
    let contents = admin.index.contents();
    let users: BTreeSet<&str> = contents.users_of(&path).collect();
    let uses: BTreeSet<String> =
        references::find_all(&value).into_iter().map(|found| found.target).collect();
    let uses = uses.iter().map(|path| {
        let mut shown = place(path);
        shown["exists"] = contents.exists(path).into();
        shown
    });
    let last = contents.changes().newest().find(|(_, _, row)| row.paths().any(|it| it == path));
    Ok(json!({
        "kind": kind,
        "id": id.join("/"),
        "value": value,
        "sealed": sealed.map(|mut found| found["pointer"].take()).collect::<Value>(),
        "revision": entry.mod_revision.0,
        "create_revision": entry.create_revision.0,
        "expires_at_ms": entry.expires_at_ms,
        "used_by_total": users.len(),
        "used_by": users.iter().take(USERS_SHOWN_MAX).map(|path| place(path)).collect::<Value>(),
        "uses": uses.collect::<Value>(),
        "last_change": last.map(|(revision, _, row)| json!({
            "revision": revision.0,
            "at_ms": row.at_ms,
            "actor": row.actor,
            "way": row.way.name(),
            "deed": row.deed.name(),
        })),
    }))
}

fn place(path: &str) -> Value {
    let (kind, id) = path.split_once('/').unwrap_or((path, ""));
    json!({ "kind": kind, "id": id })
}

fn searchable(kind: &str) -> Result<&'static Resource, Reply> {
    let resource = resource::find(kind).filter(|it| !matches!(it.layout, Layout::Child(_)));
    resource.ok_or_else(|| Reply::bad(format!("unknown kind of objects {kind}")))
}

fn row(id: &str, value: &[u8], revision: u64) -> Value {
    let mut row = Map::new();
    row.insert("id".into(), id.into());
    row.insert("revision".into(), revision.into());
    // A value that is not a JSON object was written by another program; the row still contains its
    // id.
    let Ok(Value::Object(mut fields)) = serde_json::from_slice::<Value>(value) else {
        return row.into();
    };
    for name in FIELDS {
        if let Some(field) = fields.remove(name) {
            row.insert(name.into(), field);
        }
    }
    if let Some(Value::Object(plugins)) = fields.get("plugins") {
        row.insert("plugins".into(), plugins.keys().map(String::as_str).collect());
    }
    let upstream = fields.get("upstream").unwrap_or(&Value::Null);
    let nodes = fields.get("nodes").or_else(|| upstream.get("nodes"));
    let count = match nodes {
        Some(Value::Array(nodes)) => Some(nodes.len()),
        Some(Value::Object(nodes)) => Some(nodes.len()),
        _ => None,
    };
    if let Some(count) = count {
        row.insert("nodes".into(), count.into());
    }
    if let Some(service) = upstream.get("service_name") {
        row.insert("service_name".into(), service.clone());
    }
    row.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_have_names_of_plugins_and_none_of_their_secrets() {
        let value = json!({
            "uri": "/a", "plugins": {"key-auth": {"key": "hidden"}}, "secret": "hidden",
            "upstream": {"nodes": {"a:1": 1, "b:2": 1}},
        });
        let row = row("1", value.to_string().as_bytes(), 7);
        let expected = json!({
            "id": "1", "revision": 7, "uri": "/a", "plugins": ["key-auth"], "nodes": 2,
        });
        assert_eq!(row, expected);
    }
}
