//! Heads written by the gateway: requests to nodes and responses to clients.
//!
//! Unchanged header lines are copied in runs from the bytes they were read from. Only the gateway's
//! own lines (`Host`, forwarding headers, framing, `Server`) are written anew. Every written
//! element was checked by `tollhouse-http`; no unchecked bytes are appended.

pub(crate) mod request;
pub(crate) mod response;
mod status;
pub(crate) mod text;

use tollhouse_http::HeadWriter;
use tollhouse_http::element::{FieldName, FieldValue};

pub(crate) use status::reason;

const CONNECTION: FieldName<'_> = FieldName::literal("Connection");

/// Writes `Upgrade` and `Connection` for a switch to another protocol.
fn write_switch(out: &mut HeadWriter<'_>, protocol: FieldValue<'_>) {
    const UPGRADE: FieldName<'_> = FieldName::literal("Upgrade");
    out.field(UPGRADE, protocol).field(CONNECTION, FieldValue::literal("upgrade"));
}
