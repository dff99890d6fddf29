//! The registry's time: Unix milliseconds that never go back, from the system or from a hand.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Where the registry has the time from.
#[derive(Debug, Clone)]
pub enum Clock {
    /// The system's: the wall clock of the start, moved on by the monotonic one, so that a step of the
    /// wall clock expires nobody.
    System {
        /// When it was made.
        started: Instant,
        /// The wall clock's time then.
        started_unix_ms: u64,
    },
    /// A clock that stands until it is moved.
    Manual(Arc<ManualClock>),
}

impl Clock {
    /// The system's clock.
    pub fn system() -> Self {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self::System { started: Instant::now(), started_unix_ms: milliseconds(since) }
    }

    /// Now, in milliseconds of Unix time.
    pub fn now_ms(&self) -> u64 {
        match self {
            Self::System { started, started_unix_ms } => {
                started_unix_ms.saturating_add(milliseconds(started.elapsed()))
            }
            Self::Manual(clock) => clock.0.load(Ordering::Acquire),
        }
    }
}

/// A clock moved by hand.
#[derive(Debug)]
pub struct ManualClock(AtomicU64);

impl ManualClock {
    /// A clock that shows this time, in milliseconds of Unix time.
    pub fn at_ms(now_ms: u64) -> Arc<Self> {
        Arc::new(Self(AtomicU64::new(now_ms)))
    }

    /// Moves it forward.
    pub fn advance(&self, by: Duration) {
        self.0.fetch_add(milliseconds(by), Ordering::AcqRel);
    }
}

/// Whole milliseconds; what is beyond 64 bits is the end of time.
pub(crate) fn milliseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
