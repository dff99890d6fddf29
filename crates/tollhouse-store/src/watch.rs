//! Watching: the newest commits, kept once for all watchers, and the watchers that read them.
//!
//! A watcher is a position in the common history, not a queue of its own: it costs a few bytes, and a
//! slow one holds nobody up. When what it would read next has been dropped, it is told so.

use crate::backend::HistoryKept;
use crate::changes::Changes;
use crate::entry::Revision;
use crate::error::StoreError;
use crate::limits::{HISTORY_BYTES_MAX, HISTORY_COMMITS_MAX};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::watch;

/// The newest commits of a store.
pub(crate) struct History {
    ring: Mutex<Ring>,
    /// Moves with every commit and at the end; watchers sleep on it.
    moved: watch::Sender<Revision>,
}

struct Ring {
    /// Commits of consecutive revisions, oldest first.
    commits: VecDeque<Arc<Changes>>,
    /// The sum of what they hold.
    bytes: usize,
    /// The newest revision; that of the last commit where one is kept.
    newest: Revision,
    is_closed: bool,
    commits_max: usize,
    bytes_max: usize,
}

impl History {
    /// The history of a store that was opened at this revision.
    pub(crate) fn new(newest: Revision, kept: HistoryKept) -> Self {
        match kept {
            HistoryKept::ForWatchers => {
                Self::bounded(newest, HISTORY_COMMITS_MAX, HISTORY_BYTES_MAX)
            }
            HistoryKept::Nothing => Self::bounded(newest, 0, 0),
        }
    }

    fn bounded(newest: Revision, commits_max: usize, bytes_max: usize) -> Self {
        let commits = VecDeque::new();
        let ring = Ring { commits, bytes: 0, newest, is_closed: false, commits_max, bytes_max };
        Self { ring: Mutex::new(ring), moved: watch::Sender::new(newest) }
    }

    /// Adds a commit, which must be the one after the newest.
    pub(crate) fn publish(&self, changes: Changes) {
        let revision = changes.revision;
        self.lock().push(changes);
        self.moved.send_replace(revision);
    }

    /// The newest revision.
    pub(crate) fn newest(&self) -> Revision {
        self.lock().newest
    }

    /// Waits until the commit of this revision is kept here: the file shows it to readers a moment
    /// before.
    ///
    /// # Errors
    ///
    /// [`StoreError::Closed`] when it will never be, since the writer is gone.
    pub(crate) async fn reached(&self, revision: Revision) -> Result<(), StoreError> {
        let mut moved = self.moved.subscribe();
        loop {
            moved.borrow_and_update();
            let (newest, is_closed) = {
                let ring = self.lock();
                (ring.newest, ring.is_closed)
            };
            if newest >= revision {
                return Ok(());
            }
            if is_closed {
                return Err(StoreError::Closed);
            }
            moved.changed().await.map_err(|_| StoreError::Closed)?;
        }
    }

    /// Wakes every watcher for the last time: each reads what is left and then learns of the end.
    pub(crate) fn close(&self) {
        self.lock().is_closed = true;
        self.moved.send_modify(|_| {});
    }

    /// A watcher of what came after this revision.
    pub(crate) fn watch(self: &Arc<Self>, after: Revision) -> Result<Watch, StoreError> {
        self.lock().read(after)?;
        Ok(Watch { history: Arc::clone(self), moved: self.moved.subscribe(), after })
    }

    fn lock(&self) -> MutexGuard<'_, Ring> {
        self.ring.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Ring {
    fn push(&mut self, changes: Changes) {
        debug_assert_eq!(changes.revision, self.newest.next(), "revisions rise by one");
        self.newest = changes.revision;
        self.bytes += changes.bytes();
        self.commits.push_back(Arc::new(changes));
        while self.commits.len() > self.commits_max
            || (self.bytes > self.bytes_max && self.commits.len() > 1)
        {
            let dropped = self.commits.pop_front().map_or(0, |commit| commit.bytes());
            self.bytes -= dropped;
        }
    }

    /// The commit after this revision; none when there is none yet.
    fn read(&self, after: Revision) -> Result<Option<Arc<Changes>>, StoreError> {
        let oldest = self.commits.front().map_or(self.newest.0, |commit| commit.revision.0 - 1);
        if after.0 < oldest || after > self.newest {
            let oldest = Revision(oldest);
            return Err(StoreError::Compacted { after, oldest, newest: self.newest });
        }
        let index = usize::try_from(after.0 - oldest).unwrap_or(usize::MAX);
        Ok(self.commits.get(index).map(Arc::clone))
    }
}

/// A reader of commits as they come.
pub struct Watch {
    history: Arc<History>,
    moved: watch::Receiver<Revision>,
    after: Revision,
}

impl Watch {
    /// The next commit, as soon as there is one. Dropping the future loses nothing.
    ///
    /// # Errors
    ///
    /// [`StoreError::Compacted`] when the watcher is so far behind that its next commit is no longer
    /// kept: list again and start a new watch there. [`StoreError::Closed`] when the store is gone.
    pub async fn next(&mut self) -> Result<Changes, StoreError> {
        loop {
            self.moved.borrow_and_update();
            if let Some(changes) = self.try_next()? {
                return Ok(changes);
            }
            self.moved.changed().await.map_err(|_| StoreError::Closed)?;
        }
    }

