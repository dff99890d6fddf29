//! The bootstrap configuration: what the process is told once, at its start.
//!
//! Here is the resolved form, with the defaults; each field's meaning and the way it is written
//! stand in the one table of `bootstrap/keys.rs`, from which reading, read-back and documentation
//! follow. What routes and upstreams say is no part of it.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use ipnet::IpNet;
use serde_json::{Map, Value};
use tollhouse_model::upstream::KeepalivePool;

mod admin_keys;
mod check;
mod database;
mod keys;
mod layers;
mod load;
mod parts;
mod reach;
mod reference;
mod shape;
mod shape_acme;
mod shape_more;
mod shape_net;
mod shown;
mod store;
mod stream;
mod unix;

pub use admin_keys::{KeyRole, NamedKey};
pub use database::{Database, DatabaseError, DatabaseKind};
pub use load::{Loaded, Source};
pub use parts::{
    AccessLogFormat, AccessLogTarget, AcmeChallenge, AmbiguousPaths, ClientHalfClose, Peer,
    RouterMode, Secret, Workers,
};
pub use reach::{LogFiles, Secrets};
pub use reference::reference_markdown;
pub use shown::SettingView;
pub use store::{Etcd, EtcdTls, Store};
pub use stream::{HeaderToNodes, StreamListen, StreamProtocol, StreamTls};
pub use unix::UnixListen;

/// Everything the process is told at its start.
#[derive(Debug, Clone, PartialEq)]
pub struct Bootstrap {
    /// Where the process keeps its files.
    pub data_dir: PathBuf,
    /// Serving threads.
    pub workers: Workers,
    /// Addresses listened on.
    pub listen: Listen,
    /// How TLS is served to clients.
    pub tls: Tls,
    /// The control API.
    pub control: SideListener,
    /// The page of metrics.
    pub metrics: SideListener,
    /// The status pages.
    pub status: SideListener,
    /// The Admin API.
    pub admin: Admin,
    /// What the console may do beyond the Admin API.
    pub console: Console,
    /// Where the configuration is kept, if not in the data folder.
    pub store: Store,
    /// Certificates that get and renew themselves.
    pub acme: Acme,
    /// The registry of services and instances.
    pub registry: Registry,
    /// A declarative file, watched.
    pub resources: Option<PathBuf>,
    /// The access log.
    pub access_log: AccessLog,
    /// Bounds on what clients may send and hold.
    pub limits: Limits,
    /// How long requests under way may take once the process is told to stop.
    pub drain_time: Duration,
    /// How routes are matched.
    pub router: RouterMode,
    /// Strips one trailing `/` before matching.
    pub delete_uri_tail_slash: bool,
    /// Drops `;parameters` of path segments before matching, and refuses suspicious escapes.
    pub normalize_uri_like_servlet: bool,
    /// Keeps `%2F` encoded while matching.
    pub match_uri_encoded_slash: bool,
    /// Handling of paths that servers read in several ways, where a plugin judges the path.
    pub ambiguous_paths: AmbiguousPaths,
    /// Shows the upstream's status in a response header, not only where it is 5xx.
    pub show_upstream_status_in_response_header: bool,
    /// Meaning of a client's FIN while its answer is pending.
    pub on_client_half_close: ClientHalfClose,
    /// Names the version in `Server`.
    pub server_tokens: bool,
    /// Whether answers show APISIX's name in the place of our own.
    pub imitate_apisix: bool,
    /// Peers whose `X-Forwarded-*` headers are kept.
    pub trusted_addresses: Vec<IpNet>,
    /// Whose word is taken for the client's address.
    pub real_ip: RealIp,
    /// Name resolution of nodes.
    pub dns: Dns,
    /// Idle connections to upstreams that have no pool of their own.
    pub upstream_keepalive: KeepalivePool,
    /// Turns all health checks off.
    pub disable_upstream_healthcheck: bool,
    /// What the process logs of itself.
    pub log: String,
    /// Secrets in the store.
    pub encryption: Encryption,
    /// References of objects to secrets elsewhere.
    pub secrets: Secrets,
    /// Files that plugins write.
    pub log_files: LogFiles,
    /// Plugins that may be used; none named is all of them.
    pub plugins: Vec<String>,
    /// Plugins that are passed over where this build does not have them.
    pub skip_plugins: Vec<String>,
    /// What the process tells plugins, by plugin.
    pub plugin_attr: Map<String, Value>,
    /// Zones of the `proxy-cache` plugin, and how long answers hold that do not say.
    pub proxy_cache: Map<String, Value>,
    /// Whether stream routes are taken.
    pub stream_routes: bool,
    /// Proxies before this one.
    pub proxy_protocol: ProxyProtocol,
    /// Requests that ShenYu's objects take.
    pub shenyu: Shenyu,
}

