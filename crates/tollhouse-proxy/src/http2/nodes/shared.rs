//! The connections of HTTP/2 to nodes that one core has, by what they are good for, and those that are being opened.
//!
//! Which of them a request takes is said here; how one is opened and served is not.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use hashbrown::HashMap;
use tokio::sync::Notify;
use tollhouse_h2::ErrorCode as Http2Code;
use tollhouse_model::upstream::KeepalivePool;

use crate::connection::link::Link;
use crate::http2::session::{STREAMS_ASSUMED, Session};
use crate::http2::stream::Http2Stream;
use crate::stages::attempt::error::AttemptError;
use crate::worker::pools::{PoolKey, UpstreamConnection};

/// Connections of one core that idle at a time: names in keys may be clients' choice. Each takes about
/// 30 KiB here and in the kernel.
const IDLE_MAX: usize = 1024;

/// Those of one core.
#[derive(Debug, Default)]
pub struct NodeConnections {
    by_key: RefCell<HashMap<PoolKey, Shared, foldhash::fast::RandomState>>,
}

/// What stands under one key.
#[derive(Debug, Default)]
struct Shared {
    connections: Vec<Rc<NodeConnection>>,
    /// Being opened.
    openings: Vec<Rc<Opening>>,
}

#[derive(Debug)]
pub(super) struct NodeConnection {
    pub(super) session: Rc<Session>,
    /// Requests begun on it.
    requests: Cell<u32>,
    pub(super) bounds: KeepalivePool,
    /// Since when it is without a stream; none while it has one.
    pub(super) idle_since_ms: Cell<Option<u64>>,
}

/// A connection that is being opened.
#[derive(Debug, Default)]
pub(crate) struct Opening {
    /// Requests that wait for it.
    requests: Cell<u32>,
    /// Why it could not be opened.
    failure: Cell<Option<AttemptError>>,
    has_ended: Cell<bool>,
    ended: Notify,
}

impl NodeConnections {
    /// A stream of a connection that stands under `key` and has room for one.
    pub(crate) fn stream(&self, key: &PoolKey, now_ms: u64) -> Option<Box<UpstreamConnection>> {
        let by_key = self.by_key.borrow();
        let shared = by_key.get(key)?;
        shared.connections.iter().find_map(|connection| connection.stream(now_ms))
    }

    /// A place of an opening that a request under `key` can wait for.
    pub(super) fn opening(&self, key: &PoolKey) -> Option<Place> {
        let by_key = self.by_key.borrow();
        let openings = &by_key.get(key)?.openings;
        let opening = openings.iter().find(|opening| opening.requests.get() < STREAMS_ASSUMED)?;
        Some(Place::new(Rc::clone(opening)))
    }

    /// Begins an opening, for which requests under `key` wait.
    pub(super) fn begin(&self, key: &PoolKey) -> Rc<Opening> {
        let opening = Rc::new(Opening::default());
        let mut by_key = self.by_key.borrow_mut();
        by_key.entry(key.clone()).or_default().openings.push(Rc::clone(&opening));
        opening
    }

    /// Ends an opening: it is waited for no more, and whoever waits is told.
    pub(super) fn end(&self, key: &PoolKey, opening: &Rc<Opening>) {
        let mut by_key = self.by_key.borrow_mut();
        if let Some(shared) = by_key.get_mut(key) {
            shared.openings.retain(|other| !Rc::ptr_eq(other, opening));
            if shared.is_empty() {
                by_key.remove(key);
            }
        }
        opening.has_ended.set(true);
        opening.ended.notify_waiters();
    }

    pub(super) fn add(&self, key: &PoolKey, connection: Rc<NodeConnection>) {
        let mut by_key = self.by_key.borrow_mut();
        if by_key.values().map(|shared| shared.connections.len()).sum::<usize>() >= IDLE_MAX {
            Self::close_longest_idle(&by_key);
        }
        by_key.entry(key.clone()).or_default().connections.push(connection);
    }

