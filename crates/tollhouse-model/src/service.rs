//! Services: what several routes share.

use std::collections::BTreeMap;

use crate::{Id, PluginSet, Upstream};

/// A service, validated.
#[derive(Debug, Clone, PartialEq)]
pub struct Service {
    /// Its id.
    pub id: Id,
    /// Plugins for its routes, each replaced whole by a route's own of that name.
    pub plugins: PluginSet,
    /// The inline upstream; beats the id.
    pub upstream: Option<Upstream>,
    /// An upstream object.
    pub upstream_id: Option<Id>,
    /// Hosts of its routes that name none.
    pub hosts: Vec<String>,
    /// Whether upgrades pass on its routes, unless they say otherwise.
    pub enable_websocket: Option<bool>,
    /// For people.
    pub name: Option<String>,
    /// For people.
    pub desc: Option<String>,
    /// For people and tools.
    pub labels: BTreeMap<String, String>,
}
