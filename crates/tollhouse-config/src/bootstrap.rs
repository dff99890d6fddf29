//! Bootstrap configuration, which the process reads once at startup.
//!
//! This file defines the resolved form and its defaults. The meaning and the syntax of each field
//! are in the table of `bootstrap/keys.rs`; reading, display and documentation are derived from it.
//! Routes and upstreams are configured elsewhere.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use ipnet::IpNet;
use serde_json::{Map, Value};
use tollhouse_model::upstream::KeepalivePool;

mod admin_keys;
mod check;
mod database;
mod discovery;
mod keys;
mod layers;
mod load;
mod location;
mod openid_connect;
mod otel;
mod parts;
mod reach;
mod reference;
mod shape;
mod shape_acme;
mod shape_more;
mod shape_net;
mod shape_tracing;
mod shenyu;
mod shown;
mod store;
mod stream;
mod tracing;
mod unix;

pub use admin_keys::{KeyRole, NamedKey};
pub use database::{Database, DatabaseError, DatabaseKind};
pub use discovery::{
    ConsulKvRegistry, ConsulRegistry, DiscoveryRegistries, EurekaRegistry, KubernetesRegistry,
    KubernetesToken, NacosRegistry, RegistryServer, RegistryServers,
};
pub use load::{Loaded, Source};
pub use location::HostLocation;
pub use openid_connect::{GroupNames, OpenIdConnect};
pub use parts::{
    AccessLogFormat, AccessLogTarget, AcmeChallenge, AmbiguousPaths, ClientHalfClose, Peer,
    RouterMode, Secret, Workers,
};
pub use reach::{LogFiles, Secrets};
pub use reference::reference_markdown;
pub use shenyu::{Shenyu, ShenyuCross, ShenyuFollow};
pub use shown::SettingView;
pub use store::{Etcd, EtcdTls, Store};
pub use stream::{HeaderToNodes, StreamListen, StreamProtocol, StreamTls};
pub use tracing::{CollectorTls, Compression, Propagation, SpanProtocol, SpanSampler, Tracing};
pub use unix::UnixListen;

/// All settings of the process that are fixed at startup.
#[derive(Debug, Clone, PartialEq)]
pub struct Bootstrap {
    /// Folder for the files of the process.
    pub data_dir: PathBuf,
    /// Number of worker threads that serve clients; by default one per available core.
    pub workers: Workers,
    /// Niceness of the threads of the control side, from 0 to 19.
    pub control_niceness: usize,
    /// Addresses on which each service listens.
    pub listen: Listen,
    /// TLS of connections from clients.
    pub tls: Tls,
    pub control: SideListener,
    pub metrics: SideListener,
    pub status: SideListener,
    pub admin: Admin,
    /// Features of the console beyond the Admin API.
    pub console: Console,
    /// Location of the configuration store, if not in the data folder.
    pub store: Store,
    /// Certificates ordered from an ACME authority; none by default.
    pub acme: Acme,
    /// The registry of services and instances.
    pub registry: Registry,
    /// Registries outside of this process, for upstreams with a `discovery_type`.
    pub discovery: DiscoveryRegistries,
    /// Declarative file with objects, watched for changes.
    pub resources: Option<PathBuf>,
    pub access_log: AccessLog,
    /// Limits on requests and connections of clients.
    pub limits: Limits,
    /// Time for pending requests to finish after the process was told to stop.
    pub drain_time: Duration,
    /// Order in which hosts and paths of routes are compared.
    pub router: RouterMode,
    /// Whether one trailing `/` is removed before matching.
    pub delete_uri_tail_slash: bool,
    /// Whether `;parameters` of path segments are removed before matching, and suspicious escapes
    /// are refused.
    pub normalize_uri_like_servlet: bool,
    /// Whether `%2F` stays encoded while matching.
    pub match_uri_encoded_slash: bool,
    /// Handling of ambiguous paths, which servers interpret differently, where a plugin depends on
    /// the path.
    pub ambiguous_paths: AmbiguousPaths,
    /// Whether the upstream's status is sent in a response header for every response, not only for
    /// 5xx.
    pub show_upstream_status_in_response_header: bool,
    /// Meaning of a client's FIN while its response is pending.
    pub on_client_half_close: ClientHalfClose,
    /// Whether the header `Server` contains the version.
    pub server_tokens: bool,
    /// Whether responses show APISIX's name instead of Tollhouse's.
    pub imitate_apisix: bool,
    /// Peers whose `X-Forwarded-*` headers are kept.
    pub trusted_addresses: Vec<IpNet>,
    /// Header from which the client's address is taken, and the peers trusted to send it.
    pub real_ip: RealIp,
    /// Name resolution of upstream nodes.
    pub dns: Dns,
    /// Keep-alive pool of upstreams without their own.
    pub upstream_keepalive: KeepalivePool,
    /// Whether all health checks are disabled.
    pub disable_upstream_healthcheck: bool,
    /// Filter for the log of the process.
    pub log: String,
    /// Encryption of secrets in the store.
    pub encryption: Encryption,
    /// Secrets outside the store that objects may refer to.
    pub secrets: Secrets,
    /// Folder of the files that logging plugins write.
    pub log_files: LogFiles,
    /// Plugins that may be used; empty allows all.
    pub plugins: Vec<String>,
    /// Plugins that are ignored if this build does not have them.
    pub skip_plugins: Vec<String>,
    /// Process-wide settings of plugins, by plugin name; a plugin without an entry uses its
    /// defaults.
    pub plugin_attr: Map<String, Value>,
    /// Zones of the `proxy-cache` plugin, and the default lifetime of responses.
    pub proxy_cache: Map<String, Value>,
    /// Scripts in Lua.
    pub scripting: Scripting,
    /// Whether stream routes are enabled.
    pub stream_routes: bool,
    /// PROXY protocol from proxies in front of the gateway.
    pub proxy_protocol: ProxyProtocol,
    pub shenyu: Shenyu,
    /// Spans of requests; off by default.
    pub tracing: Tracing,
}

