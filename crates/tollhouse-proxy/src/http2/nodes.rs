//! Connections of HTTP/2 to nodes, which the requests of a core share.
//!
//! A request takes a stream of a connection that has room for one more; where none has, another is opened, in a
//! task of its own, and requests wait for that. `shared.rs` has those that are open, and `driver.rs` moves a
//! connection's bytes.

mod driver;
pub(crate) mod shared;

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use tollhouse_model::upstream::KeepalivePool;
use tollhouse_net::{Stream, connect, proxy_protocol};
use tollhouse_telemetry::ErrorCode;

use self::shared::{NodeConnection, Opening, Place};
use super::limits;
use super::session::Session;
use crate::connection::link::Link;
use crate::snapshot::upstream::UpstreamTerms;
use crate::stages::attempt::error::AttemptError;
use crate::stages::attempt::header_version;
use crate::worker::Worker;
use crate::worker::pools::{PoolKey, UpstreamConnection};

/// How a request comes by a stream.
pub(crate) enum Claim {
    /// A stream on an open connection.
    Stream(Box<UpstreamConnection>),
    /// A connection is being opened that will have room for it.
    Wait(Place),
    /// No connection has room: the request opens one.
    Open(OpeningGuard),
}

/// Ends an opening when it is dropped, on success and on failure.
pub(crate) struct OpeningGuard {
    worker: Rc<Worker>,
    key: PoolKey,
    opening: Rc<Opening>,
}

/// Parameters of an opening.
pub(crate) struct Dial {
    pub(crate) terms: Arc<UpstreamTerms>,
    /// How long it may take.
    pub(crate) time: Duration,
}

/// A stream of a connection that stands under `key`, or a way to one.
pub(crate) fn claim(worker: &Worker, key: &PoolKey) -> Claim {
    let connections = &worker.node_connections;
    if let Some(stream) = connections.stream(key, worker.clock.now_ms()) {
        return Claim::Stream(stream);
    }
    match connections.opening(key) {
        Some(place) => Claim::Wait(place),
        None => {
            let opening = connections.begin(key);
            Claim::Open(OpeningGuard { worker: worker.handle(), key: key.clone(), opening })
        }
    }
}

impl OpeningGuard {
    /// Opens the connection in a task of its own: those who wait for it may take their requests back, and it is
    /// there for the next. Gives the place of the first.
    pub(crate) fn start(self, dial: Dial) -> Place {
        let place = Place::new(Rc::clone(&self.opening));
        tokio::task::spawn_local(self.run(dial));
        place
    }

    async fn run(self, dial: Dial) {
        let opened = within(&self.worker, dial.time, open(&dial.terms, &self.key)).await;
        self.worker.clock.refresh();
        let error = match opened {
            Some(Ok(stream)) => return self.succeed(stream, dial.terms.keepalive),
            Some(Err(error)) => AttemptError::by_opening(&self.worker, self.key.address, &error),
            None => AttemptError::by_node(ErrorCode::UpstreamConnectTimeout, true),
        };
        self.worker.metrics.upstream_connections_failed.increment();
        self.opening.fail(error);
    }

    /// Begins to serve the connection.
    fn succeed(&self, stream: Stream, bounds: KeepalivePool) {
        let worker = &self.worker;
        let now_ms = worker.clock.now_ms();
        let budget = &worker.settings.limits.memory;
        let session = Session::client(limits::for_nodes(), budget, now_ms, stream.is_encrypted());
        let connection = Rc::new(NodeConnection::new(Rc::new(session), bounds));
        worker.node_connections.add(&self.key, Rc::clone(&connection));
        let socket = UpstreamConnection::new(Link::new(stream), &worker.metrics);
        let key = self.key.clone();
        tokio::task::spawn_local(driver::run(Rc::clone(worker), key, connection, socket));
    }

    /// Has those that wait fail like the one that has found out why.
    pub(crate) fn fail(self, error: AttemptError) {
        self.opening.fail(error);
    }
}

impl Drop for OpeningGuard {
    fn drop(&mut self) {
        self.worker.node_connections.end(&self.key, &self.opening);
    }
}

/// The output of `connecting`; `None` when `time` has passed.
async fn within<T>(
    worker: &Worker,
    time: Duration,
    connecting: impl Future<Output = T>,
) -> Option<T> {
    let timer = worker.wheel.timer();
    let time_ms = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    timer.arm(worker.clock.refresh().saturating_add(time_ms));
    let mut connecting = pin!(connecting);
    poll_fn(|context| {
        timer.set_waker(context.waker());
        match connecting.as_mut().poll(context) {
            Poll::Ready(connected) => Poll::Ready(Some(connected)),
            Poll::Pending if timer.expired(worker.clock.now_ms()) => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        }
    })
    .await
}

/// Opens a connection that may stand under `key`.
///
/// # Errors
/// Failures of the operating system and of TLS.
pub(crate) async fn open(terms: &UpstreamTerms, key: &PoolKey) -> std::io::Result<Stream> {
    let mut header = Vec::new();
    if let (Some(version), Some(ends)) = (terms.proxy_protocol, &key.comes_for) {
        let version = header_version(version);
        proxy_protocol::write(version, ends.client, ends.local, &mut header);
    }
    match (&terms.connector, &key.server_name) {
        (Some(connector), Some(name)) => {
            connect::connect_tls_announced(key.address, connector, name, &header).await
        }
        _ => connect::connect_announced(key.address, &header).await,
    }
}
