//! HTTP listener of the API, with limits on the number of connections, on their idle time, and on
//! unread answers.

use std::net::IpAddr;
use std::pin::pin;
use std::time::Duration;

use axum::http::Request;
use axum::{Extension, Router};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tollhouse_net::listener_tls::ListenerTls;
use tollhouse_stdx::LogLimit;

use super::patience::Patient;
use super::websites::ToThisMachine;
use crate::slots::{LOG_INTERVAL, Slots};

/// Timeout for the head of a request, which also limits the idle time between two requests.
const HEAD_TIME_MAX: Duration = Duration::from_secs(60);

/// Size of a connection's buffers: enough for the headers that proxies add.
const CONNECTION_BUFFER_BYTES_MAX: usize = 64 * 1024;

/// Pause after a failed accept, usually for lack of file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Time for requests in progress to finish after the stop.
const DRAIN_TIME_MAX: Duration = Duration::from_secs(2);

/// Time to wait after the stop for the first request of a new connection, because it may be on its
/// way.
const FIRST_REQUEST_WAIT: Duration = Duration::from_millis(500);

/// Client address of the connection that a request came on.
#[derive(Debug, Clone, Copy)]
pub(super) struct Peer(pub(super) IpAddr);

/// API of a listener, with its certificate if it uses TLS.
#[derive(Debug, Clone)]
pub struct HttpEndpoint {
    pub router: Router,
    pub tls: Option<ListenerTls>,
}

/// Serves `endpoint` until `stop` becomes true or its sender is
/// dropped. Connections beyond `slots` are closed at once.
pub async fn serve(
    listener: TcpListener,
    endpoint: HttpEndpoint,
    slots: Slots,
    mut stop: watch::Receiver<bool>,
) {
    let mut connections = JoinSet::new();
    let failures = LogLimit::new(LOG_INTERVAL);
    let stopping = stop.clone();
    let mut stopped = pin!(async move {
        let _ = stop.wait_for(|is_over| *is_over).await;
    });
    loop {
        tokio::select! {
            () = &mut stopped => break,
            // Ended connections are removed, because otherwise the set would grow forever.
            Some(_) = connections.join_next(), if !connections.is_empty() => {}
            accepted = listener.accept() => match accepted {
                Ok((stream, peer)) => {
                    if let Some(slot) = slots.take(peer.ip()) {
                        let serving =
                            endpoint.clone().take(stream, peer.ip(), stopping.clone());
                        connections.spawn(async move {
                            serving.await;
                            drop(slot);
                        });
                    }
                }
                Err(error) => {
                    if let Some(suppressed) = failures.admit(std::time::Instant::now()) {
                        tracing::warn!(%error, suppressed, "the registry's HTTP listener cannot accept");
                    }
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            },
        }
    }
    drop(listener);
    let drained = async { while connections.join_next().await.is_some() {} };
    let _ = tokio::time::timeout(DRAIN_TIME_MAX, drained).await;
}

impl HttpEndpoint {
    async fn take(self, stream: TcpStream, peer: IpAddr, stopping: watch::Receiver<bool>) {
        let Self { router, tls } = self;
        // Nagle's algorithm would delay answers, which are short and awaited one by one.
        let _ = stream.set_nodelay(true);
        let is_local = stream.local_addr().is_ok_and(|local| local.ip().is_loopback());
        let router = if is_local { router.layer(Extension(ToThisMachine)) } else { router };
        let Some(tls) = tls else { return connection(stream, peer, router, stopping).await };
        match tls.accept(stream).await {
            Ok(stream) => connection(stream, peer, router, stopping).await,
            Err(error) => {
                tracing::debug!(%peer, %error, "a TLS handshake with the registry failed");
            }
        }
    }
}

async fn connection(
    stream: impl AsyncRead + AsyncWrite + Unpin,
    peer: IpAddr,
    router: Router,
    mut stopping: watch::Receiver<bool>,
) {
    let mut builder = http1::Builder::new();
    builder
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIME_MAX)
        .max_buf_size(CONNECTION_BUFFER_BYTES_MAX);
    let calls = TowerToHyperService::new(router);
    let (first, mut has_asked) = watch::channel(false);
    let service = service_fn(move |mut request: Request<Incoming>| {
        first.send_replace(true);
        request.extensions_mut().insert(Peer(peer));
        calls.call(request)
    });
    let stream = TokioIo::new(Patient::new(stream));
    let mut connection = pin!(builder.serve_connection(stream, service));
    let stopped = async move {
        let _ = stopping.wait_for(|is_over| *is_over).await;
        let first_request = has_asked.wait_for(|has_asked| *has_asked);
        let _ = tokio::time::timeout(FIRST_REQUEST_WAIT, first_request).await;
    };
    let ended = tokio::select! {
        ended = &mut connection => ended,
        () = stopped => {
            // The request in progress is answered, with `Connection: close`.
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "a connection to the registry's HTTP listener ended early");
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    async fn started() -> (std::net::SocketAddr, watch::Sender<bool>) {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("loopback can be bound");
        let address = listener.local_addr().expect("bound");
        let router = Router::new().route("/", axum::routing::get(async || "yes"));
        let (stop, stopped) = watch::channel(false);
        tokio::spawn(serve(listener, HttpEndpoint { router, tls: None }, Slots::new(16), stopped));
        (address, stop)
    }

    #[tokio::test]
    async fn a_client_that_is_silent_holds_nobody_up_and_the_end_is_orderly() {
        let (address, stop) = started().await;
        let _silent = TcpStream::connect(address).await.expect("it listens");
        let mut client = TcpStream::connect(address).await.expect("it listens");
        let request = b"GET / HTTP/1.1\r\nhost: a\r\n\r\n";
        client.write_all(request).await.expect("it reads");
        let mut head = [0; 15];
        client.read_exact(&mut head).await.expect("it answers");
        assert_eq!(&head, b"HTTP/1.1 200 OK");
        stop.send_replace(true);
        let mut rest = Vec::new();
        client.read_to_end(&mut rest).await.expect("it closes");
        assert!(rest.ends_with(b"yes"));
    }
}