impl Default for Bootstrap {
    fn default() -> Self {
        let data_dir = PathBuf::from("./tollhouse-data");
        Self {
            workers: Workers::Auto,
            control_niceness: 5,
            listen: Listen::default(),
            tls: Tls::default(),
            control: SideListener::default(),
            metrics: SideListener::default(),
            status: SideListener::default(),
            admin: Admin::default(),
            console: Console::default(),
            store: Store::default(),
            acme: Acme::default(),
            registry: Registry::default(),
            discovery: DiscoveryRegistries::default(),
            resources: None,
            access_log: AccessLog::in_folder(&data_dir),
            log_files: LogFiles::in_folder(&data_dir),
            data_dir,
            limits: Limits::default(),
            drain_time: Duration::from_secs(30),
            router: RouterMode::HostUri,
            delete_uri_tail_slash: false,
            normalize_uri_like_servlet: false,
            match_uri_encoded_slash: false,
            ambiguous_paths: AmbiguousPaths::Refuse,
            show_upstream_status_in_response_header: false,
            on_client_half_close: ClientHalfClose::Abort,
            server_tokens: true,
            imitate_apisix: false,
            trusted_addresses: Vec::new(),
            real_ip: RealIp::default(),
            dns: Dns::default(),
            upstream_keepalive: KeepalivePool::default(),
            disable_upstream_healthcheck: false,
            log: "info".to_owned(),
            encryption: Encryption::default(),
            plugins: Vec::new(),
            secrets: Secrets::default(),
            skip_plugins: Vec::new(),
            plugin_attr: Map::new(),
            proxy_cache: Map::new(),
            scripting: Scripting::default(),
            stream_routes: true,
            proxy_protocol: ProxyProtocol::default(),
            shenyu: Shenyu::default(),
            tracing: Tracing::default(),
        }
    }
}

/// Scripts in Lua: whether objects may contain them, and their limits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scripting {
    /// Trust in the authors of objects.
    pub lua: LuaTrust,
    /// Folder of plugins and modules in Lua; none by default.
    pub folder: Option<PathBuf>,
    /// Memory of the scripts of each worker, in bytes.
    pub memory: usize,
}

/// Trust in the authors of objects that may contain Lua.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LuaTrust {
    /// Objects with Lua are refused.
    Off,
    /// Administrators may write objects with Lua, which runs in the process.
    Trusted,
}

impl Default for Scripting {
    fn default() -> Self {
        Self { lua: LuaTrust::Off, folder: None, memory: 16 << 20 }
    }
}

