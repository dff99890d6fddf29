//! Limits of HTTP/2 connections: the codec's defaults with the gateway's settings.

use tollhouse_h2::{FaultScope, Limits, Rate};
use tollhouse_http::HeadLimits;

use crate::settings;

/// Bytes that HTTP/1.1 counts per header line beside name and value.
const LINE_OVERHEAD_BYTES: usize = 4;

/// Returns the codec limits for connections of clients.
pub(super) fn for_clients(limits: &settings::Limits) -> Limits {
    Limits {
        concurrent_streams: limits.http2_streams,
        // A stream fault counts as a client's reset: the stream's work stops, and it occupies its
        // place until then.
        faults: FaultScope::Stream,
        connect_protocol: true,
        ..for_heads(&limits.head)
    }
}

/// Limits of a connection to a node.
pub(super) fn for_nodes() -> Limits {
    Limits {
        faults: FaultScope::Stream,
        // Unlimited, because a reset only ends a stream that was opened for a client, and a node
        // may reset all of them.
        resets: Rate { burst: u32::MAX, per_second: u32::MAX },
        ..for_heads(&settings::RESPONSE_HEAD)
    }
}

/// Returns the codec limits that admit any head within `head`. HTTP/2 counts 32 bytes of overhead
/// per field, HTTP/1.1 four. The codec's limits only bound memory; the HTTP/1.1 parser refuses a
/// head that is too long and reports the precise error code.
fn for_heads(head: &HeadLimits) -> Limits {
    let codec = Limits::default();
    let overhead =
        head.header_count * (tollhouse_h2::hpack::FIELD_OVERHEAD_BYTES - LINE_OVERHEAD_BYTES);
    let list_bytes = u32::try_from(head.head_bytes() + overhead).unwrap_or(u32::MAX);
    Limits {
        header_list_bytes: list_bytes.max(codec.header_list_bytes),
        header_fields: codec
            .header_fields
            .max(u32::try_from(head.header_count).unwrap_or(u32::MAX)),
        ..codec
    }
}
