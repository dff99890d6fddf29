//! Whether the process lives, and whether it has something to serve: for probes of whoever runs it.

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use serde_json::json;

use super::Introspection;
use super::reply::{found, json_reply};

/// It answers, so it lives.
pub(super) async fn alive() -> Response {
    found(&json!({ "status": "ok" }))
}

/// Cores share what they serve, so that all have a configuration as soon as one has.
pub(super) async fn ready(State(introspection): State<Introspection>) -> Response {
    if introspection.configuration.is_ready() {
        return found(&json!({ "status": "ok" }));
    }
    let error = "worker id: 0 has not received configuration";
    let body = json!({ "status": "error", "error": error });
    json_reply(StatusCode::SERVICE_UNAVAILABLE, &body)
}