/// Listen addresses; an empty list disables a listener.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listen {
    /// Addresses of the data plane for unencrypted HTTP.
    pub http: Vec<SocketAddr>,
    /// Addresses of the data plane for unencrypted HTTP behind proxies that send PROXY headers.
    pub http_proxied: Vec<SocketAddr>,
    /// Addresses of the data plane for HTTPS behind proxies that send PROXY headers.
    pub https_proxied: Vec<SocketAddr>,
    /// Addresses of the data plane for HTTPS.
    pub https: Vec<SocketAddr>,
    /// Unix sockets of the data plane for unencrypted HTTP.
    pub unix: Vec<UnixListen>,
    /// Listeners of stream routes, for TCP and UDP.
    pub stream: Vec<StreamListen>,
    /// Addresses of the Admin API and the console.
    pub admin: Vec<SocketAddr>,
    /// Addresses of the control API for introspection.
    pub control: Vec<SocketAddr>,
    /// Addresses of the Prometheus metrics page.
    pub metrics: Vec<SocketAddr>,
    /// Addresses of the liveness and readiness pages; off by default.
    pub status: Vec<SocketAddr>,
    /// Addresses of the registry for Polaris' gRPC protocol.
    pub registry_grpc: Vec<SocketAddr>,
    /// Addresses of the registry for Polaris' HTTP protocol.
    pub registry_http: Vec<SocketAddr>,
    /// Addresses of the ShenYu-compatible admin; off by default.
    pub shenyu: Vec<SocketAddr>,
    /// Host names of the operators' listeners, accepted in addition to local ones.
    pub hosts: Vec<String>,
}

impl Default for Listen {
    fn default() -> Self {
        let this_host = |port| vec![SocketAddr::from(([127, 0, 0, 1], port))];
        Self {
            // Loopback, like every other listener, so that the first start does not expose the
            // machine.
            http: this_host(9080),
            // Open even without a certificate, so that a certificate added later is served at once.
            https: this_host(9443),
            http_proxied: Vec::new(),
            https_proxied: Vec::new(),
            unix: Vec::new(),
            stream: Vec::new(),
            admin: this_host(9180),
            control: this_host(9090),
            metrics: this_host(9091),
            status: Vec::new(),
            // Loopback, because every client that reaches these may register instances.
            // Polaris' clients look for services on the first and for configuration files on the
            // second port.
            registry_grpc: vec![
                SocketAddr::from(([127, 0, 0, 1], 8091)),
                SocketAddr::from(([127, 0, 0, 1], 8093)),
            ],
            registry_http: this_host(8090),
            shenyu: Vec::new(),
            hosts: Vec::new(),
        }
    }
}

/// TLS of connections from clients.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tls {
    /// TLS versions for SSL objects without their own list.
    pub protocols: Vec<String>,
    /// Cipher suites; empty allows all.
    pub ciphers: Vec<String>,
    /// Whether sessions may be resumed with tickets.
    pub session_tickets: bool,
    /// Server name assumed for clients that send none.
    pub fallback_sni: Option<String>,
    /// Whether OCSP responders are asked for responses to staple.
    pub ocsp_stapling: bool,
}

impl Default for Tls {
    fn default() -> Self {
        Self {
            protocols: ["TLSv1.2", "TLSv1.3"].map(str::to_owned).to_vec(),
            ciphers: Vec::new(),
            session_tickets: true,
            fallback_sni: None,
            ocsp_stapling: true,
        }
    }
}

/// PROXY protocol from proxies in front of the gateway.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProxyProtocol {
    /// Networks that may send a PROXY header; empty admits no peer.
    pub from: Vec<IpNet>,
    /// Maximum time until the PROXY protocol header is complete.
    pub header_time: Duration,
}

