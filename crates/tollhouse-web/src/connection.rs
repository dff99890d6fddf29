//! Connection of a listener: TLS handshake, then requests until either side ends it.

use std::convert::Infallible;
use std::pin::pin;
use std::time::Duration;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tollhouse_net::listener_tls::{Accepted, CertificateFault, ListenerTls};
use tollhouse_net::slots::Slot;

use crate::patience::Patient;
use crate::server::{Limits, Peer, Service, until_stopped};

/// Size of a connection's buffers, which also limits a request head: enough for the headers that
/// proxies add.
const BUFFER_BYTES_MAX: usize = 64 * 1024;

/// Maximum wait after the stop for the first request of a new connection, because it may be on its
/// way.
const FIRST_REQUEST_WAIT: Duration = Duration::from_millis(500);

/// Accepted connection, without its stream.
pub(crate) struct Connection {
    pub(crate) peer: Peer,
    pub(crate) slot: Slot,
    pub(crate) limits: Limits,
    /// Becomes true when the listener stops.
    pub(crate) stopping: watch::Receiver<bool>,
}

impl Connection {
    /// Serves the connection until it ends.
    pub(crate) async fn take<S: Service>(
        self,
        stream: TcpStream,
        tls: Option<ListenerTls>,
        service: S,
    ) {
        let (listener, peer) = (self.limits.name, self.peer.address);
        let Some(tls) = tls else { return self.serve(stream, service, None).await };
        match tls.accept_any(stream).await {
            Ok(Accepted::Client(stream)) => self.serve(stream, service, None).await,
            Ok(Accepted::Stranger(stream, fault)) => {
                tracing::debug!(listener, %peer, ?fault, "client without a valid certificate");
                self.serve(stream, service, Some(fault)).await;
            }
            Err(error) => tracing::debug!(listener, %peer, %error, "TLS handshake failed"),
        }
    }

    /// Answers requests. With `fault`, each of them is refused.
    async fn serve<S: Service>(
        self,
        stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
        service: S,
        fault: Option<CertificateFault>,
    ) {
        let Self { peer, slot, limits, stopping } = self;
        let (first, mut has_asked) = watch::channel(false);
        let answer = service_fn(move |request| {
            first.send_replace(true);
            let service = service.clone();
            async move {
                Ok::<_, Infallible>(match fault {
                    None => service.answer(request, peer).await,
                    Some(fault) => service.refuse(fault),
                })
            }
        });
        let mut builder = http1::Builder::new();
        builder
            .timer(TokioTimer::new())
            .header_read_timeout(limits.head_time_max)
            .max_buf_size(BUFFER_BYTES_MAX);
        let stream = TokioIo::new(Patient::new(stream, slot));
        let mut connection = pin!(builder.serve_connection(stream, answer).with_upgrades());
        let stopped = async move {
            until_stopped(stopping).await;
            let first_request = has_asked.wait_for(|has_asked| *has_asked);
            let _ = tokio::time::timeout(FIRST_REQUEST_WAIT, first_request).await;
        };
        let ended = tokio::select! {
            ended = &mut connection => ended,
            () = stopped => {
                // The request in progress is answered with `Connection: close`.
                connection.as_mut().graceful_shutdown();
                connection.await
            }
        };
        if let Err(error) = ended {
            let (listener, peer) = (limits.name, peer.address);
            tracing::debug!(listener, %peer, %error, "a connection ended early");
        }
    }
}
