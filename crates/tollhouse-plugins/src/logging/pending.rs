//! Limit on entries that wait for delivery, and on their bytes. Further entries are dropped and
//! counted, so that a log server that is down cannot use up memory.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use tollhouse_plugin::queues::QueueOrigin;
use tollhouse_plugin::{QueueGauge, Queues};

/// Default limit on the number of waiting entries.
pub(crate) const ENTRIES_MAX: usize = 8_192;

/// Maximum number of bytes of waiting entries, because thousands of entries with bodies could take
/// gigabytes.
const BYTES_MAX: usize = 64 << 20;

/// Kind of the entries of a queue, under which losses are counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EntryKind {
    Log,
    Span,
}

#[derive(Debug)]
pub(crate) struct Pending {
    kind: EntryKind,
    entries_max: usize,
    entries: AtomicUsize,
    bytes: AtomicUsize,
    dropped: AtomicU64,
    /// Registry of queues, which counts lost entries.
    queues: Arc<Queues>,
    /// Request that queued the first entry.
    origin: OnceLock<QueueOrigin>,
}

impl Pending {
    /// Returns a limit of at most `entries_max` entries.
    pub(crate) fn new(entries_max: usize, queues: Arc<Queues>) -> Self {
        Self {
            kind: EntryKind::Log,
            entries_max,
            entries: AtomicUsize::new(0),
            bytes: AtomicUsize::new(0),
            dropped: AtomicU64::new(0),
            queues,
            origin: OnceLock::new(),
        }
    }

    /// Sets the kind of entries, which is log entries otherwise.
    pub(crate) fn with_kind(self, kind: EntryKind) -> Self {
        Self { kind, ..self }
    }

    /// Records the request of the first entry.
    pub(crate) fn note_origin(&self, origin: impl FnOnce() -> QueueOrigin) {
        self.origin.get_or_init(origin);
    }

    /// Counts a waiting entry, or a dropped one if there are too many.
    pub(crate) fn admit(&self, bytes: usize) -> Result<(), Full> {
        self.admit_many(1, bytes)
    }

    /// Counts `count` waiting entries, which are admitted or dropped together.
    pub(crate) fn admit_many(&self, count: usize, bytes: usize) -> Result<(), Full> {
        let entries = self.entries.fetch_add(count, Ordering::Relaxed) + count;
        let waiting_bytes = self.bytes.fetch_add(bytes, Ordering::Relaxed) + bytes;
        if entries <= self.entries_max && waiting_bytes <= BYTES_MAX {
            return Ok(());
        }
        self.release(count, bytes);
        self.lose(count);
        Err(Full { dropped: self.dropped.fetch_add(1, Ordering::Relaxed) + 1 })
    }

    /// Counts entries that were admitted but lost.
    pub(crate) fn lose(&self, entries: usize) {
        match self.kind {
            EntryKind::Log => self.queues.note_lost(entries as u64),
            EntryKind::Span => self.queues.note_lost_spans(entries as u64),
        }
    }

    /// Removes delivered or lost entries from the count.
    pub(crate) fn release(&self, entries: usize, bytes: usize) {
        self.entries.fetch_sub(entries, Ordering::Relaxed);
        self.bytes.fetch_sub(bytes, Ordering::Relaxed);
    }
}

impl QueueGauge for Pending {
    fn entries(&self) -> usize {
        self.entries.load(Ordering::Relaxed)
    }

    fn origin(&self) -> Option<&QueueOrigin> {
        self.origin.get()
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Full {
    /// Number of entries dropped so far.
    pub dropped: u64,
}

impl Full {
    /// Whether to log the drop: at 1, 2, 4, 8, … drops, because they come in large numbers.
    pub(crate) fn is_worth_a_line(self) -> bool {
        self.dropped.is_power_of_two()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_and_bytes_are_bounded() {
        let queues = Arc::<Queues>::default();
        let pending = Pending::new(2, Arc::clone(&queues));
        assert_eq!(pending.admit(1), Ok(()));
        assert_eq!(pending.admit(BYTES_MAX), Err(Full { dropped: 1 }));
        assert_eq!(pending.admit(BYTES_MAX - 1), Ok(()));
        assert_eq!(pending.admit(0), Err(Full { dropped: 2 }));
        pending.release(2, BYTES_MAX);
        assert_eq!(pending.admit(BYTES_MAX), Ok(()));
        assert_eq!(queues.lost(), 2);
    }
}
