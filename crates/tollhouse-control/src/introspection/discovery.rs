//! `/v1/discovery/`: upstreams whose nodes come from a discovery source, with their state.
//!
//! Each source with reports has two pages, and its aliases have the second. The paths follow
//! APISIX's scheme for its discovery registries. The answers contain more than APISIX's.

use axum::Router;
use axum::extract::State;
use axum::response::Response;
use axum::routing::get;
use serde_json::json;
use tollhouse_model::upstream::DiscoverySource;

use super::reply::found;
use super::state::Introspection;
use crate::discovery::Detail;

/// Returns the pages of all sources: upstreams with the number of their nodes, and `dump` with all
/// nodes.
pub(super) fn routes() -> Router<Introspection> {
    let mut router = Router::new();
    for source in DiscoverySource::ALL.iter().filter(|source| source.is_reported()) {
        let page = |detail| get(move |State(introspection)| reply(introspection, *source, detail));
        router = router.route(&format!("/v1/discovery/{}", source.name()), page(Detail::Counts));
        for name in source.names() {
            router = router.route(&format!("/v1/discovery/{name}/dump"), page(Detail::Nodes));
        }
    }
    router
}

async fn reply(introspection: Introspection, source: DiscoverySource, detail: Detail) -> Response {
    // Rendered on a blocking thread, because tens of thousands of nodes take long and would delay
    // other tasks.
    let written = tokio::task::spawn_blocking(move || {
        found(&json!({ "upstreams": introspection.node_sources.report(source, detail) }))
    });
    written.await.unwrap_or_else(|error| {
        let text = format!("upstreams cannot be shown: {error}");
        super::reply::refusal(axum::http::StatusCode::INTERNAL_SERVER_ERROR, text)
    })
}
