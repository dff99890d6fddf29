//! How long tests wait, and the one way to wait for a condition that sends no event.

use std::time::{Duration, Instant};

/// Longest wait for anything: below the ten seconds that a test may take, so that a test which
/// hangs says where before it is ended.
pub const DEADLINE: Duration = Duration::from_secs(8);

/// Asks until `condition` gives a value; each question should itself do some work that takes
/// time, such as a request.
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
        std::thread::yield_now();
    }
}
