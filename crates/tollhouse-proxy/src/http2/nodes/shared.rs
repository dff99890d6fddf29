//! HTTP/2 connections of one core to nodes, by pool key, and those being opened.
//!
//! This file chooses the connection for a request; opening and driving are in other files.

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

/// Maximum number of connections per core; beyond it, idle ones are closed, because clients can
/// influence the names in keys. A connection takes about 30 KiB in the process and the kernel.
const IDLE_MAX: usize = 1024;

/// HTTP/2 connections of one core to nodes.
#[derive(Debug, Default)]
pub struct NodeConnections {
    by_key: RefCell<HashMap<PoolKey, Shared, foldhash::fast::RandomState>>,
}

/// Connections of one key.
#[derive(Debug, Default)]
struct Shared {
    connections: Vec<Rc<NodeConnection>>,
    /// Connections being opened.
    openings: Vec<Rc<Opening>>,
}

#[derive(Debug)]
pub(super) struct NodeConnection {
    pub(super) session: Rc<Session>,
    /// Number of requests begun on the connection.
    requests: Cell<u32>,
    pub(super) bounds: KeepalivePool,
    /// Time since which no stream is open; `None` while one is.
    pub(super) idle_since_ms: Cell<Option<u64>>,
}

/// A connection being opened.
#[derive(Debug, Default)]
pub(crate) struct Opening {
    /// Number of requests that wait for the connection.
    requests: Cell<u32>,
    /// Error, if the connection could not be opened.
    failure: Cell<Option<AttemptError>>,
    has_ended: Cell<bool>,
    ended: Notify,
}

impl NodeConnections {
    /// Opens a stream on a connection of `key` that has capacity.
    pub(crate) fn stream(&self, key: &PoolKey, now_ms: u64) -> Option<Box<UpstreamConnection>> {
        let by_key = self.by_key.borrow();
        let shared = by_key.get(key)?;
        shared.connections.iter().find_map(|connection| connection.stream(now_ms))
    }

    /// Joins an opening of `key` that has room for one more request.
    pub(super) fn opening(&self, key: &PoolKey) -> Option<Place> {
        let by_key = self.by_key.borrow();
        let openings = &by_key.get(key)?.openings;
        let opening = openings.iter().find(|opening| opening.requests.get() < STREAMS_ASSUMED)?;
        Some(Place::new(Rc::clone(opening)))
    }

    /// Starts an opening that requests of `key` can join.
    pub(super) fn begin(&self, key: &PoolKey) -> Rc<Opening> {
        let opening = Rc::new(Opening::default());
        let mut by_key = self.by_key.borrow_mut();
        by_key.entry(key.clone()).or_default().openings.push(Rc::clone(&opening));
        opening
    }

    /// Ends an opening and wakes the requests that wait for it.
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

    /// Closes the connection that has been idle longest, to free a file descriptor; returns `false`
    /// if none is idle.
    #[cold]
    pub(crate) fn drop_one(&self) -> bool {
        Self::close_longest_idle(&self.by_key.borrow())
    }

    /// Closes the connections of `key` after their open streams have ended.
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
            // A connection that is already closing frees no further room.
            let closes = connection.session.with_codec(|codec| codec.failure().is_some());
            Some((connection.idle_since_ms.get().filter(|_| !closes)?, connection))
        });
        let Some((_, longest)) = idle.min_by_key(|(since_ms, _)| *since_ms) else { return false };
        longest.session.with_codec(|codec| codec.close(Http2Code::NO_ERROR, "idle"));
        longest.session.wake();
        true
    }

    /// Wakes the drivers of all connections.
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
    pub(super) fn new(session: Rc<Session>, bounds: KeepalivePool) -> Self {
        Self { session, requests: Cell::new(0), bounds, idle_since_ms: Cell::new(None) }
    }

    /// A new stream on the connection, opened by the request head; `None` if the connection takes
    /// no more.
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
    /// Stores the error that waiting requests receive.
    pub(super) fn fail(&self, error: AttemptError) {
        self.failure.set(Some(error));
    }
}

/// Place of a request in an opening; dropping it frees the place.
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
    /// If the connection could not be opened.
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
