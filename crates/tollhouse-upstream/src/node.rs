//! Node of an upstream: its configuration, its address and its vitals (health and load).
//!
//! [`Vitals`] outlive the node: its successor inherits them when the upstream changes.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use tollhouse_http::element::{Authority, OwnedAuthority};
use tollhouse_model::upstream;
use tollhouse_net::resolve::{Question, Resolution, ResolvedName, Resolver};
use tollhouse_stdx::Endpoint;

use crate::balance::ewma::Ewma;
use crate::health::cell::HealthCell;
use crate::health::state::Health;
use crate::health::streak::{FailureStreak, StreakCell};
use crate::ramp::{self, Ramp};

/// `Host` of a node that is a Unix socket.
const SOCKET_HOST: &str = "localhost";

/// A node that can be picked.
#[derive(Debug)]
pub struct Node {
    conf: upstream::Node,
    address: Address,
    /// Host in the form of a `Host` field, without and with the port.
    authorities: [Option<OwnedAuthority>; 2],
    vitals: Arc<Vitals>,
}

/// State learnt about a node. Consists of atomics that all cores share, except for the start of
/// slow start, which only the control side reads.
#[derive(Debug, Default)]
pub(crate) struct Vitals {
    pub(crate) health: HealthCell,
    /// Failures of requests, whatever the checks.
    pub(crate) streak: StreakCell,
    /// Open requests; counted only if the policy needs it.
    pub(crate) active: AtomicU32,
    pub(crate) response_time: Ewma,
    pub(crate) ramp: Ramp,
}

impl Vitals {
    /// Returns the vitals of a node that takes the place of one whose vitals stay in use. Only
    /// failures are carried over: a plain upstream learns nothing else.
    pub(crate) fn successor(&self) -> Self {
        Self { streak: self.streak.copy(), ..Self::default() }
    }
}

#[derive(Debug)]
enum Address {
    Literal(Endpoint),
    Named(Arc<ResolvedName>),
}

/// Address of a node for one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NodeAddress {
    At(Endpoint),
    /// The first look-up of the node's name has not ended.
    Pending,
    /// No address of the node's name is known.
    Failed,
}

impl Node {
    /// Creates a node with new or inherited vitals; starts the look-up of a name.
    pub(crate) fn new(conf: upstream::Node, vitals: Arc<Vitals>, resolver: &Resolver) -> Self {
        let address = match (conf.socket, conf.host.parse::<IpAddr>()) {
            (Some(path), _) => Address::Literal(Endpoint::Unix(path)),
            (None, Ok(ip)) => Address::Literal(SocketAddr::new(ip, conf.port).into()),
            (None, Err(_)) => Address::Named(resolver.watch(Question::Host(conf.host.clone()))),
        };
        let authorities = authorities(&conf);
        Self { conf, address, authorities, vitals }
    }

    /// Returns the host in the form of a `Host` field, without the port; `None` if the host is
    /// ambiguous.
    #[inline]
    pub fn authority(&self) -> Option<Authority<'_>> {
        let [authority, _] = &self.authorities;
        authority.as_ref().map(OwnedAuthority::borrowed)
    }

    /// Returns the host and port in the form of a `Host` field; `None` if the host is ambiguous.
    #[inline]
    pub fn authority_with_port(&self) -> Option<Authority<'_>> {
        let [_, authority] = &self.authorities;
        authority.as_ref().map(OwnedAuthority::borrowed)
    }

    /// Returns the host as configured: a name or an address.
    pub fn host(&self) -> &str {
        &self.conf.host
    }

    /// Returns the node's host for `Host` and SNI; `localhost` for a Unix socket, as in nginx.
    pub fn name_or_address(&self) -> &str {
        if self.conf.socket.is_some() { SOCKET_HOST } else { &self.conf.host }
    }

    /// Returns the first address; `None` while the host name has no known address.
    pub fn address(&self) -> Option<Endpoint> {
        match self.locate(crate::balance::FIRST) {
            NodeAddress::At(address) => Some(address),
            NodeAddress::Pending | NodeAddress::Failed => None,
        }
    }

    pub fn port(&self) -> u16 {
        self.conf.port
    }

    /// Returns the weight as configured, in proportion to that of other nodes.
    pub fn weight(&self) -> u32 {
        self.conf.weight
    }

    /// Returns the priority; nodes with a higher one are used first.
    pub fn priority(&self) -> i32 {
        self.conf.priority
    }

    /// Returns the host, if it is a name.
    pub fn domain(&self) -> Option<&str> {
        match self.address {
            Address::Literal(_) => None,
            Address::Named(_) => Some(&self.conf.host),
        }
    }

    /// Returns the current health according to the checks.
    pub fn health(&self) -> Health {
        self.vitals.health.load()
    }

    /// Returns the streak of failed requests since the node last answered on a new connection;
    /// `None` without one.
    pub fn failure_streak(&self) -> Option<FailureStreak> {
        self.vitals.streak.load()
    }

    /// Returns the number of open requests; always 0 unless the policy is least connections.
    pub fn active_requests(&self) -> u32 {
        self.vitals.active.load(Ordering::Relaxed)
    }

    /// Returns the share of the configured weight that is in effect, in percent; less than 100
    /// during slow start.
    pub fn share_percent(&self) -> u8 {
        ramp::percent(self.vitals.ramp.share())
    }

    pub(crate) fn vitals(&self) -> &Arc<Vitals> {
        &self.vitals
    }

    /// Returns the address, if it needs no look-up.
    pub(crate) fn literal(&self) -> Option<Endpoint> {
        match self.address {
            Address::Literal(address) => Some(address),
            Address::Named(_) => None,
        }
    }

    /// Returns the resolver's entry for the host, if the host is a name.
    pub(crate) fn name(&self) -> Option<&Arc<ResolvedName>> {
        match &self.address {
            Address::Literal(_) => None,
            Address::Named(name) => Some(name),
        }
    }

    /// Returns the address of the node, chosen by `random` if the name has several.
    pub(crate) fn locate(&self, random: u64) -> NodeAddress {
        let name = match &self.address {
            Address::Literal(address) => return NodeAddress::At(*address),
            Address::Named(name) => name,
        };
        match &**name.resolution() {
            Resolution::Pending => NodeAddress::Pending,
            Resolution::Failed => NodeAddress::Failed,
            Resolution::Known(records) => {
                match records.get(crate::balance::below(random, records.len())) {
                    Some(record) => {
                        NodeAddress::At(SocketAddr::new(record.address, self.conf.port).into())
                    }
                    None => NodeAddress::Failed,
                }
            }
        }
    }
}

/// Returns the host of a node in the form of a `Host` field, without and with its port.
fn authorities(conf: &upstream::Node) -> [Option<OwnedAuthority>; 2] {
    let parse = |text: String| OwnedAuthority::parse(text.into_bytes());
    if conf.socket.is_some() {
        return [parse(SOCKET_HOST.to_owned()), parse(SOCKET_HOST.to_owned())];
    }
    let is_v6 = conf.host.contains(':');
    let host = if is_v6 { format!("[{}]", conf.host) } else { conf.host.to_string() };
    let with_port = parse(format!("{host}:{}", conf.port));
    [parse(host), with_port]
}
