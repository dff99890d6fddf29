//! Server of a listener: accepts a bounded number of connections, and stops in an orderly way.
//!
//! The module `connection` serves an accepted connection.

use std::net::SocketAddr;
use std::pin::pin;
use std::time::{Duration, Instant};

use axum::Router;
use axum::response::IntoResponse;
use bytes::Bytes;
use hyper::body::{Body, Incoming};
use hyper::service::Service as _;
use hyper::{Request, Response, StatusCode};
use hyper_util::service::TowerToHyperService;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tollhouse_net::listener_tls::{CertificateFault, ListenerTls};
use tollhouse_net::slots::{LOG_INTERVAL, Slots};
use tollhouse_stdx::LogLimit;

use crate::connection::Connection;

/// Pause after an accept failure, which usually means a lack of file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Maximum number of connections from addresses where no clients are expected (at the Admin API:
/// outside its allow list); a further one is closed at once.
pub const STRANGERS_MAX: usize = 32;

/// Listening socket, its TLS settings and limits.
#[derive(Debug)]
pub struct Listener {
    pub socket: TcpListener,
    pub tls: Option<ListenerTls>,
    pub limits: Limits,
}

/// Limits of a listener. Those that all listeners share are constants of this crate.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Name of the listener in the log.
    pub name: &'static str,
    /// Maximum number of concurrent connections; further ones wait in the kernel's queue. One
    /// address gets three quarters of them; its further connections are closed at once.
    pub connections_max: usize,
    /// Timeout for a request head, and for an idle connection.
    pub head_time_max: Duration,
    /// Maximum time for requests in progress to finish after the stop.
    pub drain_time_max: Duration,
}

/// Client of a connection.
#[derive(Debug, Clone, Copy)]
pub struct Peer {
    pub address: SocketAddr,
    /// Whether the connection was made to a loopback address.
    pub is_local: bool,
}

/// Answers the requests of a listener. Clones share their state.
pub trait Service: Clone + Send + Sync + 'static {
    type Body: Body<Data = Bytes, Error: Into<axum::BoxError>> + Send + 'static;

    /// Answers a request.
    fn answer(
        &self,
        request: Request<Incoming>,
        peer: Peer,
    ) -> impl Future<Output = Response<Self::Body>> + Send;

    /// Returns the response to a client without the certificate that the listener requires.
    fn refuse(&self, fault: CertificateFault) -> Response<Self::Body>;

    /// Whether clients are expected at this address. Others get [`STRANGERS_MAX`] separate
    /// connections, so that they never use those of expected clients.
    fn expects(&self, _address: SocketAddr) -> bool {
        true
    }
}

/// Handlers get the [`Peer`] as an extension of the request.
impl Service for Router {
    type Body = axum::body::Body;

    async fn answer(&self, mut request: Request<Incoming>, peer: Peer) -> Response<Self::Body> {
        request.extensions_mut().insert(peer);
        let Ok(response) = TowerToHyperService::new(self.clone()).call(request).await;
        response
    }

    fn refuse(&self, _fault: CertificateFault) -> Response<Self::Body> {
        StatusCode::BAD_REQUEST.into_response()
    }
}

/// Answers a request of this process, which arrived at another door. The caller sets the [`Peer`].
pub async fn answer_here(
    router: &Router,
    request: Request<axum::body::Body>,
) -> Response<axum::body::Body> {
    let Ok(response) = TowerToHyperService::new(router.clone()).call(request).await;
    response
}

/// Serves until `stop` is ready. Requests in progress then have a few seconds to finish.
pub async fn serve<S: Service>(listener: Listener, service: S, stop: impl Future<Output = ()>) {
    let Listener { socket, tls, limits } = listener;
    let slots = Slots::new(limits.name, limits.connections_max);
    let strangers = Slots::new(limits.name, STRANGERS_MAX);
    let (stopped, stopping) = watch::channel(false);
    let mut open = JoinSet::new();
    let failures = LogLimit::new(LOG_INTERVAL);
    let (mut stop, mut free) = (pin!(stop), None);
    loop {
        tokio::select! {
            () = &mut stop => break,
            // Ended connections are removed, because otherwise the set would grow forever.
            Some(_) = open.join_next(), if !open.is_empty() => {}
            slot = slots.free(), if free.is_none() => free = slot,
            accepted = socket.accept(), if free.is_some() => match accepted {
                Ok((stream, address)) => {
                    let slot = if service.expects(address) {
                        free.take().and_then(|free| slots.assign(free, address.ip()))
                    } else {
                        strangers.take(address.ip())
                    };
                    let Some(slot) = slot else { continue };
                    // Responses are short, and clients wait for each of them.
                    let _ = stream.set_nodelay(true);
                    let is_local = stream.local_addr().is_ok_and(|local| local.ip().is_loopback());
                    let peer = Peer { address, is_local };
                    let connection = Connection { peer, slot, limits, stopping: stopping.clone() };
                    open.spawn(connection.take(stream, tls.clone(), service.clone()));
                }
                Err(error) => {
                    if let Some(suppressed) = failures.admit(Instant::now()) {
                        let listener = limits.name;
                        tracing::warn!(%error, listener, suppressed, "connections cannot be accepted");
                    }
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            },
        }
    }
    drop(socket);
    let _ = stopped.send(true);
    let drained = async { while open.join_next().await.is_some() {} };
    let _ = tokio::time::timeout(limits.drain_time_max, drained).await;
}

/// Waits until the value is true or its sender is dropped.
pub async fn until_stopped(mut stop: watch::Receiver<bool>) {
    let _ = stop.wait_for(|is_over| *is_over).await;
}

#[cfg(test)]
mod tests;
