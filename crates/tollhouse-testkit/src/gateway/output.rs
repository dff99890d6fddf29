//! Output of a program by lines, and waiting for a line.

use std::io::{BufRead, BufReader, Read};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::patience::DEADLINE;

/// Lines of both streams of a program, in order of arrival.
#[derive(Debug, Clone, Default)]
pub struct Output {
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    lines: Vec<String>,
    open_streams: usize,
}

impl Output {
    /// Reads a stream to its end, on a separate thread.
    pub(crate) fn follow(&self, stream: impl Read + Send + 'static) {
        self.lock().open_streams += 1;
        let output = self.clone();
        std::thread::spawn(move || {
            for line in BufReader::new(stream).split(b'\n').map_while(Result::ok) {
                output.lock().lines.push(String::from_utf8_lossy(&line).into_owned());
                output.shared.changed.notify_all();
            }
            output.lock().open_streams -= 1;
            output.shared.changed.notify_all();
        });
    }

    pub fn text(&self) -> String {
        self.lock().lines.join("\n")
    }

    /// Waits for a line for which `pick` returns a value; earlier lines count too.
    ///
    /// # Panics
    ///
    /// If the program ends or the deadline passes first.
    pub fn wait_line<T>(&self, what: &str, pick: impl Fn(&str) -> Option<T>) -> T {
        self.wait_line_within(DEADLINE, what, pick)
    }

    /// Waits for a line with a given deadline, for programs that start slowly.
    ///
    /// # Panics
    ///
    /// As [`Self::wait_line`].
    pub fn wait_line_within<T>(
        &self,
        time: Duration,
        what: &str,
        pick: impl Fn(&str) -> Option<T>,
    ) -> T {
        self.try_line_within(time, &pick)
            .unwrap_or_else(|| panic!("no line with {what}; it printed:\n{}", self.text()))
    }

    /// Waits for a line; `None` if the program ends or the deadline passes first.
    pub(super) fn try_line<T>(&self, pick: impl Fn(&str) -> Option<T>) -> Option<T> {
        self.try_line_within(DEADLINE, pick)
    }

    fn try_line_within<T>(&self, time: Duration, pick: impl Fn(&str) -> Option<T>) -> Option<T> {
        self.wait(time, |state| match state.lines.iter().find_map(|line| pick(line)) {
            Some(found) => Some(Some(found)),
            None => (state.open_streams == 0).then_some(None),
        })
        .flatten()
    }

    /// Waits until the program has ended, and thereby closed both streams.
    ///
    /// # Panics
    ///
    /// If the deadline passes first.
    pub fn wait_end(&self) {
        self.wait_end_within(DEADLINE);
    }

    /// Waits until the program has ended, with a given deadline.
    pub(crate) fn wait_end_within(&self, time: Duration) {
        let ended = self.wait(time, |state| (state.open_streams == 0).then_some(()));
        ended.unwrap_or_else(|| panic!("it does not end; it printed:\n{}", self.text()));
    }

    fn wait<T>(&self, time: Duration, check: impl Fn(&State) -> Option<T>) -> Option<T> {
        let end = Instant::now() + time;
        let mut state = self.lock();
        loop {
            if let Some(value) = check(&state) {
                return Some(value);
            }
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return None;
            }
            let waited = self.shared.changed.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.shared.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
