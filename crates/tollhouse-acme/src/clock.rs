//! Wall clock for certificates and authorities. Waits use the clock of the runtime.

use std::time::{SystemTime, UNIX_EPOCH};

/// Source of the wall-clock time; tests implement a virtual clock.
pub trait Clock: Send + Sync {
    /// Returns the current time, in seconds of Unix time.
    fn now_s(&self) -> u64;
}

#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now_s(&self) -> u64 {
        SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
    }
}
