//! Registration of services: methods become selectors, rules and metadata; addresses become
//! upstreams. Clients in five languages write the members of a registration differently, and all of
//! these forms are accepted.

mod objects;

use axum::response::{IntoResponse, Response};
use serde_json::Value;

use crate::admin::ShenyuAdmin;
use crate::answer::{Outcome, Refusal, success};
use crate::api::documents;
use crate::call::Call;
use crate::draft::Draft;
use crate::local_discovery::check_source;
use crate::row::{self, Row};
use tollhouse_shenyu::model::DEFAULT_NAMESPACE;

/// Maximum number of registrations in one body; Java's clients of version 2.4 send lists.
const REGISTRATIONS_MAX: usize = 1_000;

/// Maximum number of namespaces that one registration may name.
const NAMESPACES_MAX: usize = 32;

/// Answers `/shenyu-client/<what>` with `success` in plain text, once the registration is stored.
pub(crate) async fn answer(admin: &ShenyuAdmin, what: &str, call: &Call) -> Response {
    let kind = match what {
        "register-metadata" => Registration::Method,
        "register-uri" => Registration::Address,
        "offline" => Registration::Offline,
        "register-apiDoc" => {
            let stored = match call.object() {
                Ok(body) => documents::register(admin, body).await,
                Err(refusal) => Err(refusal),
            };
            return match stored {
                Ok(_) => "success".into_response(),
                Err(refusal) => refusal.into_response(),
            };
        }
        "register-mcp" => {
            let reason =
                "the plugin `mcpServer` is not built into this gateway: no tool is registered";
            return Refusal::error(reason).into_response();
        }
        "register-discoveryConfig" => {
            return match check_source(call.body.as_object()) {
                Ok(()) => "success".into_response(),
                Err(refusal) => refusal.into_response(),
            };
        }
        _ => return Refusal::not_found("there is no such registration").into_response(),
    };
    match register(admin, kind, &call.body).await {
        // Clients compare the body with this word.
        Ok(success) => (success.warnings.header(), "success").into_response(),
        Err(refusal) => refusal.into_response(),
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Registration {
    Method,
    Address,
    Offline,
}

async fn register(admin: &ShenyuAdmin, kind: Registration, body: &Value) -> Outcome {
    let rows: Vec<Row> = match body {
        Value::Array(rows) => rows.iter().filter_map(Value::as_object).cloned().collect(),
        Value::Object(row) => vec![row.clone()],
        _ => Vec::new(),
    };
    if rows.is_empty() || rows.len() > REGISTRATIONS_MAX {
        return Err(Refusal::invalid("body", "expected what is registered, as a JSON object"));
    }
    if kind == Registration::Address {
        rows.iter().try_for_each(|row| Event::read(row).map(drop))?;
    }
    if kind == Registration::Address
        && rows.iter().all(|row| objects::is_known(&admin.book.read(), row))
    {
        // Usually a heartbeat of a known address, which needs no write.
        return success("", Value::Null);
    }
    admin
        .book
        .write(move |draft| {
            for row in &rows {
                for namespace in namespaces(row) {
                    register_one(draft, kind, row, &namespace)?;
                }
            }
            success("", Value::Null)
        })
        .await
}

/// Returns the namespaces of a registration. Go's client joins several with `;`.
fn namespaces(row: &Row) -> Vec<String> {
    let text = row::filled(row, "namespaceId").unwrap_or_else(|| DEFAULT_NAMESPACE.to_owned());
    let names = text.split(';').map(str::trim).filter(|name| !name.is_empty());
    names.take(NAMESPACES_MAX).map(str::to_owned).collect()
}

fn register_one(
    draft: &mut Draft<'_>,
    kind: Registration,
    row: &Row,
    namespace: &str,
) -> Result<(), Refusal> {
    match kind {
        Registration::Method => objects::put_method(draft, row, namespace),
        Registration::Offline => objects::remove_address(draft, row, namespace),
        Registration::Address => match Event::read(row)? {
            Event::Gone => objects::remove_address(draft, row, namespace),
            Event::Ignored => Ok(()),
            Event::There => objects::put_address(draft, row, namespace),
        },
    }
}

/// Effect of a registration on an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Event {
    There,
    Gone,
    Ignored,
}

impl Event {
    /// Reads the event of a registration; without one the address is added.
    ///
    /// # Errors
    ///
    /// If the event is not one of ShenYu's. ShenYu refuses it too.
    fn read(row: &Row) -> Result<Self, Refusal> {
        match row::filled(row, "eventType").as_deref() {
            None | Some("REGISTER" | "UPDATED" | "HEARTBEAT") => Ok(Self::There),
            Some("OFFLINE" | "DELETED") => Ok(Self::Gone),
            Some("IGNORED") => Ok(Self::Ignored),
            Some(_) => Err(Refusal::invalid(
                "eventType",
                "must be one of REGISTER, UPDATED, DELETED, IGNORED, OFFLINE, HEARTBEAT",
            )),
        }
    }
}
