//! Deadline of tests, and polling for conditions that send no event.

use std::time::{Duration, Instant};

/// Maximum wait for anything. It ends hangs and is not a measure: on a machine that compiles at the
/// same time, steps that normally take one second have taken more than eight.
pub const DEADLINE: Duration = Duration::from_secs(30);

/// Pause between two polls. On few cores, polling without a pause would delay the awaited event.
const PAUSE: Duration = Duration::from_millis(2);

/// Polls until `condition` returns a value.
///
/// # Panics
///
/// If the deadline passes; the message names `what`.
pub fn wait_for<T>(what: &str, mut condition: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + DEADLINE;
    loop {
        if let Some(value) = condition() {
            return value;
        }
        assert!(Instant::now() < end, "waited in vain for {what}");
        std::thread::park_timeout(PAUSE);
    }
}
