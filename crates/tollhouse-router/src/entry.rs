//! One route as the matcher holds it, and the conditions it puts on a request.

use std::cmp::Ordering;
use std::net::IpAddr;
use std::sync::Arc;

use ipnet::IpNet;
use tollhouse_model::expr::Expr;
use tollhouse_model::variable::Lookup;
use tollhouse_model::{Id, MethodSet};

use crate::explain::Loss;
use crate::pattern::{Captures, Pattern};

/// What the matcher needs to know of a route.
#[derive(Debug, Clone)]
pub struct RouteSpec {
    /// Path patterns as written; at least one.
    pub uris: Vec<String>,
    /// Hosts, lower-cased; empty is any.
    pub hosts: Vec<String>,
    /// Methods; `None` is any.
    pub methods: Option<MethodSet>,
    /// Client networks; empty is any.
    pub remote_addrs: Vec<IpNet>,
    /// Further conditions.
    pub vars: Option<Expr>,
    /// Higher first among those that share a key.
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

/// A route in the matcher.
#[derive(Debug)]
pub(crate) struct Entry<T> {
    pub(crate) id: Id,
    pub(crate) spec: RouteSpec,
    pub(crate) patterns: Vec<Pattern>,
    pub(crate) value: T,
    /// Place in the order of insertion; kept when the route is replaced.
    pub(crate) sequence: u64,
    /// Whether hosts are a condition here; false where the host level has settled them.
    pub(crate) checks_host: bool,
}

/// One pattern of a route, under its key.
#[derive(Debug)]
pub(crate) struct Candidate<T> {
    pub(crate) entry: Arc<Entry<T>>,
    pub(crate) pattern: usize,
}

impl<T> Clone for Candidate<T> {
    fn clone(&self) -> Self {
        Self { entry: Arc::clone(&self.entry), pattern: self.pattern }
    }
}

impl<T> Candidate<T> {
    pub(crate) fn pattern(&self) -> &Pattern {
        &self.entry.patterns[self.pattern]
    }

    /// Which of two candidates of one key is tried first.
    pub(crate) fn order(&self, other: &Self) -> Ordering {
        let by_priority = other.entry.spec.priority.cmp(&self.entry.spec.priority);
        let by_length = other.pattern().text().len().cmp(&self.pattern().text().len());
        let by_age = self.entry.sequence.cmp(&other.entry.sequence);
        by_priority.then(by_length).then(by_age).then(self.pattern.cmp(&other.pattern))
    }

    /// Checks every condition in the order of apisix.md §3.3.
    ///
    /// # Errors
    /// The first condition that does not hold.
    #[inline]
    pub(crate) fn check(
        &self,
        request: &MatchRequest<'_>,
        captures: &mut Captures,
    ) -> Result<(), Loss> {
        let spec = &self.entry.spec;
        if spec.methods.is_some_and(|methods| !methods.contains(request.method)) {
            return Err(Loss::Method);
        }
        if !spec.remote_addrs.is_empty() && !contains(&spec.remote_addrs, request.remote_addr) {
            return Err(Loss::RemoteAddr);
        }
        if self.entry.checks_host && !spec.hosts.iter().any(|host| host_matches(host, request)) {
            return Err(Loss::Host);
        }
        if spec.vars.as_ref().is_some_and(|vars| !vars.matches(request.variables)) {
            return Err(Loss::Vars);
        }
        if self.pattern().matches(request.path, captures) { Ok(()) } else { Err(Loss::Path) }
    }
}

fn contains(networks: &[IpNet], address: IpAddr) -> bool {
    networks.iter().any(|network| network.contains(&address))
}

/// Whether the request's host is `pattern`: exact (with the port where the pattern has one), or by
/// suffix after `*`.
pub(crate) fn host_matches(pattern: &str, request: &MatchRequest<'_>) -> bool {
    match pattern.strip_prefix('*') {
        Some(suffix) => request.host.ends_with(suffix.as_bytes()),
        None => request.host == pattern.as_bytes() || request.host_with_port == pattern.as_bytes(),
    }
}
