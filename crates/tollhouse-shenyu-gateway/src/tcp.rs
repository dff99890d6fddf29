//! Ports whose connections are proxied without interpretation: ShenYu's plugin `tcp`. The data
//! plane opens them.

use std::collections::BTreeSet;
use std::sync::Arc;

use tollhouse_model::Upstream;
use tollhouse_model::upstream::Scheme;
use tollhouse_shenyu::Kind;
use tollhouse_shenyu::matching::{Problem, RpcType};
use tollhouse_shenyu::model::ProxySelector;

use crate::error::{NodesError, PortError};
use crate::parts::Parts;
use crate::shared::nodes::{DivideRule, divide_nodes};
use crate::target::{self, Nodes};
use crate::terms::Terms;

/// Maximum number of ports of a gateway; each costs a socket on every core.
const PORTS_MAX: usize = 64;

/// Port whose TCP connections are proxied, with its nodes.
#[derive(Debug)]
pub struct TcpTarget {
    pub id: String,
    pub port: u16,
    pub upstream: Arc<Upstream>,
}

/// Compiles the ports of all proxy selectors if `tcp` is enabled, and reports those that cannot be
/// opened.
pub(crate) fn compile(parts: &Parts, terms: &Terms) -> (Vec<TcpTarget>, Vec<Problem>) {
    let is_on = parts.plugins.iter().any(|plugin| plugin.name == "tcp" && plugin.enabled);
    if !is_on {
        return (Vec::new(), Vec::new());
    }
    let (mut targets, mut problems) = (Vec::new(), Vec::new());
    let mut ports = BTreeSet::new();
    // Proxy selectors of other plugins open no port.
    let is_own =
        |selector: &&Arc<ProxySelector>| matches!(selector.plugin_name.as_str(), "" | "tcp");
    for selector in parts.proxy_selectors.iter().filter(is_own) {
        let made = match terms.opens_ports {
            true => compile_one(selector, parts, &ports),
            false => Err(PortError::NotOpened),
        };
        match made {
            Ok(target) => {
                // The first selector of a port wins; later ones are reported.
                ports.insert(target.port);
                targets.push(target);
            }
            Err(error) => {
                let reason = error.to_string();
                let (kind, id) = (Kind::ProxySelector, selector.id.clone());
                problems.push(Problem { kind, id, reason });
            }
        }
    }
    (targets, problems)
}

fn compile_one(
    selector: &ProxySelector,
    parts: &Parts,
    taken: &BTreeSet<u16>,
) -> Result<TcpTarget, PortError> {
    let port = selector.forward_port.and_then(|port| u16::try_from(port).ok());
    let port = port.filter(|port| *port > 0);
    let port = port.ok_or(PortError::NoPort)?;
    if taken.contains(&port) {
        return Err(PortError::Taken(port));
    }
    if taken.len() >= PORTS_MAX {
        return Err(PortError::TooMany(PORTS_MAX));
    }
    let named = selector.props.get("loadBalance").and_then(|name| name.as_str());
    let handle = serde_json::json!({ "loadBalance": named }).to_string();
    let rule = DivideRule::read(Some(&handle)).map_err(NodesError::from)?;
    let discovery = parts.discovery.iter().find(|found| found.selector_id == selector.id);
    let nodes = divide_nodes(None, discovery.map(|found| &**found)).map_err(NodesError::from)?;
    let upstream = target::upstream(&Nodes::Listed(nodes), &rule, RpcType::Http)?;
    // Weights of TCP nodes do not warm up.
    let upstream = Upstream { scheme: Scheme::Tcp, warm_up: None, ..upstream };
    Ok(TcpTarget { id: selector.id.clone(), port, upstream: Arc::new(upstream) })
}
