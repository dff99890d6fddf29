//! Watching: what a watcher receives, and what a backend gives to make one.
//!
//! Revisions that a watcher sees rise, but not by one: other keys change too, and some engines count all
//! of them. [`WatchEvent::Progress`] tells how far a watch has come where nothing under its prefix changed.

use crate::changes::Changes;
use crate::entry::Revision;
use crate::future::BoxFuture;

/// What a watcher receives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WatchEvent {
    /// A commit: what of it lies under the prefix.
    Commit(Changes),
    /// Every commit up to this revision was received that has anything under the prefix.
    Progress(Revision),
    /// Commits may have been missed, or none come any more. Further questions get the same answer.
    Lost(Lost),
}

/// Why a watch has ended.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Lost {
    /// The watcher asked for commits that are no longer kept, or that this store never made: list again,
    /// and watch from there.
    #[error(
        "commits after revision {after} are not kept (the store has those after {oldest} up to \
         {newest}); list again and watch from there"
    )]
    Compacted {
        /// The revision after which commits were asked for.
        after: Revision,
        /// The revision after which commits are kept.
        oldest: Revision,
        /// The newest revision.
        newest: Revision,
    },
    /// The store is at an earlier revision than one that was read: it was put back to an older snapshot, or has lost
    /// commits. List again, and watch from there.
    #[error(
        "the store is at revision {newest}, and was read up to {after}: it was put back to an older snapshot, or has \
         lost commits that it had confirmed"
    )]
    Rewound {
        /// The revision that was read.
        after: Revision,
        /// The newest one now.
        newest: Revision,
    },
    /// The store cannot be reached: list again once it can.
    #[error("the store cannot be reached ({reason}); list again once it can")]
    Unavailable {
        /// What the engine said.
        reason: String,
    },
    /// The store was closed, or makes no more commits until it is opened anew.
    #[error("the store is closed")]
    Closed,
}

/// What a backend gives to make a [`Watch`].
pub trait WatchSource: Send {
    /// The next event. Dropping the future must lose nothing.
    fn next(&mut self) -> BoxFuture<'_, WatchEvent>;

    /// The next event if it is there already.
    fn try_next(&mut self) -> Option<WatchEvent>;

    /// Whether nothing comes any more, beyond what is there already.
    fn is_over(&self) -> bool;
}

/// A reader of commits as they come.
pub struct Watch {
    source: Box<dyn WatchSource>,
    revision: Revision,
}

impl Watch {
    /// A watch of what comes after a revision.
    #[must_use]
    pub fn new(source: Box<dyn WatchSource>, after: Revision) -> Self {
        Self { source, revision: after }
    }

    /// The next event, as soon as there is one. Dropping the future loses nothing.
    pub async fn next(&mut self) -> WatchEvent {
        let event = self.source.next().await;
        self.note(&event);
        event
    }

    /// The next event if it is there already.
    pub fn try_next(&mut self) -> Option<WatchEvent> {
        let event = self.source.try_next()?;
        self.note(&event);
        Some(event)
    }

    /// Whether the store is closed: nothing comes beyond what is there already.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.source.is_over()
    }

    /// Up to where everything under the prefix was received.
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
