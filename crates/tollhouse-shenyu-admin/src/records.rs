//! Log of recent changes and their authors, shown on ShenYu's home page and in the console. Each
//! record is stored by the commit that makes the change. It contains the rows before and after,
//! with secrets masked.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};

use axum::http::Method;
use serde_json::{Value, json};
use tollhouse_shenyu::sealing::{COVER, cover};

use crate::clock;
use crate::draft::{Draft, DraftChange};
use crate::row::{self, Row};
use crate::table::Table;
use crate::tables::Tables;

/// Maximum number of records; older ones are deleted.
const RECORDS_MAX: usize = 500;

/// Maximum number of characters of a path that are recorded.
const PATH_CHARACTERS_MAX: usize = 200;

/// Maximum number of rows listed in a record; the rest are only counted. An import changes
/// thousands.
const ROWS_MAX: usize = 20;

/// Maximum size of row contents in a record in bytes, so that all records together take some
/// megabytes. Beyond it only names are recorded.
const BODIES_BYTES_MAX: usize = 16 << 10;

/// Number of records on the home page.
const RECENT: usize = 12;

/// Interface that a call arrived through.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Interface {
    /// ShenYu's admin interface.
    Admin,
    /// The gateway's console or Admin API.
    Console,
    /// The gateway's own interface on the data plane.
    Local,
}

impl Interface {
    const fn name(self) -> &'static str {
        match self {
            Self::Admin => "shenyu",
            Self::Console => "console",
            Self::Local => "local",
        }
    }
}

/// Author and description of a call.
pub(crate) struct Author {
    operator: String,
    way: Interface,
    kind: String,
    context: String,
    is_noted: AtomicBool,
}

impl Author {
    /// Describes a call to this path.
    pub(crate) fn new(operator: &str, way: Interface, method: &Method, segments: &[&str]) -> Self {
        let (first, rest) = segments.split_first().unwrap_or((&"", &[]));
        let verb = match (method, rest) {
            (&Method::DELETE, _) | (_, ["batchDelete" | "batchDeleted"]) => "DELETE",
            (&Method::POST, [] | ["apply" | "addProxySelector"]) => "CREATE",
            _ => "UPDATE",
        };
        let path: String = segments.join("/").chars().take(PATH_CHARACTERS_MAX).collect();
        let noun = first.replace('-', "_").to_uppercase();
        Self {
            operator: operator.to_owned(),
            way,
            kind: format!("{noun}_{verb}"),
            context: format!("{method} /{path}"),
            is_noted: AtomicBool::new(false),
        }
    }

    /// Whether the call's changes have been recorded.
    pub(crate) fn is_noted(&self) -> bool {
        self.is_noted.load(Ordering::Acquire)
    }

    /// Creates the record of the call with its changes.
    pub(crate) fn record(&self, changes: Option<Value>) -> Row {
        let mut record = Row::new();
        for (member, value) in [
            ("id", json!(clock::new_id())),
            ("operator", json!(self.operator)),
            ("operationType", json!(self.kind)),
            ("context", json!(self.context)),
            ("operationTime", json!(clock::now_text())),
            ("way", json!(self.way.name())),
            ("changes", changes.unwrap_or(Value::Null)),
        ] {
            record.insert(member.to_owned(), value);
        }
        record
    }
}

/// Records the changes of a call in its draft. Does nothing if the call changed nothing.
pub(crate) fn note(draft: &mut Draft<'_>, author: &Author) {
    let Some(changes) = changes_of_call(draft) else { return };
    put(draft, author.record(Some(changes)));
    author.is_noted.store(true, Ordering::Release);
}

/// Summarises the changes of a call as JSON: `rows`, at most [`ROWS_MAX`]; `more`, the number of
/// rows left out; `is_cut`, whether contents were left out because of their size. `None` if nothing
/// changed.
fn changes_of_call(draft: &Draft<'_>) -> Option<Value> {
    let is_told = |changed: &DraftChange<'_>| {
        changed.table != Table::Record && (changed.before.is_some() || changed.after.is_some())
    };
    let total = draft.changed().filter(is_told).count();
    let changes = draft.changed().filter(is_told).take(ROWS_MAX);
    let mut bytes = 0;
    let mut is_cut = false;
    let rows: Vec<Value> = changes
        .map(|changed| {
            let (before, after) = (
                without_secrets(&changed, changed.before),
                without_secrets(&changed, changed.after),
            );
            let size =
                |row: &Option<Row>| row.as_ref().map_or(0, |row| json!(row).to_string().len());
            bytes += size(&before) + size(&after);
            let mut told = json!({
                "object": format!("{}/{}", changed.table.segment(), changed.id),
                "name": name(changed.after.or(changed.before)),
                "deed": deed(&changed),
            });
            if bytes > BODIES_BYTES_MAX {
                is_cut = true;
                return told;
            }
            // Changed secrets are masked on both sides, so the masked rows look equal.
            let has_other_secrets = before == after && changed.before != changed.after;
            told["before"] = json!(before);
            told["after"] = json!(after);
            told["has_other_secrets"] = has_other_secrets.into();
            told
        })
        .collect();
    (!rows.is_empty()).then(|| json!({"more": total - rows.len(), "is_cut": is_cut, "rows": rows}))
}

