//! What a peer may make a connection do and hold: every bound with its reason.
//!
//! Where a bound is passed, the connection ends with ENHANCE_YOUR_CALM, or the stream is refused;
//! [`crate::Counters`] count either way.

use crate::frame::PAYLOAD_BYTES_DEFAULT;
use crate::hpack::{HuffmanUse, TABLE_BYTES_DEFAULT};
use crate::settings::WINDOW_BYTES_DEFAULT;

/// WINDOW_UPDATEs that a frame of DATA pays for, whatever its length: a peer returns the window of the stream and
/// that of the connection, some of them in several steps. Envoy's default, two times ten.
pub const UPDATES_PER_DATA_FRAME: u32 = 20;

/// WINDOW_UPDATEs that a stream pays for, as in Envoy.
pub const UPDATES_PER_STREAM: u32 = 2;

/// PRIORITY and PRIORITY_UPDATE frames that a stream pays for: clients shift the weights of what they load.
pub const PRIORITIES_PER_STREAM: u32 = 10;

/// Most frames that a peer may have in hand beyond a rate's burst, paid for by what it was sent.
const CREDIT_MAX: i64 = 1 << 20;

/// So many at once, and so many a second from then on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rate {
    /// What may come at once.
    pub burst: u32,
    /// What is allowed again each second.
    pub per_second: u32,
}

/// What follows a frame that breaks the rules of one stream: a window update of 0, PRIORITY of a wrong
/// length or on itself, HEADERS or DATA behind END_STREAM. No honest peer sends them; whoever wants
/// streams reset while their work goes on does (CVE-2025-8671). A window beyond its maximum always
/// resets the stream, as RFC 9113 §6.9.1 demands, and counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FaultScope {
    /// The connection ends (RFC 9113 §5.4.1 allows it).
    Connection,
    /// The stream is reset, which counts as a reset of the peer.
    Stream,
}

/// Bounds and settings of one connection.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Streams that the peer may have open. A place is taken until the application has released the
    /// stream, so that resetting a stream makes no room while work for it goes on (CVE-2023-44487).
    pub concurrent_streams: u32,
    /// Window of a stream at first, in bytes: what a stream may hold unread.
    pub stream_window_bytes: u32,
    /// Window that a stream may grow to, in bytes.
    pub stream_window_bytes_max: u32,
    /// What all windows of the connection may grow by together, in bytes, beside what the budget of
    /// the process allows.
    pub window_growth_bytes: u32,
    /// Window of the connection, in bytes; its credit is returned on arrival, since each stream has a
    /// window of its own: a slow stream never stops the others.
    pub connection_window_bytes: u32,
    /// Bytes that all streams may hold unread before the connection's credit is kept back after all.
    pub unread_bytes: u32,
    /// Bytes of requests that a server's connection may hold unread beside the budget of the process; what goes
    /// beyond takes from it, and a stream whose bytes find no room there is reset.
    pub unbudgeted_bytes: u32,
    /// Largest payload of a frame that is taken; at least 16,384.
    pub frame_bytes: u32,
    /// Table of received fields, in bytes.
    pub decoder_table_bytes: u32,
    /// Table of sent fields, in bytes, where the peer offers as much.
    pub encoder_table_bytes: u32,
    /// Whether sent literals are Huffman-coded.
    pub huffman: HuffmanUse,
    /// Decoded bytes of a head or of trailers, each field counted with 32 bytes of overhead: what a
    /// block of references can unfold to.
    pub header_list_bytes: u32,
    /// Fields of a head, cookies aside: what costs is keeping their books, not their bytes.
    pub header_fields: u32,
    /// Crumbs of cookies in a head: browsers send hundreds, so that they have a bound of their own.
    pub cookie_crumbs: u32,
    /// Bytes of a header block as it travels, over all its frames.
    pub block_bytes: u32,
    /// CONTINUATION frames of one block: those of length 0 pass any bound on bytes (VU#421644).
    pub continuation_frames: u32,
    /// Resets: those that the peer sends, and those that its faults make us send. Each stream that a server
    /// answers to its end gives one back, so that a client may cancel half of its calls for as long as it
    /// likes.
    pub resets: Rate,
    /// PINGs, each of which asks for an answer (CVE-2019-9512). Each frame of DATA and each head sent gives one
    /// back: peers measure the path by what they receive.
    pub pings: Rate,
    /// SETTINGS, each of which asks for an answer (CVE-2019-9515).
    pub settings: Rate,
    /// Acknowledgements of SETTINGS and of PINGs; each frame of ours that asks for one gives one back.
    pub acknowledgements: Rate,
    /// GOAWAY frames: a peer that drains sends two.
    pub goaways: Rate,
    /// PRIORITY and PRIORITY_UPDATE (CVE-2019-9513); each stream gives [`PRIORITIES_PER_STREAM`] back.
    pub priorities: Rate,
    /// WINDOW_UPDATEs (CVE-2019-9511), beside [`UPDATES_PER_DATA_FRAME`] for each frame of DATA sent and
    /// [`UPDATES_PER_STREAM`] for each stream.
    pub window_updates: Rate,
    /// Frames that carry nothing: DATA without bytes or END_STREAM, unknown types (CVE-2019-9518). Each stream
    /// gives one back.
    pub empty_frames: Rate,
    /// Answers, resets and updates that wait unsent; a peer that reads nothing lets them pile up.
    pub queued_control_frames: u32,
    /// Output beyond which no more DATA is taken, in bytes; what waits is sent by its priority.
    pub output_bytes: usize,
    /// Output beyond which [`crate::Connection::wants_input`] says no, in bytes (CVE-2019-9517).
    pub output_bytes_max: usize,
    /// What follows faults of one stream.
    pub faults: FaultScope,
    /// Whether extended CONNECT is taken (RFC 8441); of a server only.
    pub connect_protocol: bool,
    /// From the first byte to the end of the preface and first SETTINGS, in milliseconds.
    pub preface_ms: u64,
    /// From our SETTINGS to their acknowledgement, in milliseconds.
    pub settings_ack_ms: u64,
    /// From the first byte of a frame or block to its last, in milliseconds; DATA has none, its pace
    /// is the application's to judge.
    pub frame_ms: u64,
    /// How long one piece of DATA may wait for windows of the peer, in milliseconds, however many
    /// small updates come meanwhile (the HTTP/2 bomb of 2026).
    pub stall_ms: u64,
}

