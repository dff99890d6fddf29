//! What goes into the matcher, and what is asked of it; plain data.

use std::net::IpAddr;

use ipnet::IpNet;
use tollhouse_model::MethodSet;
use tollhouse_model::expr::Expr;
use tollhouse_model::variable::Lookup;

/// How routes are looked up (`apisix.router.http`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Mode {
    /// Host first, then path: `radixtree_host_uri`.
    #[default]
    HostUri,
    /// Path; the host is a condition: `radixtree_uri`.
    Uri,
    /// As `Uri`, with `:name` for a segment: `radixtree_uri_with_parameter`.
    UriWithParameter,
}

/// What the matcher needs to know of a route.
#[derive(Debug, Clone, PartialEq)]
pub struct RouteSpec {
    /// Path patterns as written, each within `limits::ROUTE_URI_CHARS_MAX`.
    pub uris: Vec<String>,
    /// Host patterns, lower-cased; empty is any.
    pub hosts: Vec<String>,
    /// Methods; `None` is any.
    pub methods: Option<MethodSet>,
    /// Client networks; empty is any.
    pub remote_addrs: Vec<IpNet>,
    /// Further conditions.
    pub vars: Option<Expr>,
    /// Higher first, among routes that share a path or a literal prefix.
    pub priority: i64,
}

/// What is matched.
#[derive(Clone, Copy)]
pub struct MatchRequest<'a> {
    /// The normalised path.
    pub path: &'a [u8],
    /// The host, lower-cased, without port.
    pub host: &'a [u8],
    /// The `Host` header, lower-cased, with its port where it has one.
    pub host_with_port: &'a [u8],
    /// The method.
    pub method: &'a [u8],
    /// The client's address.
    pub remote_addr: IpAddr,
    /// Everything else that `vars` may ask for.
    pub variables: &'a dyn Lookup,
}
