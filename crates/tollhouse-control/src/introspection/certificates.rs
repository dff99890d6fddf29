//! `/v1/certificates`: expiry of the certificates shown to clients, and their OCSP state.
//! Certificates and keys themselves are not shown.

use axum::extract::State;
use axum::response::Response;
use serde_json::json;

use super::reply::found;
use super::state::Introspection;

pub(super) async fn all(State(introspection): State<Introspection>) -> Response {
    let ends = introspection.metrics.certificates().to_json();
    found(&json!({ "certificates": ends, "staples": introspection.staples.report() }))
}
