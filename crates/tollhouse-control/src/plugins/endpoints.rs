//! Endpoints of plugins that the `public-api` plugin can expose on a route.

use std::collections::HashMap;
use std::sync::Arc;

use serde_json::{Map, Value, json};
use tollhouse_plugin::scope::{Endpoint, EndpointReply};
use tollhouse_plugin::{Catalogue, Services};
use tollhouse_telemetry::Metrics;
use tollhouse_telemetry::exposition::Format;
use tollhouse_telemetry::metrics::Downstream;

use crate::metrics::MetricsPage;

/// Path of the metrics page on the data plane, unless `plugin_attr` names another; the same as
/// APISIX's.
const METRICS_PATH: &str = "/apisix/prometheus/metrics";

/// Data that endpoints show.
pub struct Sources<'s> {
    /// Identity of this gateway.
    pub id: &'s str,
    pub metrics: &'s Arc<Metrics>,
    pub page: &'s MetricsPage,
}

/// Returns the endpoints of the enabled plugins, by path.
pub fn for_plugins(
    catalogue: &Catalogue,
    services: &Services,
    sources: &Sources<'_>,
) -> HashMap<String, Endpoint> {
    let Sources { id, metrics, page } = *sources;
    let mut endpoints: HashMap<String, Endpoint> = HashMap::new();
    if catalogue.get("node-status").is_some() {
        let (metrics, id) = (Arc::clone(metrics), id.to_owned());
        let status = move || node_status(&id, metrics.downstream());
        endpoints.insert("/apisix/status".to_owned(), Arc::new(status));
    }
    if catalogue.get("prometheus").is_some() {
        let page = page.clone();
        let content_type = Format::Text.content_type();
        let text = move || EndpointReply { content_type, body: page.text() };
        endpoints.insert(metrics_path(&services.attributes).to_owned(), Arc::new(text));
    }
    endpoints
}

/// Returns the path of the metrics page among the attributes of plugins, or the default.
pub fn metrics_path(attributes: &Map<String, Value>) -> &str {
    let configured =
        attributes.get("prometheus").and_then(|attributes| attributes.get("export_uri"));
    configured.and_then(Value::as_str).unwrap_or(METRICS_PATH)
}

/// Returns the connection and request counts in nginx's terms, with numbers as text.
fn node_status(id: &str, seen: Downstream) -> EndpointReply {
    let text = |number: u64| number.to_string();
    let active = u64::try_from(seen.open).unwrap_or(0);
    // Includes the current request, which is not counted as answered yet.
    let writing = u64::try_from(seen.requests_open).unwrap_or(0);
    let body = json!({
        "id": id,
        "status": {
            "active": text(active),
            "accepted": text(seen.accepted),
            "handled": text(seen.accepted.saturating_sub(seen.refused)),
            "total": text(seen.requests.saturating_add(writing)),
            "reading": "0",
            "writing": text(writing),
            "waiting": text(active.saturating_sub(writing)),
        },
    });
    EndpointReply { content_type: "application/json", body: format!("{body}\n").into_bytes() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_path_of_the_metrics_page_can_be_chosen() {
        let mut attributes = Map::new();
        assert_eq!(metrics_path(&attributes), METRICS_PATH);
        attributes.insert("prometheus".to_owned(), json!({"export_uri": "/metrics"}));
        assert_eq!(metrics_path(&attributes), "/metrics");
    }

    #[test]
    fn numbers_of_the_node_are_texts() {
        let seen = Downstream { requests: 7, accepted: 5, refused: 1, open: 3, requests_open: 1 };
        let reply = node_status("me", seen);
        let said: Value = serde_json::from_slice(&reply.body).expect("JSON");
        let expected = json!({"id": "me", "status": {
            "active": "3", "accepted": "5", "handled": "4", "total": "8",
            "reading": "0", "writing": "1", "waiting": "2",
        }});
        assert_eq!(said, expected);
    }
}
