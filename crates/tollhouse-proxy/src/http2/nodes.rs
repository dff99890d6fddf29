//! Connections of HTTP/2 to nodes, which the requests of a core share.
//!
//! A request takes a stream of a connection that has room for one more; where none has, one of the
//! requests opens another, and those behind it wait for that. `driver` moves a connection's bytes.

mod driver;

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use hashbrown::HashMap;
use tokio::sync::Notify;
use tollhouse_h2::ErrorCode as Http2Code;
use tollhouse_model::upstream::KeepalivePool;
use tollhouse_net::Stream;

use super::limits;
use super::session::{STREAMS_ASSUMED, Session};
use super::stream::Http2Stream;
use crate::connection::link::Link;
use crate::stages::attempt::AttemptError;
use crate::worker::Worker;
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
struct NodeConnection {
    session: Rc<Session>,
    /// Requests begun on it.
    requests: Cell<u32>,
    bounds: KeepalivePool,
    /// Since when it is without a stream; none while it has one.
    idle_since_ms: Cell<Option<u64>>,
}

/// A connection that is being opened.
#[derive(Debug, Default)]
pub(crate) struct Opening {
    /// Requests that wait for it, the one that opens it included.
    requests: Cell<u32>,
    /// Why it could not be opened.
    failure: Cell<Option<AttemptError>>,
    has_ended: Cell<bool>,
    ended: Notify,
}

/// How a request comes by a stream.
pub(crate) enum Claim<'w> {
    /// Here is one.
    Stream(Box<UpstreamConnection>),
    /// Another request opens a connection that will have room for it.
    Wait(Rc<Opening>),
    /// It opens a connection itself.
    Open(OpeningGuard<'w>),
}

/// Ends an opening, whatever becomes of the request that opens.
pub(crate) struct OpeningGuard<'w> {
    worker: &'w Worker,
    key: PoolKey,
    opening: Rc<Opening>,
}

impl NodeConnections {
    /// A stream of a connection that stands under `key` and has room for one.
    pub(crate) fn stream(&self, key: &PoolKey, now_ms: u64) -> Option<Box<UpstreamConnection>> {
        let by_key = self.by_key.borrow();
        let shared = by_key.get(key)?;
        shared.connections.iter().find_map(|connection| connection.stream(now_ms))
    }

    /// A stream, or a way to one.
    pub(crate) fn claim<'w>(&self, worker: &'w Worker, key: &PoolKey) -> Claim<'w> {
        if let Some(stream) = self.stream(key, worker.clock.now_ms()) {
            return Claim::Stream(stream);
        }
        let mut by_key = self.by_key.borrow_mut();
        let shared = by_key.entry(key.clone()).or_default();
        let has_room = |opening: &&Rc<Opening>| opening.requests.get() < STREAMS_ASSUMED;
        if let Some(opening) = shared.openings.iter().find(has_room) {
            opening.requests.set(opening.requests.get() + 1);
            return Claim::Wait(Rc::clone(opening));
        }
        let opening = Rc::new(Opening::default());
        opening.requests.set(1);
        shared.openings.push(Rc::clone(&opening));
        Claim::Open(OpeningGuard { worker, key: key.clone(), opening })
    }

    fn add(&self, key: &PoolKey, connection: Rc<NodeConnection>) {
        let mut by_key = self.by_key.borrow_mut();
        if by_key.values().map(|shared| shared.connections.len()).sum::<usize>() >= IDLE_MAX {
            Self::close_longest_idle(&by_key);
        }
        by_key.entry(key.clone()).or_default().connections.push(connection);
    }

    fn remove(&self, key: &PoolKey, connection: &Rc<NodeConnection>) {
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
    /// Waits for its end.
    ///
    /// # Errors
    /// Why there is no connection.
    pub(crate) async fn ended(&self) -> Result<(), AttemptError> {
        if !self.has_ended.get() {
            self.ended.notified().await;
        }
        self.failure.get().map_or(Ok(()), Err)
    }
}

impl OpeningGuard<'_> {
    /// Begins to serve the connection; gives its first stream.
    pub(crate) fn succeed(self, stream: Stream, bounds: KeepalivePool) -> Box<UpstreamConnection> {
        let worker = self.worker;
        let now_ms = worker.clock.refresh();
        let budget = &worker.settings.limits.memory;
        let session = Session::client(limits::for_nodes(), budget, now_ms, stream.is_encrypted());
        let session = Rc::new(session);
        let link = Link::new(Http2Stream::unopened(Rc::clone(&session)));
        let connection = Rc::new(NodeConnection {
            session,
            requests: Cell::new(1),
            bounds,
            idle_since_ms: Cell::new(None),
        });
        worker.node_connections.add(&self.key, Rc::clone(&connection));
        let socket = UpstreamConnection::new(Link::new(stream), &worker.metrics);
        tokio::task::spawn_local(driver::run(
            worker.handle(),
            self.key.clone(),
            connection,
            socket,
        ));
        UpstreamConnection::shared(link, 0)
    }

    /// Has those that wait fail as the one that opens does.
    pub(crate) fn fail(self, error: AttemptError) {
        self.opening.failure.set(Some(error));
    }
}

impl Drop for OpeningGuard<'_> {
    fn drop(&mut self) {
        let mut by_key = self.worker.node_connections.by_key.borrow_mut();
        if let Some(shared) = by_key.get_mut(&self.key) {
            shared.openings.retain(|other| !Rc::ptr_eq(other, &self.opening));
            if shared.is_empty() {
                by_key.remove(&self.key);
            }
        }
        self.opening.has_ended.set(true);
        self.opening.ended.notify_waiters();
    }
}
