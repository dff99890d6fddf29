//! State behind the control API, the metrics and the status pages: shared handles to the data of
//! other modules.

use std::sync::Arc;

use anyhow::Context;
use tollhouse_model::encryption::Keyring;
use tollhouse_plugin::Catalogue;
use tollhouse_upstream::HealthSupervisor;

use crate::configuration::Configuration;
use crate::console::sampler::Sampler;
use crate::context::ControlContext;
use crate::discovery::NodeSources;
use crate::feed::Source;
use crate::identity::Identity;
use crate::metrics::MetricsPage;
use crate::outages::Outages;
use crate::plugins::APISIX_VERSION;
use crate::staples::Staples;

/// State shared by the handlers of control API, metrics and status pages.
#[derive(Debug, Clone)]
pub struct Introspection {
    pub metrics: MetricsPage,
    pub health: Arc<HealthSupervisor>,
    pub staples: Arc<Staples>,
    /// Upstreams with discovered nodes.
    pub node_sources: Arc<NodeSources>,
    /// State of the configuration in service.
    pub configuration: Arc<Configuration>,
    /// Parts of the process that are down.
    pub outages: Arc<Outages>,
    pub catalogue: Arc<Catalogue>,
    /// Product name on HTML pages.
    pub brand: tollhouse_plugin::Brand,
    pub identity: Arc<Identity>,
    /// Answer of `/v1/server_info`; `None` if the `server-info` plugin is off.
    pub server_info: Option<ServerInfo>,
    /// Traffic of each second.
    pub sampler: Arc<Sampler>,
    /// Random key that encrypts the plain-text secrets of documents before they are shown.
    pub keyring: Arc<Keyring>,
}

/// Answer of `/v1/server_info`, besides the identity.
#[derive(Debug, Clone, Copy)]
pub struct ServerInfo {
    /// APISIX version that is reported to clients.
    pub version: &'static str,
    /// Kind of store, reported in place of etcd's version.
    pub store: &'static str,
}

impl Introspection {
    /// `source` is the origin of the configuration.
    ///
    /// # Errors
    /// If the system's random number generator is unavailable.
    pub fn new(cx: &ControlContext, source: &Source) -> anyhow::Result<Self> {
        let info = ServerInfo { version: APISIX_VERSION, store: source.store_name() };
        Ok(Self {
            metrics: cx.metrics_page.clone(),
            health: Arc::clone(&cx.serving.drivers.health),
            staples: Arc::clone(&cx.serving.drivers.staples),
            node_sources: Arc::clone(&cx.serving.drivers.sources),
            configuration: Arc::clone(&cx.serving.configuration),
            outages: Arc::clone(&cx.outages),
            catalogue: Arc::clone(&cx.plugins.catalogue),
            brand: cx.plugins.services.brand,
            identity: Arc::clone(&cx.identity),
            server_info: cx.plugins.catalogue.get("server-info").is_some().then_some(info),
            sampler: Arc::clone(&cx.console.sampler),
            keyring: Arc::new(
                Keyring::generate()
                    .context("the system's random number generator is unavailable")?,
            ),
        })
    }
}
