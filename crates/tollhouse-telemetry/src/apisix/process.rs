//! Metrics about the process as a whole. The values are passed in; this file defines names and
//! format.

use super::LABEL_SETS_MAX;
use crate::exposition::{Exposition, labels};

/// Values of the metrics that are not about requests.
#[derive(Debug, Clone, Default)]
pub struct ProcessFacts<'a> {
    /// Host name of this machine.
    pub hostname: &'a str,
    /// Version of APISIX that the gateway claims to be.
    pub version: &'a str,
    pub is_store_reachable: bool,
    /// Revision of the last change of each kind of object: `routes`, `services`, ….
    pub modify_indexes: Vec<(String, u64)>,
    /// Number of requests of all kinds.
    pub requests: u64,
    pub connections: Connections,
    /// Nodes that have active health checks.
    pub nodes: Vec<NodeStatus>,
    /// Queues of plugins that send in batches.
    pub batches: Vec<BatchQueue>,
}

/// Client connections, in the categories of nginx.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Connections {
    /// Number of connections accepted since the start.
    pub accepted: u64,
    /// Number of connections accepted and served since the start.
    pub handled: u64,
    /// Number of connections open now.
    pub active: u64,
    /// Number of open connections on which a request head is being read.
    pub reading: u64,
    /// Number of open connections with an active request.
    pub writing: u64,
    /// Number of open connections without a request.
    pub waiting: u64,
}

/// State of a node by active health checks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeStatus {
    /// Name of the upstream, such as `/apisix/upstreams/1`.
    pub name: String,
    pub ip: String,
    pub port: u16,
    pub is_healthy: bool,
}

/// Queue of a plugin that delivers entries in batches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BatchQueue {
    /// Name of the queue, such as `http logger`.
    pub name: String,
    /// Id of the route that configures the plugin.
    pub route_id: String,
    /// Gateway's address of the connection whose request filled the queue.
    pub server_addr: String,
    /// Number of entries in the queue.
    pub entries: u64,
}

/// Name of the shared memory in which APISIX stores label sets; here it stands for the limit on
/// label sets.
const LABEL_SETS_DICT: &str = "prometheus-metrics";

/// Memory per label set, in bytes: counters, text, and entries in tables.
const LABEL_SET_BYTES: usize = 1536;

/// A metric with its samples: labels in text form, and values.
#[derive(Debug)]
struct ProcessMetric {
    name: String,
    help: &'static str,
    kind: &'static str,
    samples: Vec<(String, u64)>,
}

/// The metrics, in the parts between the request metrics.
#[derive(Debug)]
pub(super) struct ProcessLines {
    parts: [Vec<ProcessMetric>; 3],
}

impl ProcessLines {
    pub(super) fn new(prefix: &str, facts: &ProcessFacts<'_>, label_sets: usize) -> Self {
        let mut lines = Lines { prefix, metrics: Vec::new() };
        lines.batches(facts);
        lines.store(facts);
        let before_latency = std::mem::take(&mut lines.metrics);
        lines.requests(facts);
        let before_status = std::mem::take(&mut lines.metrics);
        lines.connections(facts);
        lines.node(facts);
        lines.room(label_sets);
        lines.nodes(facts);
        Self { parts: [before_latency, before_status, lines.metrics] }
    }

    /// Appends the connection counts of the stream routes.
    pub(super) fn push_connections(&mut self, prefix: &str, counts: &[(Box<str>, u64)]) {
        if counts.is_empty() {
            return;
        }
        let mut lines = Lines { prefix, metrics: Vec::new() };
        let help = "Total number of connections handled per stream route in APISIX";
        lines.heading("stream_connection_total", help, "counter");
        for (route, count) in counts {
            lines.sample([("route", route)], *count);
        }
        self.parts[2].append(&mut lines.metrics);
    }

    /// Writes one part.
    pub(super) fn write(&self, part: usize, page: &mut Exposition) {
        for metric in &self.parts[part] {
            page.family(&metric.name, metric.help, metric.kind);
            metric.samples.iter().for_each(|(labels, value)| page.sample(labels, *value));
        }
    }
}