impl Default for Bootstrap {
    fn default() -> Self {
        let data_dir = PathBuf::from("./tollhouse-data");
        Self {
            workers: Workers::Auto,
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
            stream_routes: true,
            proxy_protocol: ProxyProtocol::default(),
            shenyu: Shenyu::default(),
        }
    }
}

/// Requests that ShenYu's objects take.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shenyu {
    /// Whether they are asked before routes are.
    pub comes_first: bool,
    /// Whether its own answers have the statuses of ShenYu, most of which are 200.
    pub compatible_statuses: bool,
    /// The namespace whose objects count; `None` is ShenYu's default one.
    pub namespace: Option<String>,
    /// How old a signature may be, or how far ahead.
    pub sign_delay: Duration,
    /// The first password of the user `admin` of ShenYu's admin; none is ShenYu's.
    pub admin_password: Option<Secret>,
    /// What ShenYu's gateways show that follow over WebSocket; `None` lets everybody.
    pub sync_token: Option<Secret>,
    /// Whether ShenYu's admin asks the nodes of services for connections.
    pub probe_upstreams: bool,
    /// The key under which ShenYu's clients encrypt the passwords of logins; none is plain text only.
    pub aes_key: Option<Secret>,
    /// The vector that goes with it.
    pub aes_iv: Option<Secret>,
    /// An admin of ShenYu's that is followed.
    pub follow: ShenyuFollow,
    /// The SHA-512 digest of the key to the gateway's own interface, in hexadecimal digits; none is off.
    pub local_key_sha512: Option<Secret>,
    /// Where ports of `tcp` are opened; none are without it.
    pub tcp_address: Option<String>,
    /// Whether several slashes of a path are one.
    pub collapse_slashes: bool,
    /// Pages of other sites.
    pub cross: ShenyuCross,
    /// What paths begin with at which the gateway says that it lives.
    pub health_paths: Vec<String>,
    /// Whether objects are shown below `/actuator/`; off by default.
    pub actuator: bool,
    /// Longest form with files.
    pub file_bytes: Option<u64>,
    /// Paths that are answered with nothing.
    pub exclude_paths: Vec<String>,
    /// Paths that are answered as what breakers fall back to.
    pub fallback_paths: Vec<String>,
}

/// Who may read answers from pages of other sites.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShenyuCross {
    /// Whether anybody may.
    pub enabled: bool,
    /// Which sites; all where empty.
    pub origins: Vec<String>,
    /// Headers that pages may send beside ShenYu's list.
    pub headers: Vec<String>,
    /// Headers that pages may read.
    pub exposed: Vec<String>,
    /// Whether with cookies.
    pub credentials: bool,
    /// How long browsers remember it.
    pub max_age: Duration,
}

impl Default for ShenyuCross {
    fn default() -> Self {
        Self {
            enabled: false,
            origins: Vec::new(),
            headers: Vec::new(),
            exposed: Vec::new(),
            credentials: false,
            max_age: Duration::from_secs(18_000),
        }
    }
}

/// An admin of ShenYu's that is followed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShenyuFollow {
    /// `ws://` or `http://` with host and port, over TLS `wss://` or `https://`; none follows nobody.
    pub addresses: Vec<String>,
    /// Who signs certificates of admins, PEM; `None` is whom the system trusts.
    pub ca: Option<PathBuf>,
    /// The user that polls.
    pub user: String,
    /// The password of that user; none is the one that ShenYu begins with.
    pub password: Option<Secret>,
    /// What newer admins ask WebSockets for.
    pub token: Option<Secret>,
    /// Origin that WebSockets come with; `ws://localhost:9195` by default, which an admin as shipped allows.
    pub origin: String,
}

