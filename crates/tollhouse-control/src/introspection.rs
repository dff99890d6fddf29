//! What can be asked of a running gateway over HTTP beside its metrics: the control API and the
//! status pages. Read-only but for two requests that change nothing.
//!
//! One file for each group of endpoints. The paths and answers are APISIX's, with `/v1/configuration`,
//! `/v1/certificates` and `/v1/discovery/registry` in addition. Nothing here asks who is asking: the listeners are for this
//! machine unless the configuration says otherwise.

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
mod status;

use std::sync::Arc;

use anyhow::Context;
use axum::Router;
use axum::routing::{get, post, put};
use tollhouse_model::encryption::Keyring;
use tollhouse_plugin::Catalogue;
use tollhouse_upstream::HealthSupervisor;

use crate::configuration::Configuration;
use crate::context::ControlContext;
use crate::feed::Source;
use crate::identity::Identity;
use crate::metrics::MetricsPage;
use crate::outages::Outages;
use crate::plugins::APISIX_VERSION;
use crate::registry::nodes::RegistryNodes;
use crate::staples::Staples;

/// What the side listeners answer from.
#[derive(Debug, Clone)]
pub struct Introspection {
    /// What is counted.
    pub metrics: MetricsPage,
    /// Health of nodes.
    pub health: Arc<HealthSupervisor>,
    /// What responders say of certificates.
    pub staples: Arc<Staples>,
    /// Upstreams whose nodes come from the registry.
    pub registry_nodes: Arc<RegistryNodes>,
    /// The configuration in service.
    pub configuration: Arc<Configuration>,
    /// Which parts of the process are down.
    pub outages: Arc<Outages>,
    /// The plugins that exist.
    pub catalogue: Arc<Catalogue>,
    /// Whose name its pages show.
    pub brand: tollhouse_plugin::Brand,
    /// Who this gateway is.
    pub identity: Arc<Identity>,
    /// What `/v1/server_info` says of itself; `None` where the plugin of that name is off.
    pub server_info: Option<ServerInfo>,
    /// Hides the secrets of documents, which lie open in them; known to nobody.
    pub keyring: Arc<Keyring>,
}

/// What `/v1/server_info` says beside who this is.
#[derive(Debug, Clone, Copy)]
pub struct ServerInfo {
    /// The version that clients of APISIX are told.
    pub version: &'static str,
    /// What stands in the place of etcd.
    pub store: &'static str,
}

impl Introspection {
    /// Of a process whose resources come from `source`.
    ///
    /// # Errors
    /// The system gives no random numbers.
    pub fn new(cx: &ControlContext, source: &Source) -> anyhow::Result<Self> {
        let info = ServerInfo { version: APISIX_VERSION, store: source.store_name() };
        Ok(Self {
            metrics: cx.metrics_page.clone(),
            health: Arc::clone(&cx.drivers.health),
            staples: Arc::clone(&cx.drivers.staples),
            registry_nodes: Arc::clone(&cx.drivers.registry),
            configuration: Arc::clone(&cx.configuration),
            outages: Arc::clone(&cx.outages),
            catalogue: Arc::clone(&cx.catalogue),
            brand: cx.services.brand,
            identity: Arc::clone(&cx.identity),
            server_info: cx.catalogue.get("server-info").is_some().then_some(info),
            keyring: Arc::new(Keyring::generate().context("the system gives no random numbers")?),
        })
    }
}

/// The control API.
pub fn control_api(introspection: Introspection) -> Router {
    Router::new()
        .route("/v1/configuration", get(process::configuration))
        .route("/v1/schema", get(schema::all))
        .route("/v1/healthcheck", get(health::all))
        .route("/v1/healthcheck/{kind}", get(health::without_id))
        .route("/v1/healthcheck/{kind}/", get(health::without_id))
        .route("/v1/healthcheck/{kind}/{id}", get(health::one))
        .route("/v1/certificates", get(certificates::all))
        .route("/v1/discovery/registry", get(discovery::counts))
        .route("/v1/discovery/registry/dump", get(discovery::dump))
        .route("/v1/discovery/polaris/dump", get(discovery::dump))
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

/// The status pages.
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