struct Lines<'a> {
    prefix: &'a str,
    metrics: Vec<ProcessMetric>,
}

impl Lines<'_> {
    fn heading(&mut self, name: &str, help: &'static str, kind: &'static str) {
        let name = format!("{}{name}", self.prefix);
        self.metrics.push(ProcessMetric { name, help, kind, samples: Vec::new() });
    }

    /// Adds a sample to the last metric.
    fn sample<const N: usize>(&mut self, pairs: [(&str, &str); N], value: u64) {
        if let Some(metric) = self.metrics.last_mut() {
            metric.samples.push((labels(pairs), value));
        }
    }

    fn batches(&mut self, facts: &ProcessFacts<'_>) {
        const NAME: &str = "batch_process_entries";
        if facts.batches.is_empty() {
            return;
        }
        self.heading(NAME, "batch process remaining entries", "gauge");
        for queue in &facts.batches {
            let labels = [
                ("name", queue.name.as_str()),
                ("route_id", &queue.route_id),
                ("server_addr", &queue.server_addr),
            ];
            self.sample(labels, queue.entries);
        }
    }

    fn store(&mut self, facts: &ProcessFacts<'_>) {
        if !facts.modify_indexes.is_empty() {
            self.heading("etcd_modify_indexes", "Etcd modify index for APISIX keys", "gauge");
            for (key, index) in &facts.modify_indexes {
                self.sample([("key", key)], *index);
            }
        }
        self.heading(
            "etcd_reachable",
            "Config server etcd reachable from APISIX, 0 is unreachable",
            "gauge",
        );
        self.sample([], facts.is_store_reachable.into());
    }

    fn requests(&mut self, facts: &ProcessFacts<'_>) {
        const HELP: &str = "The total number of client requests since APISIX started";
        self.heading("http_requests_total", HELP, "gauge");
        self.sample([], facts.requests);
    }

    fn connections(&mut self, facts: &ProcessFacts<'_>) {
        const NAME: &str = "nginx_http_current_connections";
        let seen = &facts.connections;
        self.heading(NAME, "Number of HTTP connections", "gauge");
        for (state, count) in [
            ("accepted", seen.accepted),
            ("active", seen.active),
            ("handled", seen.handled),
            ("reading", seen.reading),
            ("total", facts.requests),
            ("waiting", seen.waiting),
            ("writing", seen.writing),
        ] {
            self.sample([("state", state)], count);
        }
        self.heading(
            "nginx_metric_errors_total",
            "Number of nginx-lua-prometheus errors",
            "counter",
        );
        self.sample([], 0);
    }

    fn node(&mut self, facts: &ProcessFacts<'_>) {
        self.heading("node_info", "Info of APISIX node", "gauge");
        let labels = [("hostname", facts.hostname), ("version", facts.version)];
        self.sample(labels, 1);
    }

    /// Reports the remaining label sets as memory, so that alerts on this memory work unchanged.
    fn room(&mut self, label_sets: usize) {
        let free = LABEL_SETS_MAX.saturating_sub(label_sets);
        let lines = [
            (
                "shared_dict_capacity_bytes",
                "The capacity of each nginx shared DICT since APISIX start",
                LABEL_SETS_MAX,
            ),
            (
                "shared_dict_free_space_bytes",
                "The free space of each nginx shared DICT since APISIX start",
                free,
            ),
        ];
        for (name, help, sets) in lines {
            self.heading(name, help, "gauge");
            let bytes = (sets * LABEL_SET_BYTES) as u64;
            self.sample([("name", LABEL_SETS_DICT)], bytes);
        }
    }

    fn nodes(&mut self, facts: &ProcessFacts<'_>) {
        const NAME: &str = "upstream_status";
        if facts.nodes.is_empty() {
            return;
        }
        self.heading(NAME, "Upstream status from health check", "gauge");
        for node in &facts.nodes {
            let port = node.port.to_string();
            let labels = [("name", node.name.as_str()), ("ip", &node.ip), ("port", &port)];
            self.sample(labels, node.is_healthy.into());
        }
    }
}