impl Default for Limits {
    /// For a server that faces strangers.
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
            // Tighter ones hit honest clients of gRPC that cancel much.
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

/// What is left of a [`Rate`].
#[derive(Debug, Clone, Copy, Default)]
pub struct Bucket {
    /// Thousandths that were taken and did not come back; below zero where more was paid for than came.
    used: i64,
    last_ms: u64,
}

impl Bucket {
    /// Takes one; `false` where none is left.
    #[inline]
    pub fn take(&mut self, rate: Rate, now_ms: u64) -> bool {
        self.take_many(1, rate, now_ms)
    }

    /// Takes so many; `false` where fewer are left. Debt has a bound: the burst once more.
    #[inline]
    pub fn take_many(&mut self, count: u32, rate: Rate, now_ms: u64) -> bool {
        let burst = i64::from(rate.burst) * 1000;
        self.fill(rate, now_ms);
        self.used = (self.used + i64::from(count) * 1000).min(2 * burst);
        self.used <= burst
    }

    /// Whether it is full.
    pub fn is_whole(&mut self, rate: Rate, now_ms: u64) -> bool {
        self.fill(rate, now_ms);
        self.used <= 0
    }

    /// Thousandths that were taken and did not come back.
    pub fn taken(&self) -> u64 {
        u64::try_from(self.used).unwrap_or(0)
    }

    #[inline]
    fn fill(&mut self, rate: Rate, now_ms: u64) {
        let passed_ms = i64::try_from(now_ms.saturating_sub(self.last_ms)).unwrap_or(i64::MAX);
        let returned = passed_ms.saturating_mul(rate.per_second.into());
        self.last_ms = now_ms;
        // Time fills the bucket and no more: what was paid for beyond that stays.
        self.used = self.used.saturating_sub(returned).max(self.used.min(0));
    }

    /// Gives so many of those back that were taken.
    #[inline]
    pub fn refund(&mut self, count: u32) {
        self.used = (self.used - i64::from(count) * 1000).max(self.used.min(0));
    }

    /// Pays for so many that are still to come.
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
