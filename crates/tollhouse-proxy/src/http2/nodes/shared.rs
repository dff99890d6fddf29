//! HTTP/2 connections of one core to nodes, by pool key, and all connections to nodes that are
//! being opened, for any protocol.
//!
//! An opening belongs to the core and not to the request that began it: a cancelled request leaves
//! it to the next one, and a connection that no request waits for becomes idle. This module chooses
//! the connection of a request; `nodes.rs` opens and serves connections.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;

use hashbrown::HashMap;
use tokio::sync::Notify;
use tokio::task::AbortHandle;
use tollhouse_h2::ErrorCode as Http2Code;
use tollhouse_model::upstream::KeepalivePool;
use tollhouse_telemetry::node_series::NodeCounts;

use crate::connection::link::Link;
use crate::http2::session::{STREAMS_ASSUMED, Session};
use crate::http2::stream::Http2Stream;
use crate::stages::attempt::error::AttemptError;
use crate::worker::Worker;
use crate::worker::pools::{PoolKey, UpstreamConnection};

/// Maximum number of connections per core; beyond it, idle ones are closed, because clients can
/// influence the names in keys. A connection takes about 30 KiB in the process and the kernel.
const IDLE_MAX: usize = 1024;

/// Maximum number of openings of one core that no request waits for. Clients may choose names in
/// keys, so that clients that cancel could otherwise keep any number of sockets busy for a connect
/// timeout.
const ABANDONED_MAX: usize = 64;

/// Maximum age of an abandoned opening that an HTTP/1.1 request takes over: the time of the first
/// retransmission of a SYN. An older opening may wait for its next retransmission for longer than a
/// new connection takes.
const TAKEN_OVER_MS_MAX: u64 = 1000;

/// HTTP/2 connections of one core to nodes.
#[derive(Debug, Default)]
pub struct NodeConnections {
    by_key: RefCell<HashMap<PoolKey, SharedConnections, foldhash::fast::RandomState>>,
    /// Number of openings.
    openings: Cell<usize>,
    /// Openings that no request waits for, oldest first; includes openings that have ended since.
    abandoned: RefCell<VecDeque<Rc<Opening>>>,
}

/// Connections and openings under one key.
#[derive(Debug, Default)]
struct SharedConnections {
    connections: Vec<Rc<NodeConnection>>,
    openings: Vec<Rc<Opening>>,
}

#[derive(Debug)]
pub(super) struct NodeConnection {
    pub(super) session: Rc<Session>,
    /// Number of requests begun on the connection.
    requests: Cell<u32>,
    pub(super) bounds: KeepalivePool,
    /// Counts of the node.
    node: Arc<NodeCounts>,
}

/// Connection that is being opened, and the requests that wait for it.
#[derive(Debug)]
pub(crate) struct Opening {
    pub(super) key: PoolKey,
    /// Bounds of the pool that the connection is for.
    pub(super) bounds: KeepalivePool,
    /// Maximum number of requests that the connection may serve once it is open.
    requests_max: u32,
    /// Number of requests that wait for the connection.
    requests: Cell<u32>,
    began_ms: u64,
    /// Open connection, if it is for a single request.
    connection: RefCell<Option<Box<UpstreamConnection>>>,
    /// Error, if the connection could not be opened.
    failure: Cell<Option<AttemptError>>,
    /// Whether a request was told of the failure as one of the node.
    is_blamed: Cell<bool>,
    has_ended: Cell<bool>,
    ended: Notify,
    /// Handle that ends the task which opens the connection.
    task: RefCell<Option<AbortHandle>>,
}

impl NodeConnections {
    /// Opens a stream on a connection of `key` that has capacity.
    pub(crate) fn stream(&self, key: &PoolKey, now_ms: u64) -> Option<Box<UpstreamConnection>> {
        let by_key = self.by_key.borrow();
        let shared = by_key.get(key)?;
        shared.connections.iter().find_map(|connection| connection.stream(now_ms))
    }

    /// Returns an opening of `key` for a shared connection that has room for one more request, if
    /// any.
    pub(super) fn shared_opening(&self, key: &PoolKey) -> Option<Rc<Opening>> {
        self.opening(key, |opening| opening.requests.get() < opening.requests_max)
    }

    /// Returns an opening of `key`, at most [`TAKEN_OVER_MS_MAX`] old, whose request was cancelled,
    /// if any.
    pub(super) fn abandoned_opening(&self, key: &PoolKey, now_ms: u64) -> Option<Rc<Opening>> {
        self.opening(key, |opening| {
            let age_ms = now_ms.saturating_sub(opening.began_ms);
            opening.requests.get() == 0 && age_ms <= TAKEN_OVER_MS_MAX
        })
    }

