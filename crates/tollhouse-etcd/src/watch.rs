//! Watches: an etcd stream for each, which is resumed after an interruption.
//!
//! An interruption causes no gap: the stream resumes after the last revision delivered, on any
//! member that answers. The watch is lost only if etcd has compacted the next revision.

mod follower;

use crate::lag::Pending;
use crate::store::StoreState;
use follower::Follower;
pub(crate) use follower::QUIET;
use std::sync::Arc;
use tokio::sync::{mpsc, watch};
use tokio::task::AbortHandle;
use tollhouse_store::{BoxFuture, Lost, Revision, WatchEvent, WatchSource};

/// Maximum number of commits queued for a reader; then etcd has to wait. etcd bounds the size of a
/// commit.
const EVENTS_QUEUED_MAX: usize = 64;

pub(crate) struct EtcdWatch {
    closed: watch::Receiver<bool>,
    pending: Arc<Pending>,
    /// Running event stream; `None` once the watch is lost.
    followed: Option<RunningStream>,
    lost: Option<Lost>,
}

/// Sending side of a watch: its events, and the commits that it must deliver.
pub(crate) struct Commits {
    pub(crate) events: mpsc::Sender<WatchEvent>,
    pub(crate) pending: Arc<Pending>,
}

/// A running stream, which is aborted on drop.
struct RunningStream {
    events: mpsc::Receiver<WatchEvent>,
    task: AbortHandle,
}

impl Drop for RunningStream {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl EtcdWatch {
    /// Starts the stream at once, so that commits made before an outage of etcd are available to a
    /// later reader.
    pub(crate) fn new(
        shared: Arc<StoreState>,
        prefix: &str,
        after: Revision,
        closed: watch::Receiver<bool>,
    ) -> Self {
        let (sender, events) = mpsc::channel(EVENTS_QUEUED_MAX);
        let runtime = shared.runtime.clone();
        let pending = shared.lags.add(prefix, after);
        let commits = Commits { events: sender, pending: Arc::clone(&pending) };
        let follower = Follower::new(shared, prefix, after, commits);
        let task = runtime.spawn(follower.run()).abort_handle();
        Self { closed, pending, followed: Some(RunningStream { events, task }), lost: None }
    }

    async fn receive(&mut self) -> Option<WatchEvent> {
        self.followed.as_mut()?.events.recv().await
    }

    fn note(&mut self, event: WatchEvent) -> WatchEvent {
        match &event {
            WatchEvent::Commit(changes) => self.pending.note_taken(changes.revision),
            WatchEvent::Progress(_) => {}
            WatchEvent::Lost(lost) => {
                self.lost = Some(lost.clone());
                self.followed = None;
            }
        }
        event
    }
}

impl WatchSource for EtcdWatch {
    fn next(&mut self) -> BoxFuture<'_, WatchEvent> {
        Box::pin(async move {
            if let Some(lost) = &self.lost {
                return WatchEvent::Lost(lost.clone());
            }
            let mut closed = self.closed.clone();
            let event = tokio::select! {
                biased;
                event = self.receive() => event,
                _ = closed.wait_for(|is_closed| *is_closed) => None,
            };
            self.note(event.unwrap_or(WatchEvent::Lost(Lost::Closed)))
        })
    }

    fn try_next(&mut self) -> Option<WatchEvent> {
        if let Some(lost) = &self.lost {
            return Some(WatchEvent::Lost(lost.clone()));
        }
        let event = self.followed.as_mut()?.events.try_recv().ok()?;
        Some(self.note(event))
    }

    fn is_over(&self) -> bool {
        *self.closed.borrow()
    }
}
