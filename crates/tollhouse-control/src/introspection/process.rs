//! Endpoints about the process: its identity, the configuration in service, and two requests that
//! are accepted without effect for compatibility.

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde_json::json;

use super::reply::{found, no_such_page};
use super::state::Introspection;
use crate::console::nodes;

/// Returns the revision and problems of the configuration in service, readiness, and parts that are
/// down.
pub(super) async fn configuration(State(introspection): State<Introspection>) -> Response {
    let mut status = introspection.configuration.status();
    let outages = introspection.outages.list();
    let down =
        outages.into_iter().map(|(part, reason)| json!({"part": part.name(), "reason": reason}));
    status["down"] = down.collect();
    status["ready"] = introspection.why_unready().is_none().into();
    found(&status)
}

/// Returns the current findings, the worst first.
pub(super) async fn findings(State(introspection): State<Introspection>) -> Response {
    let board = introspection.metrics.findings();
    board.refresh().await;
    found(&json!({ "findings": board.to_json() }))
}

/// Number of seconds of traffic in an answer: enough for a rate that does not jump.
const TRAFFIC_SECONDS: u64 = 10;

/// Returns version, start, node counts and the traffic of the last seconds. It names no route, node
/// or client, because callers are not authenticated.
pub(super) async fn traffic(State(introspection): State<Introspection>) -> Response {
    let identity = &introspection.identity;
    let nodes = introspection.metrics.snapshot().map(|it| nodes::count(&it).to_json());
    let recent = introspection.sampler.recent(TRAFFIC_SECONDS);
    found(&json!({
        "version": env!("CARGO_PKG_VERSION"),
        "hostname": identity.hostname,
        "started_at": identity.boot_time_s,
        "now": recent["now"],
        "seconds": recent["seconds"],
        "nodes": nodes,
    }))
}

/// Returns the identity of this gateway; 404 if the `server-info` plugin is off.
pub(super) async fn server_info(State(introspection): State<Introspection>) -> Response {
    let Some(info) = introspection.server_info else {
        return no_such_page(State(introspection)).await;
    };
    let identity = &introspection.identity;
    found(&json!({
        "hostname": identity.hostname,
        "version": info.version,
        "id": identity.id,
        "boot_time": identity.boot_time_s,
        "etcd_version": info.store,
    }))
}

/// Accepts the call without effect, because freed memory needs no collection.
pub(super) async fn collect_garbage() -> Response {
    StatusCode::OK.into_response()
}

/// Accepts the call without effect, because plugins are compiled in.
pub(super) async fn reload_plugins() -> Response {
    "done".into_response()
}
