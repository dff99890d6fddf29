//! Listener for an [`AdminApi`]: plain HTTP, or TLS, optionally with client certificates.
//!
//! A client without the required certificate gets an error: its first request, whatever its path,
//! is answered 400 with the page of nginx, and the connection is closed.

use std::net::SocketAddr;
use std::time::Duration;

use hyper::body::Incoming;
use hyper::header::{CONNECTION, HeaderValue};
use hyper::{Request, StatusCode};
use tokio::net::TcpListener;
use tollhouse_net::listener_tls::{CertificateFault, ListenerTls};
use tollhouse_web::{Limits, Listener, Peer, Service};

use crate::api::AdminApi;
use crate::host;
use crate::limits::{CONNECTIONS_MAX, HEAD_TIME_MAX};
use crate::reply::{Reply, WireBody, WireResponse};

/// Maximum time for which pending requests may continue after `stop` has completed.
const DRAIN_TIME_MAX: Duration = Duration::from_secs(5);

/// Serves until `stop` completes; pending requests then have a few seconds to finish. The number of
/// concurrent connections is limited by `connections_max` and [`CONNECTIONS_MAX`]. Peers outside
/// the allow list are refused without using these connections.
pub async fn serve(
    socket: TcpListener,
    api: AdminApi,
    tls: Option<ListenerTls>,
    connections_max: usize,
    stop: impl Future<Output = ()>,
) {
    let limits = Limits {
        name: "admin",
        connections_max: connections_max.min(CONNECTIONS_MAX),
        head_time_max: HEAD_TIME_MAX,
        drain_time_max: DRAIN_TIME_MAX,
    };
    let stop = async {
        stop.await;
        api.end_watches();
    };
    let serving = tollhouse_web::serve(Listener { socket, tls, limits }, api.clone(), stop);
    tokio::select! {
        () = serving => {}
        () = api.keep_registry_changes() => {}
    }
}

impl Service for AdminApi {
    type Body = WireBody;

    async fn answer(&self, request: Request<Incoming>, peer: Peer) -> WireResponse {
        match host::check(&request) {
            Ok(()) => self.handle(request, peer.address).await,
            Err(refusal) => self.reject(refusal),
        }
    }

    fn refuse(&self, fault: CertificateFault) -> WireResponse {
        let text = match fault {
            CertificateFault::Missing => "No required SSL certificate was sent\n",
            CertificateFault::Invalid(_) => "The SSL certificate error\n",
        };
        let reply = Reply::plain(StatusCode::BAD_REQUEST, text);
        self.reject(reply.with(CONNECTION, HeaderValue::from_static("close")))
    }

    fn expects(&self, address: SocketAddr) -> bool {
        self.admits(address)
    }
}
