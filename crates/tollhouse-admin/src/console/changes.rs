//! `/console/v1/changes`: list of changes with their authors and differences, the earlier state of
//! objects, and undo. Secrets are always sealed.

use std::borrow::Cow;

use hyper::StatusCode;
use serde_json::{Value, json};
use tollhouse_model::change_row::{self, ChangeRow, IMPORTED};
use tollhouse_store::Revision;

use super::{differences, shenyu_changes};
use crate::auth;
use crate::call::Call;
use crate::context::Admin;
use crate::crud::undo::{self, Change, Undoing};
use crate::encrypt;
use crate::index::changes::{BYTES_MAX, ROWS_MAX, Summary};
use crate::options::Role;
use crate::reply::Reply;

/// Default and maximum page size; each row costs one store read.
const ROWS: usize = 50;
const ROWS_SHOWN_MAX: usize = 200;

/// Maximum number of differences per change in a list of changes.
const DIFFERENCES_LISTED: usize = 3;

/// Maximum number of differences in the answer about a single change.
const DIFFERENCES_MAX: usize = 500;

/// Returns changes, newest first. The arguments `kind`, `id`, `actor` and `way` filter them;
/// `before` selects the changes older than a revision.
pub(super) async fn list(admin: &Admin, call: &Call) -> Result<Value, Reply> {
    let argument = |name: &str| call.arguments.get(name).filter(|value| !value.is_empty());
    let number = |name: &str| argument(name).and_then(|text| text.parse::<u64>().ok());
    let rows = number("limit").and_then(|limit| usize::try_from(limit).ok()).unwrap_or(ROWS);
    let rows = rows.clamp(1, ROWS_SHOWN_MAX);
    let before = number("before").map_or(Revision(u64::MAX), Revision);
    let (kind, id) = (argument("kind"), argument("id"));
    let (actor, way) = (argument("actor"), argument("way"));
    let is_about = |path: &str| {
        let (collection, rest) = path.split_once('/').unwrap_or((path, ""));
        kind.is_none_or(|kind| kind == collection)
            // The changes of an object include those of objects below it, such as credentials.
            && id.is_none_or(|id| rest == id || rest.strip_prefix(id).is_some_and(|it| it.starts_with('/')))
    };
    let sees_registry = auth::sees_registry_changes(&admin.parts.options, call);
    let is_wanted = |revision: Revision, row: &Summary| {
        revision < before
            && (sees_registry || !row.paths().any(is_of_registry))
            && row.paths().any(is_about)
            && actor.is_none_or(|actor| row.actor.as_deref() == Some(actor))
            && way.is_none_or(|way| way == row.way.name())
    };
    admin.index.catch_up().await?;
    let of_shenyu = shenyu_changes::all(admin);
    let (kept, total, oldest, names) = {
        let contents = admin.index.contents();
        let changes = contents.changes();
        let mut names: Vec<(Revision, Cow<'_, str>)> = changes
            .newest()
            .filter(|(revision, _, row)| is_wanted(*revision, row))
            .map(|(revision, name, _)| (revision, Cow::Borrowed(name)))
            .collect();
        let oldest = changes.newest().last().map(|(revision, _, row)| (revision.0, row.at_ms));
        let kept = changes.len() + of_shenyu.len();
        names.extend(of_shenyu.iter().filter_map(|change| {
            let revision = Revision(change.revision);
            let is_wanted = is_wanted(revision, &shenyu_changes::summary(change)?);
            is_wanted.then(|| (revision, Cow::Owned(shenyu_changes::name(change))))
        }));
        names.sort_by(|one, other| other.cmp(one));
        let total = names.len();
        let shown = names.into_iter().take(rows).map(|(at, name)| (at, name.into_owned()));
        (kept, total, oldest, shown.collect::<Vec<_>>())
    };
    let mut shown = Vec::with_capacity(names.len());
    for (revision, name) in names {
        if let Some(row) = shenyu_changes::row(admin, &name, DIFFERENCES_LISTED) {
            shown.push(row);
        } else if let Some(row) = read(admin, &name).await? {
            shown.push(summary(admin, &row, &name, revision));
        }
    }
    Ok(json!({
        "total": total,
        "kept": kept,
        "kept_max": ROWS_MAX,
        "kept_bytes_max": BYTES_MAX,
        "oldest_revision": oldest.map(|(revision, _)| revision),
        "oldest_at_ms": oldest.map(|(_, at_ms)| at_ms),
        "rows": shown,
        "refused": admin.refused.list(&admin.parts.options, call),
    }))
}

/// Returns one change with both versions of the object, all differences, and whether it can be
/// undone.
pub(super) async fn one(admin: &Admin, call: &Call, text: &str) -> Result<Value, Reply> {
    if let Some(row) = shenyu_changes::row(admin, text, DIFFERENCES_MAX) {
        return Ok(row);
    }
    let (revision, name, row) = find(admin, text).await?;
    let paths = row.below.iter().map(|(path, _)| path.as_str()).chain([row.path.as_str()]);
    if !auth::sees_registry_changes(&admin.parts.options, call)
        && paths.into_iter().any(is_of_registry)
    {
        return Err(gone(text));
    }
    let key = admin.key_of(&row.path);
    let current = admin.parts.store.get(&key).await?.map(|entry| entry.mod_revision.0);
    let mut value = summary(admin, &row, &name, revision);
    let (before, after) = sides(admin, &row);
    value["differences"] = differences::between(&before, &after, DIFFERENCES_MAX).into();
    value["before"] = before;
    value["after"] = after;
    // For an import, `before` contains all objects, also those in `below`.
    let below = row.below.iter().filter(|_| row.path != IMPORTED);
    value["below"] = below.map(|(path, _)| path.as_str()).collect();
    value["current_revision"] = current.into();
    value["is_newest"] = (current == row.after.as_ref().map(|_| revision.0)).into();
    value["undo_refused"] = undo::reason_against(&row).into();
    Ok(value)
}

/// Undoes a change, or with `dry_run` reports whether it could be undone.
pub(super) async fn undo(admin: &Admin, call: &Call, text: &str) -> Result<Reply, Reply> {
    if shenyu_changes::row(admin, text, 0).is_some() {
        return Err(Reply::refusal(StatusCode::CONFLICT, shenyu_changes::NO_UNDO));
    }
    let (revision, name, row) = find(admin, text).await?;
    let undoing = if call.arguments.is("dry_run", "true") { Undoing::Try } else { Undoing::Write };
    undo::run(admin, call, &Change { row: &row, name: &name, revision }, undoing).await
}

fn is_of_registry(path: &str) -> bool {
    path.starts_with("registry/")
}

fn gone(change: &str) -> Reply {
    let text = format!("no change {change} is kept; there is room for {ROWS_MAX}");
    Reply::refusal(StatusCode::NOT_FOUND, text)
}

async fn find(admin: &Admin, text: &str) -> Result<(Revision, String, ChangeRow), Reply> {
    admin.index.catch_up().await?;
    let rows = admin.index.contents().changes().find(text).map(|(at, name)| (at, name.to_owned()));
    let (revision, name) = rows.ok_or_else(|| gone(text))?;
    let row = read(admin, &name).await?.ok_or_else(|| gone(text))?;
    Ok((revision, name, row))
}

async fn read(admin: &Admin, name: &str) -> Result<Option<ChangeRow>, Reply> {
    let key = admin.key_of(&format!("{}{name}", change_row::FOLDER));
    let entry = admin.parts.store.get(&key).await?;
    Ok(entry.and_then(|entry| ChangeRow::parse(&entry.value)))
}

fn summary(admin: &Admin, row: &ChangeRow, name: &str, revision: Revision) -> Value {
    let (kind, id) = row.path.split_once('/').unwrap_or((&row.path, ""));
    let (before, after) = sides(admin, row);
    let both = !before.is_null() && !after.is_null();
    let differences = if both {
        // One difference more than the limit is requested, to detect that there are more.
        differences::between(&before, &after, DIFFERENCES_LISTED + 1)
    } else {
        Vec::new()
    };
    let more = differences.len() > DIFFERENCES_LISTED;
    let listed: Vec<Value> = differences.into_iter().take(DIFFERENCES_LISTED).collect();
    json!({
        "name": name,
        "revision": revision.0,
        "at_ms": row.at_ms,
        "actor": row.actor,
        "way": row.way.name(),
        "deed": row.deed.name(),
        "kind": kind,
        "id": id,
        "title": title(if after.is_null() { &before } else { &after }),
        "differences": listed,
        "has_more": more,
        "is_cut": row.is_cut,
        "undoes": row.undoes,
    })
}

/// Maximum number of objects that the title of a change names.
const TITLES_MAX: usize = 3;

/// Returns the name or path of an object, or the address and service of an instance, so that lists
/// need not show generated ids. For several objects by path, returns the first titles.
pub(super) fn title(object: &Value) -> Option<String> {
    let text = |name: &str| object.get(name)?.as_str().filter(|text| !text.is_empty());
    if let (Some(service), Some(host), Some(port)) =
        (text("service"), text("host"), object.get("port").and_then(Value::as_u64))
    {
        return Some(format!("{service} {}", host_and_port(host, port)));
    }
    if let Some(name) = text("name").or_else(|| text("uri")) {
        return Some(name.to_owned());
    }
    let members = object.as_object().filter(|all| all.keys().all(|path| path.contains('/')))?;
    let mut titles: Vec<String> = members.values().filter_map(title).take(TITLES_MAX).collect();
    if titles.is_empty() {
        return None;
    }
    if members.len() > titles.len() {
        titles.push("…".to_owned());
    }
    Some(titles.join(", "))
}

fn host_and_port(host: &str, port: u64) -> String {
    if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
}

/// Returns the object before and after the change, with secrets sealed. For an import, both are
/// maps from path to object.
fn sides(admin: &Admin, row: &ChangeRow) -> (Value, Value) {
    if row.path != IMPORTED || row.is_cut {
        let side = |stored: &Option<String>| visible_object(admin, &row.path, stored.as_deref());
        return (side(&row.before), side(&row.after));
    }
    let before = row.below.iter();
    let before = before
        .map(|(path, text)| (path.clone(), visible_object(admin, path, Some(text))))
        .collect();
    let after: Value =
        row.after.as_deref().and_then(|it| serde_json::from_str(it).ok()).unwrap_or_default();
    let after =
        after.as_object().into_iter().flatten().map(|(path, value)| {
            (path.clone(), visible_object(admin, path, Some(&value.to_string())))
        });
    (before, after.collect())
}

/// Returns the object with its secrets sealed; `null` if it did not exist.
fn visible_object(admin: &Admin, path: &str, stored: Option<&str>) -> Value {
    let Some(mut value) = stored.and_then(|text| serde_json::from_str(text).ok()) else {
        return Value::Null;
    };
    encrypt::reveal(path, &mut value, &admin.parts, Role::Viewer);
    value
}
