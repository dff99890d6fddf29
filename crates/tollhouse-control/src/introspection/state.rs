//! What the control API, the metrics and the status pages answer from: handles of what the process has anyway.
//! Nothing is answered here, and nothing of it is owned by it.

use std::sync::Arc;

use anyhow::Context;
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
