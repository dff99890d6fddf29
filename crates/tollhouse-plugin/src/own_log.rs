//! Lines of the process's own log, for plugins that send them elsewhere.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// Receiver of the lines of the process's own log.
pub trait LogFollower: Send + Sync {
    /// Takes a line without its line end, on the thread that wrote it: the method must not wait.
    fn line(&self, line: &str);
}

/// Followers of the process's own log. Without any, a line costs one atomic load.
#[derive(Default)]
pub struct OwnLog {
    followers: Mutex<Vec<Weak<dyn LogFollower>>>,
    is_followed: AtomicBool,
}

thread_local! {
    /// Whether this thread is passing on a line. Lines that followers cause are not passed on.
    static IS_PASSING: Cell<bool> = const { Cell::new(false) };
}

impl std::fmt::Debug for OwnLog {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("OwnLog").field("is_followed", &self.is_followed).finish_non_exhaustive()
    }
}

impl OwnLog {
    /// Passes all further lines to `follower`, until it is dropped elsewhere.
    pub fn follow(&self, follower: &Arc<dyn LogFollower>) {
        let mut followers = self.followers.lock().unwrap_or_else(PoisonError::into_inner);
        followers.retain(|follower| follower.strong_count() > 0);
        followers.push(Arc::downgrade(follower));
        self.is_followed.store(true, Ordering::Release);
    }

    /// Passes a line to all followers.
    pub fn pass(&self, line: &str) {
        if !self.is_followed.load(Ordering::Acquire) || IS_PASSING.replace(true) {
            return;
        }
        let alive: Vec<Arc<dyn LogFollower>> = {
            let mut followers = self.followers.lock().unwrap_or_else(PoisonError::into_inner);
            followers.retain(|follower| follower.strong_count() > 0);
            self.is_followed.store(!followers.is_empty(), Ordering::Release);
            followers.iter().filter_map(Weak::upgrade).collect()
        };
        alive.iter().for_each(|follower| follower.line(line));
        IS_PASSING.set(false);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Follower that writes a line of its own for each line.
    struct Echo {
        log: Arc<OwnLog>,
        lines: Mutex<Vec<String>>,
    }

    impl LogFollower for Echo {
        fn line(&self, line: &str) {
            self.lines.lock().expect("no test panicked").push(line.to_owned());
            self.log.pass("caused by a follower");
        }
    }

    #[test]
    fn lines_are_passed_on_while_there_is_a_follower() {
        let log = Arc::new(OwnLog::default());
        log.pass("unheard");
        let echo = Arc::new(Echo { log: Arc::clone(&log), lines: Mutex::default() });
        let follower: Arc<dyn LogFollower> = Arc::<Echo>::clone(&echo);
        log.follow(&follower);
        log.pass("one");
        log.pass("two");
        assert_eq!(*echo.lines.lock().expect("no test panicked"), ["one", "two"]);
        drop((follower, echo));
        log.pass("three");
        assert!(!log.is_followed.load(Ordering::Acquire));
    }
}
