//! Listener for an [`AdminApi`]: plain HTTP, or TLS, optionally with client certificates. Each
//! connection is a task on the current runtime, and ends with the listener.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::pin;
use std::time::Duration;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tollhouse_net::accept::{self, Bounds, Stopping};
use tollhouse_net::listener_tls::ListenerTls;

use crate::api::AdminApi;
use crate::host;
use crate::limits::{CONNECTIONS_MAX, HEAD_TIME_MAX};

/// Time for pending requests after the listener was told to stop.
const DRAIN_TIME_MAX: Duration = Duration::from_secs(5);

/// Serves until `stop` completes; pending requests then have a few seconds to finish. The number of
/// concurrent connections is limited by `connections_max` and [`CONNECTIONS_MAX`]. Peers outside
/// the allow list are refused without using these connections.
pub async fn serve(
    listener: TcpListener,
    api: AdminApi,
    tls: Option<ListenerTls>,
    connections_max: usize,
    stop: impl Future<Output = ()>,
) {
    let bounds = Bounds {
        name: "admin",
        connections_max: connections_max.min(CONNECTIONS_MAX),
        drain_time: DRAIN_TIME_MAX,
    };
    let stop = async {
        stop.await;
        api.end_watches();
    };
    let is_expected = |peer| api.admits(peer);
    accept::serve(listener, bounds, stop, is_expected, |stream, peer, stopping| {
        take(stream, peer, tls.clone(), api.clone(), stopping)
    })
    .await;
}

async fn take(
    stream: TcpStream,
    peer: SocketAddr,
    tls: Option<ListenerTls>,
    api: AdminApi,
    stopping: Stopping,
) {
    let Some(tls) = tls else { return connection(stream, peer, api, stopping).await };
    match tls.accept(stream).await {
        Ok(stream) => connection(stream, peer, api, stopping).await,
        Err(error) => tracing::debug!(%peer, %error, "admin handshake failed"),
    }
}

async fn connection<S>(stream: S, peer: SocketAddr, api: AdminApi, mut stopping: Stopping)
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let service = service_fn(|request| {
        let api = api.clone();
        async move {
            let answer = match host::check(&request) {
                Ok(()) => api.handle(request, peer).await,
                Err(refusal) => api.refuse(refusal),
            };
            Ok::<_, Infallible>(answer)
        }
    });
    let mut builder = http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(HEAD_TIME_MAX);
    let mut connection = pin!(builder.serve_connection(TokioIo::new(stream), service));
    let stopped = async move {
        let _ = stopping.wait_for(|stopping| *stopping).await;
    };
    let done = tokio::select! {
        done = &mut connection => done,
        () = stopped => {
            // The pending request is answered; the next one reaches another node or the successor.
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = done {
        tracing::debug!(%peer, %error, "admin connection ended early");
    }
}