impl Default for ShenyuFollow {
    fn default() -> Self {
        Self {
            addresses: Vec::new(),
            ca: None,
            user: "admin".to_owned(),
            password: None,
            token: None,
            origin: "ws://localhost:9195".to_owned(),
        }
    }
}

impl Default for Shenyu {
    fn default() -> Self {
        Self {
            comes_first: false,
            compatible_statuses: false,
            namespace: None,
            sign_delay: Duration::from_secs(300),
            admin_password: None,
            sync_token: None,
            probe_upstreams: true,
            aes_key: None,
            aes_iv: None,
            follow: ShenyuFollow::default(),
            local_key_sha512: None,
            tcp_address: None,
            collapse_slashes: false,
            cross: ShenyuCross::default(),
            health_paths: Vec::new(),
            actuator: false,
            file_bytes: None,
            exclude_paths: Vec::new(),
            fallback_paths: Vec::new(),
        }
    }
}

/// Addresses listened on; none turns a listener off.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listen {
    /// Data plane, plain.
    pub http: Vec<SocketAddr>,
    /// Data plane, plain, for proxies that send PROXY headers.
    pub http_proxied: Vec<SocketAddr>,
    /// Data plane, TLS, for proxies that send PROXY headers.
    pub https_proxied: Vec<SocketAddr>,
    /// Data plane, TLS.
    pub https: Vec<SocketAddr>,
    /// Data plane, plain, on Unix sockets.
    pub unix: Vec<UnixListen>,
    /// Connections below HTTP, and datagrams.
    pub stream: Vec<StreamListen>,
    /// Admin API and console.
    pub admin: Vec<SocketAddr>,
    /// Control API: introspection.
    pub control: Vec<SocketAddr>,
    /// Prometheus.
    pub metrics: Vec<SocketAddr>,
    /// Whether the process lives, and is ready; off unless asked for.
    pub status: Vec<SocketAddr>,
    /// Registry, Polaris gRPC.
    pub registry_grpc: Vec<SocketAddr>,
    /// Registry, Polaris HTTP.
    pub registry_http: Vec<SocketAddr>,
    /// ShenYu's admin; off unless asked for.
    pub shenyu: Vec<SocketAddr>,
    /// Names under which browsers reach what is for operators.
    pub hosts: Vec<String>,
}

impl Default for Listen {
    fn default() -> Self {
        let this_host = |port| vec![SocketAddr::from(([127, 0, 0, 1], port))];
        Self {
            // Loopback like every other listener: the first start must not expose the machine.
            http: this_host(9080),
            // Open before there is a certificate: one that is written later serves at once.
            https: this_host(9443),
            http_proxied: Vec::new(),
            https_proxied: Vec::new(),
            unix: Vec::new(),
            stream: Vec::new(),
            admin: this_host(9180),
            control: this_host(9090),
            metrics: this_host(9091),
            status: Vec::new(),
            // Whoever reaches these may register.
            registry_grpc: this_host(8091),
            registry_http: this_host(8090),
            shenyu: Vec::new(),
            hosts: Vec::new(),
        }
    }
}

/// How TLS is served to clients.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tls {
    /// Versions, where an ssl object names none.
    pub protocols: Vec<String>,
    /// Cipher suites; none named is all of them.
    pub ciphers: Vec<String>,
    /// Whether clients may come back with tickets.
    pub session_tickets: bool,
    /// The name that stands for none.
    pub fallback_sni: Option<String>,
    /// Whether responders are asked about certificates.
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

/// Proxies before this one, which say on whose behalf they come.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProxyProtocol {
    /// Who may send a PROXY header; none is nobody.
    pub from: Vec<IpNet>,
    /// How long the header may take.
    pub header_time: Duration,
}

impl Default for ProxyProtocol {
    fn default() -> Self {
        Self { from: Vec::new(), header_time: Duration::from_secs(5) }
    }
}

/// The Admin API.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Admin {
    /// What clients send as `X-API-KEY`.
    pub key: Option<Secret>,
    /// A second key, which may only read.
    pub viewer_key: Option<Secret>,
    /// Further keys, each with a name and what it allows.
    pub keys: Vec<NamedKey>,
    /// Whether a key is asked for at all.
    pub key_required: bool,
    /// Who may connect; none is everybody.
    pub allow: Vec<IpNet>,
    /// Whether browsers of other origins may call.
    pub cors: bool,
    /// What keys of objects begin with.
    pub prefix: String,
    /// Whether it takes whole documents, kept in memory, instead of objects.
    pub standalone: bool,
    /// Its certificate; none serves plain HTTP.
    pub tls: ListenerTls,
}

