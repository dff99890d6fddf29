//! The most recent requests of each core, for operators: failures, and a sample of the others.
//!
//! Records have a fixed size and are stored in rings of fixed length, allocated with the core. A
//! request allocates nothing, and memory is bounded whatever clients send. A core never waits:
//! while its records are being read, it counts those it cannot store. Query strings, headers and
//! bodies are never recorded.

mod failed;

use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError, TryLockError};

use tollhouse_stdx::Endpoint;

pub use self::failed::{FailureGroup, GROUPS_MAX};

use self::failed::FailedRequests;
use crate::codes::ErrorCode;

/// Records of failures, and of other requests, of each core. A record has some 600 bytes, which
/// makes 310 KB per core.
pub const RING_RECORDS: usize = 256;

/// Minimum time between two samples of successful requests per core, in milliseconds. Ten per
/// second give an impression of the traffic at negligible cost.
pub const SAMPLE_INTERVAL_MS: u64 = 100;

/// Maximum number of attempts listed in a record. Further ones are rare, and only counted.
pub const ATTEMPTS_MAX: usize = 3;

/// Bits of a record's id that distinguish the records of one millisecond.
const SEQUENCE_BITS: u32 = 20;

/// Number of records that were kept, by all cores.
static KEPT: AtomicU64 = AtomicU64::new(0);

/// Text of at most `N` bytes; longer text is truncated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ShortText<const N: usize> {
    bytes: [u8; N],
    /// Number of bytes in use. `N` is at most 255.
    length: u8,
    pub is_cut: bool,
}

impl<const N: usize> Default for ShortText<N> {
    fn default() -> Self {
        Self { bytes: [0; N], length: 0, is_cut: false }
    }
}

impl<const N: usize> ShortText<N> {
    pub fn new(text: &[u8]) -> Self {
        const { assert!(N <= u8::MAX as usize, "the length is one byte") };
        let kept = text.len().min(N);
        let mut bytes = [0; N];
        bytes[..kept].copy_from_slice(&text[..kept]);
        Self { bytes, length: u8::try_from(kept).unwrap_or(u8::MAX), is_cut: kept < text.len() }
    }

    /// Returns the text; invalid UTF-8 is replaced.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(self.as_bytes()).into_owned()
    }

    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.length)]
    }
}

/// An attempt to reach a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecentAttempt {
    pub node: Endpoint,
    /// Status of the node's answer, or the status that stands for the failure.
    pub status: u16,
    /// Error code of an attempt that failed; `None` if the node answered.
    pub code: Option<ErrorCode>,
    /// Duration from the head of the request to the end of the attempt, in milliseconds.
    pub ended_ms: u64,
}

/// Record of a finished request, for the console.
#[derive(Debug, Clone, Copy)]
pub struct RecentRequest {
    /// Number of the record, assigned when it is kept; unique in the process and rising with time.
    pub id: u64,
    /// End of the request, in milliseconds since 1970.
    pub unix_ms: u64,
    /// Duration from the head of the request to the last byte of the response, in milliseconds.
    pub duration_ms: u64,
    /// Duration until the head of the node's response, in milliseconds.
    pub upstream_ms: Option<u64>,
    /// Status sent; 0 if none was sent.
    pub status: u16,
    /// Error code if the gateway failed the request.
    pub code: Option<ErrorCode>,
    /// Plugin that refused the request; empty if none did.
    pub plugin: ShortText<32>,
    /// System error of the last node, if an attempt failed; empty otherwise.
    pub cause: ShortText<96>,
    pub method: ShortText<16>,
    /// Host by which the request was routed.
    pub host: ShortText<64>,
    /// Path of the request without the query.
    pub path: ShortText<128>,
    /// Id of the route; empty if none matched.
    pub route: ShortText<64>,
    /// Name of the consumer; empty without one.
    pub consumer: ShortText<32>,
    pub client: IpAddr,
    /// First attempts to reach a node, in order.
    pub attempts: [Option<RecentAttempt>; ATTEMPTS_MAX],
    /// Number of attempts, including those not listed.
    pub attempt_count: u32,
    /// Id of the trace, if there is one.
    pub trace_id: Option<[u8; 16]>,
    /// Whether the spans of the trace were exported.
    pub is_trace_recorded: bool,
}

impl RecentRequest {
    /// Whether the request goes to the records of failures.
    pub fn has_failed(&self) -> bool {
        self.code.is_some() || self.status >= 500
    }
}

/// The records of one core.
#[derive(Debug)]
pub struct RecentRequests {
    failed: Mutex<FailedRequests>,
    sampled: Mutex<Ring>,
    missed: AtomicU64,
}

impl Default for RecentRequests {
    fn default() -> Self {
        Self {
            failed: Mutex::new(FailedRequests::new()),
            sampled: Mutex::new(Ring::new()),
            missed: AtomicU64::new(0),
        }
    }
}

