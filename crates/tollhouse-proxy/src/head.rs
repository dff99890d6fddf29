//! The heads that leave the gateway: requests to nodes, responses to clients.
//!
//! Header lines that pass unchanged are copied in runs, straight from the bytes they were read
//! from; only what the gateway owns (`Host`, forwarding headers, framing, `Server`) is written.
//! Whatever is written is an element that `tollhouse-http` has checked: nothing here appends bare
//! bytes.

pub(crate) mod request;
pub(crate) mod response;
mod status;
pub(crate) mod text;

use tollhouse_http::HeadWriter;
use tollhouse_http::element::{FieldName, FieldValue};

pub(crate) use status::reason;

const CONNECTION: FieldName<'_> = FieldName::literal("Connection");

/// Writes the two lines of a switch to another protocol.
fn write_switch(out: &mut HeadWriter<'_>, protocol: FieldValue<'_>) {
    const UPGRADE: FieldName<'_> = FieldName::literal("Upgrade");
    out.field(UPGRADE, protocol).field(CONNECTION, FieldValue::literal("upgrade"));
}
