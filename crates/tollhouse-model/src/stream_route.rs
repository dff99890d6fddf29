//! Stream routes: conditions that select connections below HTTP, and their upstreams.

use std::collections::BTreeMap;
use std::sync::Arc;

use ipnet::IpNet;
use serde_json::Value;

use crate::{Id, PluginSet, Upstream};

mod listened;
mod parse;

pub use listened::ListenedPorts;

/// A validated stream route. Without conditions it matches every connection.
#[derive(Debug, Clone, PartialEq)]
pub struct StreamRoute {
    pub id: Id,
    /// Network of the client; `None` matches any.
    pub remote_addr: Option<IpNet>,
    /// Gateway's address at which the connection arrives; `None` accepts any.
    pub server_addr: Option<IpNet>,
    /// Gateway's port at which the connection arrives; `None` accepts any.
    pub server_port: Option<u16>,
    /// Server name (SNI) that a TLS client sends, in lower case.
    pub sni: Option<String>,
    /// Inline upstream, of scheme tcp, tls or udp; overrides the ids.
    pub upstream: Option<Arc<Upstream>>,
    pub upstream_id: Option<Id>,
    /// Id of a service whose upstream the route uses.
    pub service_id: Option<Id>,
    /// Plugins that run for each connection.
    pub plugins: PluginSet,
    /// Protocol inside the connection that the gateway shall interpret.
    pub protocol: Option<StreamProtocol>,
    /// Display name; not used by the gateway.
    pub name: Option<String>,
    /// Description; not used by the gateway.
    pub desc: Option<String>,
    /// Labels for people and tools; not used by the gateway.
    pub labels: BTreeMap<String, String>,
}

/// A protocol that the gateway interprets.
#[derive(Debug, Clone, PartialEq)]
pub struct StreamProtocol {
    /// Name of the protocol, such as `redis`.
    pub name: String,
    /// Id of the stream route that this one specialises.
    pub superior_id: Option<Id>,
    /// Configuration of the protocol: an object.
    pub conf: Option<Value>,
    /// Plugins that log the commands of the protocol.
    pub loggers: Vec<StreamLogger>,
}

/// A logger of a protocol's commands.
#[derive(Debug, Clone, PartialEq)]
pub struct StreamLogger {
    pub name: Option<String>,
    /// Condition that selects commands, in variables of the protocol.
    pub filter: Option<Vec<Value>>,
    /// Configuration of the plugin: an object.
    pub conf: Option<Value>,
}

#[cfg(test)]
mod tests;
