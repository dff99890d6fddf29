//! Input of the matcher; plain data.

use std::net::IpAddr;

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
