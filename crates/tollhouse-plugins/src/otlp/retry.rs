//! Pauses between the tries of a batch (OTLP 1.x, "Failures" and "Throttling").

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use crate::logging::batch::DeliveryError;

/// First pause; each further one doubles.
const FIRST: Duration = Duration::from_secs(1);

/// Longest pause, also if the collector asks for a longer one, because newer spans wait meanwhile.
const LONGEST: Duration = Duration::from_secs(32);

/// Number of failures since the last success, from which the next pause follows.
#[derive(Debug, Default)]
pub(super) struct Pauses {
    failures: AtomicU32,
    /// State of the jitter, so that gateways that failed together do not return together.
    seed: AtomicU64,
}

impl Pauses {
    pub(super) fn note_success(&self) {
        self.failures.store(0, Relaxed);
    }

    /// Returns the failure of a try that may be repeated: after the pause that the collector asks
    /// for, or else after one that grows.
    pub(super) fn later(&self, reason: String, asked: Option<Duration>) -> DeliveryError {
        let failures = self.failures.fetch_add(1, Relaxed).min(5);
        let wait = asked.unwrap_or_else(|| (FIRST * (1 << failures)).mul_f64(self.jitter()));
        DeliveryError::Later { reason, wait: wait.min(LONGEST) }
    }

    /// A factor from 0.75 to 1.25.
    fn jitter(&self) -> f64 {
        let address = std::ptr::from_ref(self) as u64;
        let seed = self.seed.fetch_add(1, Relaxed) ^ address ^ u64::from(std::process::id());
        let mut random = tollhouse_stdx::random::Random::seeded(seed);
        0.75 + random.unit() / 2.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wait(error: &DeliveryError) -> Duration {
        match error {
            DeliveryError::Later { wait, .. } => *wait,
            _ => Duration::MAX,
        }
    }

    #[test]
    fn pauses_grow_and_obey_the_collector() {
        let pauses = Pauses::default();
        let mut last = Duration::ZERO;
        for seconds in [1_u32, 2, 4, 8, 16] {
            last = wait(&pauses.later("down".into(), None));
            let mean = FIRST * seconds;
            assert!(last >= mean.mul_f64(0.75) && last <= mean.mul_f64(1.25), "{last:?}");
        }
        assert!(wait(&pauses.later("down".into(), None)) <= LONGEST);
        assert_eq!(wait(&pauses.later("busy".into(), Some(FIRST * 3))), FIRST * 3);
        assert_eq!(wait(&pauses.later("busy".into(), Some(FIRST * 300))), LONGEST);
        pauses.note_success();
        assert!(wait(&pauses.later("down".into(), None)) < last);
    }
}
