//! Configuration of Tollhouse in a suite: the bootstrap file and, for the gateway, resources in
//! APISIX's standalone format.

use std::path::Path;

use serde_json::{Value, json};

/// Routes and consumers of a gateway under test.
#[derive(Debug, Clone, Default)]
pub(super) struct Resources {
    routes: Vec<Value>,
    consumers: Vec<Value>,
}

impl Resources {
    /// Adds a route to an upstream on loopback.
    pub(super) fn route(mut self, path: &str, upstream_port: u16, plugins: &Value) -> Self {
        let number = self.routes.len() + 1;
        self.routes.push(json!({
            "id": number.to_string(),
            "uri": path,
            "plugins": plugins,
            "upstream": {
                "type": "roundrobin",
                "nodes": { format!("127.0.0.1:{upstream_port}"): 1 },
                "keepalive_pool": { "size": 2_048, "requests": 1_000_000_000 },
            },
        }));
        self
    }

    /// Adds a consumer with a key.
    pub(super) fn consumer(mut self, key: &str) -> Self {
        let number = self.consumers.len() + 1;
        self.consumers.push(json!({
            "username": format!("consumer_{number}"),
            "plugins": { "key-auth": { "key": key } },
        }));
        self
    }

    /// Returns the text of the declarative configuration file.
    pub(super) fn text(&self) -> String {
        let document = json!({ "routes": self.routes, "consumers": self.consumers });
        serde_json::to_string_pretty(&document).unwrap_or_default()
    }
}

/// Returns the bootstrap file of a gateway with its files in a folder: one data plane port, no
/// access log, all unneeded listeners off.
pub(super) fn bootstrap(folder: &Path, port: u16, metrics_port: u16, workers: usize) -> String {
    let place = folder.display();
    format!(
        "data_dir: {place}/data\n\
         workers: {workers}\n\
         listen:\n  http: [\"127.0.0.1:{port}\"]\n  https: []\n  admin: \"\"\n  control: \"\"\n  \
         metrics: \"127.0.0.1:{metrics_port}\"\n  registry_grpc: \"\"\n  registry_http: \"\"\n\
         resources: {place}/resources.json\n\
         access_log: {{ format: \"off\" }}\n"
    )
}

/// Ports of a registry: gRPC and HTTP for clients, and the unused gateway and metrics.
#[derive(Debug, Clone, Copy)]
pub(super) struct RegistryPorts {
    pub(super) grpc: u16,
    pub(super) http: u16,
    pub(super) gateway: u16,
    pub(super) metrics: u16,
}

/// Returns the bootstrap file of a registry with its files in a folder and `workers` serving
/// threads.
pub(super) fn registry_bootstrap(folder: &Path, ports: RegistryPorts, workers: usize) -> String {
    let place = folder.display();
    let RegistryPorts { grpc, http, gateway, metrics } = ports;
    format!(
        "data_dir: {place}/data\n\
         workers: 1\n\
         listen:\n  http: [\"127.0.0.1:{gateway}\"]\n  https: []\n  admin: \"\"\n  control: \"\"\n  \
         metrics: \"127.0.0.1:{metrics}\"\n  registry_grpc: \"127.0.0.1:{grpc}\"\n  \
         registry_http: \"127.0.0.1:{http}\"\n\
         registry: {{ workers: {workers} }}\n\
         resources: {place}/resources.json\n\
         access_log: {{ format: \"off\" }}\n"
    )
}
