//! Cached time of a thread, read once per turn of its event loop.
//!
//! `now_ms` counts from the start of the process and is monotonic; deadlines use it. The wall clock
//! (`unix_ms`, `http_date`) follows the system's clock and is re-read once a second.
//! Single-threaded: not `Sync`; every core has a separate clock.

use std::cell::Cell;
use std::sync::OnceLock;
use std::time::{Duration, SystemTime};

use rustix::time::{ClockId, clock_gettime};

use crate::civil::{CivilTime, HTTP_DATE_BYTES};
use crate::duration::to_ms;

/// Age at which the offset between the two clocks is read again; a step of the system's time
/// becomes visible within this time.
const WALL_CLOCK_AGE_MS: u64 = 1_000;

const NANOSECONDS_A_SECOND: u64 = 1_000_000_000;
const NANOSECONDS_A_MILLISECOND: u64 = 1_000_000;

/// A cached clock; see the module.
#[derive(Debug)]
pub struct CoarseClock {
    source: Source,
    now_ms: Cell<u64>,
    /// Difference between Unix milliseconds and `now_ms`.
    unix_offset_ms: Cell<u64>,
    offset_read_ms: Cell<u64>,
    date_seconds: Cell<u64>,
    date: Cell<[u8; HTTP_DATE_BYTES]>,
}

#[derive(Debug)]
enum Source {
    /// The kernel's monotonic clock; the number is its reading at the start of the process, in
    /// nanoseconds.
    System(u64),
    Manual,
}

impl CoarseClock {
    /// Creates a clock of the system's time, already refreshed.
    pub fn new() -> Self {
        let clock = Self::with_source(Source::System(process_start()), 0, 0);
        clock.read_wall_clock();
        clock.refresh();
        clock
    }

    /// Creates a clock that changes only with [`advance`](Self::advance), for tests and
    /// simulations.
    pub fn manual(now_ms: u64, unix_ms: u64) -> Self {
        Self::with_source(Source::Manual, now_ms, unix_ms.saturating_sub(now_ms))
    }

    fn with_source(source: Source, now_ms: u64, unix_offset_ms: u64) -> Self {
        Self {
            source,
            now_ms: Cell::new(now_ms),
            unix_offset_ms: Cell::new(unix_offset_ms),
            offset_read_ms: Cell::new(now_ms),
            date_seconds: Cell::new(0),
            date: Cell::new(CivilTime::from_unix_seconds(0).http_date()),
        }
    }

    /// Returns the milliseconds since the start of the process, as of the last refresh.
    #[inline]
    pub fn now_ms(&self) -> u64 {
        self.now_ms.get()
    }

    /// Reads the time and returns it. Costs one system clock call, and a second one once a second.
    #[inline]
    pub fn refresh(&self) -> u64 {
        if let Source::System(start) = self.source {
            let now_ms = since_ms(start);
            self.now_ms.set(now_ms);
            if now_ms.saturating_sub(self.offset_read_ms.get()) >= WALL_CLOCK_AGE_MS {
                self.read_wall_clock();
            }
        }
        self.now_ms.get()
    }

    /// Advances a manual clock; has no effect on a system clock.
    pub fn advance(&self, by: Duration) {
        if matches!(self.source, Source::Manual) {
            self.now_ms.set(self.now_ms.get().saturating_add(to_ms(by)));
        }
    }

    /// Returns the milliseconds since the Unix epoch, as of the last refresh.
    #[inline]
    pub fn unix_ms(&self) -> u64 {
        self.now_ms.get().saturating_add(self.unix_offset_ms.get())
    }

    /// Returns the text of a `Date` header, formatted anew once a second.
    #[inline]
    pub fn http_date(&self) -> [u8; HTTP_DATE_BYTES] {
        let seconds = self.unix_ms() / 1_000;
        if seconds != self.date_seconds.get() {
            self.date_seconds.set(seconds);
            let seconds = i64::try_from(seconds).unwrap_or(i64::MAX);
            self.date.set(CivilTime::from_unix_seconds(seconds).http_date());
        }
        self.date.get()
    }

    fn read_wall_clock(&self) {
        let Source::System(start) = self.source else { return };
        let now_ms = since_ms(start);
        // A system clock before 1970 counts as 1970.
        let unix_ms = SystemTime::UNIX_EPOCH.elapsed().map_or(0, to_ms);
        self.unix_offset_ms.set(unix_ms.saturating_sub(now_ms));
        self.offset_read_ms.set(now_ms);
    }
}

impl Default for CoarseClock {
    fn default() -> Self {
        Self::new()
    }
}

/// Returns the common origin of all clocks of the process: the time of the first call.
fn process_start() -> u64 {
    static START: OnceLock<u64> = OnceLock::new();
    *START.get_or_init(monotonic_ns)
}

/// Returns the milliseconds since `start_ns`. Called on every request, so that it avoids `Instant`,
/// whose conversions and checks double the cost.
#[inline]
fn since_ms(start_ns: u64) -> u64 {
    monotonic_ns().saturating_sub(start_ns) / NANOSECONDS_A_MILLISECOND
}

/// Reads the wall clock in nanoseconds since 1970; 0 if it is before that. Costs a tenth of the
/// conversions of `SystemTime`.
#[inline]
pub fn unix_ns() -> u64 {
    let now = clock_gettime(ClockId::Realtime);
    let seconds = u64::try_from(now.tv_sec).unwrap_or(0);
    seconds.wrapping_mul(NANOSECONDS_A_SECOND).wrapping_add(now.tv_nsec as u64)
}

/// Reads the kernel's monotonic clock in nanoseconds, which start with the machine and suffice for
/// 584 years.
#[inline]
fn monotonic_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    (now.tv_sec as u64).wrapping_mul(NANOSECONDS_A_SECOND).wrapping_add(now.tv_nsec as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_manual_clock_moves_only_when_told() {
        let clock = CoarseClock::manual(5_000, 784_111_777_000);
        assert_eq!(clock.refresh(), 5_000);
        clock.advance(Duration::from_millis(1_500));
        assert_eq!(clock.now_ms(), 6_500);
        assert_eq!(clock.unix_ms(), 784_111_778_500);
    }

    #[test]
    fn the_date_changes_with_the_second() {
        let clock = CoarseClock::manual(0, 784_111_777_400);
        assert_eq!(&clock.http_date(), b"Sun, 06 Nov 1994 08:49:37 GMT");
        clock.advance(Duration::from_millis(599));
        assert_eq!(&clock.http_date(), b"Sun, 06 Nov 1994 08:49:37 GMT");
        clock.advance(Duration::from_millis(1));
        assert_eq!(&clock.http_date(), b"Sun, 06 Nov 1994 08:49:38 GMT");
    }

    #[test]
    fn system_clocks_agree_on_their_start_and_never_go_back() {
        let first = CoarseClock::new();
        let second = CoarseClock::new();
        assert!(second.now_ms() >= first.now_ms());
        let before = first.now_ms();
        assert!(first.refresh() >= before);
        assert!(first.unix_ms() > 1_600_000_000_000);
        first.advance(Duration::from_secs(1_000_000));
        assert!(first.now_ms() < 1_000_000_000);
    }
}
