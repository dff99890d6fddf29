//! Watches: their events, and the interface for backends.
//!
//! The revisions of a watch rise, but not by one, because other keys change too and some engines
//! count further operations. [`WatchEvent::Progress`] reports how far a watch has come while
//! nothing under its prefix changes.

use crate::changes::Changes;
use crate::entry::Revision;
use crate::future::BoxFuture;

/// Commit or state that a watch reports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WatchEvent {
    /// The part of a commit under the prefix.
    Commit(Changes),
    /// All commits up to this revision with changes under the prefix were received.
    Progress(Revision),
    /// The watch has ended: commits may have been missed, or no more will come. Every further call
    /// returns this event again.
    Lost(Lost),
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Lost {
    /// The watch asked for commits that are no longer kept, or that this store never made. List
    /// again, and watch from there.
    #[error(
        "commits after revision {after} are not kept (the store has those after {oldest} up to \
         {newest}); list again and watch from there"
    )]
    Compacted {
        /// The revision after which commits were requested.
        after: Revision,
        /// The revision after which commits are kept.
        oldest: Revision,
        /// Revision of the newest commit.
        newest: Revision,
    },
    /// The store is at an earlier revision than one read before: it was restored from an older
    /// snapshot, or has lost commits. List again, and watch from there.
    #[error(
        "the store is at revision {newest}, and was read up to {after}: it was put back to an older snapshot, or has \
         lost commits that it had confirmed"
    )]
    Rewound {
        /// Revision that the watch had reached.
        after: Revision,
        /// Revision of the newest commit now; lower than the one reached.
        newest: Revision,
    },
    /// The store is not reachable. List again once it is.
    #[error("the store cannot be reached ({reason}); list again once it can")]
    Unavailable {
        /// Message of the store's engine.
        reason: String,
    },
    /// The store was closed, or must be opened again before it makes further commits.
    #[error("the store is closed")]
    Closed,
}

/// Implementation of a [`Watch`] by a backend.
pub trait WatchSource: Send {
    /// Waits for the next event. Dropping the future must lose nothing.
    fn next(&mut self) -> BoxFuture<'_, WatchEvent>;

    /// Returns the next event if it is already available.
    fn try_next(&mut self) -> Option<WatchEvent>;

    /// Whether no events will come beyond those already available.
    fn is_over(&self) -> bool;
}

/// Stream of the commits under a prefix, in their order.
pub struct Watch {
    source: Box<dyn WatchSource>,
    revision: Revision,
}

impl Watch {
    /// Watches from a source, after a revision.
    #[must_use]
    pub fn new(source: Box<dyn WatchSource>, after: Revision) -> Self {
        Self { source, revision: after }
    }

    /// Waits for the next event. Dropping the future loses nothing.
    pub async fn next(&mut self) -> WatchEvent {
        let event = self.source.next().await;
        self.note(&event);
        event
    }

    /// Returns the next event if it is already available.
    pub fn try_next(&mut self) -> Option<WatchEvent> {
        let event = self.source.try_next()?;
        self.note(&event);
        Some(event)
    }

    /// Whether the store is closed, so that no events will come beyond those already available.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.source.is_over()
    }

    /// Returns the revision up to which everything under the prefix was received.
    #[must_use]
    pub fn revision(&self) -> Revision {
        self.revision
    }

    fn note(&mut self, event: &WatchEvent) {
        match event {
            WatchEvent::Commit(changes) => self.revision = changes.revision,
            WatchEvent::Progress(revision) => self.revision = *revision,
            WatchEvent::Lost(_) => {}
        }
    }
}
