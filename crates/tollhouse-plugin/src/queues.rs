//! Queues of plugins that send in batches, for metrics.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// Source of the current length of one queue.
pub trait QueueGauge: Send + Sync {
    /// Returns the number of waiting entries.
    fn entries(&self) -> usize;

    /// Returns the request that queued the first entry since the queue was created; `None` before
    /// that entry.
    fn origin(&self) -> Option<&QueueOrigin> {
        None
    }
}

/// Properties of the request that queued the first entry since the queue was created; they become
/// labels of the queue's metrics.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct QueueOrigin {
    /// Id of the request's route, even if the plugin belongs to another object.
    pub route_id: Box<str>,
    /// Address on which the request arrived.
    pub server_addr: Box<str>,
}

/// Registry of all queues that plugins use.
#[derive(Default)]
pub struct Queues {
    known: Mutex<Vec<QueueEntry>>,
    lost: AtomicU64,
    spans_lost: AtomicU64,
    spans_exported: AtomicU64,
}

struct QueueEntry {
    name: String,
    owner: String,
    gauge: Weak<dyn QueueGauge>,
}

/// Length of one queue, with its name and owner.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueueLength {
    /// Name of the queue, such as `http logger`.
    pub name: String,
    /// Object that has the plugin, such as `routes/1`.
    pub owner: String,
    /// Request that queued the first entry since the queue was created.
    pub origin: Option<QueueOrigin>,
    /// Number of entries that wait in the queue.
    pub entries: usize,
}

impl std::fmt::Debug for Queues {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_list().entries(self.lengths()).finish()
    }
}

impl Queues {
    /// Registers a queue, which is listed until `gauge` is dropped elsewhere.
    pub fn show(&self, name: &str, owner: &str, gauge: &Arc<dyn QueueGauge>) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.retain(|queue| queue.gauge.strong_count() > 0);
        let gauge = Arc::downgrade(gauge);
        known.push(QueueEntry { name: name.to_owned(), owner: owner.to_owned(), gauge });
    }

    /// Adds `entries` to the number of entries that were lost instead of delivered.
    pub fn note_lost(&self, entries: u64) {
        self.lost.fetch_add(entries, Ordering::Relaxed);
    }

    /// Adds `spans` to the number of spans that were lost instead of exported.
    pub fn note_lost_spans(&self, spans: u64) {
        self.spans_lost.fetch_add(spans, Ordering::Relaxed);
    }

    /// Adds `spans` to the number of spans that a collector has accepted.
    pub fn note_exported_spans(&self, spans: u64) {
        self.spans_exported.fetch_add(spans, Ordering::Relaxed);
    }

    /// Returns the number of lost spans since the start.
    pub fn spans_lost(&self) -> u64 {
        self.spans_lost.load(Ordering::Relaxed)
    }

    /// Returns the number of exported spans since the start.
    pub fn spans_exported(&self) -> u64 {
        self.spans_exported.load(Ordering::Relaxed)
    }

    /// Returns the number of lost entries of all queues since the start.
    pub fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }

    /// Returns the state of every queue.
    pub fn lengths(&self) -> Vec<QueueLength> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let alive = known.iter().filter_map(|queue| {
            let gauge = queue.gauge.upgrade()?;
            let (name, owner) = (queue.name.clone(), queue.owner.clone());
            let (origin, entries) = (gauge.origin().cloned(), gauge.entries());
            Some(QueueLength { name, owner, origin, entries })
        });
        alive.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Three;

    impl QueueGauge for Three {
        fn entries(&self) -> usize {
            3
        }
    }

    #[test]
    fn a_queue_is_shown_while_it_is_used() {
        let queues = Queues::default();
        let gauge: Arc<dyn QueueGauge> = Arc::new(Three);
        queues.show("http logger", "routes/1", &gauge);
        let shown = queues.lengths();
        assert_eq!((shown[0].owner.as_str(), shown[0].entries), ("routes/1", 3));
        drop(gauge);
        assert_eq!(queues.lengths(), []);
    }
}
