//! Counters of a mock: one block per worker, summed on demand.

use std::sync::atomic::{AtomicU64, Ordering};

/// Sums of the counters over all workers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Totals {
    /// Number of accepted connections.
    pub connections: u64,
    /// Number of connections that are open now.
    pub connections_open: u64,
    /// Connections that could not be accepted, usually for lack of file descriptors.
    pub connections_refused: u64,
    /// Received requests, gRPC calls and WebSocket messages.
    pub requests: u64,
    /// Requests answered with an injected error.
    pub errors: u64,
    /// Requests whose connection or stream was reset.
    pub resets: u64,
    /// Number of connections and requests that were malformed.
    pub malformed: u64,
}

/// Counters of one worker, on separate cache lines.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(super) struct Counts {
    pub(super) connections: Counter,
    pub(super) connections_ended: Counter,
    pub(super) connections_refused: Counter,
    pub(super) requests: Counter,
    pub(super) errors: Counter,
    pub(super) resets: Counter,
    pub(super) malformed: Counter,
}

/// Counter written by one thread and read by others.
#[derive(Debug, Default)]
pub(super) struct Counter(AtomicU64);

impl Counter {
    /// Adds one. Only the worker's own thread may call this, because the addition is not atomic.
    #[inline]
    pub(super) fn add_one(&self) {
        self.0.store(self.0.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }

    fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

impl Totals {
    pub(super) fn sum<'a>(workers: impl Iterator<Item = &'a Counts>) -> Self {
        workers.fold(Totals::default(), |sum, counts| {
            // Read first, so that it never exceeds the number of accepted connections.
            let ended = counts.connections_ended.get();
            let accepted = counts.connections.get();
            Totals {
                connections: sum.connections + accepted,
                connections_open: sum.connections_open + accepted.saturating_sub(ended),
                connections_refused: sum.connections_refused + counts.connections_refused.get(),
                requests: sum.requests + counts.requests.get(),
                errors: sum.errors + counts.errors.get(),
                resets: sum.resets + counts.resets.get(),
                malformed: sum.malformed + counts.malformed.get(),
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workers_are_summed() {
        let workers = [Counts::default(), Counts::default()];
        for counts in &workers {
            counts.connections.add_one();
            counts.requests.add_one();
        }
        workers[1].connections_ended.add_one();
        let totals = Totals::sum(workers.iter());
        assert_eq!((totals.connections, totals.connections_open, totals.requests), (2, 1, 2));
    }
}
