//! Items of a zone: an answer, and an index of the request headers by which answers to one key
//! differ.

use std::sync::Arc;

use bytes::Bytes;
use tollhouse_plugin::ResponseContext;
use tollhouse_plugin::answer::SharedLines;
use tollhouse_stdx::Reservation;
use tollhouse_stdx::civil::CivilTime;

use super::directives::Directives;
use super::freshness::{Life, StaleUse};

/// A header line: name and value.
pub(super) type Line = (Box<str>, Box<[u8]>);

/// Bytes that a stored answer costs besides its texts: its place in the tables, and the allocator's
/// overhead for a dozen small pieces.
const OVERHEAD_BYTES: u64 = 512;
/// Bytes that a header line costs besides its texts: two allocations and their addresses.
const LINE_OVERHEAD_BYTES: u64 = 64;

/// Header lines that belong to a connection, to the gateway, or to one answer alone.
const NOT_KEPT: [&str; 15] = [
    "age",
    "apisix-cache-status",
    "connection",
    "content-length",
    "keep-alive",
    "proxy-authenticate",
    "proxy-authentication-info",
    "proxy-authorization",
    "proxy-connection",
    "server",
    "te",
    "trailer",
    "trailers",
    "transfer-encoding",
    "upgrade",
];

/// Part of the names of limiters' counters, which belong to the counted request alone.
const COUNTER_PART: &str = "ratelimit-remaining";

/// Header lines that a 304 does not update: they describe the stored body (RFC 9111 §3.2).
const NOT_UPDATED: [&str; 4] =
    ["content-encoding", "content-length", "content-range", "transfer-encoding"];

/// Answer in the cache, with the facts for its reuse.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct CachedResponse {
    pub status: u16,
    /// Header lines, with the node's `Date` or else the time of arrival.
    pub headers: SharedLines,
    pub body: Bytes,
    /// Body length that the node named in its answer to a HEAD request, which has no body.
    pub left_out_bytes: Option<u64>,
    pub stored_unix_ms: u64,
    pub life: Life,
    pub stale_use: StaleUse,
}

impl CachedResponse {
    /// Returns the age in milliseconds since the node made the answer (RFC 9111 §4.2.3).
    pub fn age_ms(&self, now_ms: u64) -> u64 {
        self.life.age_ms.saturating_add(now_ms.saturating_sub(self.stored_unix_ms))
    }

    pub fn is_expired(&self, now_ms: u64) -> bool {
        self.age_ms(now_ms) >= self.life.ttl_ms
    }

    /// Returns the time from which the answer is no longer fresh, in milliseconds since 1970.
    pub fn expires_unix_ms(&self) -> u64 {
        let fresh_ms = self.life.ttl_ms.saturating_sub(self.life.age_ms);
        self.stored_unix_ms.saturating_add(fresh_ms)
    }

    /// Returns the value of the first header line with this name, if any.
    pub fn header(&self, name: &str) -> Option<&[u8]> {
        let found = self.headers.iter().find(|(other, _)| other.eq_ignore_ascii_case(name));
        found.map(|(_, value)| &**value)
    }

    /// Returns the cost in memory in bytes, including the overhead of the containers.
    pub fn bytes(&self) -> u64 {
        let headers = self.headers.iter().map(|(name, value)| name.len() + value.len());
        let lines = self.headers.len() as u64 * LINE_OVERHEAD_BYTES;
        (headers.sum::<usize>() + self.body.len()) as u64 + lines + OVERHEAD_BYTES
    }
}

/// Body with its share of the process's memory budget. The share is returned when the last owner
/// releases the body: a zone, or a client to which it is being sent.
struct BudgetedBody {
    body: Vec<u8>,
    _reservation: Reservation,
}

impl AsRef<[u8]> for BudgetedBody {
    fn as_ref(&self) -> &[u8] {
        &self.body
    }
}

/// Returns a body that can be shared. Its reservation ends with its last owner.
pub(super) fn shared_body(body: Vec<u8>, reservation: Reservation) -> Bytes {
    Bytes::from_owner(BudgetedBody { body, _reservation: reservation })
}

/// Names of the request headers by which the answers to a key differ.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct VaryIndex {
    /// Names of the request headers, in lower case and sorted.
    pub names: Vec<String>,
    /// Number that distinguishes variants of this index from those of an earlier one.
    pub generation: u64,
}

#[derive(Debug, Clone)]
pub(super) enum CacheLookup {
    /// The cache has an answer, fresh or not. On the disk, an index may have led to it.
    Hit(Arc<CachedResponse>, Option<VaryIndex>),
    /// The cache has no answer. On the disk, the key may have an index.
    Miss(Option<VaryIndex>),
}

/// Returns the names in `Vary`; `None` if the answer fits no other request.
pub(super) fn vary_names(lines: &[Line]) -> Option<Vec<String>> {
    let mut names = Vec::new();
    for (_, value) in lines.iter().filter(|(name, _)| name.eq_ignore_ascii_case("vary")) {
        let text = String::from_utf8_lossy(value).to_ascii_lowercase();
        names.extend(text.split(',').map(|name| name.trim().to_owned()));
    }
    names.retain(|name| !name.is_empty());
    names.sort();
    names.dedup();
    (!names.iter().any(|name| name == "*")).then_some(names)
}

/// Returns the header lines to store; an answer without a date gets the date of its arrival (RFC
/// 9110 §6.6.1).
pub(super) fn kept_headers(cx: &ResponseContext<'_>, directives: &Directives<'_>) -> Vec<Line> {
    let mut kept: Vec<Line> = Vec::new();
    cx.each_header(&mut |name, value| {
        let name = String::from_utf8_lossy(name);
        let lower = name.to_ascii_lowercase();
        // A field that `private` lists is for one client, and a field that `no-cache` lists is for
        // one answer. `Vary` always stays, because without it the answer would reach clients that
        // it is not for.
        let is_listed = lower != "vary"
            && ["private", "no-cache"].iter().any(|it| directives.lists_field(it, &lower));
        if !NOT_KEPT.contains(&&*lower) && !lower.contains(COUNTER_PART) && !is_listed {
            kept.push((name.into(), value.into()));
        }
    });
    if !kept.iter().any(|(name, _)| name.eq_ignore_ascii_case("date")) {
        let now_s = i64::try_from(cx.now().unix_ms / 1_000).unwrap_or(i64::MAX);
        let date = CivilTime::from_unix_seconds(now_s).http_date();
        kept.push(("Date".into(), date.as_slice().into()));
    }
    kept
}

/// Returns the lines of a stored answer in which the lines of a 304 replace those of equal names
/// (RFC 9111 §3.2).
pub(super) fn updated_headers(stored: &[Line], update: Vec<Line>) -> Vec<Line> {
    let is_update = |name: &str| !NOT_UPDATED.iter().any(|it| it.eq_ignore_ascii_case(name));
    let update: Vec<Line> = update.into_iter().filter(|(name, _)| is_update(name)).collect();
    let is_replaced = |name: &str| update.iter().any(|(other, _)| other.eq_ignore_ascii_case(name));
    let stays = stored.iter().filter(|(name, _)| !is_replaced(name)).cloned();
    let mut lines: Vec<Line> = stays.collect();
    lines.extend(update);
    lines
}
