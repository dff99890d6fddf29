//! `/v1/certificates`: when the certificates end that clients are shown, and what responders say of them.
//! No certificate and no key is here.

use axum::extract::State;
use axum::response::Response;
use serde_json::json;

use super::reply::found;
use super::state::Introspection;

/// All of them.
pub(super) async fn all(State(introspection): State<Introspection>) -> Response {
    let ends = introspection.metrics.certificates().to_json();
    found(&json!({ "certificates": ends, "staples": introspection.staples.report() }))
}
