//! Settings of the data plane, fixed at start: limits, header policy and trust.
//!
//! The binary fills them in from the bootstrap file; the data plane reads no files or environment
//! variables.

use std::sync::Arc;
use std::time::Duration;

use ipnet::IpNet;
use tollhouse_http::HeadLimits;
use tollhouse_model::body::BodyLimits;
use tollhouse_model::stream_route::ListenedPorts;
use tollhouse_model::upstream::KeepalivePool;
use tollhouse_net::HalfClose;
use tollhouse_net::server_tls::ServerTerms;
use tollhouse_plugin::Brand;
use tollhouse_router::{AmbiguousPaths, Mode, NormalizeOptions};
use tollhouse_stdx::MemoryBudget;

#[derive(Debug, Clone)]
pub struct Settings {
    /// Order in which hosts and paths of routes are compared.
    pub router_mode: Mode,
    /// Normalisation of paths before they are matched.
    pub normalize: NormalizeOptions,
    /// Treatment of paths that servers interpret differently, on routes whose plugins judge the
    /// path.
    pub ambiguous_paths: AmbiguousPaths,
    pub tls: TlsSettings,
    /// Limits on what clients may send and occupy.
    pub limits: Limits,
    /// Value of the header `Server`.
    pub server: String,
    /// Product name shown on error pages.
    pub brand: Brand,
    /// Whether `X-APISIX-Upstream-Status` is sent with every status, and not only with 5xx.
    pub show_upstream_status: bool,
    /// Whether error responses have the id of the request's trace.
    pub trace_in_errors: bool,
    /// Peers whose forwarding headers are trusted; `None` if not configured.
    pub trusted_addresses: Option<Vec<IpNet>>,
    /// Detection of the client's address behind other proxies.
    pub real_ip: RealIp,
    /// Keep-alive pool of upstreams that do not configure one; per core.
    pub upstream_keepalive: KeepalivePool,
    /// Interpretation of a FIN from a client that waits for its response.
    pub on_client_half_close: HalfClose,
    /// Whether all health checks are disabled.
    pub disable_health_checks: bool,
    /// Maximum wait of a request for the first DNS answer about its upstream.
    pub resolve_timeout: Duration,
    /// Maximum duration of a drain before connections are cut.
    pub drain_time: Duration,
    /// Settings of TCP connections and datagrams.
    pub streams: StreamSettings,
    /// Peers that may send PROXY protocol headers.
    pub proxy_protocol: ProxyProtocol,
    pub shenyu: ShenyuSettings,
}

#[derive(Debug, Clone, Default)]
pub struct ShenyuSettings {
    /// Statuses, timeouts and namespace of ShenYu's objects.
    pub terms: tollhouse_shenyu_gateway::Terms,
    /// Whether ShenYu's objects are matched before routes.
    pub comes_first: bool,
    /// Connections of ShenYu plugins to external systems; without it, rules that need one
    /// are invalid.
    pub engines: Option<Arc<dyn tollhouse_shenyu_gateway::Engines>>,
    /// Sockets for the ports of the `tcp` plugin; without it, none are opened.
    pub ports: Option<Arc<crate::l4::open_ports::OpenPorts>>,
    /// Receiver of objects that are written by calls to the gateway's own interface.
    pub local: Option<Arc<dyn tollhouse_shenyu_gateway::LocalInterface>>,
}

/// Limits of TCP connections and datagrams; set under `limits` in the bootstrap file.
#[derive(Debug, Clone)]
pub struct StreamSettings {
    /// Maximum time without a byte in either direction.
    pub idle_time: Duration,
    /// Maximum time without a byte in the remaining direction, after the other has ended.
    pub half_closed_time: Duration,
    /// Maximum wait for first bytes that the gateway reads itself: a TLS hello, an MQTT CONNECT.
    pub first_bytes_time: Duration,
    /// Maximum time without a datagram in either direction before a UDP session ends.
    pub udp_idle_time: Duration,
    /// Maximum number of UDP sessions per worker.
    pub udp_sessions_per_worker: usize,
    /// UDP sessions per client address and worker.
    pub udp_sessions_per_address: usize,
    /// Ports of the listeners, for warnings about stream routes that no listener serves.
    pub listened: ListenedPorts,
}

impl Default for StreamSettings {
    fn default() -> Self {
        let minute = Duration::from_secs(60);
        Self {
            idle_time: 10 * minute,
            half_closed_time: 5 * minute,
            first_bytes_time: minute / 2,
            udp_idle_time: minute,
            udp_sessions_per_worker: 8192,
            udp_sessions_per_address: 256,
            listened: ListenedPorts::default(),
        }
    }
}

