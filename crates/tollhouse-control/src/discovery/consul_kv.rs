//! Nodes from the key-value store of Consul: each key `PREFIX/SERVICE/HOST:PORT` is a node.

use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use tollhouse_config::bootstrap::{ConsulKvRegistry, DiscoveryRegistries, RegistryServers};

use super::remote::agents::{Agents, Questions, follow};
use super::remote::catalogue::{Catalogue, RemoteInstance, ServiceName};
use super::remote::each::follow_each;
use super::remote::http::escaped;
use super::remote::{Protocol, RemoteSource};

pub type Source = RemoteSource<ConsulKv>;

/// Part of a `service_name` in APISIX's form, before the key: `http://HOST/v1/kv/PREFIX/SERVICE/`.
const PATH: &str = "/v1/kv/";

/// The key-value store of Consul agents.
#[derive(Debug)]
pub struct ConsulKv {
    agents: Agents,
    /// First part of all keys.
    prefix: String,
    skip_keys: Vec<String>,
}

impl Protocol for ConsulKv {
    const THREAD: &'static str = "consul-kv-nodes";

    fn open(registries: &DiscoveryRegistries) -> Option<Self> {
        let ConsulKvRegistry { consul, prefix, skip_keys } = registries.consul_kv.clone()?;
        Some(Self { agents: Agents::new(consul), prefix, skip_keys })
    }

    fn access(&self) -> &RegistryServers {
        &self.agents.settings.access
    }

    async fn run(self: Arc<Self>, catalogue: Arc<Catalogue>) {
        follow_each(&Arc::clone(&catalogue), |name| {
            follow(Arc::clone(&self), Arc::clone(&catalogue), name)
        })
        .await;
    }
}

impl ConsulKv {
    /// Returns the beginning of the keys of a service, with a slash at its end. A name in APISIX's
    /// form is the address of the keys; the server in it does not matter.
    fn folder(&self, service: &str) -> String {
        let is_address = service.starts_with("http://") || service.starts_with("https://");
        let key = service.split_once(PATH).filter(|_| is_address).map(|(_, key)| key);
        match key {
            Some(key) => format!("{}/", key.trim_end_matches('/')),
            None => format!("{}/{}/", self.prefix, service.trim_matches('/')),
        }
    }
}

impl Questions for ConsulKv {
    fn agents(&self) -> &Agents {
        &self.agents
    }

    fn target(&self, name: &ServiceName) -> Option<String> {
        let folder = self.folder(&name.service);
        let path: Vec<String> = folder.split('/').map(escaped).collect();
        Some(format!("{PATH}{}?recurse=true", path.join("/")))
    }

    fn is_404_an_answer(&self) -> bool {
        true
    }

    fn instances(&self, body: &[u8]) -> Result<Option<Vec<RemoteInstance>>, String> {
        if body.is_empty() {
            return Ok(None);
        }
        let entries: Vec<Entry> = serde_json::from_slice(body)
            .map_err(|error| format!("the answer is not a list of keys: {error}"))?;
        let entries = entries.into_iter().filter(|entry| !self.skip_keys.contains(&entry.key));
        Ok(Some(entries.filter_map(|entry| self.instance(&entry)).collect()))
    }
}

impl ConsulKv {
    /// Returns the node of a key; `None` if it is the key of a folder, or has no node.
    fn instance(&self, entry: &Entry) -> Option<RemoteInstance> {
        let (_, address) = entry.key.rsplit_once('/')?;
        let (host, port) = address.rsplit_once(':')?;
        let value = entry.value.as_deref().and_then(|value| STANDARD.decode(value).ok());
        // Keys without a value, and values that are not JSON, have the usual weight.
        let value: Value =
            value.and_then(|value| serde_json::from_slice(&value).ok()).unwrap_or_default();
        Some(RemoteInstance {
            host: host.to_owned(),
            port: port.parse().ok()?,
            weight: value.weight.unwrap_or(self.agents.settings.weight),
            is_healthy: true,
            ..RemoteInstance::default()
        })
    }
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Entry {
    key: String,
    /// In base64; null for a key without a value.
    value: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Value {
    weight: Option<u32>,
}

#[cfg(test)]
mod tests;
