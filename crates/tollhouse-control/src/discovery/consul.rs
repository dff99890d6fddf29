//! Nodes from Consul: one blocking query for each service, so that changes arrive at once.
//!
//! All instances are read, with their checks, and those that do not pass do not serve.

use std::sync::Arc;

use serde::Deserialize;
use tollhouse_config::bootstrap::{DiscoveryRegistries, RegistryServers};

use super::remote::agents::{Agents, Questions, follow};
use super::remote::catalogue::{Catalogue, RemoteInstance, ServiceName};
use super::remote::each::follow_each;
use super::remote::http::escaped;
use super::remote::{Protocol, RemoteSource};

pub type Source = RemoteSource<Consul>;

/// Port of an instance that has none, as in APISIX.
const PORT_DEFAULT: u32 = 80;

/// The service of Consul's own servers.
const OWN_SERVICE: &str = "consul";

/// Health of services at Consul agents.
#[derive(Debug)]
pub struct Consul(Agents);

impl Protocol for Consul {
    const THREAD: &'static str = "consul-nodes";

    fn open(registries: &DiscoveryRegistries) -> Option<Self> {
        registries.consul.clone().map(|settings| Self(Agents::new(settings)))
    }

    fn access(&self) -> &RegistryServers {
        &self.0.settings.access
    }

    async fn run(self: Arc<Self>, catalogue: Arc<Catalogue>) {
        follow_each(&Arc::clone(&catalogue), |name| {
            follow(Arc::clone(&self), Arc::clone(&catalogue), name)
        })
        .await;
    }
}

impl Questions for Consul {
    fn agents(&self) -> &Agents {
        &self.0
    }

    fn target(&self, name: &ServiceName) -> Option<String> {
        let service = &name.service;
        let is_skipped = service == OWN_SERVICE || self.0.settings.skip_services.contains(service);
        (!is_skipped).then(|| format!("/v1/health/service/{}", escaped(service)))
    }

    /// Parses a list of instances, which is empty for an unknown service.
    fn instances(&self, body: &[u8]) -> Result<Option<Vec<RemoteInstance>>, String> {
        let entries: Vec<Entry> = serde_json::from_slice(body)
            .map_err(|error| format!("the answer is not a list of instances: {error}"))?;
        let instances = entries.into_iter().map(|entry| {
            let Entry { node, service, checks } = entry;
            let host = if service.address.is_empty() { node.address } else { service.address };
            let port = if service.port == 0 { PORT_DEFAULT } else { service.port };
            let weight = self.0.settings.weight.saturating_mul(service.weights.passing);
            let is_healthy = checks.iter().all(|check| check.status == "passing");
            let metadata = service.meta.unwrap_or_default();
            RemoteInstance { host, port, weight, is_healthy, is_isolated: false, metadata }
        });
        let instances: Vec<_> = instances.collect();
        Ok(Some(instances).filter(|instances| !instances.is_empty()))
    }
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Entry {
    node: Node,
    service: Service,
    #[serde(default)]
    checks: Vec<Check>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Node {
    address: String,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Service {
    #[serde(default)]
    address: String,
    #[serde(default)]
    port: u32,
    /// Null for a service without metadata.
    #[serde(default)]
    meta: Option<std::collections::BTreeMap<String, String>>,
    #[serde(default)]
    weights: Weights,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
struct Weights {
    passing: u32,
}

impl Default for Weights {
    fn default() -> Self {
        Self { passing: 1 }
    }
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Check {
    status: String,
}

#[cfg(test)]
mod tests;