/// Peers that may send PROXY protocol headers on listeners that require one.
#[derive(Debug, Clone)]
pub struct ProxyProtocol {
    /// Trusted proxies; connections from other peers are refused.
    pub from: Vec<IpNet>,
    /// Maximum time until the PROXY protocol header is complete.
    pub header_time: Duration,
}

impl Default for ProxyProtocol {
    fn default() -> Self {
        Self { from: Vec::new(), header_time: Duration::from_secs(5) }
    }
}

#[derive(Debug, Clone, Default)]
pub struct TlsSettings {
    /// TLS algorithms, versions and session tickets.
    pub terms: ServerTerms,
    /// Server name assumed for clients that send none, in lower case.
    pub fallback_sni: Option<String>,
}

/// Limits on what clients may send and occupy. Each is a key under `limits` in the bootstrap file,
/// which documents its default and reason.
#[derive(Debug, Clone)]
pub struct Limits {
    pub head: HeadLimits,
    /// Maximum length of a request body in bytes; `u64::MAX` means unlimited.
    pub body_bytes: u64,
    /// Maximum length of a gRPC message in bytes; `None` means unlimited.
    pub grpc_message_bytes: Option<u64>,
    /// Maximum lengths of bodies that are read into memory for variables.
    pub variables: BodyLimits,
    /// Memory budget of the whole process for bodies that are held in memory.
    pub memory: Arc<MemoryBudget>,
    /// Maximum time from the first byte of a head to its end.
    pub header_read_time: Duration,
    /// Maximum time between two requests on a connection.
    pub idle_time: Duration,
    /// Maximum time between two reads of a request body.
    pub body_read_time: Duration,
    /// Maximum time between two writes of a response.
    pub send_time: Duration,
    /// Maximum number of requests per connection.
    pub requests_per_connection: u64,
    /// Maximum number of concurrent requests per HTTP/2 connection.
    pub http2_streams: u32,
    /// Maximum number of connections per worker.
    pub connections_per_worker: usize,
    /// Connections of clients and to nodes together per worker: its share of the open-file limit.
    pub descriptors_per_worker: usize,
    /// Connections per client address and worker; 0 means unlimited.
    pub connections_per_address: usize,
    /// Connections per worker that have not sent a complete ClientHello.
    pub silent_connections_per_worker: usize,
    /// Maximum number of connections per client address without a complete first TLS message.
    pub silent_connections_per_address: usize,
    /// Concurrent TLS handshakes per worker, counted from the complete ClientHello.
    pub handshakes_per_worker: i64,
    /// Maximum time from the accept to the end of the TLS handshake.
    pub handshake_time: Duration,
    /// Maximum length of a ClientHello in bytes.
    pub client_hello_bytes: usize,
}

/// Detection of the client's address behind other proxies.
#[derive(Debug, Clone)]
pub struct RealIp {
    /// Header that carries the address, in lower case.
    pub header: String,
    /// Peers that may set the header.
    pub from: Vec<IpNet>,
    /// Whether trusted addresses inside the header are skipped from the right.
    pub recursive: bool,
}

/// Limits of a node's response head: twice those of requests, because cookies and security policies
/// make responses longer.
pub const RESPONSE_HEAD: HeadLimits =
    HeadLimits { line_bytes: 8 * 1024, fields_bytes: 64 * 1024 - 1, header_count: 200 };

/// Maximum number of interim responses passed on for one request: a node may report every few
/// seconds for an hour that it is at work (102). A node that sends more is not making progress.
pub const INTERIM_RESPONSES_MAX: u32 = 1000;

/// Maximum time for which a closing connection is read, so that a client that still sends sees the
/// response and no reset.
pub const LINGER_TIME: Duration = Duration::from_secs(2);

/// Duration for which idle connections are kept during a drain, so that a request already on its
/// way is served.
pub const DRAIN_IDLE_TIME: Duration = Duration::from_secs(1);

impl Default for Limits {
    fn default() -> Self {
        let minute = Duration::from_secs(60);
        Self {
            head: HeadLimits::default(),
            body_bytes: u64::MAX,
            grpc_message_bytes: None,
            variables: BodyLimits::default(),
            memory: MemoryBudget::unlimited(),
            header_read_time: minute,
            idle_time: minute,
            body_read_time: minute,
            send_time: Duration::from_secs(10),
            requests_per_connection: 100_000,
            http2_streams: 128,
            connections_per_worker: 60_000,
            descriptors_per_worker: usize::MAX,
            connections_per_address: 0,
            silent_connections_per_worker: 8192,
            silent_connections_per_address: 256,
            handshakes_per_worker: 4096,
            handshake_time: Duration::from_secs(10),
            client_hello_bytes: 16 * 1024,
        }
    }
}
