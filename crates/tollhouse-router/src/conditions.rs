//! Conditions of a route besides its path, checked in a fixed order.

use ipnet::IpNet;
use tollhouse_model::MethodSet;
use tollhouse_model::expr::Expr;

use crate::explain::Loss;
use crate::host::HostPattern;
use crate::spec::{MatchRequest, Mode, RouteSpec, SharedFilter};

/// Conditions of a route, shared by all its candidates.
#[derive(Debug)]
pub(crate) struct Conditions {
    methods: Option<MethodSet>,
    remote_addrs: Box<[IpNet]>,
    /// Host patterns; empty if the host level has decided already.
    hosts: Box<[String]>,
    vars: Option<Expr>,
    filter: Option<SharedFilter>,
}

impl Conditions {
    /// Compiles the conditions of `spec`; `None` if it has none, so that most candidates are
    /// accepted without further checks.
    pub(crate) fn compile(spec: &RouteSpec, mode: Mode) -> Option<Self> {
        let hosts = if mode == Mode::HostUri { &[][..] } else { &spec.hosts };
        let conditions = Self {
            methods: spec.methods,
            remote_addrs: spec.remote_addrs.clone().into(),
            hosts: hosts.into(),
            vars: spec.vars.clone(),
            filter: spec.filter.clone(),
        };
        let is_needed = conditions.methods.is_some()
            || !conditions.remote_addrs.is_empty()
            || !conditions.hosts.is_empty()
            || conditions.vars.is_some()
            || conditions.filter.is_some();
        is_needed.then_some(conditions)
    }

    /// Returns the first condition that `request` fails; `None` if it fulfils all.
    pub(crate) fn refusal(&self, request: &MatchRequest<'_>) -> Option<Loss> {
        if self.methods.is_some_and(|methods| !methods.contains(request.method)) {
            return Some(Loss::Method);
        }
        if !self.remote_addrs.is_empty() && !self.takes_client(request) {
            return Some(Loss::RemoteAddr);
        }
        let takes_host = |host: &String| HostPattern::parse(host).matches(request);
        if !self.hosts.is_empty() && !self.hosts.iter().any(takes_host) {
            return Some(Loss::Host);
        }
        if self.vars.as_ref().is_some_and(|vars| !vars.matches(request.variables)) {
            return Some(Loss::Vars);
        }
        // Evaluated last, because a script costs most.
        if self.filter.as_ref().is_some_and(|filter| !filter.0.holds(request.variables)) {
            return Some(Loss::Filter);
        }
        None
    }

    fn takes_client(&self, request: &MatchRequest<'_>) -> bool {
        // A dual-stack socket reports IPv4 clients as mapped addresses.
        let address = request.remote_addr.to_canonical();
        self.remote_addrs.iter().any(|network| network.contains(&address))
    }
}