    fn opening(&self, key: &PoolKey, fits: impl Fn(&Opening) -> bool) -> Option<Rc<Opening>> {
        let by_key = self.by_key.borrow();
        let openings = &by_key.get(key)?.openings;
        openings.iter().find(|opening| fits(opening)).map(Rc::clone)
    }

    /// Begins an opening, for which requests under its key wait.
    pub(super) fn begin(&self, opening: Opening) -> Rc<Opening> {
        let opening = Rc::new(opening);
        let mut by_key = self.by_key.borrow_mut();
        by_key.entry(opening.key.clone()).or_default().openings.push(Rc::clone(&opening));
        self.openings.set(self.openings.get() + 1);
        opening
    }

    /// Ends an opening and wakes the requests that wait for the connection.
    pub(super) fn end(&self, opening: &Rc<Opening>) {
        if opening.has_ended.replace(true) {
            return;
        }
        self.openings.set(self.openings.get() - 1);
        let mut by_key = self.by_key.borrow_mut();
        if let Some(shared) = by_key.get_mut(&opening.key) {
            shared.openings.retain(|other| !Rc::ptr_eq(other, opening));
            if shared.is_empty() {
                by_key.remove(&opening.key);
            }
        }
        opening.ended.notify_waiters();
    }

    /// Returns the number of connections that are being opened; each has a descriptor.
    pub(crate) fn openings(&self) -> usize {
        self.openings.get()
    }

    /// Records an opening that no request waits for any more; beyond the limit the oldest such
    /// opening ends.
    fn abandon(&self, opening: &Rc<Opening>) {
        let mut abandoned = self.abandoned.borrow_mut();
        abandoned.retain(|other| other.is_abandoned() && !Rc::ptr_eq(other, opening));
        abandoned.push_back(Rc::clone(opening));
        if abandoned.len() > ABANDONED_MAX {
            drop(abandoned);
            self.end_abandoned();
        }
    }

    /// Ends the oldest opening that no request waits for, to make room; `false` if every
    /// opening is awaited.
    #[cold]
    pub(crate) fn end_abandoned(&self) -> bool {
        let mut abandoned = self.abandoned.borrow_mut();
        abandoned.retain(|opening| opening.is_abandoned());
        let Some(oldest) = abandoned.pop_front() else { return false };
        drop(abandoned);
        self.cut(&oldest);
        true
    }

    /// Ends an opening before its connection is open.
    fn cut(&self, opening: &Rc<Opening>) {
        self.end(opening);
        if let Some(task) = opening.task.take() {
            task.abort();
        }
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

    /// Closes the connections of `key` after their streams have ended, and ends openings that no
    /// request waits for.
    #[cold]
    pub(crate) fn close(&self, key: &PoolKey) {
        let openings = self.by_key.borrow().get(key).map(|shared| shared.openings.clone());
        for opening in openings.iter().flatten().filter(|opening| opening.is_abandoned()) {
            self.cut(opening);
        }
        let by_key = self.by_key.borrow();
        for connection in by_key.get(key).into_iter().flat_map(|shared| &shared.connections) {
            connection.session.with(|codec, streams| match streams.idle_since_ms {
                Some(_) => codec.close(Http2Code::NO_ERROR, "idle"),
                None => codec.drain(),
            });
            connection.session.wake();
        }
    }

    fn close_longest_idle(
        by_key: &HashMap<PoolKey, SharedConnections, foldhash::fast::RandomState>,
    ) -> bool {
        let all = by_key.values().flat_map(|shared| &shared.connections);
        let idle = all.filter_map(|connection| {
            // A connection that is already closing frees no further room.
            let since_ms = connection
                .session
                .with(|codec, streams| streams.idle_since_ms.filter(|_| codec.failure().is_none()));
            Some((since_ms?, connection))
        });
        let Some((_, longest)) = idle.min_by_key(|(since_ms, _)| *since_ms) else { return false };
        longest.session.with(|codec, _| codec.close(Http2Code::NO_ERROR, "idle"));
        true
    }

    /// Wakes the drivers of all connections.
    pub(crate) fn wake_all(&self) {
        for connection in self.by_key.borrow().values().flat_map(|shared| &shared.connections) {
            connection.session.wake();
        }
    }
}

impl SharedConnections {
    fn is_empty(&self) -> bool {
        self.connections.is_empty() && self.openings.is_empty()
    }
}

impl NodeConnection {
    pub(super) fn new(session: Rc<Session>, bounds: KeepalivePool, node: Arc<NodeCounts>) -> Self {
        Self { session, requests: Cell::new(0), bounds, node }
    }

