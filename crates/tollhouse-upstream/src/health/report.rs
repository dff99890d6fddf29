//! The health of an upstream as the control API shows it.

use serde::Serialize;

use super::state::{Counters, Status};
use crate::balance;
use crate::node::{Located, Node};
use crate::state::UpstreamState;
use tollhouse_model::upstream::CheckKind;

/// Before the key in a report's name.
const NAME_PREFIX: &str = "/apisix/";

/// One upstream whose nodes are being checked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct HealthReport {
    /// Such as `/apisix/routes/1`.
    pub name: String,
    /// `http`, `https` or `tcp`.
    #[serde(rename = "type")]
    pub kind: &'static str,
    /// Its nodes, in their order.
    pub nodes: Vec<NodeHealth>,
}

/// One node of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct NodeHealth {
    /// Its address; its host while the name has none.
    pub ip: String,
    /// The port that is probed.
    pub port: u16,
    /// Its host as configured.
    pub hostname: String,
    /// Its state.
    pub status: Status,
    /// Signals in a row.
    pub counter: Counters,
}

impl HealthReport {
    /// The report of an upstream; `None` when it has no checks.
    pub fn new(state: &UpstreamState) -> Option<Self> {
        let active = &state.checks()?.active;
        let kind = match active.kind {
            CheckKind::Http => "http",
            CheckKind::Https => "https",
            CheckKind::Tcp => "tcp",
            CheckKind::Grpc => "grpc",
            CheckKind::Grpcs => "grpcs",
        };
        let nodes = state.node_set().map_or_else(Vec::new, |set| {
            set.nodes().iter().map(|node| NodeHealth::new(node, active.port)).collect()
        });
        Some(Self { name: format!("{NAME_PREFIX}{}", state.key()), kind, nodes })
    }
}

impl NodeHealth {
    fn new(node: &Node, probed_port: Option<u16>) -> Self {
        let ip = match node.locate(balance::FIRST) {
            Located::At(address) => address.ip().map(|ip| ip.to_string()),
            Located::Pending | Located::Failed => None,
        };
        let health = node.health();
        Self {
            ip: ip.unwrap_or_else(|| node.host().to_owned()),
            port: probed_port.unwrap_or(node.port()),
            hostname: node.host().to_owned(),
            status: health.status,
            counter: health.counters,
        }
    }
}
