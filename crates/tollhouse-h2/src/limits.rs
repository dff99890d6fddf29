//! Limits on what a peer can make a connection do and hold, with the reason for each.
//!
//! When a limit is exceeded, the connection ends with ENHANCE_YOUR_CALM or the stream is refused;
//! [`crate::Counters`] counts both.

use crate::frame::PAYLOAD_BYTES_DEFAULT;
use crate::hpack::{HuffmanUse, TABLE_BYTES_DEFAULT};
use crate::settings::WINDOW_BYTES_DEFAULT;

/// WINDOW_UPDATE frames allowed per DATA frame sent, whatever its length: a peer updates the
/// windows of the stream and the connection, some peers in several steps. Twice Envoy's default of
/// ten.
pub const UPDATES_PER_DATA_FRAME: u32 = 20;

/// WINDOW_UPDATE frames allowed per stream, as in Envoy.
pub const UPDATES_PER_STREAM: u32 = 2;

/// PRIORITY and PRIORITY_UPDATE frames allowed per stream: clients reprioritise what they load.
pub const PRIORITIES_PER_STREAM: u32 = 10;

/// Maximum credit a peer can collect beyond a rate's burst, in frames.
const CREDIT_MAX: i64 = 1 << 20;

/// A rate limit: a burst, and a number per second after that.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rate {
    /// Number of tokens in a full bucket.
    pub burst: u32,
    /// Number of tokens added each second.
    pub per_second: u32,
}

/// The reaction to a frame that breaks the rules for one stream: a window update of 0, PRIORITY
/// with the wrong length or depending on itself, HEADERS or DATA after END_STREAM. Honest peers
/// never send them; attackers do, to get streams reset while work for them continues
/// (CVE-2025-8671). A window above its maximum always resets the stream, as RFC 9113 §6.9.1
/// requires, and counts as a reset by the peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FaultScope {
    /// End the connection, as RFC 9113 §5.4.1 allows.
    Connection,
    /// Reset the stream, and count it as a reset by the peer.
    Stream,
}

