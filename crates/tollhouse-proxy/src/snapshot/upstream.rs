//! An upstream as the data plane sees it: compiled from its object, or from where it stands in
//! another.

use std::sync::Arc;

use tollhouse_model::ssl::CertificatePair;
use tollhouse_model::upstream::{KeepalivePool, PassHost, ProxyHeader};
use tollhouse_model::{Timeouts, Upstream};
use tollhouse_net::tls::Connector;
use tollhouse_upstream::UpstreamHandle;

use crate::hash_key::HashKey;

/// An upstream, ready to serve. All that a request reads of it alone stands in one cache line; the rest is in
/// [`UpstreamTerms`], which most upstreams have in common: see [`RouteEntry`](super::RouteEntry).
#[derive(Debug)]
#[repr(C, align(64))]
pub struct UpstreamEntry {
    /// Its nodes and their health; outlives this entry.
    pub state: UpstreamHandle,
    /// How its nodes are spoken to.
    pub terms: Arc<UpstreamTerms>,
    /// What its requests are counted by.
    pub number: u32,
    /// The upstream as configured.
    pub conf: Arc<Upstream>,
    /// What nodes are shown that ask for a certificate.
    pub client_pair: Option<Arc<CertificatePair>>,
}

/// All before the upstream as configured is in one cache line.
const _: () = assert!(std::mem::offset_of!(UpstreamEntry, conf) <= 64);

/// How the nodes of an upstream are spoken to: one for all upstreams that say the same.
#[derive(Debug)]
pub struct UpstreamTerms {
    /// Which connections its requests may share, as a number.
    pub pool: u32,
    /// Whether requests go to its nodes as streams of HTTP/2.
    pub speaks_http2: bool,
    /// What `pass_host: node` makes of a node.
    pub node_host: NodeHost,
    /// The header that connections begin with.
    pub proxy_protocol: Option<ProxyHeader>,
    /// Which `Host` the node gets.
    pub pass_host: PassHost,
    /// Bounds of its keep-alive pool.
    pub keepalive: KeepalivePool,
    /// TLS towards https nodes.
    pub connector: Option<Connector>,
    /// What consistent hashing hashes.
    pub hash_key: Option<HashKey>,
    /// Time-outs, defaults filled in.
    pub timeouts: Timeouts,
}

/// How a node's name stands in its `Host`, where `pass_host` asks for the node's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum NodeHost {
    /// With the port, where that is not the scheme's own.
    WithPort,
    /// Without; upstreams that stand in the conf of a plugin have it so.
    Bare,
}
