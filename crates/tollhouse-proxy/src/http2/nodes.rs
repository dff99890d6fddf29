//! HTTP/2 connections to nodes, which the requests of a core share, and the opening of connections
//! to nodes.
//!
//! A request takes a stream of a connection that has room for one more. If no connection has room,
//! another is opened, in a separate task, and requests wait for it. A connection of HTTP/1.1 is
//! opened in the same way, for one request. `shared.rs` has the open connections.

pub(crate) mod shared;

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use tollhouse_h2::ErrorCode as Http2Code;
use tollhouse_net::{Stream, connect, proxy_protocol};
use tollhouse_stdx::duration::to_ms;
use tollhouse_telemetry::ErrorCode;

use self::shared::{NodeConnection, Opening, OpeningPermit};
use super::connection::{self, Driver};
use crate::connection::link::Link;
use crate::snapshot::upstream::UpstreamTerms;
use crate::stages::attempt::error::AttemptError;
use crate::stages::attempt::header_version;
use crate::worker::Worker;
use crate::worker::pools::{PoolKey, UpstreamConnection};

/// Way for a request to get a connection other than an idle one.
pub(crate) enum Claim {
    /// A stream on an open connection.
    Stream(Box<UpstreamConnection>),
    /// A connection is being opened; the request waits for it.
    Wait(OpeningPermit),
    /// The request opens a connection, because none has capacity.
    Open,
}

/// Ends an opening on drop, after success and after failure.
struct OpeningGuard {
    worker: Rc<Worker>,
    opening: Rc<Opening>,
}

pub(crate) struct Dial {
    pub(crate) terms: Arc<UpstreamTerms>,
    /// Maximum time for opening the connection.
    pub(crate) time: Duration,
}

/// Returns a stream of an open connection of `key`, or else the way to get a connection.
pub(crate) fn claim(worker: &Worker, terms: &UpstreamTerms, key: &PoolKey) -> Claim {
    let connections = &worker.node_connections;
    let now_ms = worker.clock.now_ms();
    let opening = if terms.speaks_http2 {
        if let Some(stream) = connections.stream(key, now_ms) {
            return Claim::Stream(stream);
        }
        connections.shared_opening(key)
    } else {
        connections.abandoned_opening(key, now_ms)
    };
    opening.map_or(Claim::Open, |opening| Claim::Wait(OpeningPermit::new(worker.handle(), opening)))
}

/// Opens a connection of `key` in a separate task, so that the connection remains available for
/// other requests if the waiting ones are cancelled. Returns the permit of the first request.
pub(crate) fn begin(worker: &Worker, key: &PoolKey, dial: Dial) -> OpeningPermit {
    let (key, bounds, now_ms) = (key.clone(), dial.terms.keepalive, worker.clock.now_ms());
    let opening = match dial.terms.speaks_http2 {
        true => Opening::for_many(key, bounds, now_ms),
        false => Opening::for_one(key, bounds, now_ms),
    };
    let opening = worker.node_connections.begin(opening);
    let guard = OpeningGuard { worker: worker.handle(), opening: Rc::clone(&opening) };
    let task = tokio::task::spawn_local(guard.run(dial));
    opening.runs_in(task.abort_handle());
    OpeningPermit::new(worker.handle(), opening)
}

impl OpeningGuard {
    async fn run(self, dial: Dial) {
        let opened = within(&self.worker, dial.time, open(&dial.terms, &self.opening.key)).await;
        self.worker.clock.refresh();
        let address = self.opening.key.address;
        let error = match opened {
            Some(Ok(stream)) if dial.terms.speaks_http2 => return self.share(stream),
            Some(Ok(stream)) => return self.deliver(stream),
            Some(Err(error)) => AttemptError::by_opening(&self.worker, address, &error),
            None => AttemptError::by_node(ErrorCode::UpstreamConnectTimeout, true),
        };
        self.worker.metrics.upstream_connections_failed.increment();
        self.opening.fail(error);
    }

    /// Starts to serve a connection whose streams requests share.
    fn share(&self, stream: Stream) {
        let (worker, key) = (&self.worker, &self.opening.key);
        let session = connection::client(worker, stream.is_encrypted());
        let counts = worker.metrics.nodes().counts(key.address);
        let connection = Rc::new(NodeConnection::new(session, self.opening.bounds, counts));
        worker.node_connections.add(key, Rc::clone(&connection));
        let socket = UpstreamConnection::new(Link::new(stream), &worker.metrics);
        tokio::task::spawn_local(serve(Rc::clone(worker), key.clone(), connection, socket));
    }

    /// Hands an HTTP/1.1 connection to the request that waits for it.
    fn deliver(&self, stream: Stream) {
        let (key, metrics) = (self.opening.key.clone(), &self.worker.metrics);
        let connection = self.worker.pools.adopt(key, Link::new(stream), metrics);
        self.opening.deliver(connection, &self.worker);
    }
}

impl Drop for OpeningGuard {
    fn drop(&mut self) {
        self.worker.node_connections.end(&self.opening);
    }
}

/// Serves a connection until it ends.
async fn serve(
    worker: Rc<Worker>,
    key: PoolKey,
    node: Rc<NodeConnection>,
    mut socket: Box<UpstreamConnection>,
) {
    let (session, timer) = (&*node.session, worker.wheel.timer());
    let mut driver = Driver::new(&worker, session);
    poll_fn(|context| {
        session.turn(context, |context| {
            timer.set_waker(context.waker());
            let link = &mut socket.link;
            let ended = driver.read(context, link).map(drop);
            if ended.is_ready() {
                return ended;
            }
            let idle_ms = idle_ms(&worker, &node);
            driver.write(context, link, idle_ms, |look_ms| timer.arm(look_ms)).map(drop)
        })
    })
    .await;
    // Streams that still wait for a response fail now.
    session.with(|_, streams| streams.lose());
    worker.node_connections.remove(&key, &node);
    socket.link.stream.try_say_end();
    socket.link.release_buffer(&worker.buffers);
    if let Some(failure) = session.with(|codec, _| codec.failure())
        && failure.code != Http2Code::NO_ERROR
    {
        tracing::debug!(node = %key.address, error = %failure, "an HTTP/2 connection to a node was closed");
    }
}

/// Returns the idle timeout in milliseconds; a setting of 0 disables it, as in nginx.
fn idle_ms(worker: &Worker, node: &NodeConnection) -> u64 {
    if worker.is_draining() {
        return 0;
    }
    match u64::try_from(node.bounds.idle_timeout.as_millis()) {
        Ok(0) | Err(_) => u64::MAX,
        Ok(idle_ms) => idle_ms,
    }
}

/// Returns the output of `connecting`; `None` if `time` passes first.
async fn within<T>(
    worker: &Worker,
    time: Duration,
    connecting: impl Future<Output = T>,
) -> Option<T> {
    let timer = worker.wheel.timer();
    let time_ms = to_ms(time);
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
async fn open(terms: &UpstreamTerms, key: &PoolKey) -> std::io::Result<Stream> {
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
