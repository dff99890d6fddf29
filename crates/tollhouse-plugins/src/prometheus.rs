//! Counts requests for Prometheus: statuses, latencies and bytes, by route, service, consumer and
//! node.
//!
//! The metrics page covers only requests of routes with this plugin, on the route itself or in a
//! global rule. Names and labels are those of APISIX, so that its dashboards work unchanged.
//!
//! # Example
//! ```json
//! {"prefer_name": true}
//! ```
//!
//! # Answers
//! None; the plugin only observes answers.
//!
//! # Metrics
//! - `apisix_http_status`: requests, by `code`, `route`, `matched_uri`, `matched_host`, `service`,
//!   `consumer`, `node` and `response_source`. The last is `upstream` for answers of nodes, `nginx`
//!   if a node failed, and `apisix` for all others
//! - `apisix_http_latency`: milliseconds, by `type`: `request` for the total, `upstream` for the
//!   node's share, `apisix` for the rest
//! - `apisix_bandwidth`: bytes, by `type`: `ingress` from clients, `egress` to them
//! - `apisix_stream_connection_total`: connections of stream routes with this plugin, by `route`
//!
//! # Notes
//! If both a global rule and the route have the plugin, the route's instance counts. Each core
//! distinguishes 20,000 label sets. Further requests are counted under `other`, and
//! `tollhouse_metric_series_folded_total` reports their number. Plugin metadata `disabled_labels`
//! empties labels with too many values. `plugin_attr.prometheus` sets `metric_prefix`,
//! `default_buckets`, `export_uri`, the path of the page for `public-api`, and for each metric `extra_labels` and `expire`. The page is generated on
//! request, so `refresh_interval` has no effect.

use std::borrow::Cow;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use smallvec::SmallVec;
use tollhouse_model::variable::{Lookup, Variable};
use tollhouse_plugin::{
    Category, ConfError, LogContext, MetadataSpec, Phases, Plugin, RunPolicy, Scope, Services,
    Transfer,
};
use tollhouse_telemetry::apisix::{
    Family, Hidden, LabelName, LabelSet, ResponseSource, Served, Traffic, Values,
};
use tollhouse_telemetry::counters::SharedCounter;

mod attributes;

/// Number of extra labels whose values fit without an allocation; more are rare.
const EXTRA_INLINE: usize = 4;

/// Status of requests whose client left before the answer.
const CLIENT_GONE: u16 = 499;

/// Configuration of `prometheus`.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct Config {
    /// Whether `route` and `service` labels hold names instead of ids; off by default.
    #[serde(default)]
    pub prefer_name: bool,
}

#[derive(Debug)]
pub struct Prometheus {
    traffic: Arc<Traffic>,
    hidden: Hidden,
    extra: Vec<Variable>,
    /// Variables of the route's and service's name, if names are preferred to ids.
    names: Option<[Variable; 2]>,
    matched: [Variable; 2],
    /// Counter of the stream route that has the plugin.
    connections: Option<Arc<SharedCounter>>,
}

/// Prefix of `Scope::owner` for plugins of stream routes.
const STREAM_ROUTES: &str = "stream_routes/";

/// Returns the process-wide counters, which outlive configurations.
pub fn traffic(services: &Services) -> Arc<Traffic> {
    services.keep(Prometheus::NAME, || Traffic::new(attributes::settings(services)))
}

impl Plugin for Prometheus {
    const NAME: &'static str = "prometheus";
    const PRIORITY: i32 = 500;
    const VERSION: f32 = 0.2;
    const CATEGORY: Category = Category::Observability;
    const PHASES: Phases = Phases::LOG;
    const SERVES_CONNECTIONS: bool = true;
    const RUN_POLICY: RunPolicy = RunPolicy::PreferRoute;
    type Config = Config;

    fn metadata() -> Option<MetadataSpec> {
        Some(MetadataSpec::with_schema(metadata_schema))
    }

    fn compile(config: Config, scope: &Scope<'_>) -> Result<Self, ConfError> {
        let traffic = traffic(scope.services);
        let named = |name: &str| Variable::Named(name.to_owned());
        let variables = traffic.settings().variables().iter();
        let extra = variables.map(|name| Variable::parse(name)).collect();
        let names = config.prefer_name.then(|| [named("route_name"), named("service_name")]);
        let hidden = hidden(scope.metadata_field("disabled_labels"));
        let matched = [named("matched_uri"), named("matched_host")];
        let stream_route = scope.owner.strip_prefix(STREAM_ROUTES);
        let connections = stream_route.map(|route| traffic.connections(route));
        Ok(Self { traffic, hidden, extra, names, matched, connections })
    }

