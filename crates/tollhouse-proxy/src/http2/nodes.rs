//! HTTP/2 connections to nodes, shared by the requests of a core.
//!
//! A request takes a stream of an open connection with capacity. If none has, another connection is
//! opened in a separate task, and requests wait for it. `shared.rs` holds the open connections;
//! `driver.rs` moves the bytes of one.

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

/// Result of a request's attempt to obtain a stream.
pub(crate) enum Claim {
    /// A stream on an open connection.
    Stream(Box<UpstreamConnection>),
    /// A connection is being opened; the request waits for it.
    Wait(Place),
    /// No connection has capacity: the request opens one.
    Open(OpeningGuard),
}

/// Ends an opening on drop, after success and after failure.
pub(crate) struct OpeningGuard {
    worker: Rc<Worker>,
    key: PoolKey,
    opening: Rc<Opening>,
}

/// Parameters for opening a connection.
pub(crate) struct Dial {
    pub(crate) terms: Arc<UpstreamTerms>,
    /// Connect timeout.
    pub(crate) time: Duration,
}

/// Claims a stream on a connection with `key`, or a way to obtain one.
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
    /// Opens the connection in a separate task, so that it is completed for later requests even if
    /// the waiting ones are cancelled. Returns the place of the first waiting request.
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

    /// Registers the connection and starts its driver.
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

    /// Fails all waiting requests with `error`.
    pub(crate) fn fail(self, error: AttemptError) {
        self.opening.fail(error);
    }
}

impl Drop for OpeningGuard {
    fn drop(&mut self) {
        self.worker.node_connections.end(&self.key, &self.opening);
    }
}

/// Output of `connecting`; `None` if `time` passes first.
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

/// Opens a connection for the pool of `key`, with its PROXY protocol header and TLS handshake.
///
/// # Errors
/// If the operating system or the TLS handshake reports an error.
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
