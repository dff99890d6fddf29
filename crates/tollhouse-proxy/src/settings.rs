//! What the data plane is given at the start and never again: limits, header policy, trust.
//!
//! Filled in from the bootstrap file by the binary; the data plane reads no file and no variable.

use std::sync::Arc;
use std::time::Duration;

use ipnet::IpNet;
use tollhouse_http::HeadLimits;
use tollhouse_model::stream_route::ListenedPorts;
use tollhouse_model::upstream::KeepalivePool;
use tollhouse_net::HalfClose;
use tollhouse_net::server_tls::ServerTerms;
use tollhouse_plugin::Brand;
use tollhouse_router::{AmbiguousPaths, Mode, NormalizeOptions};
use tollhouse_stdx::MemoryBudget;

/// The data plane's settings.
#[derive(Debug, Clone)]
pub struct Settings {
    /// How routes are looked up.
    pub router_mode: Mode,
    /// How paths are normalised before they are matched.
    pub normalize: NormalizeOptions,
    /// Handling of paths that servers read in several ways, where something judges the path.
    pub ambiguous_paths: AmbiguousPaths,
    /// How TLS is served.
    pub tls: TlsSettings,
    /// Bounds of what a client may send and hold.
    pub limits: Limits,
    /// The `Server` header.
    pub server: String,
    /// Whose name pages of errors show.
    pub brand: Brand,
    /// Whether `X-APISIX-Upstream-Status` is shown for every status, not only 5xx.
    pub show_upstream_status: bool,
    /// Peers whose forwarding headers are believed; `None` is not configured.
    pub trusted_addresses: Option<Vec<IpNet>>,
    /// How the client's address is found behind other proxies.
    pub real_ip: RealIp,
    /// Keep-alive pool of upstreams that have none of their own; per core.
    pub upstream_keepalive: KeepalivePool,
    /// Meaning of a FIN of a client that waits for its answer.
    pub on_client_half_close: HalfClose,
    /// Whether health checks are switched off everywhere.
    pub disable_health_checks: bool,
    /// How long a request may wait for the first DNS answer of its upstream.
    pub resolve_timeout: Duration,
    /// How long a drain may take before connections are cut.
    pub drain_time: Duration,
    /// Connections below HTTP, and datagrams.
    pub streams: StreamSettings,
    /// Who may say on whose behalf a connection comes.
    pub proxy_protocol: ProxyProtocol,
    /// Requests that ShenYu's objects take.
    pub shenyu: ShenyuSettings,
}

/// Requests that ShenYu's objects take.
#[derive(Debug, Clone, Default)]
pub struct ShenyuSettings {
    /// Statuses, times, namespace.
    pub terms: tollhouse_shenyu_gateway::Terms,
    /// Whether they are asked before routes are.
    pub comes_first: bool,
    /// What has connections for their plugins; without it, those that need one serve nobody.
    pub engines: Option<Arc<dyn tollhouse_shenyu_gateway::Engines>>,
    /// Where ports of `tcp` are opened; none are without it.
    pub ports: Option<Arc<crate::l4::open_ports::OpenPorts>>,
    /// Who writes objects for calls to the gateway's own interface.
    pub local: Option<Arc<dyn tollhouse_shenyu_gateway::LocalInterface>>,
}

