//! Routes: conditions on requests, and the upstream and plugins that apply to matching ones.

use std::collections::BTreeMap;
use std::sync::Arc;

use ipnet::IpNet;

use crate::expr::Expr;
use crate::{Id, PluginSet, Timeouts, Upstream};

mod parse;

/// A validated route. The fields are those of the APISIX Admin API. The order puts the fields read
/// for every request first.
#[derive(Debug, Clone, PartialEq)]
#[repr(C)]
pub struct Route {
    /// Id of the route; `arr_<n>` (position from 1) for a declarative file without ids.
    pub id: Id,
    /// Id of a service, which provides plugins, hosts and an upstream.
    pub service_id: Option<Id>,
    /// Timeouts that override those of the upstream.
    pub timeout: Option<Timeouts>,
    /// Path patterns as written (`/a`, `/a/*`, `/a/:id`); at least one.
    pub uris: Vec<String>,
    /// Order among routes that share one literal path; higher first.
    pub priority: i64,
    /// Methods that the route accepts; `None` accepts any.
    pub methods: Option<MethodSet>,
    /// Hosts as written, in lower case (`a.com`, `*.a.com`, `*`, `a.com:8080`); empty matches any.
    pub hosts: Vec<String>,
    /// Networks of clients that the route accepts; empty accepts any.
    pub remote_addrs: Vec<IpNet>,
    /// Condition on variables that requests must fulfil.
    pub vars: Option<Expr>,
    /// Text of a function in Lua that requests must fulfil.
    pub filter_func: Option<String>,
    /// Text of a script in Lua that runs in the place of plugins.
    pub script: Option<String>,
    /// Plugins configured in the route.
    pub plugins: PluginSet,
    /// Id of a plugin configuration. Its plugins apply, except plugins that the route configures
    /// too.
    pub plugin_config_id: Option<Id>,
    /// Upstream in the route's object; overrides the service's upstream. `upstream_id` overrides it.
    pub upstream: Option<Arc<Upstream>>,
    pub upstream_id: Option<Id>,
    /// Whether upgrades to WebSocket pass; `None` leaves the decision to the service.
    pub enable_websocket: Option<bool>,
    /// Whether the route is matched; false for `status: 0`.
    pub enabled: bool,
    /// Display name; not used by the gateway.
    pub name: Option<String>,
    /// Description; not used by the gateway.
    pub desc: Option<String>,
    /// Labels for people and tools; not used by the gateway.
    pub labels: BTreeMap<String, String>,
}

/// A set of methods that a route accepts, as a bit mask.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MethodSet(u16);

/// Method names in the order of their bits.
const METHODS: [&str; 10] =
    ["GET", "POST", "PUT", "DELETE", "PATCH", "HEAD", "OPTIONS", "CONNECT", "TRACE", "PURGE"];

impl MethodSet {
    /// Names of all methods that a route may accept, for error messages.
    pub const NAMES: [&str; 10] = METHODS;

    pub const EMPTY: MethodSet = MethodSet(0);

    /// Adds a method; `None` if routes do not support it.
    pub fn with(self, name: &str) -> Option<MethodSet> {
        bit(name.as_bytes()).map(|bit| MethodSet(self.0 | bit))
    }

    /// Whether the method of a request line is in the set. The name is case-sensitive.
    #[inline]
    pub fn contains(self, name: &[u8]) -> bool {
        bit(name).is_some_and(|bit| self.0 & bit != 0)
    }

    pub fn names(self) -> impl Iterator<Item = &'static str> {
        METHODS.into_iter().enumerate().filter(move |(i, _)| self.0 & (1 << i) != 0).map(|m| m.1)
    }
}

#[inline]
fn bit(name: &[u8]) -> Option<u16> {
    Some(match name {
        b"GET" => 1,
        b"POST" => 1 << 1,
        b"PUT" => 1 << 2,
        b"DELETE" => 1 << 3,
        b"PATCH" => 1 << 4,
        b"HEAD" => 1 << 5,
        b"OPTIONS" => 1 << 6,
        b"CONNECT" => 1 << 7,
        b"TRACE" => 1 << 8,
        b"PURGE" => 1 << 9,
        _ => return None,
    })
}

#[cfg(test)]
mod tests;
