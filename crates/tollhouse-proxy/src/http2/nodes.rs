//! Connections of HTTP/2 to nodes, which the requests of a core share.
//!
//! A request takes a stream of a connection that has room for one more; where none has, one of the
//! requests opens another, and those behind it wait for that. `shared.rs` has those that stand, and `driver.rs`
//! moves a connection's bytes.

mod driver;
pub(crate) mod shared;

use std::rc::Rc;

use tollhouse_model::upstream::KeepalivePool;
use tollhouse_net::Stream;

use self::shared::{NodeConnection, Opened, Opening};
use super::limits;
use super::session::Session;
use super::stream::Http2Stream;
use crate::connection::link::Link;
use crate::stages::attempt::error::AttemptError;
use crate::worker::Worker;
use crate::worker::pools::{PoolKey, UpstreamConnection};

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

/// A stream of a connection that stands under `key`, or a way to one.
pub(crate) fn claim<'w>(worker: &'w Worker, key: &PoolKey) -> Claim<'w> {
    let connections = &worker.node_connections;
    if let Some(stream) = connections.stream(key, worker.clock.now_ms()) {
        return Claim::Stream(stream);
    }
    match connections.opening(key) {
        Opened::ByAnother(opening) => Claim::Wait(opening),
        Opened::ByCaller(opening) => {
            Claim::Open(OpeningGuard { worker, key: key.clone(), opening })
        }
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
        let connection = Rc::new(NodeConnection::new(session, bounds));
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
        self.opening.fail(error);
    }
}

impl Drop for OpeningGuard<'_> {
    fn drop(&mut self) {
        self.worker.node_connections.end(&self.key, &self.opening);
    }
}
