//! HTTP introspection of a running gateway besides metrics: the control API and the status pages.
//! All requests are read-only; two requests of APISIX's are accepted without effect.
//!
//! Each submodule has one group of endpoints. Paths and answers are APISIX's, plus
//! `/v1/configuration`, `/v1/findings`, `/v1/traffic`, `/v1/certificates` and `/v1/discovery/`. Callers are not
//! authenticated, because the listeners are on loopback by default.

mod certificates;
mod discovery;
mod health;
mod health_page;
pub mod listeners;
mod object_view;
mod objects;
mod process;
mod reply;
mod schema;
mod state;
mod status;

use axum::Router;
use axum::routing::{get, post, put};

pub use self::state::Introspection;

pub fn control_api(introspection: Introspection) -> Router {
    Router::new()
        .route("/v1/configuration", get(process::configuration))
        .route("/v1/findings", get(process::findings))
        .route("/v1/traffic", get(process::traffic))
        .route("/v1/schema", get(schema::all))
        .route("/v1/healthcheck", get(health::all))
        .route("/v1/healthcheck/{kind}", get(health::without_id))
        .route("/v1/healthcheck/{kind}/", get(health::without_id))
        .route("/v1/healthcheck/{kind}/{id}", get(health::one))
        .route("/v1/certificates", get(certificates::all))
        .merge(discovery::routes())
        .route("/v1/routes", get(objects::routes))
        .route("/v1/route/{id}", get(objects::route))
        .route("/v1/services", get(objects::services))
        .route("/v1/service/{id}", get(objects::service))
        .route("/v1/upstreams", get(objects::upstreams))
        .route("/v1/upstream/{id}", get(objects::upstream))
        .route("/v1/plugin_metadatas", get(objects::plugin_metadatas))
        .route("/v1/plugin_metadata/{name}", get(objects::plugin_metadata))
        .route("/v1/plugins/reload", put(process::reload_plugins))
        .route("/v1/gc", post(process::collect_garbage))
        .route("/v1/server_info", get(process::server_info))
        .fallback(reply::no_such_page)
        .method_not_allowed_fallback(reply::no_such_page)
        .with_state(introspection)
}

pub fn status_pages(introspection: Introspection) -> Router {
    Router::new()
        .route("/status", get(status::alive))
        .route("/status/ready", get(status::ready))
        .fallback(reply::no_such_page)
        .method_not_allowed_fallback(reply::no_such_page)
        .with_state(introspection)
}

#[cfg(test)]
mod tests;