    fn log(&self, cx: &mut LogContext<'_>) {
        if cx.request().is_connection() {
            if let Some(connections) = &self.connections {
                connections.add(1);
            }
            return;
        }
        let now_s = cx.now().unix_ms / 1000;
        let (transfer, variables) = (cx.transfer(), cx.variables());
        let [uri, host] = self.matched.each_ref().map(|name| value(variables, name));
        let names = self.names.as_ref().map(|names| {
            // An empty name counts as missing, and the id is used instead.
            names.each_ref().map(|name| variables.variable(name).filter(|name| !name.is_empty()))
        });
        let [route_name, service_name] = names.unwrap_or_default();
        let extra: SmallVec<[Cow<'_, [u8]>; EXTRA_INLINE]> =
            self.extra.iter().map(|name| value(variables, name)).collect();
        let values = Values {
            route: route_name.as_deref().unwrap_or(transfer.route_id.as_bytes()),
            matched_uri: &uri,
            matched_host: &host,
            service: service_name.as_deref().unwrap_or(transfer.service_id.as_bytes()),
            consumer: transfer.consumer.as_bytes(),
            node: address_of(transfer.upstream).as_bytes(),
            extra: &extra,
        };
        self.traffic.count(&self.hidden, &served(transfer, values, now_s));
    }
}

fn value<'a>(variables: &'a dyn Lookup, name: &Variable) -> Cow<'a, [u8]> {
    variables.variable(name).unwrap_or_default()
}

fn served<'a>(transfer: &Transfer<'_>, values: Values<'a>, now_s: u64) -> Served<'a> {
    let source = match (transfer.upstream_ms, transfer.upstream) {
        (Some(_), _) => ResponseSource::Upstream,
        (None, "") => ResponseSource::Gateway,
        (None, _) => ResponseSource::Proxy,
    };
    // If a node failed, its time is attributed to the node.
    let failed_ms = (source == ResponseSource::Proxy).then_some(transfer.request_ms);
    Served {
        code: if transfer.status == 0 { CLIENT_GONE } else { transfer.status },
        source,
        values,
        request_ms: transfer.request_ms,
        upstream_ms: transfer.upstream_ms.or(failed_ms),
        ingress_bytes: transfer.bytes_received,
        egress_bytes: transfer.bytes_sent,
        now_s,
    }
}

/// Returns the address of `ip:port`, without the brackets of IPv6.
fn address_of(node: &str) -> &str {
    let address = node.rsplit_once(':').map_or(node, |(address, _)| address);
    address.trim_start_matches('[').trim_end_matches(']')
}

/// Returns the labels that metadata disables. Unknown names were refused earlier.
fn hidden(disabled_labels: Option<&Value>) -> Hidden {
    let sets = Family::ALL.map(|family| {
        let names = disabled_labels.and_then(|by_metric| by_metric.get(family.name()));
        let names = names.and_then(Value::as_array).into_iter().flatten();
        let labels = names.filter_map(|name| LabelName::named(name.as_str()?));
        labels.fold(LabelSet::default(), LabelSet::with)
    });
    Hidden::new(sets)
}

/// Metrics of language models, which do not exist yet. Their labels may already be disabled.
const MODEL_METRICS: [(&str, &[&str]); 6] = [
    ("llm_latency", MODEL_LABELS),
    ("llm_prompt_tokens", MODEL_LABELS),
    ("llm_completion_tokens", MODEL_LABELS),
    ("llm_prompt_tokens_dist", MODEL_LABELS),
    ("llm_completion_tokens_dist", MODEL_LABELS),
    (
        "llm_active_connections",
        &[
            "route",
            "route_id",
            "matched_uri",
            "matched_host",
            "service",
            "service_id",
            "consumer",
            "node",
            "request_type",
            "request_llm_model",
            "llm_model",
        ],
    ),
];

const MODEL_LABELS: &[&str] = &[
    "route_id",
    "service_id",
    "consumer",
    "node",
    "request_type",
    "request_llm_model",
    "llm_model",
];

fn metadata_schema() -> Value {
    let labels = |names: Vec<&str>| {
        json!({
            "type": "array",
            "items": {"type": "string", "enum": names},
        })
    };
    let mut metrics = serde_json::Map::new();
    for family in Family::ALL {
        let names = family.labels().iter().map(|label| label.text()).collect();
        metrics.insert(family.name().to_owned(), labels(names));
    }
    for (metric, names) in MODEL_METRICS {
        metrics.insert(metric.to_owned(), labels(names.to_vec()));
    }
    json!({
        "type": "object",
        "properties": {
            "disabled_labels": {
                "type": "object",
                "description": "Labels that are left empty, for each metric.",
                "properties": metrics,
                "additionalProperties": false,
            },
        },
    })
}

#[cfg(test)]
mod tests;
