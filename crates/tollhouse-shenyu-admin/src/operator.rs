//! Calls of the gateway's own console and Admin API to ShenYu's objects: the same interface, for who has a key of the
//! gateway in place of a user, without what only ShenYu's own console has. And what was changed lately.

use axum::http::Method;
use serde_json::{Value, json};

use crate::admin::{Caller, ShenyuAdmin};
use crate::answer::Refusal;
use crate::api;
use crate::call::Call;
use crate::query::Arguments;
use crate::records::Way;
use crate::rights::Rights;
use crate::row::{self, Row};
use crate::table::Table;
use crate::tables::Stored;

/// Resources that are read and written.
const WRITTEN: &[&str] = &["plugin", "selector", "rule", "meta-data", "appAuth"];

/// Resources that are read.
const READ: &[&str] = &["namespace", "shenyu-dict", "plugin-handle"];

/// Bits of a record's id that are chance; above them stands when it was made.
const CHANCE_BITS: u32 = 22;

/// Who calls.
#[derive(Debug, Clone)]
pub struct Operator {
    /// The name of the key.
    pub name: String,
    /// Whether secrets are told.
    pub sees_secrets: bool,
}

/// What is asked.
#[derive(Debug)]
pub struct Asked<'a> {
    /// The method.
    pub method: Method,
    /// The path, taken apart and decoded.
    pub segments: &'a [&'a str],
    /// The arguments of the query.
    pub arguments: Vec<(String, String)>,
    /// The body; `null` where there is none.
    pub body: Value,
}

/// A change that was made lately.
#[derive(Debug, Clone)]
pub struct Recorded {
    /// What it is called.
    pub id: String,
    /// The commit that made it.
    pub revision: u64,
    /// When, in milliseconds of Unix time.
    pub at_ms: u64,
    /// Who made it.
    pub operator: String,
    /// By which way: `shenyu`, `console` or `local`.
    pub way: String,
    /// The call.
    pub context: String,
    /// What was done: `create`, `replace` or `delete`.
    pub deed: String,
    /// The first object that was changed; blank where that is not known.
    pub object: String,
}

impl ShenyuAdmin {
    /// Answers a call of somebody whose key was checked: the status of HTTP, and `data` or an error's text.
    pub async fn call_as(&self, operator: &Operator, asked: Asked<'_>) -> (u16, Value) {
        let first = asked.segments.first().copied().unwrap_or_default();
        let reads = asked.method == Method::GET && !asked.segments.ends_with(&["updateSk"]);
        let is_open = WRITTEN.contains(&first) || (READ.contains(&first) && reads);
        if !is_open {
            return (404, json!({"error_msg": "there is no such path here"}));
        }
        let mut user = Row::new();
        user.insert("userName".to_owned(), operator.name.as_str().into());
        let rights = if operator.sees_secrets { Rights::everything() } else { Rights::default() };
        let caller = Caller { user: user.into(), rights };
        let Asked { method, segments, arguments, body } = asked;
        let arguments = Arguments::from_pairs(arguments);
        let call = Call { method, arguments, body, file: None, _held: None };
        match api::answer_noted((self, &caller), segments, &call, Way::Console).await {
            Ok(success) => (200, json!({"message": success.message, "data": success.data})),
            Err(refusal) => (status(&refusal), json!({"error_msg": refusal.message()})),
        }
    }

    /// The changes that were made lately, the newest first.
    pub fn recorded(&self) -> Vec<Recorded> {
        let tables = self.book.read();
        let rows: Vec<&str> = tables.rows(Table::Record).map(|(id, _)| id).collect();
        let found = rows.into_iter().rev();
        found.filter_map(|id| Some(recorded(id, tables.get(Table::Record, id)?))).collect()
    }

    /// One of them, with what it has changed: `rows`, each with `object`, `name`, `deed`, `before` and `after`; `more`
    /// and `is_cut`. `null` where nothing is known of that.
    pub fn recorded_in_full(&self, id: &str) -> Option<(Recorded, Value)> {
        let tables = self.book.read();
        let stored = tables.get(Table::Record, id)?;
        Some((recorded(id, stored), stored.row.get("changes").cloned().unwrap_or_default()))
    }
}

fn recorded(id: &str, stored: &Stored) -> Recorded {
    let text = |member| row::text(&stored.row, member).unwrap_or_default();
    let first = stored.row.get("changes").and_then(|changes| changes["rows"].get(0));
    let first = |member: &str| {
        let found = first.and_then(|first| first[member].as_str());
        found.unwrap_or_default().to_owned()
    };
    Recorded {
        id: id.to_owned(),
        revision: stored.revision.0,
        at_ms: id.parse::<u64>().unwrap_or_default() >> CHANCE_BITS,
        operator: text("operator"),
        way: row::filled(&stored.row, "way").unwrap_or_else(|| "shenyu".to_owned()),
        context: text("context"),
        deed: first("deed"),
        object: first("object"),
    }
}

/// The status of HTTP that says what ShenYu says in its wrapper.
fn status(refusal: &Refusal) -> u16 {
    match refusal.code() {
        404 => 404,
        601 => 403,
        _ => 400,
    }
}
