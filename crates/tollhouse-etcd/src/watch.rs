//! Watches: a stream of etcd's each, begun by the first look and taken up again wherever it breaks.
//!
//! A break is no gap: the stream goes on behind the last revision that was passed on, from whichever
//! member answers. Only when etcd has forgotten what would come next is the watch lost.

mod follower;

use crate::store::Shared;
use follower::Follower;
use std::sync::Arc;
use tokio::sync::{mpsc, watch};
use tokio::task::AbortHandle;
use tollhouse_store::{BoxFuture, Lost, Revision, WatchEvent, WatchSource};

/// Commits that wait for a reader; then etcd is made to wait. What a commit holds is bounded by etcd.
const EVENTS_QUEUED_MAX: usize = 64;

/// See the module.
pub(crate) struct EtcdWatch {
    shared: Arc<Shared>,
    prefix: Box<str>,
    after: Revision,
    closed: watch::Receiver<bool>,
    followed: Option<Followed>,
    lost: Option<Lost>,
}

/// A stream that is followed, for as long as this lives.
struct Followed {
    events: mpsc::Receiver<WatchEvent>,
    task: AbortHandle,
}

impl Drop for Followed {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl EtcdWatch {
    pub(crate) fn new(
        shared: Arc<Shared>,
        prefix: &str,
        after: Revision,
        closed: watch::Receiver<bool>,
    ) -> Self {
        Self { shared, prefix: prefix.into(), after, closed, followed: None, lost: None }
    }

    /// Begins to follow, unless that was done.
    fn events(&mut self) -> &mut mpsc::Receiver<WatchEvent> {
        let followed = self.followed.get_or_insert_with(|| {
            let (sender, events) = mpsc::channel(EVENTS_QUEUED_MAX);
            let shared = Arc::clone(&self.shared);
            let follower = Follower::new(shared, &self.prefix, self.after, sender);
            let task = self.shared.runtime.spawn(follower.run()).abort_handle();
            Followed { events, task }
        });
        &mut followed.events
    }

    fn note(&mut self, event: WatchEvent) -> WatchEvent {
        if let WatchEvent::Lost(lost) = &event {
            self.lost = Some(lost.clone());
            self.followed = None;
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
                event = self.events().recv() => event,
                _ = closed.wait_for(|is_closed| *is_closed) => None,
            };
            self.note(event.unwrap_or(WatchEvent::Lost(Lost::Closed)))
        })
    }

    fn try_next(&mut self) -> Option<WatchEvent> {
        if let Some(lost) = &self.lost {
            return Some(WatchEvent::Lost(lost.clone()));
        }
        let event = self.events().try_recv().ok()?;
        Some(self.note(event))
    }

    fn is_over(&self) -> bool {
        *self.closed.borrow()
    }
}
