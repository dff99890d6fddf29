//! Access to ShenYu's objects from the gateway's own console and Admin API: ShenYu's interface, but
//! for the owner of a gateway key rather than a user, and without the calls that only ShenYu's
//! console needs. Also lists recent changes.

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

/// Resources that may be read and written.
const WRITTEN: &[&str] = &["plugin", "selector", "rule", "meta-data", "appAuth"];

/// Resources that may only be read.
const READ: &[&str] = &["namespace", "shenyu-dict", "plugin-handle"];

/// Number of random bits in a record's id. The bits above them are its creation time in
/// milliseconds.
const CHANCE_BITS: u32 = 22;

/// Caller who presented a key of the gateway's Admin API.
#[derive(Debug, Clone)]
pub struct Operator {
    /// Name of the caller's key.
    pub name: String,
    /// Whether answers to this caller contain secrets.
    pub sees_secrets: bool,
}

/// Parsed request of such a caller.
#[derive(Debug)]
pub struct Asked<'a> {
    pub method: Method,
    /// Path segments, percent-decoded.
    pub segments: &'a [&'a str],
    pub arguments: Vec<(String, String)>,
    /// Body as JSON; `null` if the body is empty.
    pub body: Value,
}

/// Change of an operator, as recorded in the store.
#[derive(Debug, Clone)]
pub struct Recorded {
    pub id: String,
    /// Revision of the commit that made the change.
    pub revision: u64,
    /// Time of the change in milliseconds since 1970.
    pub at_ms: u64,
    /// Name of the user or key that made the change.
    pub operator: String,
    /// Interface that the call used: `shenyu`, `console` or `local`.
    pub way: String,
    /// Method and path of the call.
    pub context: String,
    /// Kind of the change: `create`, `replace` or `delete`.
    pub deed: String,
    /// First object that was changed; empty if unknown.
    pub object: String,
}

impl ShenyuAdmin {
    /// Answers a call of an operator whose key has been checked. Returns the HTTP status with the
    /// data or an error text.
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

    /// Lists the recorded changes, newest first.
    pub fn recorded(&self) -> Vec<Recorded> {
        let tables = self.book.read();
        let rows: Vec<&str> = tables.rows(Table::Record).map(|(id, _)| id).collect();
        let found = rows.into_iter().rev();
        found.filter_map(|id| Some(recorded(id, tables.get(Table::Record, id)?))).collect()
    }

    /// Returns a recorded change with its details: `rows`, each with `object`, `name`, `deed`,
    /// `before` and `after`, then `more` and `is_cut`. The details are `null` if none were
    /// recorded.
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

/// Maps ShenYu's code to the corresponding HTTP status.
fn status(refusal: &Refusal) -> u16 {
    match refusal.code() {
        404 => 404,
        601 => 403,
        _ => 400,
    }
}