impl Default for ProxyProtocol {
    fn default() -> Self {
        Self { from: Vec::new(), header_time: Duration::from_secs(5) }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Admin {
    /// Key with all rights, sent as `X-API-KEY`.
    pub key: Option<Secret>,
    /// Second key, which may only read.
    pub viewer_key: Option<Secret>,
    /// Further keys, each with a name and a role.
    pub keys: Vec<NamedKey>,
    /// Whether calls of the Admin API need a key.
    pub key_required: bool,
    /// Networks that may connect; empty admits all.
    pub allow: Vec<IpNet>,
    /// Whether pages of other origins may call the API.
    pub cors: bool,
    /// Prefix of the keys of objects.
    pub prefix: String,
    /// Whether the API accepts whole documents, kept in memory, instead of single objects.
    pub standalone: bool,
    /// Certificate of the listener; without one, plain HTTP.
    pub tls: ListenerTls,
    /// Log-in of people at an identity provider.
    pub openid_connect: OpenIdConnect,
}

/// Features of the console beyond the Admin API.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Console {
    /// Whether the console may start the load generator.
    pub bench: bool,
    /// Hosts, besides this machine, that the load generator may measure.
    pub bench_targets: Vec<String>,
}

/// The registry of services and instances.
#[derive(Debug, Clone, PartialEq)]
pub struct Registry {
    /// Number of threads for Polaris gRPC.
    pub workers: Workers,
    /// Whether clients (SDKs) need a token.
    pub client_auth: bool,
    /// Whether calls of the console need a token.
    pub console_auth: bool,
    /// Whether calls that need no token are listed if they would be refused with one.
    pub auth_rehearsal: bool,
    /// User name for the login to the console.
    pub user: String,
    /// Password of that user; `None` uses a generated one.
    pub password: Option<Secret>,
    /// Token of the console; `None` uses a generated one.
    pub token: Option<Secret>,
    /// Token of clients; `None` uses a generated one.
    pub client_token: Option<Secret>,
    /// Healthy part of a service's instances, from 0 to 1, below which silent instances are kept; 0
    /// lets all expire.
    pub mass_expiry_threshold: f64,
    /// Whether instances may have loopback and link-local addresses.
    pub local_instances: bool,
    /// Locations of hosts by network.
    pub locations: Vec<HostLocation>,
    /// Whether files are published even if their content does not parse in their format.
    pub force_publication: bool,
    /// Address under which clients reach the node's counters of global rate limits; `None` does not
    /// announce them.
    pub limiter: Option<SocketAddr>,
    /// Maximum memory of all registered objects, in bytes.
    pub memory_max: usize,
    /// Time after which unhealthy instances are deleted; `None` keeps them.
    pub delete_unhealthy_after: Option<Duration>,
    /// Time after which empty services are deleted; `None` keeps them.
    pub delete_empty_services_after: Option<Duration>,
    /// Certificate of both listeners; without one, clear text.
    pub tls: ListenerTls,
    /// Store of the registered objects.
    pub store: RegistryStore,
}

/// Storage of the registered objects: the data folder, unless a database is configured.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RegistryStore {
    /// URL of a MySQL or MariaDB.
    pub mysql: Option<Secret>,
    /// Connection URL of a PostgreSQL server.
    pub postgresql: Option<Secret>,
    /// Whether connections to the database use TLS.
    pub tls: bool,
    /// Additional CA certificates of the database, PEM, besides those of browsers.
    pub ca: Option<PathBuf>,
    /// Prefix of the names of database tables.
    pub tables: String,
    /// URLs, separated by commas, of the Redis that distributes heartbeats among the nodes.
    pub redis: Option<Secret>,
    /// Name of the Redis master, if the URLs are those of sentinels.
    pub redis_master: Option<String>,
}

impl Default for RegistryStore {
    fn default() -> Self {
        let tables = "tollhouse_registry_".to_owned();
        Self {
            mysql: None,
            postgresql: None,
            tls: true,
            ca: None,
            tables,
            redis: None,
            redis_master: None,
        }
    }
}

impl RegistryStore {
    /// Parses the URL of the database, if one is configured.
    ///
    /// # Errors
    /// If the URL is invalid, or two databases are configured. The error does not contain the URL,
    /// which holds a password.
    pub fn database(&self) -> Result<Option<Database>, DatabaseError> {
        let (url, kind) = match (&self.mysql, &self.postgresql) {
            (Some(_), Some(_)) => return Err(DatabaseError::Two),
            (Some(url), None) => (url, DatabaseKind::MySql),
            (None, Some(url)) => (url, DatabaseKind::PostgreSql),
            (None, None) => return Ok(None),
        };
        Database::parse(url.expose(), kind).map(Some)
    }
}

