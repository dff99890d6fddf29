//! Input of the matcher; plain data.

use std::net::IpAddr;
use std::sync::Arc;

use ipnet::IpNet;
use tollhouse_model::MethodSet;
use tollhouse_model::expr::Expr;
use tollhouse_model::variable::Lookup;

/// Order in which hosts and paths are compared (`apisix.router.http`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Mode {
    /// Host first, then path: `radixtree_host_uri`.
    #[default]
    HostUri,
    /// Path first; the host is a condition: `radixtree_uri`.
    Uri,
    /// Like `Uri`, with `:name` for a segment: `radixtree_uri_with_parameter`.
    UriWithParameter,
}

/// Condition of a route that other code evaluates, such as a script.
pub trait RouteFilter: Send + Sync {
    /// Whether the route takes the request.
    fn holds(&self, request: &dyn Lookup) -> bool;
}

/// Condition that all copies of a route share. Two are equal if they are the same.
#[derive(Clone)]
pub struct SharedFilter(pub Arc<dyn RouteFilter>);

impl std::fmt::Debug for SharedFilter {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str("SharedFilter")
    }
}

impl PartialEq for SharedFilter {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

/// Properties of a route that the matcher uses.
#[derive(Debug, Clone, PartialEq)]
pub struct RouteSpec {
    /// Path patterns as written, each within `limits::ROUTE_URI_CHARS_MAX`.
    pub uris: Vec<String>,
    /// Host patterns in lower case; empty means any.
    pub hosts: Vec<String>,
    /// Methods that the route accepts; `None` accepts any.
    pub methods: Option<MethodSet>,
    /// Networks of clients that the route accepts; empty accepts any.
    pub remote_addrs: Vec<IpNet>,
    /// Condition on variables of the request.
    pub vars: Option<Expr>,
    /// Function of the request that must hold.
    pub filter: Option<SharedFilter>,
    /// Priority: higher first, among routes that share a path or a literal prefix.
    pub priority: i64,
}

/// Properties of a request that are matched.
#[derive(Clone, Copy)]
pub struct MatchRequest<'a> {
    pub path: &'a [u8],
    /// Host in lower case, without port.
    pub host: &'a [u8],
    /// `Host` header in lower case, with its port if it has one.
    pub host_with_port: &'a [u8],
    pub method: &'a [u8],
    pub remote_addr: IpAddr,
    /// Source of the variables for `vars`.
    pub variables: &'a dyn Lookup,
}
