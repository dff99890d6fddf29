//! History of the newest commits of a store in this process, shared by all its watchers.
//!
//! A watcher is a position in the common history, without a queue. It costs a few bytes, and a slow
//! one does not delay others. If the next commit it would read has been dropped, its watch ends with
//! `Lost`.

use crate::changes::Changes;
use crate::entry::Revision;
use crate::error::StoreError;
use crate::future::BoxFuture;
use crate::limits::{HISTORY_BYTES_MAX, HISTORY_COMMITS_MAX};
use crate::options::HistoryExtent;
use crate::watch::{Lost, Watch, WatchEvent, WatchSource};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::watch;

/// The newest commits of a store.
pub struct History {
    ring: Mutex<Ring>,
    /// Signals every commit and the end of the store to waiting watchers.
    moved: watch::Sender<Revision>,
}

struct Ring {
    /// Commits in the order of their revisions, oldest first.
    commits: VecDeque<Arc<Changes>>,
    /// Total size of the commits, in bytes.
    bytes: usize,
    /// The newest revision that was dropped; all later commits are kept.
    dropped: Revision,
    /// Revision of the newest commit.
    newest: Revision,
    /// Number of restarts. Watches from before a restart are lost, because the commits they read
    /// may not exist any more.
    restarts: u64,
    is_closed: bool,
    commits_max: usize,
    bytes_max: usize,
}

impl History {
    /// Creates the history of a store opened at this revision.
    #[must_use]
    pub fn new(newest: Revision, kept: HistoryExtent) -> Self {
        match kept {
            HistoryExtent::ForWatchers => {
                Self::bounded(newest, HISTORY_COMMITS_MAX, HISTORY_BYTES_MAX)
            }
            HistoryExtent::Nothing => Self::bounded(newest, 0, 0),
        }
    }

    fn bounded(newest: Revision, commits_max: usize, bytes_max: usize) -> Self {
        let ring = Ring {
            commits: VecDeque::new(),
            bytes: 0,
            dropped: newest,
            newest,
            restarts: 0,
            is_closed: false,
            commits_max,
            bytes_max,
        };
        Self { ring: Mutex::new(ring), moved: watch::Sender::new(newest) }
    }

    /// Appends a commit, which must be newer than all others.
    pub fn publish(&self, changes: Changes) {
        let revision = changes.revision;
        self.lock().push(changes);
        self.moved.send_replace(revision);
    }

    #[must_use]
    pub fn newest(&self) -> Revision {
        self.lock().newest
    }

    /// Drops every commit and continues from this revision, because commits were missed, or were
    /// undone by an engine that lost them. All watches are lost, even those at a revision that
    /// occurs again.
    pub fn restart(&self, newest: Revision) {
        let mut ring = self.lock();
        ring.commits.clear();
        ring.bytes = 0;
        ring.dropped = newest;
        ring.newest = newest;
        ring.restarts += 1;
        drop(ring);
        self.moved.send_replace(newest);
    }