/// What the console may do beyond the Admin API.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Console {
    /// Whether it starts the load generator.
    pub bench: bool,
    /// What that may measure besides this machine.
    pub bench_targets: Vec<String>,
}

/// The registry of services and instances.
#[derive(Debug, Clone, PartialEq)]
pub struct Registry {
    /// Serving threads.
    pub workers: Workers,
    /// Whether clients (SDKs) must bring a token.
    pub client_auth: bool,
    /// Whether the console's calls must bring a token.
    pub console_auth: bool,
    /// The name that logs in to the console.
    pub user: String,
    /// Its password; none is a generated one.
    pub password: Option<Secret>,
    /// Its token; none is a generated one.
    pub token: Option<Secret>,
    /// The token of clients; none is a generated one.
    pub client_token: Option<Secret>,
    /// The part of a service's instances that must be left for silent ones to expire; 0 lets all expire.
    pub mass_expiry_threshold: f64,
    /// Whether instances may be on loopback and link-local addresses.
    pub local_instances: bool,
    /// Memory that all objects may take, in bytes.
    pub memory_max: usize,
    /// After how long instances that stay unhealthy are deleted; none keeps them.
    pub delete_unhealthy_after: Option<Duration>,
    /// After how long services that stay empty are; none keeps them.
    pub delete_empty_services_after: Option<Duration>,
    /// The certificate of both of its listeners; none serves them in clear text.
    pub tls: ListenerTls,
    /// Where everything that is registered is kept.
    pub store: RegistryStore,
}

/// Where everything that is registered is kept: in the data folder, unless a database is named.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RegistryStore {
    /// The URL of a MySQL or MariaDB.
    pub mysql: Option<Secret>,
    /// The URL of a PostgreSQL.
    pub postgresql: Option<Secret>,
    /// Whether connections to it are protected by TLS.
    pub tls: bool,
    /// Authorities for that, PEM, beside those that browsers know.
    pub ca: Option<PathBuf>,
    /// What the names of its tables begin with.
    pub tables: String,
    /// URLs of the Redis that heartbeats go over between nodes, with commas between them.
    pub redis: Option<Secret>,
    /// The name of its master, where the URLs are those of sentinels.
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
    /// The database that is named, if one is.
    ///
    /// # Errors
    /// What is wrong with its URL; the URL is not repeated, since it has a password.
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
            user: "polaris".to_owned(),
            password: None,
            token: None,
            client_token: None,
            mass_expiry_threshold: 0.0,
            local_instances: false,
            memory_max: 2 << 30,
            delete_unhealthy_after: None,
            delete_empty_services_after: None,
            tls: ListenerTls::default(),
            store: RegistryStore::default(),
        }
    }
}

/// A listener for operators that may speak TLS.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SideListener {
    /// Its certificate; none serves plain HTTP.
    pub tls: ListenerTls,
}

/// TLS of a listener for operators.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ListenerTls {
    /// Certificate chain, PEM.
    pub cert: Option<PathBuf>,
    /// Its private key, PEM.
    pub key: Option<PathBuf>,
    /// Authorities whose certificates clients must show, PEM; none asks for none.
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
        }
    }
}

/// Certificates that get and renew themselves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Acme {
    /// The authority's directory; none gets no certificates.
    pub directory: Option<String>,
    /// Names to have certificates for.
    pub hosts: Vec<String>,
    /// Whether the operator agrees to the authority's terms.
    pub agree: bool,
    /// Whom the authority may write to, as `mailto:` URLs.
    pub contact: Vec<String>,
    /// How names are proved.
    pub challenge: AcmeChallenge,
    /// Which of the authority's kinds of certificates to ask for.
    pub profile: Option<String>,
    /// Who signs for the authority's own server, PEM; none is the system's authorities.
    pub ca: Option<PathBuf>,
    /// An account that exists with the authority already.
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

/// An account with a certificate authority that exists outside of the protocol.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ExternalAccount {
    /// Its id.
    pub key_id: Option<String>,
    /// Its key, in base64url.
    pub key: Option<Secret>,
}