impl Default for Registry {
    fn default() -> Self {
        Self {
            workers: Workers::Auto,
            client_auth: false,
            console_auth: true,
            auth_rehearsal: false,
            user: "polaris".to_owned(),
            password: None,
            token: None,
            client_token: None,
            mass_expiry_threshold: 0.0,
            local_instances: false,
            locations: Vec::new(),
            force_publication: false,
            limiter: None,
            memory_max: 2 << 30,
            delete_unhealthy_after: None,
            delete_empty_services_after: None,
            tls: ListenerTls::default(),
            store: RegistryStore::default(),
        }
    }
}

/// A listener for operators that may use TLS.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SideListener {
    /// Certificate of the listener; without one, plain HTTP.
    pub tls: ListenerTls,
}

/// TLS of a listener for operators.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ListenerTls {
    /// File with the certificate chain in PEM format.
    pub cert: Option<PathBuf>,
    /// Private key of the certificate, PEM.
    pub key: Option<PathBuf>,
    /// CA certificates for client certificates, PEM; `None` requires no client certificate.
    pub client_ca: Option<PathBuf>,
}

impl Default for Admin {
    fn default() -> Self {
        let network = |text: &str| text.parse().expect("a network that is written here");
        Self {
            key: None,
            viewer_key: None,
            keys: Vec::new(),
            key_required: true,
            allow: vec![network("127.0.0.0/8"), network("::1/128")],
            cors: true,
            prefix: "/apisix".to_owned(),
            standalone: false,
            tls: ListenerTls::default(),
            openid_connect: OpenIdConnect::default(),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Acme {
    /// Directory URL of the certificate authority; `None` disables ACME.
    pub directory: Option<String>,
    /// Host names for which certificates are ordered.
    pub hosts: Vec<String>,
    /// Whether the operator agrees to the authority's terms of service.
    pub agree: bool,
    /// Contacts of the account, as `mailto:` URLs.
    pub contact: Vec<String>,
    pub challenge: AcmeChallenge,
    /// Profile that is requested from the authority; unset by default.
    pub profile: Option<String>,
    /// CA certificates of the authority's server, PEM; `None` uses those of the system.
    pub ca: Option<PathBuf>,
    /// External account binding (RFC 8555 §7.3.4), which some authorities require.
    pub eab: ExternalAccount,
}

impl Default for Acme {
    fn default() -> Self {
        Self {
            directory: None,
            hosts: Vec::new(),
            agree: false,
            contact: Vec::new(),
            challenge: AcmeChallenge::Http01,
            profile: None,
            ca: None,
            eab: ExternalAccount::default(),
        }
    }
}

/// External account binding: an existing account with the certificate authority.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ExternalAccount {
    pub key_id: Option<String>,
    /// Key of the account, in base64url.
    pub key: Option<Secret>,
}

/// Encryption of secrets in the store.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Encryption {
    /// Keys: the first seals, all open. Empty generates one on the first start.
    pub keyring: Vec<Secret>,
    /// Whether secrets are written in the form that APISIX nodes read.
    pub apisix_form: bool,
    /// Whether to start even if the store contains secrets without a key.
    pub allow_lost_keys: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AccessLog {
    pub format: AccessLogFormat,
    pub file: AccessLogTarget,
    /// Fields of a JSON line; empty writes all.
    pub fields: Vec<String>,
}

impl AccessLog {
    /// Returns the default: disabled, with `access.log` in the data folder.
    pub(crate) fn in_folder(data_dir: &std::path::Path) -> Self {
        Self {
            format: AccessLogFormat::Off,
            file: AccessLogTarget::File(data_dir.join("access.log")),
            fields: Vec::new(),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Maximum length of a request line in bytes.
    pub request_line_bytes: usize,
    /// Maximum length of a request head without the request line, in bytes.
    pub header_bytes: usize,
    /// Maximum number of header fields of a request.
    pub header_count: usize,
    /// Maximum length of a request body in bytes; `None` is unlimited.
    pub body_bytes: Option<u64>,
    /// Maximum length of a gRPC message in bytes; `None` is unlimited.
    pub grpc_message_bytes: Option<u64>,
    /// Maximum length of a body that is searched for `post_arg` variables, in bytes.
    pub post_args_bytes: usize,
    /// Maximum length of a body that is read as GraphQL, in bytes.
    pub graphql_bytes: usize,
    /// Maximum memory for buffered bodies and responses in bytes; `None` depends on the machine.
    pub buffered_bytes: Option<u64>,
    /// Timeout from the first byte of a request to the end of its head.
    pub header_read_time: Duration,
    /// Timeout between two requests of a connection.
    pub idle_time: Duration,
    /// Timeout between two reads of a request body.
    pub body_read_time: Duration,
    /// Timeout between two writes of a response.
    pub send_time: Duration,
    /// Requests after which a connection is closed.
    pub requests_per_connection: u32,
    /// Maximum number of concurrent requests on one HTTP/2 connection.
    pub http2_streams: u32,
    /// Maximum number of concurrent connections of one worker.
    pub connections_per_worker: u32,
    /// Maximum number of concurrent connections of one client address; `None` is unlimited.
    pub connections_per_address: Option<u32>,
    /// Maximum number of concurrent connections per worker without a complete first TLS message.
    pub silent_connections_per_worker: u32,
    /// Maximum number of concurrent connections per client address without a complete first TLS
    /// message.
    pub silent_connections_per_address: u32,
    /// Maximum number of concurrent TLS handshakes of one worker.
    pub handshakes_per_worker: u32,
    /// Maximum duration of a TLS handshake.
    pub handshake_time: Duration,
    /// Maximum length of the first message of a TLS handshake in bytes.
    pub client_hello_bytes: usize,
    /// Timeout for a connection of a stream route without data.
    pub stream_idle_time: Duration,
    /// Timeout for a connection of a stream route of which one side has closed.
    pub stream_half_closed_time: Duration,
    /// Timeout for the first bytes of a connection that the gateway inspects.
    pub stream_first_bytes_time: Duration,
    /// Timeout for a datagram session without datagrams.
    pub udp_idle_time: Duration,
    /// Maximum number of concurrent datagram sessions of one worker.
    pub udp_sessions_per_worker: u32,
    /// Maximum number of concurrent datagram sessions of one client address with one worker.
    pub udp_sessions_per_address: u32,
}

impl Default for Limits {
    fn default() -> Self {
        let minute = Duration::from_secs(60);
        Self {
            request_line_bytes: 8 << 10,
            header_bytes: 32 << 10,
            header_count: 100,
            body_bytes: None,
            grpc_message_bytes: None,
            // Both as in APISIX.
            post_args_bytes: 64 << 20,
            graphql_bytes: 1 << 20,
            buffered_bytes: None,
            header_read_time: minute,
            idle_time: minute,
            body_read_time: minute,
            send_time: Duration::from_secs(10),
            // So many that reconnecting costs a busy client nothing measurable, but bounded, so
            // that connections are redistributed when workers are added.
            requests_per_connection: 100_000,
            http2_streams: 128,
            connections_per_worker: 60_000,
            connections_per_address: None,
            // Some 5 KB each, including the kernel's share.
            silent_connections_per_worker: 8_192,
            // Clients send their hello within a round trip, so even many clients behind one address
            // have far fewer open.
            silent_connections_per_address: 256,
            handshakes_per_worker: 4_096,
            handshake_time: Duration::from_secs(10),
            client_hello_bytes: 16 << 10,
            stream_idle_time: 10 * minute,
            stream_half_closed_time: 5 * minute,
            stream_first_bytes_time: minute / 2,
            udp_idle_time: minute,
            udp_sessions_per_worker: 8192,
            udp_sessions_per_address: 256,
        }
    }
}

/// Header from which the client's address is taken, and the peers trusted to send it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RealIp {
    /// Header that contains the address.
    pub header: String,
    /// Peers whose header is trusted.
    pub from: Vec<Peer>,
    /// Whether the last address in the header that does not belong to a trusted peer is used.
    pub recursive: bool,
}

impl Default for RealIp {
    fn default() -> Self {
        let this_host = IpNet::from(std::net::IpAddr::from([127, 0, 0, 1]));
        Self {
            header: "X-Real-IP".to_owned(),
            from: vec![Peer::Network(this_host), Peer::UnixSocket],
            recursive: false,
        }
    }
}

/// Name resolution of upstream nodes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dns {
    /// Name servers; empty uses those of the system.
    pub servers: Vec<SocketAddr>,
    /// Lifetime of an answer, overriding its TTL.
    pub valid: Option<Duration>,
    /// Maximum time for an answer of a name server.
    pub timeout: Duration,
}

impl Default for Dns {
    fn default() -> Self {
        Self { servers: Vec::new(), valid: None, timeout: Duration::from_secs(5) }
    }
}

#[cfg(test)]
mod tests;
