//! What is kept: an answer, and by which request headers answers to one key differ.

use std::sync::Arc;

use bytes::Bytes;
use tollhouse_plugin::ResponseContext;
use tollhouse_stdx::Reservation;

/// Bytes that a kept answer costs besides its texts: its place in the tables, and what an
/// allocator adds to a dozen small pieces.
const OVERHEAD_BYTES: u64 = 512;
/// Bytes that a header line costs besides its texts: two allocations and their addresses.
const LINE_OVERHEAD_BYTES: u64 = 64;

/// Header lines that belong to a connection, to the gateway, or to one answer alone.
const NOT_KEPT: [&str; 14] = [
    "age",
    "apisix-cache-status",
    "connection",
    "content-length",
    "date",
    "keep-alive",
    "proxy-authenticate",
    "proxy-authorization",
    "proxy-connection",
    "server",
    "te",
    "trailers",
    "transfer-encoding",
    "upgrade",
];

/// Counters of limiters are of the request that was counted.
const COUNTER_PART: &str = "ratelimit-remaining";

/// An answer that is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Stored {
    pub status: u16,
    pub headers: Vec<(Box<str>, Box<[u8]>)>,
    pub body: Bytes,
    /// What the node said of the length of a body that was not sent, since the request was HEAD.
    pub left_out_bytes: Option<u64>,
    pub stored_unix_ms: u64,
    pub ttl_ms: u64,
}

impl Stored {
    pub fn age_ms(&self, now_ms: u64) -> u64 {
        now_ms.saturating_sub(self.stored_unix_ms)
    }

    pub fn is_expired(&self, now_ms: u64) -> bool {
        self.age_ms(now_ms) > self.ttl_ms
    }

    /// What it costs to keep.
    pub fn bytes(&self) -> u64 {
        let headers = self.headers.iter().map(|(name, value)| name.len() + value.len());
        let lines = self.headers.len() as u64 * LINE_OVERHEAD_BYTES;
        (headers.sum::<usize>() + self.body.len()) as u64 + lines + OVERHEAD_BYTES
    }
}

/// A body, and the memory that it takes of the process's budget for as long as anybody holds it: a
/// zone, or a client that it is being sent to.
struct Held {
    body: Vec<u8>,
    _reservation: Reservation,
}

impl AsRef<[u8]> for Held {
    fn as_ref(&self) -> &[u8] {
        &self.body
    }
}

/// Makes a body that can be shared, and that gives back its memory with the last of its holders.
pub(super) fn shared_body(body: Vec<u8>, reservation: Reservation) -> Bytes {
    Bytes::from_owner(Held { body, _reservation: reservation })
}

/// By which request headers the answers to a key differ.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct VaryIndex {
    /// Lower-cased, sorted.
    pub names: Vec<String>,
    /// Tells variants kept under this index from those of an earlier one.
    pub generation: u64,
}

/// What a look-up comes to.
#[derive(Debug, Clone)]
pub(super) enum Found {
    /// An answer, fresh or not; on the disk, with the index that led to it.
    Stored(Arc<Stored>, Option<VaryIndex>),
    /// None; on the disk, with the index that there is.
    Nothing(Option<VaryIndex>),
}

/// `Cache-Control` and `Expires`.
pub(super) fn is_cache_header(name: &str) -> bool {
    name.eq_ignore_ascii_case("cache-control") || name.eq_ignore_ascii_case("expires")
}

/// The names in `Vary`; `None` when the answer fits no other request.
pub(super) fn vary_names(cx: &ResponseContext<'_>) -> Option<Vec<String>> {
    let mut names = Vec::new();
    cx.each_header(&mut |name, value| {
        if name.eq_ignore_ascii_case(b"vary") {
            let text = String::from_utf8_lossy(value).to_ascii_lowercase();
            names.extend(text.split(',').map(|name| name.trim().to_owned()));
        }
    });
    names.retain(|name| !name.is_empty());
    names.sort();
    names.dedup();
    (!names.iter().any(|name| name == "*")).then_some(names)
}

/// The header lines to keep.
pub(super) fn kept_headers(cx: &ResponseContext<'_>) -> Vec<(Box<str>, Box<[u8]>)> {
    let mut kept = Vec::new();
    cx.each_header(&mut |name, value| {
        let name = String::from_utf8_lossy(name);
        let lower = name.to_ascii_lowercase();
        if !NOT_KEPT.contains(&lower.as_str()) && !lower.contains(COUNTER_PART) {
            kept.push((name.into(), value.into()));
        }
    });
    kept
}