/// What is encrypted at rest.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Encryption {
    /// The first key seals, all open; none generates one at the first run.
    pub keyring: Vec<Secret>,
    /// Writes as APISIX nodes read.
    pub apisix_form: bool,
    /// Starts without the keys of secrets that the store holds.
    pub allow_lost_keys: bool,
}

/// The access log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AccessLog {
    /// What a line looks like.
    pub format: AccessLogFormat,
    /// Where lines go.
    pub file: AccessLogTarget,
    /// Fields of a JSON line; none is all of them.
    pub fields: Vec<String>,
}

impl AccessLog {
    /// Switched off, with its file's place in the data folder.
    pub(crate) fn in_folder(data_dir: &std::path::Path) -> Self {
        Self {
            format: AccessLogFormat::Off,
            file: AccessLogTarget::File(data_dir.join("access.log")),
            fields: Vec::new(),
        }
    }
}

/// Bounds on what clients may send and hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Longest request line, in bytes.
    pub request_line_bytes: usize,
    /// Longest head but for the request line, in bytes.
    pub header_bytes: usize,
    /// Most header fields of a request.
    pub header_count: usize,
    /// Longest request body, in bytes; `None` is without limit.
    pub body_bytes: Option<u64>,
    /// Longest message of a call of gRPC.
    pub grpc_message_bytes: Option<u64>,
    /// Bodies and answers held in memory by the process, in bytes; `None` is by the machine.
    pub buffered_bytes: Option<u64>,
    /// From the first byte of a request to the end of its head.
    pub header_read_time: Duration,
    /// Between two requests of a connection.
    pub idle_time: Duration,
    /// Between two reads of a request body.
    pub body_read_time: Duration,
    /// Between two writes of a response.
    pub send_time: Duration,
    /// Requests over one connection, which then closes.
    pub requests_per_connection: u32,
    /// Requests at a time over one connection of HTTP/2.
    pub http2_streams: u32,
    /// Connections of one worker at a time.
    pub connections_per_worker: u32,
    /// Connections of one client address at a time; `None` is without limit.
    pub connections_per_address: Option<u32>,
    /// Connections without a whole first message of TLS, at a time on one worker.
    pub silent_connections_per_worker: u32,
    /// The same of one client address.
    pub silent_connections_per_address: u32,
    /// TLS handshakes under way at a time on one worker.
    pub handshakes_per_worker: u32,
    /// For a TLS handshake.
    pub handshake_time: Duration,
    /// Longest first message of a TLS handshake, in bytes.
    pub client_hello_bytes: usize,
    /// For a connection of a stream route, without a byte.
    pub stream_idle_time: Duration,
    /// The same once one side has ended.
    pub stream_half_closed_time: Duration,
    /// For first bytes that are looked at.
    pub stream_first_bytes_time: Duration,
    /// For a session of datagrams, without one.
    pub udp_idle_time: Duration,
    /// Sessions of one worker at a time.
    pub udp_sessions_per_worker: u32,
    /// Sessions of one client address to one worker at a time.
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
            buffered_bytes: None,
            header_read_time: minute,
            idle_time: minute,
            body_read_time: minute,
            send_time: Duration::from_secs(10),
            // Enough that closing costs a busy client nothing it can measure, yet bounded, so that
            // connections spread anew over workers that came later.
            requests_per_connection: 100_000,
            http2_streams: 128,
            connections_per_worker: 60_000,
            connections_per_address: None,
            // Some 5 KB each, the kernel's part included.
            silent_connections_per_worker: 8_192,
            // Clients say hello within a round trip: what many behind one address have open at once is far less.
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

/// Whose word is taken for the client's address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RealIp {
    /// The header that carries the address.
    pub header: String,
    /// Peers that are believed.
    pub from: Vec<Peer>,
    /// Takes the last address in the header that is not itself of a believed peer.
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

/// Name resolution of nodes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dns {
    /// Servers asked; none is those of the system.
    pub servers: Vec<SocketAddr>,
    /// How long an answer holds, whatever it says itself.
    pub valid: Option<Duration>,
    /// How long to wait for an answer.
    pub timeout: Duration,
}

impl Default for Dns {
    fn default() -> Self {
        Self { servers: Vec::new(), valid: None, timeout: Duration::from_secs(5) }
    }
}

#[cfg(test)]
mod tests;