/// Bounds of connections below HTTP and of datagrams; keys under `limits` in the bootstrap file.
#[derive(Debug, Clone)]
pub struct StreamSettings {
    /// Without a byte in either direction.
    pub idle_time: Duration,
    /// Without a byte in the direction that is left, once the other has ended.
    pub half_closed_time: Duration,
    /// For the first bytes that the gateway looks at itself: a TLS hello, an MQTT CONNECT.
    pub first_bytes_time: Duration,
    /// A session of datagrams without one in either direction.
    pub udp_idle_time: Duration,
    /// Sessions of datagrams of one worker.
    pub udp_sessions_per_worker: usize,
    /// Sessions of datagrams of one client address to one worker.
    pub udp_sessions_per_address: usize,
    /// Ports of the listeners, for warnings about stream routes that none of them serves.
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

/// Who may say on whose behalf a connection comes, where a listener asks for it.
#[derive(Debug, Clone)]
pub struct ProxyProtocol {
    /// The proxies; others are refused.
    pub from: Vec<IpNet>,
    /// For the whole header.
    pub header_time: Duration,
}

impl Default for ProxyProtocol {
    fn default() -> Self {
        Self { from: Vec::new(), header_time: Duration::from_secs(5) }
    }
}

/// How TLS is served.
#[derive(Debug, Clone, Default)]
pub struct TlsSettings {
    /// Algorithms, versions and tickets.
    pub terms: ServerTerms,
    /// The name that stands for none, lower-cased.
    pub fallback_sni: Option<String>,
}

/// Bounds of what a client may send and hold. Every one is a key under `limits` in the bootstrap
/// file, where its default and its reason stand.
#[derive(Debug, Clone)]
pub struct Limits {
    /// Bounds of a request head.
    pub head: HeadLimits,
    /// Longest request body in bytes; `u64::MAX` is without limit.
    pub body_bytes: u64,
    /// Longest message of a call of gRPC, in bytes; `None` is without limit.
    pub grpc_message_bytes: Option<u64>,
    /// Longest body read into memory for `post_arg` variables, in bytes.
    pub post_args_bytes: usize,
    /// What bodies that are held whole take memory of, in all of the process.
    pub memory: Arc<MemoryBudget>,
    /// For a whole head to arrive after its first byte.
    pub header_read_time: Duration,
    /// Between two requests on a connection.
    pub idle_time: Duration,
    /// Between two reads of a request body.
    pub body_read_time: Duration,
    /// Between two writes of a response.
    pub send_time: Duration,
    /// Requests over one connection.
    pub requests_per_connection: u64,
    /// Requests at a time over one connection of HTTP/2.
    pub http2_streams: u32,
    /// Connections of one worker.
    pub connections_per_worker: usize,
    /// Connections of clients and to nodes together, of one worker: its part of the open files.
    pub descriptors_per_worker: usize,
    /// Connections of one client address to one worker; 0 is without limit.
    pub connections_per_address: usize,
    /// Connections without a whole first message of TLS, at a time on one worker.
    pub silent_connections_per_worker: usize,
    /// The same of one client address.
    pub silent_connections_per_address: usize,
    /// TLS handshakes under way at a time on one worker, from the client's whole first message on.
    pub handshakes_per_worker: i64,
    /// For a TLS handshake, from the connection to its end.
    pub handshake_time: Duration,
    /// Longest first message of a TLS handshake, in bytes.
    pub client_hello_bytes: usize,
}

/// How the client's address is found behind other proxies.
#[derive(Debug, Clone)]
pub struct RealIp {
    /// The header that carries it, lower-cased.
    pub header: String,
    /// Peers that may set it.
    pub from: Vec<IpNet>,
    /// Whether trusted addresses inside of the header are passed over from the right.
    pub recursive: bool,
}

/// Bounds of a response head of a node: twice what clients may send, since cookies and policies
/// grow on that side.
pub const RESPONSE_HEAD: HeadLimits =
    HeadLimits { line_bytes: 8 * 1024, head_bytes: 64 * 1024 - 1, header_count: 200 };

/// Interim responses passed on for one request: those of a node that reports every few seconds that it is at work
/// (102), for an hour. One that sends more is not making progress.
pub const INTERIM_RESPONSES_MAX: u32 = 1000;

/// How long a closing connection is read from, so that a client still sending sees the answer
/// instead of a reset.
pub const LINGER_TIME: Duration = Duration::from_secs(2);

/// How long an idle connection lives on while draining: a request that is already on its way
/// is still served.
pub const DRAIN_IDLE_TIME: Duration = Duration::from_secs(1);

impl Default for Limits {
    fn default() -> Self {
        let minute = Duration::from_secs(60);
        Self {
            head: HeadLimits::default(),
            body_bytes: u64::MAX,
            grpc_message_bytes: None,
            post_args_bytes: 64 * 1024 * 1024,
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
