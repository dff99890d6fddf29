//! Queues of plugins that send in batches, as metrics show them.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// How much waits in a queue.
pub trait QueueGauge: Send + Sync {
    /// Entries waiting.
    fn entries(&self) -> usize;

    /// The request that filled it first; `None` before there was one.
    fn origin(&self) -> Option<&QueueOrigin> {
        None
    }
}

/// The request that filled a queue first.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct QueueOrigin {
    /// Its route, also where the plugin is another object's.
    pub route_id: Box<str>,
    /// The address that it came to.
    pub server_addr: Box<str>,
}

/// All queues of the process that are in use.
#[derive(Default)]
pub struct Queues {
    known: Mutex<Vec<Known>>,
    lost: AtomicU64,
}

struct Known {
    name: String,
    owner: String,
    gauge: Weak<dyn QueueGauge>,
}

/// A queue as it is now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueueLength {
    /// Its name, such as `http logger`.
    pub name: String,
    /// The object whose plugin it is: `routes/1`.
    pub owner: String,
    /// The request that filled it first.
    pub origin: Option<QueueOrigin>,
    /// Entries waiting.
    pub entries: usize,
}

impl std::fmt::Debug for Queues {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_list().entries(self.lengths()).finish()
    }
}

impl Queues {
    /// Shows a queue for as long as somebody uses it.
    pub fn show(&self, name: &str, owner: &str, gauge: &Arc<dyn QueueGauge>) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.retain(|queue| queue.gauge.strong_count() > 0);
        let gauge = Arc::downgrade(gauge);
        known.push(Known { name: name.to_owned(), owner: owner.to_owned(), gauge });
    }

    /// Counts entries that nobody will get.
    pub fn note_lost(&self, entries: u64) {
        self.lost.fetch_add(entries, Ordering::Relaxed);
    }

    /// Entries of all queues that nobody will get, since the start.
    pub fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }

    /// Every queue, and what waits in it.
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