/// Limits and settings of one connection.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Maximum number of streams the peer may have open. A stream counts until the application
    /// releases it, so a reset does not make room while work for the stream continues
    /// (CVE-2023-44487).
    pub concurrent_streams: u32,
    /// Initial window of a stream in bytes, which limits its unread data.
    pub stream_window_bytes: u32,
    /// Maximum window of a stream after growth, in bytes.
    pub stream_window_bytes_max: u32,
    /// Maximum growth of all stream windows together, in bytes; the process's budget may allow
    /// less.
    pub window_growth_bytes: u32,
    /// Window of the connection, in bytes. The connection's credit is returned when DATA arrives,
    /// because each stream has its own window; a slow stream never stops the others.
    pub connection_window_bytes: u32,
    /// Unread bytes over all streams above which the connection's credit is withheld after all.
    pub unread_bytes: u32,
    /// Unread request bytes that a server connection may hold without using the process's budget.
    /// More is reserved from the budget; a stream whose bytes do not fit is reset.
    pub unbudgeted_bytes: u32,
    /// Largest accepted frame payload; at least 16,384.
    pub frame_bytes: u32,
    /// Table size for received fields, in bytes.
    pub decoder_table_bytes: u32,
    /// Table size for sent fields, in bytes; the peer may allow less.
    pub encoder_table_bytes: u32,
    /// Use of Huffman coding for sent literals.
    pub huffman: HuffmanUse,
    /// Maximum decoded size of a head or trailers, counting 32 bytes of overhead per field: limits
    /// what a block of table references can expand to.
    pub header_list_bytes: u32,
    /// Maximum number of fields in a head, not counting cookies: each field costs processing
    /// regardless of its size.
    pub header_fields: u32,
    /// Maximum number of cookie crumbs in a head; separate, because browsers send hundreds.
    pub cookie_crumbs: u32,
    /// Maximum encoded size of a header block in bytes, over all its frames.
    pub block_bytes: u32,
    /// Maximum number of CONTINUATION frames in a block: empty ones evade any limit on bytes
    /// (VU#421644).
    pub continuation_frames: u32,
    /// Resets sent by the peer, or sent by us because of its errors. Each stream that a server
    /// completes gives one back, so a client can go on cancelling half of its calls.
    pub resets: Rate,
    /// PINGs, which require replies (CVE-2019-9512). Each DATA frame and each head sent gives one
    /// back, since peers measure the path with a PING for data they receive.
    pub pings: Rate,
    /// SETTINGS frames, which require replies (CVE-2019-9515).
    pub settings: Rate,
    /// Acknowledgements of SETTINGS and PINGs; each frame we send that requires one gives one back.
    pub acknowledgements: Rate,
    /// GOAWAY frames; a draining peer sends two.
    pub goaways: Rate,
    /// PRIORITY and PRIORITY_UPDATE frames (CVE-2019-9513); each stream gives back
    /// [`PRIORITIES_PER_STREAM`].
    pub priorities: Rate,
    /// WINDOW_UPDATE frames (CVE-2019-9511), in addition to [`UPDATES_PER_DATA_FRAME`] per DATA
    /// frame sent and [`UPDATES_PER_STREAM`] per stream.
    pub window_updates: Rate,
    /// Rate of frames without content: empty DATA without END_STREAM, and unknown types
    /// (CVE-2019-9518). Each stream gives one back.
    pub empty_frames: Rate,
    /// Maximum number of pending control frames: replies, resets and updates; they accumulate if a
    /// peer does not read.
    pub queued_control_frames: u32,
    /// Output size above which no more DATA is accepted, in bytes. Waiting streams are then served
    /// by priority.
    pub output_bytes: usize,
    /// Output size above which [`crate::Connection::wants_input`] returns `false`, in bytes
    /// (CVE-2019-9517).
    pub output_bytes_max: usize,
    /// The reaction to errors on one stream.
    pub faults: FaultScope,
    /// Whether to accept extended CONNECT (RFC 8441); servers only.
    pub connect_protocol: bool,
    /// Maximum time for the preface and the first SETTINGS to arrive, in milliseconds.
    pub preface_ms: u64,
    /// Maximum time for our SETTINGS to be acknowledged, in milliseconds.
    pub settings_ack_ms: u64,
    /// Maximum time for a frame or header block to arrive completely, in milliseconds. It does not
    /// apply to DATA, whose pace is up to the application.
    pub frame_ms: u64,
    /// Maximum time for which a piece of DATA may wait for the peer's windows, in milliseconds, no
    /// matter how many small updates arrive (the HTTP/2 bomb of 2026).
    pub stall_ms: u64,
}

impl Default for Limits {
    /// Limits for a server with untrusted clients.
    fn default() -> Self {
        Self {
            concurrent_streams: 128,
            stream_window_bytes: WINDOW_BYTES_DEFAULT,
            stream_window_bytes_max: 4 << 20,
            window_growth_bytes: 8 << 20,
            connection_window_bytes: 1 << 20,
            unread_bytes: 16 << 20,
            unbudgeted_bytes: WINDOW_BYTES_DEFAULT,
            frame_bytes: PAYLOAD_BYTES_DEFAULT,
            decoder_table_bytes: TABLE_BYTES_DEFAULT,
            encoder_table_bytes: TABLE_BYTES_DEFAULT,
            huffman: HuffmanUse::Never,
            header_list_bytes: 64 << 10,
            header_fields: 200,
            cookie_crumbs: 1000,
            block_bytes: 64 << 10,
            continuation_frames: 8,
            // Lower limits affect honest gRPC clients that cancel often.
            resets: Rate { burst: 1000, per_second: 33 },
            pings: Rate { burst: 100, per_second: 10 },
            settings: Rate { burst: 100, per_second: 10 },
            acknowledgements: Rate { burst: 100, per_second: 10 },
            goaways: Rate { burst: 10, per_second: 1 },
            // Browsers send one for each of a page's hundreds of files.
            priorities: Rate { burst: 2000, per_second: 200 },
            window_updates: Rate { burst: 10_000, per_second: 1000 },
            empty_frames: Rate { burst: 100, per_second: 10 },
            queued_control_frames: 1000,
            output_bytes: 64 << 10,
            output_bytes_max: 256 << 10,
            faults: FaultScope::Connection,
            connect_protocol: false,
            preface_ms: 10_000,
            settings_ack_ms: 10_000,
            frame_ms: 30_000,
            stall_ms: 60_000,
        }
    }
}