    /// Returns a new stream on the connection, which the request head opens; `None` if the
    /// connection accepts no further stream.
    fn stream(&self, now_ms: u64) -> Option<Box<UpstreamConnection>> {
        let requests = self.requests.get();
        let is_spent = requests >= self.bounds.requests;
        let takes = self.session.with(|codec, streams| {
            let takes = streams.takes_streams(codec, now_ms);
            match (takes, is_spent) {
                (true, true) => codec.drain(),
                (true, false) => streams.idle_since_ms = None,
                (false, _) => {}
            }
            takes && !is_spent
        });
        if !takes {
            return None;
        }
        self.requests.set(requests + 1);
        let link = Link::new(Http2Stream::unopened(Rc::clone(&self.session)));
        Some(UpstreamConnection::shared(link, requests, &self.node))
    }
}

impl Opening {
    /// Creates the opening of a connection of `key` for a single request.
    pub(super) fn for_one(key: PoolKey, bounds: KeepalivePool, now_ms: u64) -> Self {
        Self {
            key,
            bounds,
            requests_max: 1,
            requests: Cell::new(0),
            began_ms: now_ms,
            connection: RefCell::default(),
            failure: Cell::new(None),
            is_blamed: Cell::new(false),
            has_ended: Cell::new(false),
            ended: Notify::new(),
            task: RefCell::default(),
        }
    }

    /// Creates the opening of a connection of `key` that requests will share.
    pub(super) fn for_many(key: PoolKey, bounds: KeepalivePool, now_ms: u64) -> Self {
        Self { requests_max: STREAMS_ASSUMED, ..Self::for_one(key, bounds, now_ms) }
    }

    /// Whether the opening continues although no request waits for it.
    fn is_abandoned(&self) -> bool {
        self.requests.get() == 0 && !self.has_ended.get()
    }

    /// Records the task that opens the connection.
    pub(super) fn runs_in(&self, task: AbortHandle) {
        self.task.replace(Some(task));
    }

    /// Stores the error that waiting requests receive.
    pub(super) fn fail(&self, error: AttemptError) {
        self.failure.set(Some(error));
    }

    /// Hands the connection to the waiting request, or to the pool if no request waits.
    pub(super) fn deliver(&self, connection: Box<UpstreamConnection>, worker: &Worker) {
        if self.requests.get() > 0 {
            self.connection.replace(Some(connection));
        } else if !worker.is_draining() {
            worker.pools.give(connection, &self.bounds, worker.clock.now_ms());
        }
    }
}

/// Place of a request in an opening; dropping it frees the place.
pub(crate) struct OpeningPermit {
    worker: Rc<Worker>,
    opening: Rc<Opening>,
}

impl OpeningPermit {
    pub(super) fn new(worker: Rc<Worker>, opening: Rc<Opening>) -> Self {
        opening.requests.set(opening.requests.get() + 1);
        Self { worker, opening }
    }

    /// Waits for the end of the opening; returns the connection if it is for this request alone.
    ///
    /// # Errors
    /// If the connection could not be opened.
    pub(crate) async fn ended(&self) -> Result<Option<Box<UpstreamConnection>>, AttemptError> {
        if !self.opening.has_ended.get() {
            self.opening.ended.notified().await;
        }
        match self.opening.failure.get() {
            Some(error) => Err(self.blame_once(error)),
            None => Ok(self.opening.connection.take()),
        }
    }

    /// The failure of the opening, as one of the node for the first request that is told of it: an
    /// opening that fails is one failure, however many requests wait for it.
    pub(crate) fn blame_once(&self, error: AttemptError) -> AttemptError {
        if self.opening.is_blamed.replace(true) { error.without_blame() } else { error }
    }
}

impl Drop for OpeningPermit {
    fn drop(&mut self) {
        let Self { worker, opening } = self;
        let left = opening.requests.get() - 1;
        opening.requests.set(left);
        if left > 0 {
            return;
        }
        match opening.connection.take() {
            Some(connection) => opening.deliver(connection, worker),
            None if opening.is_abandoned() => worker.node_connections.abandon(opening),
            None => {}
        }
    }
}

#[cfg(test)]
mod tests;
