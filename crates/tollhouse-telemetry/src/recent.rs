//! The most recent requests of each core, for the console: every failure, and a sample of the
//! others.
//!
//! Records have a fixed size and are stored in rings of fixed length, allocated with the core. A
//! request allocates nothing, and memory is bounded whatever clients send. A core never waits:
//! while its rings are being read, it counts the records it cannot store. Query strings, headers
//! and bodies are never recorded.

use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError, TryLockError};

use tollhouse_stdx::Endpoint;

use crate::codes::ErrorCode;

/// Number of records in each of a core's two rings. A record has some 450 bytes, which makes 230 KB
/// per core.
pub const RING_RECORDS: usize = 256;

/// Minimum time between two samples of successful requests per core, in milliseconds. Ten per
/// second give an impression of the traffic at negligible cost.
pub const SAMPLE_INTERVAL_MS: u64 = 100;

/// Maximum number of attempts listed in a record. Further ones are rare, and only counted.
pub const ATTEMPTS_MAX: usize = 3;

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

    /// The text; invalid UTF-8 is replaced.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.bytes[..usize::from(self.length)]).into_owned()
    }
}

/// An attempt to reach a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecentAttempt {
    pub node: Endpoint,
    /// Status of the node's answer, or the status that stands for the failure.
    pub status: u16,
}

/// Record of a finished request, for the console.
#[derive(Debug, Clone, Copy)]
pub struct RecentRequest {
    /// End of the request, in milliseconds since 1970.
    pub unix_ms: u64,
    /// Time from the head of the request to the last byte of the response, in milliseconds.
    pub duration_ms: u64,
    /// Time until the head of the node's response, in milliseconds.
    pub upstream_ms: Option<u64>,
    /// Status sent; 0 if none was sent.
    pub status: u16,
    /// Error code if the gateway failed the request.
    pub code: Option<ErrorCode>,
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
}

impl RecentRequest {
    /// Whether the request goes to the ring of failures.
    pub fn has_failed(&self) -> bool {
        self.code.is_some() || self.status >= 500
    }
}

/// The two rings of one core.
#[derive(Debug)]
pub struct RecentRequests {
    failed: Mutex<Ring>,
    sampled: Mutex<Ring>,
    missed: AtomicU64,
}

impl Default for RecentRequests {
    fn default() -> Self {
        Self {
            failed: Mutex::new(Ring::new()),
            sampled: Mutex::new(Ring::new()),
            missed: AtomicU64::new(0),
        }
    }
}

impl RecentRequests {
    /// Stores a record. If the ring is being read, the record is only counted as missed.
    pub fn keep(&self, request: RecentRequest) {
        let ring = if request.has_failed() { &self.failed } else { &self.sampled };
        match ring.try_lock() {
            Ok(mut ring) => ring.push(request),
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner().push(request),
            Err(TryLockError::WouldBlock) => {
                self.missed.store(self.missed.load(Relaxed).wrapping_add(1), Relaxed);
            }
        }
    }

    /// Number of records not stored because the ring was being read.
    pub fn missed(&self) -> u64 {
        self.missed.load(Relaxed)
    }

    pub fn copy_to(&self, all: &mut Vec<RecentRequest>) {
        for ring in [&self.failed, &self.sampled] {
            // A poisoned lock is safe to use, because each push leaves the ring consistent.
            let ring = ring.lock().unwrap_or_else(PoisonError::into_inner);
            all.extend_from_slice(&ring.records);
        }
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
mod tests {
    use super::*;

    fn request(status: u16, code: Option<ErrorCode>, unix_ms: u64) -> RecentRequest {
        RecentRequest {
            unix_ms,
            duration_ms: 1,
            upstream_ms: None,
            status,
            code,
            method: ShortText::new(b"GET"),
            host: ShortText::default(),
            path: ShortText::new(b"/"),
            route: ShortText::default(),
            consumer: ShortText::default(),
            client: IpAddr::from([127, 0, 0, 1]),
            attempts: [None; ATTEMPTS_MAX],
            attempt_count: 0,
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
