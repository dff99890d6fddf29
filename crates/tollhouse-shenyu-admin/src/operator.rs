//! Access to ShenYu's objects from the gateway's own console and Admin API: ShenYu's interface, but
//! for the owner of a gateway key rather than a user, and without the calls that only ShenYu's
//! console needs. Also lists recent changes.

use axum::http::Method;
use serde_json::{Value, json};

use crate::admin::{Caller, Session, ShenyuAdmin};
use crate::answer::Refusal;
use crate::api;
use crate::call::Call;
use crate::query::Arguments;
use crate::records::Interface;
use crate::rights::Rights;
use crate::row::{self, Row};
use crate::table::Table;
use crate::tables::StoredRow;
use crate::warnings::WARNINGS;

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

/// Parsed request of an [`Operator`].
#[derive(Debug)]
pub struct OperatorRequest<'a> {
    pub method: Method,
    /// Path segments, percent-decoded.
    pub segments: &'a [&'a str],
    pub arguments: Vec<(String, String)>,
    /// Body as JSON; `null` if the body is empty.
    pub body: Value,
}

/// Change of an operator, as recorded in the store.
#[derive(Debug, Clone)]
pub struct ChangeRecord {
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
    pub async fn call_as(&self, operator: &Operator, request: OperatorRequest<'_>) -> (u16, Value) {
        let first = request.segments.first().copied().unwrap_or_default();
        let reads = request.method == Method::GET && !request.segments.ends_with(&["updateSk"]);
        let is_open = WRITTEN.contains(&first) || (READ.contains(&first) && reads);
        if !is_open {
            return (404, json!({"error_msg": "there is no such path here"}));
        }
        let mut user = Row::new();
        user.insert("userName".to_owned(), operator.name.as_str().into());
        let rights = if operator.sees_secrets { Rights::everything() } else { Rights::default() };
        let caller = Caller { user: user.into(), rights };
        let OperatorRequest { method, segments, arguments, body } = request;
        let arguments = Arguments::from_pairs(arguments);
        let call = Call { method, arguments, body, file: None, _reservation: None };
        let session = Session { admin: self, caller: &caller };
        match api::answer_noted(session, segments, &call, Interface::Console).await {
            Ok(success) => {
                let mut answer = json!({"message": success.message, "data": success.data});
                if !success.warnings.is_empty() {
                    answer[WARNINGS] = success.warnings.into_json();
                }
                (200, answer)
            }
            Err(refusal) => (status(&refusal), json!({"error_msg": refusal.message()})),
        }
    }

    /// Lists the recorded changes, newest first.
    pub fn change_records(&self) -> Vec<ChangeRecord> {
        let tables = self.book.read();
        let rows: Vec<&str> = tables.rows(Table::Record).map(|(id, _)| id).collect();
        let newest_first = rows.into_iter().rev();
        newest_first
            .filter_map(|id| Some(change_record(id, tables.get(Table::Record, id)?)))
            .collect()
    }

    /// Returns a recorded change with its details, or `null` details if none were recorded. `rows`
    /// lists the changed objects: `object`, `name`, `deed` (`create`, `replace` or `delete`),
    /// `before`, `after` and `has_other_secrets`. `more` is the number of rows left out; `is_cut`
    /// tells whether `before` and `after` were left out of large rows.
    pub fn change_record_in_full(&self, id: &str) -> Option<(ChangeRecord, Value)> {
        let tables = self.book.read();
        let stored = tables.get(Table::Record, id)?;
        Some((change_record(id, stored), stored.row.get("changes").cloned().unwrap_or_default()))
    }
}

fn change_record(id: &str, stored: &StoredRow) -> ChangeRecord {
    let text = |member| row::text(&stored.row, member).unwrap_or_default();
    let first = stored.row.get("changes").and_then(|changes| changes["rows"].get(0));
    let first = |member: &str| {
        let text = first.and_then(|first| first[member].as_str());
        text.unwrap_or_default().to_owned()
    };
    ChangeRecord {
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
