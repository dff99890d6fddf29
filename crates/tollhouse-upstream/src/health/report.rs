//! Health of an upstream in the form of the control API.

use serde::Serialize;

use super::state::{Counters, Status};
use crate::balance;
use crate::node::{Node, NodeAddress};
use crate::state::UpstreamState;
use tollhouse_model::upstream::CheckKind;

/// Prefix of the key in a report's name.
const NAME_PREFIX: &str = "/apisix/";

/// Health of an upstream whose nodes are checked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct HealthReport {
    /// Name of the upstream, such as `/apisix/routes/1`.
    pub name: String,
    /// Kind of check: `http`, `https`, `tcp`, `grpc` or `grpcs`.
    #[serde(rename = "type")]
    pub kind: &'static str,
    pub nodes: Vec<NodeHealth>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct NodeHealth {
    /// Address of the node; its host while the name has no address.
    pub ip: String,
    /// Port that is probed.
    pub port: u16,
    /// Host name or address as configured.
    pub hostname: String,
    pub status: Status,
    /// Number of consecutive signals of each kind.
    pub counter: Counters,
}

impl HealthReport {
    /// Creates the report of an upstream; `None` if it has no checks.
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
            NodeAddress::At(address) => address.ip().map(|ip| ip.to_string()),
            NodeAddress::Pending | NodeAddress::Failed => None,
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
