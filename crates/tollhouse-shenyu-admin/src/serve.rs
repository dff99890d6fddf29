//! Listener in front of a [`ShenyuAdmin`].

use axum::body::Body;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use hyper::Request;
use hyper::body::Incoming;
use tokio::net::TcpListener;
use tollhouse_net::listener_tls::CertificateFault;
use tollhouse_web::{Limits, Listener, Peer, Service};

use crate::admin::{Probing, ShenyuAdmin};
use crate::api;
use crate::limits::{CONNECTIONS_MAX, DRAIN_TIME_MAX, HEAD_TIME_MAX};
use crate::probe;

/// Serves until `stop` is ready. Open requests then have a few seconds to finish.
pub async fn serve(
    socket: TcpListener,
    admin: ShenyuAdmin,
    connections_max: usize,
    stop: impl Future<Output = ()>,
) {
    let limits = Limits {
        name: "shenyu admin",
        connections_max: connections_max.min(CONNECTIONS_MAX),
        head_time_max: HEAD_TIME_MAX,
        drain_time_max: DRAIN_TIME_MAX,
    };
    let ended = admin.clone();
    // The store is released at once, even while gateways still follow.
    let stop = async move {
        stop.await;
        ended.end();
    };
    let probing = admin.clone();
    let serving = tollhouse_web::serve(Listener { socket, tls: None, limits }, admin, stop);
    match probing.probing {
        Probing::Always => drop(tokio::join!(serving, probe::run(probing))),
        Probing::Never => serving.await,
    }
}

/// Holds an admin without a listener until `stop` is ready, then releases its store.
pub async fn hold(admin: ShenyuAdmin, stop: impl Future<Output = ()>) {
    stop.await;
    admin.end();
}

impl Service for ShenyuAdmin {
    type Body = Body;

    async fn answer(&self, request: Request<Incoming>, peer: Peer) -> Response {
        let mut request = request.map(Body::new);
        request.extensions_mut().insert(peer);
        api::answer(self.clone(), request).await
    }

    fn refuse(&self, _fault: CertificateFault) -> Response {
        StatusCode::BAD_REQUEST.into_response()
    }
}
