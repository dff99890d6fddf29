//! Upstream in the data plane, compiled from an upstream object or an inline definition.

use std::sync::Arc;

use tollhouse_model::ssl::CertificatePair;
use tollhouse_model::upstream::{KeepalivePool, PassHost, ProxyHeader};
use tollhouse_model::{Timeouts, Upstream};
use tollhouse_net::tls::Connector;
use tollhouse_upstream::UpstreamHandle;

use crate::hash_key::HashKey;

/// A compiled upstream. The fields that every request reads are in one cache line. The others are
/// in [`UpstreamTerms`], which most upstreams share; see [`RouteEntry`](super::RouteEntry).
#[derive(Debug)]
#[repr(C, align(64))]
pub struct UpstreamEntry {
    /// Nodes and their health; outlives this entry.
    pub state: UpstreamHandle,
    /// Terms for connections to the nodes.
    pub terms: Arc<UpstreamTerms>,
    /// Number of the upstream in request counters.
    pub number: u32,
    pub conf: Arc<Upstream>,
    /// Client certificate for nodes that request one.
    pub client_pair: Option<Arc<CertificatePair>>,
}

/// All fields before `conf` fit into one cache line.
const _: () = assert!(std::mem::offset_of!(UpstreamEntry, conf) <= 64);

/// Terms of the communication with nodes, shared by upstreams with equal terms.
#[derive(Debug)]
pub struct UpstreamTerms {
    /// Number of the connection pool; upstreams with equal numbers share connections.
    pub pool: u32,
    /// Whether requests are sent over HTTP/2.
    pub speaks_http2: bool,
    /// Form of the `Host` for `pass_host: node`.
    pub node_host: NodeHost,
    /// PROXY protocol header at the start of connections.
    pub proxy_protocol: Option<ProxyHeader>,
    /// Choice of the `Host` sent to the node.
    pub pass_host: PassHost,
    pub keepalive: KeepalivePool,
    /// TLS connector for nodes; `None` for unencrypted schemes.
    pub connector: Option<Connector>,
    /// Part of the request that consistent hashing uses.
    pub hash_key: Option<HashKey>,
    /// Timeouts, with defaults for those not configured.
    pub timeouts: Timeouts,
}

/// Form of a node's `Host` for `pass_host: node`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum NodeHost {
    /// The host is sent with the port, unless that is the scheme's default.
    WithPort,
    /// The host is sent without the port; used for upstreams in plugin configurations.
    Bare,
}
