//! The registry's clock: Unix milliseconds that never decrease, from the system or set by a test.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Clock of the registry: the system's, or a manual one for tests.
#[derive(Debug, Clone)]
pub enum Clock {
    /// System time: the wall clock at the start plus the monotonic time since, so that a step of
    /// the wall clock expires no instance.
    System {
        started: Instant,
        /// Wall clock at creation, in milliseconds of Unix time.
        started_unix_ms: u64,
    },
    /// Clock that changes only when a test advances it.
    Manual(Arc<ManualClock>),
}

impl Clock {
    pub fn system() -> Self {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self::System { started: Instant::now(), started_unix_ms: milliseconds(since) }
    }

    /// Returns the current time in milliseconds of Unix time.
    pub fn now_ms(&self) -> u64 {
        match self {
            Self::System { started, started_unix_ms } => {
                started_unix_ms.saturating_add(milliseconds(started.elapsed()))
            }
            Self::Manual(clock) => clock.0.load(Ordering::Acquire),
        }
    }
}

/// Clock that is advanced by hand, for tests.
#[derive(Debug)]
pub struct ManualClock(AtomicU64);

impl ManualClock {
    /// Creates a clock that stands at this time, in milliseconds of Unix time.
    pub fn at_ms(now_ms: u64) -> Arc<Self> {
        Arc::new(Self(AtomicU64::new(now_ms)))
    }

    pub fn advance(&self, by: Duration) {
        self.0.fetch_add(milliseconds(by), Ordering::AcqRel);
    }
}

/// Converts to whole milliseconds; saturates at `u64::MAX`.
pub(crate) fn milliseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
