//! Stream routes: which connections below HTTP go where.

use std::collections::BTreeMap;
use std::sync::Arc;

use ipnet::IpNet;
use serde_json::Value;

use crate::{Id, PluginSet, Upstream};

mod listened;
mod parse;

pub use listened::ListenedPorts;

/// A stream route, validated. One that says nothing takes every connection.
#[derive(Debug, Clone, PartialEq)]
pub struct StreamRoute {
    /// Its id.
    pub id: Id,
    /// Whose connections it takes; `None` is anybody's.
    pub remote_addr: Option<IpNet>,
    /// The address that the connection came in on.
    pub server_addr: Option<IpNet>,
    /// The port that the connection came in on.
    pub server_port: Option<u16>,
    /// The name that a TLS client asks for, lower-cased.
    pub sni: Option<String>,
    /// The inline upstream, of scheme tcp, tls or udp; beats the ids.
    pub upstream: Option<Arc<Upstream>>,
    /// An upstream object.
    pub upstream_id: Option<Id>,
    /// A service object, for its upstream.
    pub service_id: Option<Id>,
    /// Plugins for connections.
    pub plugins: PluginSet,
    /// What is spoken within the connection, where the gateway shall take part in it.
    pub protocol: Option<StreamProtocol>,
    /// For people.
    pub name: Option<String>,
    /// For people.
    pub desc: Option<String>,
    /// For people and tools.
    pub labels: BTreeMap<String, String>,
}

/// A protocol that the gateway takes part in.
#[derive(Debug, Clone, PartialEq)]
pub struct StreamProtocol {
    /// Its name, such as `redis`.
    pub name: String,
    /// The stream route that this one specialises.
    pub superior_id: Option<Id>,
    /// The protocol's configuration: an object.
    pub conf: Option<Value>,
    /// What logs its commands.
    pub loggers: Vec<StreamLogger>,
}

/// A logger of a protocol's commands.
#[derive(Debug, Clone, PartialEq)]
pub struct StreamLogger {
    /// The plugin that logs.
    pub name: Option<String>,
    /// Which commands; in the protocol's own variables.
    pub filter: Option<Vec<Value>>,
    /// The plugin's configuration: an object.
    pub conf: Option<Value>,
}

#[cfg(test)]
mod tests;