const fn deed(changed: &DraftChange<'_>) -> &'static str {
    match (changed.before, changed.after) {
        (None, _) => "create",
        (_, None) => "delete",
        (Some(_), Some(_)) => "replace",
    }
}

fn name(row: Option<&Row>) -> String {
    let members = ["name", "path", "appKey", "userName", "roleName", "dictName", "field"];
    let name = row.and_then(|row| members.iter().find_map(|member| row::filled(row, member)));
    name.unwrap_or_default().chars().take(PATH_CHARACTERS_MAX).collect()
}

/// Returns a row with its secrets masked.
fn without_secrets(changed: &DraftChange<'_>, row: Option<&Row>) -> Option<Row> {
    let mut row = row?.clone();
    for member in ["appSecret", "password", "keptPassword"] {
        if row.contains_key(member) {
            row.insert(member.to_owned(), COVER.into());
        }
    }
    if changed.table == Table::Secret && row.contains_key("key") {
        row.insert("key".to_owned(), COVER.into());
    }
    for member in ["config", "handle", "props"] {
        if let Some(covered) = row::document(&row, member).and_then(|settings| cover(&settings)) {
            row.insert(member.to_owned(), covered.into());
        }
    }
    Some(row)
}

/// Stores a record and deletes the oldest ones beyond the limit.
pub(crate) fn put(draft: &mut Draft<'_>, mut record: Row) {
    let records = draft.find_all(Table::Record, |_| true);
    // Ids rise with time, but not within a millisecond, so the new id is raised above the last one.
    let number = |id: &str| id.parse::<u64>().unwrap_or_default();
    let last = records.last().map_or(0, |(id, _)| number(id));
    let own = row::text(&record, "id").unwrap_or_default();
    let id = number(&own).max(last.saturating_add(1)).to_string();
    record.insert("id".to_owned(), id.clone().into());
    draft.put(Table::Record, &id, record);
    for (id, _) in records.iter().take((records.len() + 1).saturating_sub(RECORDS_MAX)) {
        draft.delete(Table::Record, id);
    }
}

/// Returns the records for the home page, newest first.
pub(crate) fn recent(tables: &Tables) -> Vec<Value> {
    search(tables, "").into_iter().take(RECENT).collect()
}

/// Returns all records that contain a text, newest first.
pub(crate) fn search(tables: &Tables, text: &str) -> Vec<Value> {
    let mentions = |row: &Row| {
        let members = ["context", "operator", "operationType"];
        members.iter().any(|member| row::text(row, member).is_some_and(|it| it.contains(text)))
    };
    let view = |row: &Row| {
        let mut view = row.clone();
        let changes = view.remove("changes").unwrap_or_default();
        view.insert("color".to_owned(), "#409EFF".into());
        for side in ["before", "after"] {
            view.insert(side.to_owned(), side_of(&changes, side));
        }
        Value::Object(view)
    };
    let rows = tables.rows(Table::Record).map(|(_, row)| row);
    let mut views: Vec<Value> = rows.filter(|row| mentions(row)).map(|row| view(row)).collect();
    views.reverse();
    views
}

/// Returns the rows before or after all changes of a record as JSON text, the form that ShenYu's
/// console shows.
fn side_of(changes: &Value, side: &str) -> Value {
    let rows = changes["rows"].as_array().map(Vec::as_slice).unwrap_or_default();
    let views: BTreeSet<String> = rows
        .iter()
        .filter_map(|row| row.get(side).filter(|it| it.is_object()))
        .map(Value::to_string)
        .collect();
    if views.is_empty() {
        Value::Null
    } else {
        views.into_iter().collect::<Vec<_>>().join("\n").into()
    }
}

/// Deletes the records before a time, `yyyy-MM-dd HH:mm:ss`, and returns their number.
pub(crate) fn drop_before(draft: &mut Draft<'_>, time: &str) -> usize {
    let is_old = |row: &Row| row::text(row, "operationTime").is_some_and(|at| at.as_str() < time);
    let old = draft.find_all(Table::Record, is_old);
    for (id, _) in &old {
        draft.delete(Table::Record, id);
    }
    old.len()
}
