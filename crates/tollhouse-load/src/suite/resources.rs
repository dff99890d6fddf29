//! Resources of Tollhouse in a suite, in APISIX's standalone format.

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

    /// Returns the resource file.
    pub(super) fn text(&self) -> String {
        let document = json!({ "routes": self.routes, "consumers": self.consumers });
        serde_json::to_string_pretty(&document).unwrap_or_default()
    }
}
