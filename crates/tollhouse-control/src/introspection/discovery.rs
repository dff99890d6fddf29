//! `/v1/discovery/registry`: upstreams whose nodes come from the registry, how they stand and why.
//!
//! The paths are those of APISIX for its registries, `polaris` being another name of ours; what is
//! told is richer.

use axum::extract::State;
use axum::response::Response;
use serde_json::json;

use super::reply::found;
use super::state::Introspection;
use crate::registry::nodes::Detail;

/// Every upstream, in numbers.
pub(super) async fn counts(State(introspection): State<Introspection>) -> Response {
    reply(introspection, Detail::Counts).await
}

/// Every upstream with its nodes.
pub(super) async fn dump(State(introspection): State<Introspection>) -> Response {
    reply(introspection, Detail::Nodes).await
}

async fn reply(introspection: Introspection, detail: Detail) -> Response {
    // Tens of thousands of nodes take long to write; what else this side does must go on.
    let written = tokio::task::spawn_blocking(move || {
        found(&json!({ "upstreams": introspection.registry_nodes.report(detail) }))
    });
    written.await.unwrap_or_else(|error| {
        let text = format!("upstreams cannot be shown: {error}");
        super::reply::refusal(axum::http::StatusCode::INTERNAL_SERVER_ERROR, text)
    })
}
