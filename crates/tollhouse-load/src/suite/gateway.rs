//! What Tollhouse is started with in a suite: a bootstrap file, and as a gateway resources in APISIX's
//! standalone shape.

use std::path::Path;

use serde_json::{Value, json};

/// Resources of a gateway.
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

    /// The file.
    pub(super) fn text(&self) -> String {
        let document = json!({ "routes": self.routes, "consumers": self.consumers });
        serde_json::to_string_pretty(&document).unwrap_or_default()
    }
}

/// The bootstrap file of a gateway whose files lie in a folder: the data plane on one port, no access
/// log, nothing else listening that could be in the way.
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

/// Where a registry listens: gRPC and HTTP for its clients, and a gateway and metrics that nobody asks.
#[derive(Debug, Clone, Copy)]
pub(super) struct RegistryPorts {
    pub(super) grpc: u16,
    pub(super) http: u16,
    pub(super) gateway: u16,
    pub(super) metrics: u16,
}

/// The bootstrap file of a registry whose files lie in a folder, with so many serving threads.
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
