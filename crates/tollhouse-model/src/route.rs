//! Routes: which requests they match, and what happens to those.

use std::collections::BTreeMap;
use std::sync::Arc;

use ipnet::IpNet;

use crate::expr::Expr;
use crate::{Id, PluginSet, Timeouts, Upstream};

mod parse;

/// A route, validated. Source of the fields: the APISIX Admin API's route schema. What the data plane reads
/// for every request comes first.
#[derive(Debug, Clone, PartialEq)]
#[repr(C)]
pub struct Route {
    /// Its id; `arr_<n>` (1-based position) where a declarative file gives none.
    pub id: Id,
    /// A service object, which lends plugins, hosts and an upstream.
    pub service_id: Option<Id>,
    /// Overrides the upstream's time-outs.
    pub timeout: Option<Timeouts>,
    /// Path patterns as written (`/a`, `/a/*`, `/a/:id`); at least one.
    pub uris: Vec<String>,
    /// Orders routes that share one literal path; higher first.
    pub priority: i64,
    /// Methods it takes; `None` is any.
    pub methods: Option<MethodSet>,
    /// Hosts as written, lower-cased (`a.com`, `*.a.com`, `*`, `a.com:8080`); empty is any.
    pub hosts: Vec<String>,
    /// Client networks; empty is any.
    pub remote_addrs: Vec<IpNet>,
    /// Further conditions.
    pub vars: Option<Expr>,
    /// Its own plugins.
    pub plugins: PluginSet,
    /// A plugin config whose entries apply where the route names none of that name.
    pub plugin_config_id: Option<Id>,
    /// The inline upstream; beats both ids.
    pub upstream: Option<Arc<Upstream>>,
    /// An upstream object.
    pub upstream_id: Option<Id>,
    /// Whether upgrades pass; `None` leaves it to the service.
    pub enable_websocket: Option<bool>,
    /// `false` keeps it out of the matcher (`status: 0`).
    pub enabled: bool,
    /// For people.
    pub name: Option<String>,
    /// For people.
    pub desc: Option<String>,
    /// For people and tools.
    pub labels: BTreeMap<String, String>,
}

/// A set of the methods that a route may name, as a bit mask.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MethodSet(u16);

/// In bit order.
const METHODS: [&str; 10] =
    ["GET", "POST", "PUT", "DELETE", "PATCH", "HEAD", "OPTIONS", "CONNECT", "TRACE", "PURGE"];

impl MethodSet {
    /// The names that a route may use, for messages.
    pub const NAMES: [&str; 10] = METHODS;

    /// The empty set.
    pub const EMPTY: MethodSet = MethodSet(0);

    /// This set and `name`; `None` when no route may name that method.
    pub fn with(self, name: &str) -> Option<MethodSet> {
        bit(name.as_bytes()).map(|bit| MethodSet(self.0 | bit))
    }

    /// Whether `name`, as it stands in a request line, is in the set.
    #[inline]
    pub fn contains(self, name: &[u8]) -> bool {
        bit(name).is_some_and(|bit| self.0 & bit != 0)
    }

    /// The names in the set.
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
