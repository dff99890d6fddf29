//! What a connection of HTTP/2 may do and hold here: the codec's bounds with the gateway's own put in.

use tollhouse_h2::{FaultScope, Limits, Rate};
use tollhouse_http::HeadLimits;

use crate::settings;

/// Bytes that each line of a head counts in HTTP/1.1 beside its name and value.
const LINE_OVERHEAD_BYTES: usize = 4;

/// Bounds of a client's connection.
pub(super) fn for_clients(limits: &settings::Limits) -> Limits {
    Limits {
        concurrent_streams: limits.http2_streams,
        // Counted as resets of the client: the stream's work stops, and its place is taken until then.
        faults: FaultScope::Stream,
        connect_protocol: true,
        ..for_heads(&limits.head)
    }
}

/// Bounds of a connection to a node.
pub(super) fn for_nodes() -> Limits {
    Limits {
        faults: FaultScope::Stream,
        // Each ends a stream that was opened for a client: a node may end all of them.
        resets: Rate { burst: u32::MAX, per_second: u32::MAX },
        ..for_heads(&settings::RESPONSE_HEAD)
    }
}

/// The codec's own bounds where heads are bounded like that: counted with 32 bytes a field here, and
/// with four in a head. What is refused as too long is for the parser to say, which answers with its
/// own code; here is what may be held for it.
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
