//! The clock for expiry: Unix time from the system, or a manual clock in tests.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Source of the wall-clock time.
#[derive(Clone, Debug, Default)]
pub enum Clock {
    /// The system's wall clock, because expiry times must survive a restart.
    #[default]
    System,
    /// A clock that only moves when told to.
    Manual(Arc<ManualClock>),
}

impl Clock {
    /// Returns the current time, in milliseconds of Unix time.
    #[must_use]
    pub fn now_ms(&self) -> u64 {
        match self {
            Self::System => {
                let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
                to_ms(since)
            }
            Self::Manual(clock) => clock.now_ms.load(Ordering::Acquire),
        }
    }

    /// Registers a callback for jumps of the clock, so that a waiting thread checks again.
    pub(crate) fn on_jump(&self, wake: impl Fn() + Send + Sync + 'static) {
        if let Self::Manual(clock) = self {
            clock.wakes.lock().unwrap_or_else(PoisonError::into_inner).push(Box::new(wake));
        }
    }
}

/// Clock that only tests move.
#[derive(Default)]
pub struct ManualClock {
    now_ms: AtomicU64,
    wakes: Mutex<Vec<Box<dyn Fn() + Send + Sync>>>,
}

impl ManualClock {
    #[must_use]
    pub fn at_ms(now_ms: u64) -> Arc<Self> {
        Arc::new(Self { now_ms: AtomicU64::new(now_ms), wakes: Mutex::default() })
    }

    /// Moves the clock forward. Each store removes expired entries soon after, in a thread of that
    /// store.
    pub fn advance(&self, by: Duration) {
        self.now_ms.fetch_add(to_ms(by), Ordering::AcqRel);
        for wake in self.wakes.lock().unwrap_or_else(PoisonError::into_inner).iter() {
            wake();
        }
    }
}

impl fmt::Debug for ManualClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ManualClock").field("now_ms", &self.now_ms).finish_non_exhaustive()
    }
}

/// Converts to whole milliseconds; saturates at 64 bits.
pub(crate) fn to_ms(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// Returns the expiry time for a duration from now. Bounded by the largest signed 64-bit number,
/// because that is what the file stores.
pub(crate) fn expiry_after(now_ms: u64, ttl: Duration) -> u64 {
    now_ms.saturating_add(to_ms(ttl)).min(i64::MAX.unsigned_abs())
}