    pub(super) fn remove(&self, key: &PoolKey, connection: &Rc<NodeConnection>) {
        let mut by_key = self.by_key.borrow_mut();
        let Some(shared) = by_key.get_mut(key) else { return };
        shared.connections.retain(|other| !Rc::ptr_eq(other, connection));
        if shared.is_empty() {
            by_key.remove(key);
        }
    }

    /// Closes one that idles, to make room; `false` when none does.
    #[cold]
    pub(crate) fn drop_one(&self) -> bool {
        Self::close_longest_idle(&self.by_key.borrow())
    }

    /// Closes those under `key`, once what is under way on them has ended.
    #[cold]
    pub(crate) fn close(&self, key: &PoolKey) {
        let by_key = self.by_key.borrow();
        for connection in by_key.get(key).into_iter().flat_map(|shared| &shared.connections) {
            connection.session.with_codec(|codec| match connection.idle_since_ms.get() {
                Some(_) => codec.close(Http2Code::NO_ERROR, "idle"),
                None => codec.drain(),
            });
            connection.session.wake();
        }
    }

    fn close_longest_idle(by_key: &HashMap<PoolKey, Shared, foldhash::fast::RandomState>) -> bool {
        let all = by_key.values().flat_map(|shared| &shared.connections);
        let idle = all.filter_map(|connection| {
            // One that is closing already makes no more room.
            let closes = connection.session.with_codec(|codec| codec.failure().is_some());
            Some((connection.idle_since_ms.get().filter(|_| !closes)?, connection))
        });
        let Some((_, longest)) = idle.min_by_key(|(since_ms, _)| *since_ms) else { return false };
        longest.session.with_codec(|codec| codec.close(Http2Code::NO_ERROR, "idle"));
        longest.session.wake();
        true
    }

    /// Has every connection look at what is to be done now.
    pub(crate) fn wake_all(&self) {
        for connection in self.by_key.borrow().values().flat_map(|shared| &shared.connections) {
            connection.session.wake();
        }
    }
}

impl Shared {
    fn is_empty(&self) -> bool {
        self.connections.is_empty() && self.openings.is_empty()
    }
}

impl NodeConnection {
    /// Wraps a session that was just opened.
    pub(super) fn new(session: Rc<Session>, bounds: KeepalivePool) -> Self {
        Self { session, requests: Cell::new(0), bounds, idle_since_ms: Cell::new(None) }
    }

    /// A stream of it, which the head of a request opens; none where it takes no more.
    fn stream(&self, now_ms: u64) -> Option<Box<UpstreamConnection>> {
        if !self.session.takes_streams(now_ms) {
            return None;
        }
        let requests = self.requests.get();
        if requests >= self.bounds.requests {
            self.session.with_codec(|codec| codec.drain());
            self.session.wake();
            return None;
        }
        self.requests.set(requests + 1);
        self.idle_since_ms.set(None);
        let link = Link::new(Http2Stream::unopened(Rc::clone(&self.session)));
        Some(UpstreamConnection::shared(link, requests))
    }
}

impl Opening {
    /// Has those that wait fail with `error`.
    pub(super) fn fail(&self, error: AttemptError) {
        self.failure.set(Some(error));
    }
}

/// The place of a request that waits for an opening; another's once it is dropped.
pub(crate) struct Place {
    opening: Rc<Opening>,
}

impl Place {
    pub(super) fn new(opening: Rc<Opening>) -> Self {
        opening.requests.set(opening.requests.get() + 1);
        Self { opening }
    }

    /// Waits for the end of the opening.
    ///
    /// # Errors
    /// Why there is no connection.
    pub(crate) async fn ended(&self) -> Result<(), AttemptError> {
        if !self.opening.has_ended.get() {
            self.opening.ended.notified().await;
        }
        self.opening.failure.get().map_or(Ok(()), Err)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.opening.requests.set(self.opening.requests.get() - 1);
    }
}