/// The remaining tokens of a [`Rate`].
#[derive(Debug, Clone, Copy, Default)]
pub struct Bucket {
    /// Thousandths of tokens in use; negative if there is credit beyond the burst.
    used: i64,
    last_ms: u64,
}

impl Bucket {
    /// Takes one token; `false` if none is left.
    #[inline]
    pub fn take(&mut self, rate: Rate, now_ms: u64) -> bool {
        self.take_many(1, rate, now_ms)
    }

    /// Takes `count` tokens; `false` if fewer are left. Debt is limited to the size of the burst.
    #[inline]
    pub fn take_many(&mut self, count: u32, rate: Rate, now_ms: u64) -> bool {
        let burst = i64::from(rate.burst) * 1000;
        self.fill(rate, now_ms);
        self.used = (self.used + i64::from(count) * 1000).min(2 * burst);
        self.used <= burst
    }

    /// Whether no tokens are in use.
    pub fn is_whole(&mut self, rate: Rate, now_ms: u64) -> bool {
        self.fill(rate, now_ms);
        self.used <= 0
    }

    /// Returns the tokens in use, in thousandths.
    pub fn taken(&self) -> u64 {
        u64::try_from(self.used).unwrap_or(0)
    }

    #[inline]
    fn fill(&mut self, rate: Rate, now_ms: u64) {
        let passed_ms = i64::try_from(now_ms.saturating_sub(self.last_ms)).unwrap_or(i64::MAX);
        let returned = passed_ms.saturating_mul(rate.per_second.into());
        self.last_ms = now_ms;
        // Time only refills the bucket; credit beyond that is kept.
        self.used = self.used.saturating_sub(returned).max(self.used.min(0));
    }

    /// Returns `count` tokens that were taken.
    #[inline]
    pub fn refund(&mut self, count: u32) {
        self.used = (self.used - i64::from(count) * 1000).max(self.used.min(0));
    }

    /// Adds credit for `count` future tokens.
    #[inline]
    pub fn pay(&mut self, count: u32) {
        self.used = (self.used - i64::from(count) * 1000).max(-CREDIT_MAX * 1000);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_empties_at_once_and_fills_with_time() {
        let rate = Rate { burst: 3, per_second: 10 };
        let mut bucket = Bucket::default();
        let taken = (0..9).take_while(|_| bucket.take(rate, 5000)).count();
        assert_eq!(taken, 3);
        let mut bucket = Bucket { used: 3000, last_ms: 5000 };
        assert!(!bucket.clone().take(rate, 5099));
        assert!(bucket.take(rate, 5100));
        assert!(!bucket.take(rate, 5100));
        bucket.refund(2);
        assert!(bucket.take(rate, 5100));
    }

    #[test]
    fn what_is_paid_for_ahead_outlives_time_and_has_a_bound() {
        let rate = Rate { burst: 1, per_second: 1000 };
        let mut bucket = Bucket::default();
        bucket.refund(7);
        assert_eq!(bucket.used, 0, "nothing was taken");
        bucket.pay(2);
        let taken = (0..9).take_while(|_| bucket.take(rate, 0)).count();
        assert_eq!(taken, 3);
        bucket = Bucket::default();
        bucket.pay(5);
        assert!(bucket.take(rate, 60_000));
        assert_eq!(bucket.used, -4000);
        bucket.pay(u32::MAX);
        assert_eq!(bucket.used, -CREDIT_MAX * 1000);
    }

    #[test]
    fn time_that_goes_backwards_gives_nothing() {
        let rate = Rate { burst: 1, per_second: 1000 };
        let mut bucket = Bucket::default();
        assert!(bucket.take(rate, 9000));
        assert!(!bucket.take(rate, 10));
    }
}
