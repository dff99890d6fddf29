//! Commits as watchers receive them: whole and in order.

use crate::entry::{Entry, Revision};

/// Effect of a commit on one key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// The key was created or its value replaced; holds the new entry.
    Put(Entry),
    /// The key was removed, by a transaction or by the end of its lease.
    Delete {
        key: Box<str>,
        /// Revision of the commit that removed the key.
        revision: Revision,
    },
}

impl Event {
    #[must_use]
    pub fn key(&self) -> &str {
        match self {
            Self::Put(entry) => &entry.key,
            Self::Delete { key, .. } => key,
        }
    }

    /// Returns the size in bytes, for the limit of the history.
    fn bytes(&self) -> usize {
        match self {
            Self::Put(entry) => entry.key.len() + entry.value.len(),
            Self::Delete { key, .. } => key.len(),
        }
    }
}

/// Events of one commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Changes {
    pub revision: Revision,
    /// Events in the order of the operations. The last event of a key determines its state.
    pub events: Vec<Event>,
}

impl Changes {
    /// Returns the number of bytes of keys and values in all events.
    pub(crate) fn bytes(&self) -> usize {
        self.events.iter().map(Event::bytes).sum()
    }

    /// Returns the events under a prefix; `None` if the commit has no event there.
    pub(crate) fn under(&self, prefix: &str) -> Option<Self> {
        let events = self.events.iter().filter(|event| event.key().starts_with(prefix)).cloned();
        let events: Vec<Event> = events.collect();
        (!events.is_empty()).then_some(Self { revision: self.revision, events })
    }
}
