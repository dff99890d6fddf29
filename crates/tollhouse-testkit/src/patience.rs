//! How long tests wait, and the one way to wait for a condition that sends no event.

use std::time::{Duration, Instant};

/// Longest wait for anything. It bounds a hang and measures nothing: real processes on a machine that
/// compiles beside them were seen to need more than eight seconds for what takes one when it is idle.
pub const DEADLINE: Duration = Duration::from_secs(30);

/// Between two questions: on few cores, whoever asks without a pause keeps what is waited for from happening.
const PAUSE: Duration = Duration::from_millis(2);

/// Asks until `condition` gives a value.
///
/// # Panics
/// When the deadline passes, with `what` was waited for.
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
