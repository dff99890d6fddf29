//! Lag of watches: commits that the cluster has confirmed and that the reader of a watch has not
//! taken yet. Measured from commits of this process, from the probes of idle watches, and from
//! events that wait for their reader. etcd has no revision for a prefix, so that its newest revision
//! alone does not say whether a watch is behind.

use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

use tollhouse_store::Revision;

/// Distance of a watch from the cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WatchLag {
    /// Revision up to which the reader has taken events.
    pub taken: Revision,
    /// Newest revision that is known to have an event for the watch.
    pub newest: Revision,
    /// Time since the oldest commit that was not taken.
    pub time: Duration,
}

/// Lags of the watches of a store.
#[derive(Debug, Clone, Default)]
pub struct WatchLags(Arc<Mutex<Vec<Weak<Pending>>>>);

/// Commits that a watch has not delivered to its reader.
#[derive(Debug)]
pub(crate) struct Pending {
    prefix: Box<str>,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    taken: Revision,
    /// Oldest and newest known commit after `taken`, each with the time at which it was noted.
    open: Option<(Commit, Commit)>,
}

#[derive(Debug, Clone, Copy)]
struct Commit {
    revision: Revision,
    at: Instant,
}

impl WatchLags {
    /// Returns the longest lag; `None` if no watch is behind.
    pub fn longest(&self) -> Option<WatchLag> {
        let watches = self.watches();
        let lags = watches.iter().filter_map(|watch| watch.upgrade()?.lag(Instant::now()));
        lags.max_by_key(|lag| lag.time)
    }

    /// Adds a watch that delivers from a revision on. It is removed when it is dropped.
    pub(crate) fn add(&self, prefix: &str, after: Revision) -> Arc<Pending> {
        let state = Mutex::new(State { taken: after, open: None });
        let pending = Arc::new(Pending { prefix: prefix.into(), state });
        let mut watches = self.watches();
        watches.retain(|watch| watch.strong_count() > 0);
        watches.push(Arc::downgrade(&pending));
        pending
    }

    /// Notes a confirmed commit that puts one of these keys.
    pub(crate) fn note_commit<'k>(
        &self,
        revision: Revision,
        keys: impl Iterator<Item = &'k str> + Clone,
    ) {
        for watch in self.watches().iter().filter_map(Weak::upgrade) {
            if keys.clone().any(|key| key.starts_with(&*watch.prefix)) {
                watch.note_commit(revision);
            }
        }
    }

    fn watches(&self) -> std::sync::MutexGuard<'_, Vec<Weak<Pending>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Pending {
    /// Notes a commit that the watch must deliver.
    pub(crate) fn note_commit(&self, revision: Revision) {
        self.note_commit_at(revision, Instant::now());
    }

    fn note_commit_at(&self, revision: Revision, at: Instant) {
        let mut state = self.state();
        if revision <= state.taken {
            return;
        }
        let commit = Commit { revision, at };
        state.open = Some(match state.open {
            None => (commit, commit),
            Some((oldest, newest)) if revision > newest.revision => (oldest, commit),
            Some(open) => open,
        });
    }

    /// Notes that the reader has taken a commit.
    pub(crate) fn note_taken(&self, revision: Revision) {
        let mut state = self.state();
        state.taken = state.taken.max(revision);
        let taken = state.taken;
        // The commits between the two are not stored: the newest one stands for them.
        state.open =
            state.open.filter(|(_, newest)| newest.revision > taken).map(|(oldest, newest)| {
                if oldest.revision > taken { (oldest, newest) } else { (newest, newest) }
            });
    }

    fn lag(&self, now: Instant) -> Option<WatchLag> {
        let state = self.state();
        let (oldest, newest) = state.open?;
        let time = now.saturating_duration_since(oldest.at);
        Some(WatchLag { taken: state.taken, newest: newest.revision, time })
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lag_counts_from_the_oldest_commit_that_was_not_taken() {
        let lags = WatchLags::default();
        let watch = lags.add("/a/", Revision(10));
        let began = Instant::now();
        let at = |seconds| began + Duration::from_secs(seconds);
        let lag = |seconds| watch.lag(at(seconds)).map(|lag| (lag.taken.0, lag.newest.0, lag.time));
        assert_eq!(lag(0), None);
        // Delivered before.
        watch.note_commit_at(Revision(9), at(0));
        assert_eq!(lag(1), None);
        watch.note_commit_at(Revision(12), at(1));
        watch.note_commit_at(Revision(15), at(4));
        // Heard of again.
        watch.note_commit_at(Revision(12), at(5));
        assert_eq!(lag(6), Some((10, 15, Duration::from_secs(5))));
        watch.note_taken(Revision(11));
        assert_eq!(lag(6), Some((11, 15, Duration::from_secs(5))));
        watch.note_taken(Revision(12));
        assert_eq!(lag(6), Some((12, 15, Duration::from_secs(2))));
        watch.note_taken(Revision(15));
        assert_eq!(lag(6), None);
    }

    #[test]
    fn the_watch_that_is_behind_longest_counts_and_only_for_its_keys() {
        let lags = WatchLags::default();
        let (first, second) = (lags.add("/a/", Revision(1)), lags.add("/b/", Revision(1)));
        lags.note_commit(Revision(2), ["/c/x", "/b/x"].into_iter());
        assert!(first.lag(Instant::now()).is_none());
        assert_eq!(lags.longest().map(|lag| lag.newest), Some(Revision(2)));
        first.note_commit(Revision(3));
        // The older one, unless both were noted at the same instant.
        assert!(lags.longest().is_some_and(|lag| lag.newest <= Revision(3)));
        drop(second);
        assert_eq!(lags.longest().map(|lag| lag.newest), Some(Revision(3)));
        drop(first);
        assert_eq!(lags.longest(), None);
    }
}
