//! `/v1/discovery/registry`: upstreams whose nodes come from the service registry, with their
//! state.
//!
//! The paths follow APISIX's scheme for its discovery registries, with `polaris` as a second name.
//! The answers contain more than APISIX's.

use axum::extract::State;
use axum::response::Response;
use serde_json::json;

use super::reply::found;
use super::state::Introspection;
use crate::registry::nodes::Detail;

/// Answers with all upstreams and the number of their nodes.
pub(super) async fn counts(State(introspection): State<Introspection>) -> Response {
    reply(introspection, Detail::Counts).await
}

/// Answers with all upstreams and their nodes.
pub(super) async fn dump(State(introspection): State<Introspection>) -> Response {
    reply(introspection, Detail::Nodes).await
}

async fn reply(introspection: Introspection, detail: Detail) -> Response {
    // Rendered on a blocking thread, because tens of thousands of nodes take long and would delay
    // other tasks.
    let written = tokio::task::spawn_blocking(move || {
        found(&json!({ "upstreams": introspection.registry_nodes.report(detail) }))
    });
    written.await.unwrap_or_else(|error| {
        let text = format!("upstreams cannot be shown: {error}");
        super::reply::refusal(axum::http::StatusCode::INTERNAL_SERVER_ERROR, text)
    })
}