    /// Waits until the commit of this revision is in the history, because readers of the file see
    /// it slightly earlier.
    ///
    /// # Errors
    ///
    /// [`StoreError::Closed`] if the store is closed before that.
    pub async fn reached(&self, revision: Revision) -> Result<(), StoreError> {
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

    /// Wakes every watcher a last time; each reads the remaining commits and then learns of the
    /// end.
    pub fn close(&self) {
        self.lock().is_closed = true;
        self.moved.send_modify(|_| {});
    }

    /// Watches commits under a prefix after this revision.
    #[must_use]
    pub fn watch(self: &Arc<Self>, prefix: &str, after: Revision) -> Watch {
        let restarts = self.lock().restarts;
        let source = HistoryWatch {
            history: Arc::clone(self),
            restarts,
            moved: self.moved.subscribe(),
            prefix: prefix.into(),
            after,
            reported: after,
        };
        Watch::new(Box::new(source), after)
    }

    fn lock(&self) -> MutexGuard<'_, Ring> {
        self.ring.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Ring {
    fn push(&mut self, changes: Changes) {
        debug_assert!(changes.revision > self.newest, "revisions rise");
        self.newest = changes.revision;
        self.bytes += changes.bytes();
        self.commits.push_back(Arc::new(changes));
        while self.commits.len() > self.commits_max
            || (self.bytes > self.bytes_max && self.commits.len() > 1)
        {
            if let Some(commit) = self.commits.pop_front() {
                self.bytes -= commit.bytes();
                self.dropped = commit.revision;
            }
        }
    }

    /// Returns the first commit after this revision; `None` before it is made.
    fn read(&self, after: Revision, restarts: u64) -> Result<Option<Arc<Changes>>, Lost> {
        if after < self.dropped || after > self.newest || restarts != self.restarts {
            return Err(Lost::Compacted { after, oldest: self.dropped, newest: self.newest });
        }
        // Revisions may have gaps, so the index of a commit cannot be computed from its revision.
        let index = self.commits.partition_point(|commit| commit.revision <= after);
        Ok(self.commits.get(index).map(Arc::clone))
    }
}

/// Position of one watcher in the history.
struct HistoryWatch {
    history: Arc<History>,
    /// Number of restarts of the history when the watch began.
    restarts: u64,
    moved: watch::Receiver<Revision>,
    prefix: Box<str>,
    /// Revision of the last commit examined.
    after: Revision,
    /// Last revision reported to the watcher.
    reported: Revision,
}

impl WatchSource for HistoryWatch {
    fn next(&mut self) -> BoxFuture<'_, WatchEvent> {
        Box::pin(async move {
            loop {
                self.moved.borrow_and_update();
                if let Some(event) = self.try_next() {
                    return event;
                }
                if self.moved.changed().await.is_err() {
                    return WatchEvent::Lost(Lost::Closed);
                }
            }
        })
    }

    fn try_next(&mut self) -> Option<WatchEvent> {
        loop {
            let (next, is_closed) = {
                let ring = self.history.lock();
                (ring.read(self.after, self.restarts), ring.is_closed)
            };
            match next {
                Err(lost) => return Some(WatchEvent::Lost(lost)),
                Ok(Some(commit)) => {
                    self.after = commit.revision;
                    if let Some(changes) = commit.under(&self.prefix) {
                        self.reported = self.after;
                        return Some(WatchEvent::Commit(changes));
                    }
                }
                // Progress is reported once all commits are read, so that a caller waiting for a
                // revision need not wait for a change under its prefix.
                Ok(None) if self.after > self.reported => {
                    self.reported = self.after;
                    return Some(WatchEvent::Progress(self.after));
                }
                Ok(None) => return is_closed.then_some(WatchEvent::Lost(Lost::Closed)),
            }
        }
    }

    fn is_over(&self) -> bool {
        self.history.lock().is_closed
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

    /// The revisions of the commits that are there already.
    fn revisions(watch: &mut Watch) -> Vec<u64> {
        std::iter::from_fn(|| match watch.try_next()? {
            WatchEvent::Commit(changes) => Some(changes.revision.0),
            event => panic!("{event:?}"),
        })
        .collect()
    }

    fn is_lost(history: &Arc<History>, after: u64) -> bool {
        let first = history.watch("", Revision(after)).try_next();
        matches!(first, Some(WatchEvent::Lost(Lost::Compacted { .. })))
    }

    #[test]
    fn a_watcher_reads_what_came_after_its_revision() {
        let history = Arc::new(History::bounded(Revision(5), 10, 1000));
        for revision in [6, 9, 12] {
            history.publish(changes(revision, 1));
        }
        let cases =
            [(5, vec![6, 9, 12]), (6, vec![9, 12]), (7, vec![9, 12]), (11, vec![12]), (12, vec![])];
        for (after, expected) in cases {
            let mut watch = history.watch("", Revision(after));
            assert_eq!(revisions(&mut watch), expected, "after {after}");
        }
    }

    #[test]
    fn revisions_that_are_not_kept_are_lost() {
        let history = Arc::new(History::bounded(Revision(5), 2, 1000));
        for after in [0, 4, 6] {
            assert!(is_lost(&history, after), "after {after}");
        }
        (6..=9).for_each(|revision| history.publish(changes(revision, 1)));
        for (after, expected) in [(6, true), (7, false), (9, false), (10, true)] {
            assert_eq!(is_lost(&history, after), expected, "after {after}");
        }
    }

    #[test]
    fn a_watcher_that_fell_behind_is_lost_and_the_others_go_on() {
        let history = Arc::new(History::bounded(Revision(0), 2, 1000));
        let mut slow = history.watch("", Revision(0));
        let mut fast = history.watch("", Revision(0));
        for revision in 1..=3 {
            history.publish(changes(revision, 1));
            assert_eq!(revisions(&mut fast), [revision]);
        }
        let (after, oldest, newest) = (Revision(0), Revision(1), Revision(3));
        let expected = WatchEvent::Lost(Lost::Compacted { after, oldest, newest });
        assert_eq!(slow.try_next(), Some(expected.clone()));
        assert_eq!(slow.try_next(), Some(expected), "what is lost stays lost");
    }

    #[test]
    fn the_bytes_kept_are_bounded_but_the_newest_commit_stays() {
        let history = Arc::new(History::bounded(Revision(0), 100, 10));
        for revision in 1..=3 {
            history.publish(changes(revision, 4));
        }
        assert!(is_lost(&history, 0));
        assert!(!is_lost(&history, 1));
        history.publish(changes(4, 400));
        let mut watch = history.watch("", Revision(3));
        assert_eq!(revisions(&mut watch), [4]);
    }

    #[test]
    fn a_restart_loses_every_watcher_of_before() {
        let history = Arc::new(History::bounded(Revision(5), 10, 1000));
        let mut old = history.watch("", Revision(5));
        history.restart(Revision(4));
        history.publish(changes(6, 1));
        assert!(matches!(old.try_next(), Some(WatchEvent::Lost(Lost::Compacted { .. }))));
        assert_eq!(revisions(&mut history.watch("", Revision(4))), [6]);
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

    #[test]
    fn a_history_that_keeps_nothing_knows_its_end_all_the_same() {
        let history = Arc::new(History::new(Revision(5), HistoryExtent::Nothing));
        let watch = history.watch("", Revision(5));
        history.publish(changes(6, 1_000_000));
        let ring = history.lock();
        assert_eq!((ring.commits.len(), ring.bytes, ring.newest), (0, 0, Revision(6)));
        drop(ring);
        assert!(is_lost(&history, 5));
        assert!(!is_lost(&history, 6));
        assert!(!watch.is_over());
        history.close();
        assert!(watch.is_over());
    }
}