    /// The next commit if it was made already.
    ///
    /// # Errors
    ///
    /// As for [`Watch::next`].
    pub fn try_next(&mut self) -> Result<Option<Changes>, StoreError> {
        let (next, is_closed) = {
            let ring = self.history.lock();
            (ring.read(self.after)?, ring.is_closed)
        };
        let Some(next) = next else {
            return if is_closed { Err(StoreError::Closed) } else { Ok(None) };
        };
        self.after = next.revision;
        Ok(Some(Changes::clone(&next)))
    }

    /// Whether the store is closed, or its writer has ended: nothing comes beyond what is kept.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.history.lock().is_closed
    }

    /// The revision of the last commit that was read, or the one the watch began after.
    #[must_use]
    pub fn revision(&self) -> Revision {
        self.after
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::changes::Event;

    fn changes(revision: u64, key_bytes: usize) -> Changes {
        let revision = Revision(revision);
        let key = "k".repeat(key_bytes).into_boxed_str();
        Changes { revision, events: vec![Event::Delete { key, revision }] }
    }

    fn revisions(watch: &mut Watch) -> Vec<u64> {
        std::iter::from_fn(|| watch.try_next().expect("kept")).map(|c| c.revision.0).collect()
    }

    #[test]
    fn a_watcher_reads_what_came_after_its_revision() {
        let history = Arc::new(History::bounded(Revision(5), 10, 1000));
        for revision in 6..=8 {
            history.publish(changes(revision, 1));
        }
        for (after, expected) in [(5, vec![6, 7, 8]), (7, vec![8]), (8, vec![])] {
            let mut watch = history.watch(Revision(after)).expect("kept");
            assert_eq!(revisions(&mut watch), expected, "after {after}");
        }
    }

    #[test]
    fn revisions_that_are_not_kept_are_refused() {
        let history = Arc::new(History::bounded(Revision(5), 2, 1000));
        for after in [0, 4, 6] {
            assert!(history.watch(Revision(after)).is_err(), "after {after}");
        }
        (6..=9).for_each(|revision| history.publish(changes(revision, 1)));
        for (after, is_kept) in [(6, false), (7, true), (9, true), (10, false)] {
            assert_eq!(history.watch(Revision(after)).is_ok(), is_kept, "after {after}");
        }
    }

    #[test]
    fn a_watcher_that_fell_behind_is_told_and_the_others_go_on() {
        let history = Arc::new(History::bounded(Revision(0), 2, 1000));
        let (mut slow, mut fast) =
            (history.watch(Revision(0)).expect("kept"), history.watch(Revision(0)).expect("kept"));
        for revision in 1..=3 {
            history.publish(changes(revision, 1));
            assert_eq!(revisions(&mut fast), [revision]);
        }
        let expected =
            StoreError::Compacted { after: Revision(0), oldest: Revision(1), newest: Revision(3) };
        assert_eq!(slow.try_next(), Err(expected));
    }

    #[test]
    fn the_bytes_kept_are_bounded_but_the_newest_commit_stays() {
        let history = Arc::new(History::bounded(Revision(0), 100, 10));
        for revision in 1..=3 {
            history.publish(changes(revision, 4));
        }
        assert!(history.watch(Revision(0)).is_err());
        assert!(history.watch(Revision(1)).is_ok());
        history.publish(changes(4, 400));
        let mut watch = history.watch(Revision(3)).expect("kept");
        assert_eq!(revisions(&mut watch), [4]);
    }

    #[tokio::test]
    async fn a_revision_is_reached_once_its_commit_is_kept_and_never_after_the_end() {
        let history = Arc::new(History::bounded(Revision(4), 100, 100));
        assert_eq!(history.reached(Revision(4)).await, Ok(()));
        let (waiting, publish) = (history.reached(Revision(5)), async {
            tokio::task::yield_now().await;
            history.publish(changes(5, 1));
        });
        let (reached, ()) = tokio::join!(waiting, publish);
        assert_eq!(reached, Ok(()));
        history.close();
        assert_eq!(history.reached(Revision(5)).await, Ok(()));
        assert_eq!(history.reached(Revision(6)).await, Err(StoreError::Closed));
    }

    #[tokio::test]
    async fn a_history_that_keeps_nothing_tells_of_the_end_all_the_same() {
        let history = Arc::new(History::new(Revision(5), HistoryKept::Nothing));
        let watch = history.watch(Revision(5)).expect("the newest");
        history.publish(changes(6, 1_000_000));
        let ring = history.lock();
        assert_eq!((ring.commits.len(), ring.bytes, ring.newest), (0, 0, Revision(6)));
        drop(ring);
        assert!(history.watch(Revision(5)).is_err());
        assert!(history.watch(Revision(6)).is_ok());
        history.close();
        drop(watch);
    }

    #[tokio::test]
    async fn the_end_comes_after_what_was_left_to_read() {
        let history = Arc::new(History::bounded(Revision(0), 100, 100));
        let mut watch = history.watch(Revision(0)).expect("kept");
        history.publish(changes(1, 1));
        assert!(!watch.is_over());
        history.close();
        assert!(watch.is_over());
        assert_eq!(watch.next().await.map(|c| c.revision), Ok(Revision(1)));
        assert_eq!(watch.next().await, Err(StoreError::Closed));
    }
}
