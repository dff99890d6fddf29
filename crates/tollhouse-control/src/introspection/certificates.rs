//! `/v1/certificates`: when the certificates end that clients are shown, and what responders say of them.
//! No certificate and no key is here.

use axum::extract::State;
use axum::response::Response;
use serde_json::json;

use super::reply::found;
use super::state::Introspection;

/// All of them.
pub(super) async fn all(State(introspection): State<Introspection>) -> Response {
    let ends = introspection.metrics.certificates().all();
    let end = |(ssl, end): &(String, i64)| json!({ "ssl": ssl, "not_after": end });
    let ends: Vec<_> = ends.iter().map(end).collect();
    found(&json!({ "certificates": ends, "staples": introspection.staples.report() }))
}
