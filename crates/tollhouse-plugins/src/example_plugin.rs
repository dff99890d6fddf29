//! Example of a plugin: logs that it runs, and may send requests to a node of its conf.
//!
//! # Example
//! ```json
//! {"i": 1, "ip": "127.0.0.1", "port": 1980}
//! ```
//!
//! # Answers
//! - none of its own
//!
//! # Notes
//! Without `ip`, requests go to the nodes of the route. Its lines in the log have the level `debug`.

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use tollhouse_model::Upstream;
use tollhouse_plugin::{
    Category, ConfError, MetadataSpec, Phases, Plugin, RequestContext, Scope, Step, UpstreamRef,
};

/// Configuration of `example-plugin`.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct Config {
    /// Number, which is logged.
    #[schemars(range(min = 0))]
    pub i: f64,
    /// Text without effect.
    pub s: Option<String>,
    /// List without effect.
    #[schemars(length(min = 1))]
    pub t: Option<Vec<Value>>,
    /// Host of a node that gets the requests in the place of the route's.
    pub ip: Option<String>,
    /// Port of that node.
    pub port: Option<i64>,
}

/// Plugin metadata, without effect.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct Metadata {
    /// Number.
    #[schemars(range(min = 0))]
    pub ikey: f64,
    /// Text.
    pub skey: String,
}

#[derive(Debug)]
pub struct ExamplePlugin {
    number: f64,
    upstream: Option<Upstream>,
}

impl Plugin for ExamplePlugin {
    const NAME: &'static str = "example-plugin";
    const PRIORITY: i32 = 0;
    const CATEGORY: Category = Category::Utility;
    const PHASES: Phases = Phases::ACCESS;
    type Config = Config;

    fn metadata() -> Option<MetadataSpec> {
        Some(MetadataSpec::new::<Metadata>())
    }

    fn compile(config: Config, _scope: &Scope<'_>) -> Result<Self, ConfError> {
        let Config { i: number, ip, port, .. } = config;
        let Some(host) = ip else { return Ok(Self { number, upstream: None }) };
        let mut node = json!({"host": host, "weight": 1});
        if let Some(port) = port {
            node["port"] = port.into();
        }
        let conf = json!({"type": "roundrobin", "nodes": [node]});
        let (upstream, problems) = Upstream::parse(None, &conf, "upstream");
        let upstream = upstream.ok_or_else(|| {
            let first = problems.iter().next();
            ConfError::in_field("ip", first.map_or("", |problem| &*problem.reason))
        })?;
        Ok(Self { number, upstream: Some(upstream) })
    }

    fn upstreams(&self) -> Vec<UpstreamRef<'_>> {
        self.upstream.iter().map(UpstreamRef::Inline).collect()
    }

    fn access<'a>(&'a self, cx: &'a mut RequestContext<'_>) -> Step<'a> {
        tracing::debug!(i = self.number, "example-plugin runs");
        if self.upstream.is_some() {
            cx.choose_upstream(0);
        }
        Step::Continue
    }
}

#[cfg(test)]
mod tests {
    use tollhouse_plugin::testing::{FakeExchange, Harness};

    use super::*;

    #[test]
    fn requests_go_to_the_node_of_the_conf() {
        for (conf, expected) in [
            (json!({"i": 1, "ip": "127.0.0.1", "port": 1980}), Some(0)),
            (json!({"i": 1.5, "s": "x", "t": [1]}), None),
        ] {
            let mut exchange = FakeExchange::parse("GET / HTTP/1.1\n\n", 0);
            assert!(Harness::new::<ExamplePlugin>(&conf).run(&mut exchange).passes());
            assert_eq!(exchange.edits.upstream, expected);
        }
    }

    #[test]
    fn bad_confs_are_refused() {
        for (conf, text) in [
            (json!({}), "property \"i\" is required"),
            (json!({"i": -1}), "expected -1 to be at least 0"),
            (json!({"i": 1, "t": []}), "expect array to have at least 1 items"),
            (json!({"i": 1, "ip": "a b"}), ""),
        ] {
            let refusal = Harness::refusal::<ExamplePlugin>(&conf);
            assert!(!refusal.is_empty() && refusal.contains(text), "{refusal}");
        }
    }
}
