//! Who changed what lately, as ShenYu's home page shows it: the newest changes, kept in the store beside what
//! they changed.

use axum::http::Method;
use serde_json::{Value, json};

use crate::clock;
use crate::draft::Draft;
use crate::row::{self, Row};
use crate::table::Table;
use crate::tables::Tables;

/// Records that are kept, the newest ones.
const RECORDS_MAX: usize = 500;

/// Characters of a path that are kept.
const PATH_CHARACTERS_MAX: usize = 200;

/// Records of the home page.
const RECENT: usize = 12;

/// What is written of a change.
pub(crate) fn record(user: &str, method: &Method, segments: &[&str]) -> Row {
    let (first, rest) = segments.split_first().unwrap_or((&"", &[]));
    let verb = match (method, rest) {
        (&Method::DELETE, _) | (_, ["batchDelete" | "batchDeleted"]) => "DELETE",
        (&Method::POST, [] | ["apply" | "addProxySelector"]) => "CREATE",
        _ => "UPDATE",
    };
    let path: String = segments.join("/").chars().take(PATH_CHARACTERS_MAX).collect();
    let noun = first.replace('-', "_").to_uppercase();
    let mut record = Row::new();
    for (member, value) in [
        ("id", json!(clock::new_id())),
        ("operator", json!(user)),
        ("operationType", json!(format!("{noun}_{verb}"))),
        ("context", json!(format!("{method} /{path}"))),
        ("operationTime", json!(clock::now_text())),
    ] {
        record.insert(member.to_owned(), value);
    }
    record
}

/// Keeps a record; the oldest goes where there are too many.
pub(crate) fn put(draft: &mut Draft<'_>, record: &Row) {
    let kept = draft.find_all(Table::Record, |_| true);
    // Ids rise with time, but not within a millisecond.
    let number = |id: &str| id.parse::<u64>().unwrap_or_default();
    let last = kept.last().map_or(0, |(id, _)| number(id));
    let own = row::text(record, "id").unwrap_or_default();
    let id = number(&own).max(last.saturating_add(1)).to_string();
    let mut record = record.clone();
    record.insert("id".to_owned(), id.clone().into());
    draft.put(Table::Record, &id, record);
    for (id, _) in kept.iter().take((kept.len() + 1).saturating_sub(RECORDS_MAX)) {
        draft.delete(Table::Record, id);
    }
}

/// The newest records, the newest first.
pub(crate) fn recent(tables: &Tables) -> Vec<Value> {
    search(tables, "").into_iter().take(RECENT).collect()
}

/// All records that mention a text, the newest first.
pub(crate) fn search(tables: &Tables, text: &str) -> Vec<Value> {
    let mentions = |row: &Row| {
        let members = ["context", "operator", "operationType"];
        members.iter().any(|member| row::text(row, member).is_some_and(|it| it.contains(text)))
    };
    let view = |row: &Row| {
        let mut view = row.clone();
        view.insert("color".to_owned(), "#409EFF".into());
        view.insert("before".to_owned(), Value::Null);
        view.insert("after".to_owned(), Value::Null);
        Value::Object(view)
    };
    let rows = tables.rows(Table::Record).map(|(_, row)| row);
    let mut found: Vec<Value> = rows.filter(|row| mentions(row)).map(|row| view(row)).collect();
    found.reverse();
    found
}

/// Drops those before a time, `yyyy-MM-dd HH:mm:ss`; how many that were.
pub(crate) fn drop_before(draft: &mut Draft<'_>, time: &str) -> usize {
    let is_old = |row: &Row| row::text(row, "operationTime").is_some_and(|at| at.as_str() < time);
    let old = draft.find_all(Table::Record, is_old);
    for (id, _) in &old {
        draft.delete(Table::Record, id);
    }
    old.len()
}