impl RecentRequests {
    /// Numbers and stores a record. If the records are being read, it is only counted as missed.
    pub fn keep(&self, mut request: RecentRequest) {
        let sequence = KEPT.fetch_add(1, Relaxed) & ((1 << SEQUENCE_BITS) - 1);
        request.id = request.unix_ms << SEQUENCE_BITS | sequence;
        let is_kept = match request.has_failed() {
            true => with(&self.failed, |failed| failed.push(request)),
            false => with(&self.sampled, |ring| ring.push(request)),
        };
        if is_kept.is_none() {
            self.missed.store(self.missed.load(Relaxed).wrapping_add(1), Relaxed);
        }
    }

    /// Returns the number of records not stored because the records were being read.
    pub fn missed(&self) -> u64 {
        self.missed.load(Relaxed)
    }

    pub fn copy_to(&self, all: &mut Vec<RecentRequest>) {
        // A poisoned lock is safe to use, because each push leaves the records consistent.
        all.extend(self.failed.lock().unwrap_or_else(PoisonError::into_inner).records());
        let sampled = self.sampled.lock().unwrap_or_else(PoisonError::into_inner);
        all.extend_from_slice(&sampled.records);
    }

    /// Returns the kinds of failures with their counts.
    pub fn groups(&self) -> Vec<FailureGroup> {
        self.failed.lock().unwrap_or_else(PoisonError::into_inner).groups()
    }
}

/// Runs `change` unless another thread holds the lock.
pub(crate) fn with<T, R>(place: &Mutex<T>, change: impl FnOnce(&mut T) -> R) -> Option<R> {
    match place.try_lock() {
        Ok(mut held) => Some(change(&mut held)),
        Err(TryLockError::Poisoned(poisoned)) => Some(change(&mut poisoned.into_inner())),
        Err(TryLockError::WouldBlock) => None,
    }
}

#[derive(Debug)]
struct Ring {
    records: Vec<RecentRequest>,
    next: usize,
}

impl Ring {
    fn new() -> Self {
        Self { records: Vec::with_capacity(RING_RECORDS), next: 0 }
    }

    fn push(&mut self, request: RecentRequest) {
        if self.records.len() < RING_RECORDS {
            self.records.push(request);
        } else {
            self.records[self.next] = request;
        }
        self.next = (self.next + 1) % RING_RECORDS;
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn request(status: u16, code: Option<ErrorCode>, unix_ms: u64) -> RecentRequest {
        RecentRequest {
            id: 0,
            unix_ms,
            duration_ms: 1,
            upstream_ms: None,
            status,
            code,
            plugin: ShortText::default(),
            cause: ShortText::default(),
            method: ShortText::new(b"GET"),
            host: ShortText::default(),
            path: ShortText::new(b"/"),
            route: ShortText::default(),
            consumer: ShortText::default(),
            client: IpAddr::from([127, 0, 0, 1]),
            attempts: [None; ATTEMPTS_MAX],
            attempt_count: 0,
            trace_id: None,
            is_trace_recorded: false,
        }
    }

    #[test]
    fn a_flood_of_good_requests_pushes_no_failure_out() {
        let recent = RecentRequests::default();
        recent.keep(request(502, Some(ErrorCode::UpstreamConnectFailed), 1));
        (0..3 * RING_RECORDS as u64).for_each(|index| recent.keep(request(200, None, index)));
        let mut all = Vec::new();
        recent.copy_to(&mut all);
        assert_eq!(all.len(), RING_RECORDS + 1);
        assert_eq!(all.iter().filter(|one| one.has_failed()).count(), 1);
        let newest = all.iter().map(|one| one.unix_ms).max();
        assert_eq!(newest, Some(3 * RING_RECORDS as u64 - 1));
    }

    #[test]
    fn each_record_has_an_id_of_its_own() {
        let recent = RecentRequests::default();
        (0..10).for_each(|_| recent.keep(request(500, None, 7)));
        let mut all = Vec::new();
        recent.copy_to(&mut all);
        let mut ids: Vec<u64> = all.iter().map(|one| one.id).collect();
        assert!(ids.iter().all(|id| id >> SEQUENCE_BITS == 7));
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), 10);
    }

    #[test]
    fn a_core_does_not_wait_for_a_reader() {
        let recent = RecentRequests::default();
        let reading = recent.failed.lock().expect("nobody else has it");
        recent.keep(request(500, None, 1));
        drop(reading);
        assert_eq!(recent.missed(), 1);
    }

    #[test]
    fn long_text_is_cut_and_says_so() {
        let text = ShortText::<4>::new(b"abcdef");
        assert_eq!((text.text().as_str(), text.is_cut), ("abcd", true));
        let text = ShortText::<4>::new(b"abcd");
        assert_eq!((text.text().as_str(), text.is_cut), ("abcd", false));
    }
}
