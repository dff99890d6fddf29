//! Listener in front of a [`ShenyuAdmin`]. Each connection is a task on the caller's runtime and
//! ends with the listener.

use std::pin::pin;

use axum::extract::Request;
use axum::{Extension, Router};
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tollhouse_net::accept::{self, Bounds, Stopping};

use crate::admin::{Probing, ShenyuAdmin};
use crate::api;
use crate::api::websites::ToThisMachine;
use crate::limits::{CONNECTIONS_MAX, DRAIN_TIME_MAX, HEAD_TIME_MAX};
use crate::probe;
use crate::sync::permits::Peer;

/// Serves until `stop` is ready. Open requests then have a few seconds to finish.
pub async fn serve(
    listener: TcpListener,
    admin: ShenyuAdmin,
    connections_max: usize,
    stop: impl Future<Output = ()>,
) {
    let bounds = Bounds {
        name: "shenyu admin",
        connections_max: connections_max.min(CONNECTIONS_MAX),
        drain_time: DRAIN_TIME_MAX,
    };
    let ended = admin.clone();
    // The store is released at once, even while gateways still follow.
    let stop = async move {
        stop.await;
        ended.end();
    };
    let probing = admin.clone();
    let router =
        Router::new().fallback(move |request: Request| api::answer(admin.clone(), request));
    let serving = accept::serve(
        listener,
        bounds,
        stop,
        |_| true,
        |stream, peer, stopping| {
            let is_local = stream.local_addr().is_ok_and(|local| local.ip().is_loopback());
            let router = router.clone().layer(Extension(Peer(peer.ip())));
            let router = if is_local { router.layer(Extension(ToThisMachine)) } else { router };
            connection(stream, router, stopping)
        },
    );
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

async fn connection(stream: TcpStream, router: Router, mut stopping: Stopping) {
    let mut builder = http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(HEAD_TIME_MAX);
    let service = TowerToHyperService::new(router);
    let connection = builder.serve_connection(TokioIo::new(stream), service).with_upgrades();
    let mut connection = pin!(connection);
    let stopped = async move {
        let _ = stopping.wait_for(|stopping| *stopping).await;
    };
    let ended = tokio::select! {
        ended = &mut connection => ended,
        () = stopped => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "a connection to ShenYu's admin ended early");
    }
}
