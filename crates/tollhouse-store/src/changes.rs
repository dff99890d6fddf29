//! What a watcher receives: commits, whole and in order.

use crate::entry::{Entry, Revision};

/// What a commit did to one key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// The key was created or its value replaced; this is the entry now.
    Put(Entry),
    /// The key was removed, by a transaction or by the end of its lease.
    Delete {
        /// The key.
        key: Box<str>,
        /// The revision of the removal.
        revision: Revision,
    },
}

impl Event {
    /// The key that was put or removed.
    #[must_use]
    pub fn key(&self) -> &str {
        match self {
            Self::Put(entry) => &entry.key,
            Self::Delete { key, .. } => key,
        }
    }

    /// Bytes of key and value, for the bound of what is kept.
    fn bytes(&self) -> usize {
        match self {
            Self::Put(entry) => entry.key.len() + entry.value.len(),
            Self::Delete { key, .. } => key.len(),
        }
    }
}

/// One commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Changes {
    /// The revision that the commit made.
    pub revision: Revision,
    /// What it did, in the order of its operations; the last event of a key is what holds.
    pub events: Vec<Event>,
}

impl Changes {
    /// Bytes of keys and values in all events.
    pub(crate) fn bytes(&self) -> usize {
        self.events.iter().map(Event::bytes).sum()
    }

    /// What of it lies under a prefix; none when nothing does.
    pub(crate) fn under(&self, prefix: &str) -> Option<Self> {
        let events = self.events.iter().filter(|event| event.key().starts_with(prefix)).cloned();
        let events: Vec<Event> = events.collect();
        (!events.is_empty()).then_some(Self { revision: self.revision, events })
    }
}
