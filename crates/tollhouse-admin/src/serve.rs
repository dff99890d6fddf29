//! Listener for an [`AdminApi`]: plain HTTP, or TLS, optionally with client certificates. Each
//! connection is a task on the current runtime, and ends with the listener.
//!
//! A client without the required certificate is told so: its first request is answered 400 in the
//! words of nginx, whatever it asks for, and the connection ends.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::pin;
use std::time::Duration;

use hyper::StatusCode;
use hyper::header::{CONNECTION, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tollhouse_net::accept::{self, Bounds, Stopping};
use tollhouse_net::listener_tls::{Accepted, CertificateFault, ListenerTls};

use crate::api::AdminApi;
use crate::host;
use crate::limits::{CONNECTIONS_MAX, HEAD_TIME_MAX};
use crate::reply::Reply;

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

/// Peer of a connection.
#[derive(Clone, Copy)]
enum Caller {
    Client(SocketAddr),
    /// A client without the certificate that the listener requires.
    Stranger(SocketAddr, CertificateFault),
}

async fn take(
    stream: TcpStream,
    peer: SocketAddr,
    tls: Option<ListenerTls>,
    api: AdminApi,
    stopping: Stopping,
) {
    let client = Caller::Client(peer);
    let Some(tls) = tls else { return connection(stream, client, api, stopping).await };
    match tls.accept_any(stream).await {
        Ok(Accepted::Client(stream)) => connection(stream, client, api, stopping).await,
        Ok(Accepted::Stranger(stream, fault)) => {
            tracing::debug!(%peer, ?fault, "admin client without a valid certificate");
            connection(stream, Caller::Stranger(peer, fault), api, stopping).await;
        }
        Err(error) => tracing::debug!(%peer, %error, "admin handshake failed"),
    }
}

/// Reply to everything that a client without a valid certificate asks.
fn certificate_refusal(fault: CertificateFault) -> Reply {
    let text = match fault {
        CertificateFault::Missing => "No required SSL certificate was sent\n",
        CertificateFault::Invalid(_) => "The SSL certificate error\n",
    };
    Reply::plain(StatusCode::BAD_REQUEST, text).with(CONNECTION, HeaderValue::from_static("close"))
}

async fn connection<S>(stream: S, caller: Caller, api: AdminApi, mut stopping: Stopping)
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let (Caller::Client(peer) | Caller::Stranger(peer, _)) = caller;
    let service = service_fn(|request| {
        let api = api.clone();
        async move {
            let answer = match (caller, host::check(&request)) {
                (Caller::Stranger(_, fault), _) => api.refuse(certificate_refusal(fault)),
                (Caller::Client(_), Err(refusal)) => api.refuse(refusal),
                (Caller::Client(peer), Ok(())) => api.handle(request, peer).await,
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
