//! The table of all keys: name, shape and meaning. Reading, display and documentation are derived
//! from it.
//!
//! A new key takes a field with its default in `bootstrap.rs` and a line here.

use serde_json::Value;

use super::Bootstrap;
use super::admin_keys::NamedKeys;
use super::discovery::RegistryTable;
use super::location::HostLocations;
use super::openid_connect::GroupTable;
use super::shape::{
    Count, CountOrNone, FilePath, HalfClose, HeaderName, LogFormat, LogTarget, LuaSwitch,
    OptionalPath, OptionalSecret, OptionalTime, PathPolicy, Read, Router, Shape, Size, SizeOrAuto,
    SizeOrNone, Slots, Switch, Text, Time, TimeOrZero, Words, WorkerCount,
};
use super::shape_acme::{Challenge, Contacts, DirectoryUrl, HostNames};
use super::shape_more::{Fraction, Keys, OptionalText, PrivateTable, Table, TlsVersions};
use super::shape_net::{
    LoopbackAddresses, NameServers, Networks, OpenAddresses, OptionalAddress, OwnNames, Peers,
};
use super::shape_tracing::{
    CollectorUrl, CompressionName, HeaderTable, Propagations, ProtocolName, ResourceTable,
    SamplerName,
};
use super::store::EtcdUrls;
use super::stream::StreamListeners;
use super::unix::UnixListeners;

pub(crate) struct Key {
    /// Name as in the file, with dots between levels.
    pub(crate) name: &'static str,
    /// Description of the key in the manual.
    pub(crate) doc: &'static str,
    /// Whether the value must not appear in messages.
    pub(crate) secret: bool,
    pub(crate) takes: fn() -> String,
    /// Parses a value of the key and stores it in the configuration.
    pub(crate) read: fn(&mut Bootstrap, &Value) -> Read<()>,
    /// Formats the configured value of the key for display.
    pub(crate) show: fn(&Bootstrap) -> String,
}

impl Key {
    /// Returns the name of the environment variable that overrides the key.
    pub(crate) fn variable(&self) -> String {
        format!("TOLLHOUSE_{}", self.name.replace('.', "_").to_ascii_uppercase())
    }
}

pub(crate) fn find(name: &str) -> Option<&'static Key> {
    KEYS.iter().find(|key| key.name == name)
}

macro_rules! keys {
    ($($first:ident $(. $rest:ident)* : $shape:ty, $doc:literal;)*) => {
        /// All keys, in the order of the manual.
        pub(crate) static KEYS: &[Key] = &[$(Key {
            name: concat!(stringify!($first) $(, ".", stringify!($rest))*),
            doc: $doc,
            secret: <$shape as Shape>::SECRET,
            takes: <$shape as Shape>::takes,
            read: |bootstrap, value| {
                bootstrap.$first $(.$rest)* = <$shape as Shape>::read(value)?;
                Ok(())
            },
            show: |bootstrap| <$shape as Shape>::show(&bootstrap.$first $(.$rest)*),
        },)*];
    };
}

/// Maximum size of a request head that can be configured, in bytes: request line and header fields
/// together. Positions in a head are counted in 16 bits, and every connection may occupy that much
/// memory.
pub(super) const HEAD_MAX: usize = 63 << 10;

/// Minimum and maximum of the limit on a request line, in bytes. Below the minimum, plain paths
/// with a token would be refused.
const LINE_MIN: usize = 512;
const LINE_MAX: usize = HEAD_MAX - HEADERS_MIN;

/// Minimum and maximum of the limit on all header fields together, in bytes.
const HEADERS_MIN: usize = 1 << 10;
const HEADERS_MAX: usize = 62 << 10;

/// Maximum of the limits on bodies that are searched for variables, in bytes.
const BODY_MAX: usize = 1 << 30;

/// Minimum and maximum of the limit on the number of header fields. Browsers send some twenty. Each
/// field costs work before a route is known, and the parser cannot count more than the maximum.
const FIELDS_MIN: usize = 16;
const FIELDS_MAX: usize = 256;

/// Minimum and maximum of the limit on the first message of a TLS handshake, in bytes. With
/// post-quantum keys the message takes two thousand bytes, and the TLS library reads at most 64
/// KiB.
const HELLO_MIN: usize = 4 << 10;
const HELLO_MAX: usize = 64 << 10;

/// Bounds of the registry's memory limit, in bytes: the minimum suffices for some tens of thousands
/// of instances; the maximum exceeds the memory of usual machines.
const MEMORY_MIN: usize = 64 << 20;
const MEMORY_MAX: usize = 1 << 40;

/// Largest queue of spans that can be configured. 64 MiB of spans wait in any case at most.
const QUEUE_SPANS_MAX: usize = 1 << 20;

/// Bounds of the memory of scripts, in bytes: the minimum suffices for the libraries and small functions.
const LUA_MEMORY_MIN: usize = 4 << 20;
const LUA_MEMORY_MAX: usize = 1 << 30;

keys! {
    data_dir: FilePath, "Folder for the files of the process; created if missing.";
    workers: WorkerCount,
        "Worker threads. `auto` starts one per core available to the process. Threads are pinned \
         to cores if their numbers are equal.";
    control_niceness: Slots<0, 19>,
        "Niceness of the threads of the control side: Admin API, control API, console with its log-ins, feed, health \
         checks. From 0, the priority of the workers, to 19, the lowest, at which a machine whose cores other programs \
         keep busy lets a log-in wait for a minute. Raise it if changes of the configuration slow requests down.";
    resources: OptionalPath,
        "A declarative file in APISIX's standalone format, YAML or JSON by its extension. It is \
         watched, and changes are applied without a restart.";
    listen.http: OpenAddresses,
        "Data plane, plain HTTP. The default accepts connections from this machine only; \
         `0.0.0.0:9080` accepts others too.";
    listen.https: OpenAddresses,
        "Data plane, TLS, with the certificates of the `ssls` objects. The default accepts \
         connections from this machine only. A client that asks for a name without a certificate \
         is refused in the handshake.";
    listen.http_proxied: OpenAddresses,
        "Data plane, plain HTTP behind proxies that send a PROXY header (version 1 or 2) ahead of \
         each connection. For routes, plugins, limits and the log, the client is the one in the \
         header. Peers outside `proxy_protocol.from` are refused.";
    listen.https_proxied: OpenAddresses,
        "Like `listen.http_proxied`, over TLS, which begins after the header.";
    listen.unix: UnixListeners,
        "Data plane, plain HTTP on Unix sockets: a list of addresses such as `unix:/run/tollhouse.sock`, or of tables \
         with `address` and `mode`, the rights of the file in octal, which are `\"0660\"` by default. A file that a \
         dead process has left is replaced. Clients have no address: `remote_addr` is `unix:`, as in nginx; \
         `real_ip.from` knows them by that name, and of networks only `0.0.0.0/0` contains them.";
    listen.stream: StreamListeners,
        "Connections below HTTP, and datagrams, for stream routes: a list of tables with \
         `address`; `protocol`, `tcp` (default) or `udp`; `tls`, which is `false`, `true` to \
         terminate TLS with the certificates of the `ssls` objects, or `passthrough` to select the \
         route by the server name in the client's TLS hello and forward the bytes unchanged; \
         `proxy_protocol`, whether connections begin with a PROXY header; \
         `proxy_protocol_to_upstream`, `false`, `v1` or `v2`, the PROXY header sent to nodes.";
    proxy_protocol.from: Networks,
        "Proxies whose PROXY headers are accepted, on listeners that expect one; all other peers \
         are refused there.";
    proxy_protocol.header_time: Time, "Timeout for the arrival of a PROXY header.";
    listen.admin: LoopbackAddresses, "Admin API.";
    listen.control: LoopbackAddresses, "Control API: read-only introspection.";
    listen.metrics: LoopbackAddresses, "Prometheus metrics.";
    listen.status: LoopbackAddresses,
        "`/status`, which answers 200 while the process is alive, and `/status/ready`, which \
         answers 503 until there is a configuration to serve.";
    listen.registry_grpc: LoopbackAddresses,
        "Registry, Polaris gRPC: services, and configuration files, which Polaris' clients look for \
         on port 8093. Every client that reaches it may register instances; clients on other \
         machines need `0.0.0.0:8091, 0.0.0.0:8093`.";
    listen.registry_http: LoopbackAddresses,
        "Registry, Polaris HTTP. Every client that reaches it may register instances.";
    listen.shenyu: LoopbackAddresses,
        "ShenYu's admin: its REST interface, registration of services, and configuration for ShenYu's \
         gateways. ShenYu's clients look for it on port 9095.";
    listen.hosts: OwnNames,
        "Host names of the listeners for operators and of the registry, other than local ones, \
         such as that of a proxy on this machine. Addresses, names without a dot and names for \
         private use (`.local`, `.internal`, `.lan`, `.svc` and such) need not be listed. Any \
         other name is refused by the console, by interfaces that require no key, and on loopback \
         addresses, because a website can resolve its own name to this machine and make browsers \
         send requests here.";
    tls.protocols: TlsVersions,
        "TLS versions for clients, unless an `ssls` object lists its own in `ssl_protocols`.";
    tls.ciphers: Words,
        "Cipher suites for clients, by their OpenSSL or standard names. An empty list allows all \
         supported ones, each of which has forward secrecy.";
    tls.session_tickets: Switch,
        "Whether clients may resume sessions with tickets instead of a full handshake. The ticket \
         keys change every six hours, are valid for twelve, and are passed to a successor process.";
    tls.fallback_sni: OptionalText,
        "Server name assumed for clients that send none. Without it, such clients receive the \
         certificate of `*`, if there is one.";
    tls.ocsp_stapling: Switch,
        "Whether the OCSP responder named in a certificate is asked for its status, over plain \
         HTTP, so that clients receive the response together with the certificate. Handshakes do \
         not wait for it.";
    admin.key: OptionalSecret,
        "Key of the Admin API, of 16 characters or more. By default one is generated on the first \
         start and stored in `data_dir/admin.key`; each start prints its location.";
    admin.viewer_key: OptionalSecret, "A second key of the Admin API, with read access only.";
    admin.keys: NamedKeys,
        "Further keys of the Admin API, a list of tables with `name`, `key` and `role`. An `admin` \
         may do everything. An `operator` writes objects and the registry, and so controls all \
         traffic, but cannot read a secret in clear text, send a hidden secret elsewhere, or \
         control the process. A `viewer` only reads. The audit log and the list of changes record \
         these names. Each key must differ from all other secrets here.";
    admin.key_required: Switch, "Whether the Admin API requires a key.";
    admin.allow: Networks,
        "Clients that may connect to the Admin API; others are answered 403. An empty list allows all.";
    admin.cors: Switch, "Whether pages of other origins may call the Admin API.";
    admin.prefix: Text, "Prefix of the keys of objects, in answers and in the store.";
    admin.standalone: Switch,
        "Whether the Admin API accepts whole documents at `/apisix/admin/configs`, kept in memory \
         only, instead of single objects kept in the store.";
    console.bench: Switch,
        "Whether administrators may start the load generator from the console. It runs as a \
         separate process, one at a time, for ten minutes at most.";
    console.bench_targets: Words,
        "Targets that the load generator may measure besides this machine: hosts, or hosts with \
         ports, such as `staging.example:8080`.";
    admin.tls.cert: OptionalPath, "Certificate chain of the Admin API, PEM; without it, plain HTTP.";
    admin.tls.key: OptionalPath, "Private key of that certificate, PEM.";
    admin.tls.client_ca: OptionalPath,
        "CA certificates, PEM; clients of the Admin API must then present a certificate signed by \
         one of them. Requests of other clients are answered 400.";
    admin.openid_connect.issuer: OptionalText,
        "Identity provider (OpenID Connect) at which people log in to the console, by its issuer address. Requires \
         `https`, except on this machine. Users are created in the registry at their first log-in, and have the rights \
         of its groups, roles and policies; without any, they see nothing.";
    admin.openid_connect.name: Text, "Name of the provider, on the button of the console.";
    admin.openid_connect.client_id: OptionalText,
        "Id of the console at the provider, where `PUBLIC_URL/ui/login` is registered as redirect address.";
    admin.openid_connect.client_secret: OptionalSecret,
        "Secret of that client, for example `${{OIDC_SECRET}}`. A public client has none.";
    admin.openid_connect.client_secret_file: OptionalPath,
        "A file with that secret, read at the start.";
    admin.openid_connect.scopes: Words,
        "Scopes that are asked for. Some providers tell groups only if `groups` is among them.";
    admin.openid_connect.public_url: OptionalText,
        "Scheme, host and port of the console, such as `https://gateway.example:9180`. By default those by which the \
         browser reached it. Set it if a proxy with TLS is in front.";
    admin.openid_connect.groups_claim: Text,
        "Claim with the names of the user's groups, a list or a text. Dots lead to inner claims: `realm_access.roles`.";
    admin.openid_connect.groups: GroupTable,
        "Groups of users of the registry whose members the members of the provider's groups are: a table from groups \
         of the provider to names here. Every log-in sets the user's membership of the groups in this table; other \
         groups stay as they are.";
    admin.openid_connect.roles: GroupTable,
        "Like `admin.openid_connect.groups`, for roles of the registry.";
    admin.openid_connect.allowed_groups: Words,
        "Groups of the provider whose members may log in. An empty list admits all users of the provider.";
    admin.openid_connect.allowed_domains: Words,
        "Domains of mail addresses whose users may log in, if the provider has confirmed the address. An empty list \
         admits all users of the provider.";
    admin.openid_connect.ca: OptionalPath,
        "CA certificates of the provider, PEM, instead of those that the system trusts.";
    store.allow_missing: Switch,
        "Whether to start with an empty store although `store.db` is missing from a `data_dir` \
         that contained objects. By default such a start is refused, because a volume may be \
         unmounted or a restore unfinished. Set it for a single start, with `--set`.";
    store.etcd.endpoints: EtcdUrls,
        "Members of an etcd that stores the configuration instead of `data_dir`, for any number of \
         gateways that share it; keys begin with `admin.prefix`. One member is used at a time; if \
         it fails, the next one. Requires an `encryption.keyring` that all gateways share.";
    store.etcd.user: OptionalText, "User of etcd, if it requires authentication.";
    store.etcd.password: OptionalSecret, "Password of that user.";
    store.etcd.tls.ca: OptionalPath,
        "CA certificates of etcd, PEM, instead of those that the system trusts.";
    store.etcd.tls.cert: OptionalPath, "Client certificate chain for etcd, PEM.";
    store.etcd.tls.key: OptionalPath, "Private key of that certificate, PEM.";
    store.etcd.timeout: Time, "Timeout for a request to one member.";
    shenyu.comes_first: Switch,
        "Whether ShenYu's selectors are matched before routes. By default they receive the \
         requests that no route matches.";
    shenyu.compatible_statuses: Switch,
        "Whether answers of ShenYu's plugins have the statuses of ShenYu's gateway, most of which \
         are 200, for clients that evaluate the `code` in the body. By default they have the HTTP \
         statuses; the bodies are the same.";
    shenyu.namespace: OptionalText,
        "Namespace of ShenYu (2.7) whose objects are used; the default is ShenYu's default one.";
    shenyu.sign_delay: Time,
        "Largest difference between now and the time of a signature that ShenYu's `sign` checks; \
         in whole minutes.";
    shenyu.admin_password: OptionalSecret,
        "Initial password of the user `admin` of ShenYu's admin. The default is `123456`, as in \
         ShenYu.";
    shenyu.sync_token: OptionalSecret,
        "Token required as `X-Shenyu-Sync-Token` from ShenYu gateways that synchronise with \
         `listen.shenyu` over WebSocket. Without it, every client that reaches the listener can \
         read every object, including the secrets of applications, as with ShenYu up to 2.7.1.";
    shenyu.probe_upstreams: Switch,
        "Whether ShenYu's admin opens a TCP connection every ten seconds to the nodes that \
         services have registered, disables those that refuse, and enables them again once they \
         answer. Nodes with `healthCheckEnabled` false in their properties are not probed.";
    shenyu.aes_key: OptionalSecret,
        "Key, 16, 24 or 32 bytes, with which login pages and clients of ShenYu encrypt passwords: \
         `shenyu.aes.secret.key` of its admin. Plain passwords are accepted too. Requires \
         `shenyu.aes_iv`.";
    shenyu.aes_iv: OptionalSecret,
        "Initialisation vector of that key, 16 bytes: `shenyu.aes.secret.iv` of ShenYu's admin.";
    shenyu.follow.addresses: Words,
        "ShenYu admins whose selectors, rules and other objects this gateway takes over, as \
         ShenYu's gateways do: `ws://host:9095`, or `http://host:9095` to poll; `wss://` and \
         `https://` for TLS. One is followed at a time; if it fails, the next one. Meanwhile the \
         last objects stay in service. Cannot be combined with `listen.shenyu`.";
    shenyu.follow.ca: OptionalPath,
        "CA certificates of those admins, PEM, instead of those that the system trusts.";
    shenyu.follow.user: Text, "User for polling.";
    shenyu.follow.password: OptionalSecret,
        "Password of that user. The default is `123456`, as in ShenYu.";
    shenyu.follow.token: OptionalSecret,
        "Token that admins from 2.7.2 on require for WebSockets: their \
         `shenyu.sync.websocket.token`.";
    shenyu.follow.origin: Text,
        "`Origin` of WebSockets to admins: one of their `shenyu.sync.websocket.allowOrigins`, \
         written identically. An admin with ShenYu's default settings accepts this default.";
    shenyu.local_key_sha512: OptionalSecret,
        "SHA-512 digest, 128 hexadecimal digits, of the key that calls to `/shenyu/…` on the \
         gateway's own listeners must send as `localKey`: `shenyu.local.sha512Key` of ShenYu's \
         gateway. These calls write plugins, selectors, rules, metadata and applications. Without \
         it the interface is disabled.";
    shenyu.tcp_address: OptionalText,
        "Address, such as `0.0.0.0`, on which the ports of ShenYu's `tcp` are opened and closed, \
         as its proxy selectors specify. Without it none are opened, because authors of objects \
         could choose ports of this machine.";
    shenyu.collapse_slashes: Switch,
        "Whether ShenYu's selectors, rules and nodes see repeated slashes in a path as one.";
    shenyu.cross.enabled: Switch,
        "Whether pages of other origins may read answers of ShenYu's objects (CORS); corresponding \
         headers from nodes are replaced. In ShenYu this is on by default.";
    shenyu.cross.origins: Words,
        "Allowed origins, such as `https://shop.example`; an empty list allows all.";
    shenyu.cross.headers: Words,
        "Request headers that such pages may send, in addition to ShenYu's own list.";
    shenyu.cross.exposed: Words, "Response headers that such pages may read.";
    shenyu.cross.credentials: Switch,
        "Whether such pages may send cookies. ShenYu allows it for every origin; with an empty \
         `shenyu.cross.origins`, any page could then act on behalf of its visitor.";
    shenyu.cross.max_age: Time, "Time for which browsers cache the answer to a preflight request.";
    shenyu.health_paths: Words,
        "Paths at which, and below which, the gateway answers health checks, regardless of \
         ShenYu's objects: `/actuator` and `/health_check` in ShenYu.";
    shenyu.actuator: Switch,
        "Whether `/actuator/plugins`, `pluginData`, `selectorData`, `ruleData` and `metadata` show ShenYu's objects on \
         the gateway's own listeners, to all clients, with secrets masked. Tools and tests of ShenYu use these pages.";
    shenyu.file_bytes: SizeOrNone,
        "Longest form with files (`multipart/…`) for ShenYu's objects; a longer one is answered as \
         in ShenYu.";
    shenyu.exclude_paths: Words,
        "Paths that are answered with an empty body and status 200, regardless of ShenYu's \
         objects.";
    shenyu.fallback_paths: Words,
        "Those of `/fallback/hystrix`, `/fallback/resilience4j` and `/fallback/sentinel` that \
         clients may request. Circuit breakers can use them in any case.";
    control.tls.cert: OptionalPath, "Certificate chain of the control API, PEM; without it, plain HTTP.";
    control.tls.key: OptionalPath, "Private key of that certificate, PEM.";
    control.tls.client_ca: OptionalPath,
        "CA certificates, PEM; clients of the control API must then present a certificate signed \
         by one of them.";
    metrics.tls.cert: OptionalPath, "Certificate chain of the metrics, PEM; without it, plain HTTP.";
    metrics.tls.key: OptionalPath, "Private key of that certificate, PEM.";
    metrics.tls.client_ca: OptionalPath,
        "CA certificates, PEM; clients of the metrics must then present a certificate signed by \
         one of them.";
    status.tls.cert: OptionalPath,
        "Certificate chain of the status pages, PEM; without it, plain HTTP.";
    status.tls.key: OptionalPath, "Private key of that certificate, PEM.";
    status.tls.client_ca: OptionalPath,
        "CA certificates, PEM; clients of the status pages must then present a certificate signed \
         by one of them.";
    acme.directory: DirectoryUrl,
        "ACME directory of the authority that issues and renews certificates. Without it, ACME is \
         disabled.";
    acme.hosts: HostNames,
        "Names that need a certificate, one certificate each. Certificates are stored as `ssls` \
         objects whose ids begin with `acme-`.";
    acme.agree: Switch,
        "Your agreement to the authority's terms of service; no request is sent before.";
    acme.contact: Contacts, "Mail addresses to which the authority may write about the account.";
    acme.challenge: Challenge,
        "Proof to the authority that a name is yours: `http-01` uses a plain request, for which \
         port 80 of the name must lead to `listen.http`; `tls-alpn-01` uses a TLS handshake, for \
         which port 443 must lead to `listen.https`.";
    acme.profile: OptionalText, "Certificate profile of the authority, such as `shortlived`.";
    acme.ca: OptionalPath,
        "CA certificates of the authority's own server, PEM, instead of those that the system \
         trusts.";
    acme.eab.key_id: OptionalText,
        "Id of an existing account with the authority (external account binding).";
    acme.eab.key: OptionalSecret,
        "Key of that account, in base64url, as received from the authority.";
    registry.workers: WorkerCount,
        "Threads that serve Polaris gRPC. `auto` starts one per core available to the process.";
    registry.client_auth: Switch,
        "Whether SDKs must send `registry.client_token` as `x-polaris-token`.";
    registry.console_auth: Switch,
        "Whether calls of the console group (`/naming/v1`, `/core/v1`) must send `registry.token` \
         as `X-Polaris-Token`.";
    registry.auth_rehearsal: Switch,
        "Whether calls of clients or of the console, as long as they need no token, are checked as \
         if they did: `/core/v1/auth/rehearsal` lists by caller what would have been refused in \
         the last day. Set it before `registry.client_auth`.";
    registry.user: Text, "User name for `/core/v1/user/login`.";
    registry.password: OptionalSecret,
        "Password of `registry.user`. By default one is generated on the first start and stored in \
         `data_dir/registry.password`.";
    registry.token: OptionalSecret,
        "Token returned by a login. By default one is generated and stored in \
         `data_dir/registry.token`.";
    registry.client_token: OptionalSecret,
        "Token of SDKs, which is valid for nothing else. By default one is generated and stored in \
         `data_dir/registry.client-token`.";
    registry.mass_expiry_threshold: Fraction,
        "Silent instances of a service are kept while expiring them would leave this part of its \
         instances, or less, healthy; 0 lets all expire. A service can override it by its metadata \
         `internal-service-protectthreshold`.";
    registry.local_instances: Switch,
        "Whether upstreams may use instances on loopback and link-local addresses. Always allowed \
         while the registry listens on loopback only, and for registries of `discovery` whose servers \
         are all on loopback. An instance never leads to a listener for \
         operators or of the registry.";
    registry.locations: HostLocations,
        "Locations of hosts by network, for instances and SDKs that give none; the narrowest network decides.";
    registry.force_publication: Switch,
        "Whether configuration files are published even if their content does not parse in their \
         format, as a Polaris server does. Otherwise only a call with `force=true` can do that, which \
         Polaris' console and clients cannot send.";
    registry.limiter: OptionalAddress,
        "Address at which SDKs reach this node's gRPC listener for global rate limits. The node then registers itself \
         as `polaris.limiter` in the namespace `Polaris`, where SDKs look for it.";
    registry.memory_max: Size<MEMORY_MIN, MEMORY_MAX>,
        "Estimated memory that all registered objects together may take; further ones are refused. \
         Rules and contracts may each take an eighth of it.";
    registry.delete_unhealthy_after: OptionalTime,
        "Time after which instances that stay unhealthy are deleted; without it they are kept.";
    registry.tls.cert: OptionalPath,
        "Certificate chain of the registry's listeners, gRPC and HTTP, PEM; without it, clear text.";
    registry.tls.key: OptionalPath, "Private key of that certificate, PEM.";
    registry.tls.client_ca: OptionalPath,
        "CA certificates, PEM; clients of the registry must then present a certificate signed by \
         one of them.";
    registry.delete_empty_services_after: OptionalTime,
        "Time without instances and aliases after which a service is deleted, if it was created by \
         registering an instance and has never been edited. Its contracts are deleted too, and its \
         namespace if it is otherwise empty. Without it, services are kept.";
    registry.store.mysql: OptionalSecret,
        "Stores the registry in MySQL 8 or MariaDB instead of the data folder, for several nodes \
         that serve concurrently: `mysql://user:password@host:3306,other-host:3306/database`. \
         Special characters in a password are escaped as in URLs, `%40` for `@`.";
    registry.store.postgresql: OptionalSecret,
        "Stores the registry in PostgreSQL: \
         `postgresql://user:password@host:5432,other-host:5432/database`.";
    registry.store.tls: Switch,
        "Whether connections to that database use TLS, with its certificate and name verified. \
         Turn it off only for a database on this machine.";
    registry.store.ca: OptionalPath,
        "CA certificates of the database, PEM, in addition to those of browsers.";
    registry.store.tables: Text,
        "Prefix of the tables in that database; nodes with the same tables form one registry.";
    registry.store.redis: OptionalSecret,
        "A Redis that carries heartbeats between the nodes instead of that database, five times a \
         second instead of once: `redis://user:password@host:6379/0`, or `rediss://` for TLS. \
         Several URLs, separated by commas, are nodes of one Redis cluster, or sentinels if \
         `registry.store.redis_master` is set. If the Redis fails, no data is lost.";
    registry.store.redis_master: OptionalText,
        "Name of the master that the sentinels in `registry.store.redis` monitor.";
    discovery: RegistryTable,
        "Registries outside of this process from which upstreams with that `discovery_type` get their nodes, with the \
         keys of APISIX's `config.yaml`: `consul` (`servers`, `token`, `fetch_interval`, `keepalive`, `weight`, \
         `timeout`, `skip_services`), `consul_kv` (as `consul`, `prefix`, `skip_keys`), `nacos` (`host`, `prefix`, \
         `fetch_interval`, `weight`, `timeout`, `access_key`, `secret_key`), `eureka` (`host`, `prefix`, \
         `fetch_interval`, `weight`, `timeout`) and `kubernetes` (`service`, `client`, `default_weight`). `ca` names \
         CA certificates of the servers, PEM. A text `$env://NAME` is the environment variable of this name.";
    encryption.keyring: Keys,
        "Keys that encrypt secrets in the store: the first seals, all open. By default one is \
         generated on the first start and stored in `data_dir/keyring`.";
    encryption.apisix_form: Switch,
        "Whether secrets are written in the form that APISIX nodes read, for a shared store. The \
         default form is authenticated and names the key it was sealed with.";
    encryption.allow_lost_keys: Switch,
        "Whether to start although the store contains secrets whose key is lost. The objects \
         concerned are quarantined until they are written again.";
    secrets.env: Words,
        "Environment variables that objects may refer to as `$env://NAME`; `PREFIX*` allows all \
         that begin with `PREFIX`. None by default, because authors of objects could read them. \
         Variables that begin with `TOLLHOUSE_` are never read.";
    log_files.folder: FilePath,
        "Folder of the files that plugins write (`file-logger`). A relative `path` of a plugin starts there; an \
         absolute one must be inside it. The default is `logs` in `data_dir`.";
    plugins: Words, "Plugins that may be used; an empty list allows all of them.";
    skip_plugins: Words,
        "Plugins that objects may name and that are ignored if this build does not have them; `*` \
         for all. Requests that another missing plugin might protect are answered 503.";
    plugin_attr: PrivateTable, "Settings of the process for plugins, by plugin, such as `redirect.https_port`.";
    proxy_cache: Table,
        "Zones of the `proxy-cache` plugin, and `cache_ttl`, the default lifetime of answers.";
    scripting.lua: LuaSwitch,
        "Whether objects may contain Lua: `off` refuses them, `trusted` runs it in the process. Only administrators may \
         write such objects. Lua has no access to files or processes, and is bounded in time and memory.";
    scripting.folder: OptionalPath,
        "Folder of plugins in Lua (`plugins/NAME.lua`) and of modules that they require, read at the start. Needs \
         `scripting.lua: trusted`.";
    scripting.memory: Size<LUA_MEMORY_MIN, LUA_MEMORY_MAX>,
        "Memory of the scripts of each worker. A script that needs more fails with 500. A worker that has run no \
         script uses none.";
    stream_routes: Switch,
        "Whether the Admin API accepts stream routes. They are served on `listen.stream`.";
    access_log.format: LogFormat, "Format of a line.";
    access_log.file: LogTarget,
        "Destination of the lines. The default is `access.log` in `data_dir`.";
    access_log.fields: Words,
        "Fields of a line in the `json` format; an empty list writes all of them.";
    limits.request_line_bytes: Size<LINE_MIN, LINE_MAX>,
        "Longest request line; a longer one is answered 414. With `limits.header_bytes` it makes 63KiB at most.";
    limits.header_bytes: Size<HEADERS_MIN, HEADERS_MAX>,
        "All header lines together, with their names and line ends; more is answered 431.";
    limits.header_count: Slots<FIELDS_MIN, FIELDS_MAX>, "Most header fields; more is answered 431.";
    limits.body_bytes: SizeOrNone, "Longest request body; a longer one is answered 413.";
    limits.grpc_message_bytes: SizeOrNone,
        "Longest gRPC message, in either direction; a longer one ends the call with status 8.";
    limits.post_args_bytes: Size<1, BODY_MAX>,
        "Longest request body in which `post_arg` variables are looked up; in a longer one they have no value, \
         and it is passed on. APISIX calls it `max_post_args_readable_size`, in MiB.";
    limits.graphql_bytes: Size<1, BODY_MAX>,
        "Longest request body that is read as GraphQL: in a longer one `graphql` variables have no value, and \
         `graphql-limit-count` and `graphql-proxy-cache` refuse it. APISIX calls it `graphql.max_size`.";
    limits.buffered_bytes: SizeOrAuto,
        "Memory of the whole process for bodies that are read completely, bodies over HTTP/2 that \
         nodes have not accepted yet, and cached answers; requests beyond it are answered 503. \
         `auto` is a quarter of the machine's memory, or of the limit of the control group.";
    limits.header_read_time: Time,
        "Timeout from the first byte of a request to the end of its head; a slower one is answered \
         408.";
    limits.idle_time: Time, "Timeout of a connection between two requests.";
    limits.body_read_time: Time,
        "Timeout between two reads of a request body; a slower one is answered 408.";
    limits.send_time: Time,
        "Timeout between two writes to a client that does not read; then the connection is closed.";
    limits.requests_per_connection: Count<1>,
        "Requests after which a connection is closed: few enough that connections are \
         redistributed over workers, many enough that clients do not notice.";
    limits.http2_streams: Count<1>,
        "Concurrent requests on one HTTP/2 connection; further ones are refused, and safe to \
         repeat.";
    limits.connections_per_worker: Count<1>,
        "Client connections of one worker at a time. Of further ones 64 at a time are answered 503 over plain HTTP; \
         all others are closed.";
    limits.connections_per_address: CountOrNone,
        "Client connections of one address to one worker at a time; further ones are treated in the same way.";
    limits.silent_connections_per_worker: Count<1>,
        "Concurrent connections of one worker to TLS listeners without a complete first message; \
         one more closes the one that has been silent longest.";
    limits.silent_connections_per_address: Count<1>,
        "Concurrent connections of one client address to TLS listeners without a complete first \
         message; one more closes a connection of that address.";
    limits.handshakes_per_worker: Count<1>,
        "Concurrent TLS handshakes of one worker, counted once the client's first message is \
         complete; further ones are refused.";
    limits.handshake_time: Time,
        "Timeout of a TLS handshake, measured from the start of the connection.";
    limits.client_hello_bytes: Size<HELLO_MIN, HELLO_MAX>,
        "Longest first message of a TLS handshake; a longer one is refused.";
    limits.stream_idle_time: Time,
        "Timeout of a connection of a stream route without data in either direction, unless the \
         upstream has a `timeout`.";
    limits.stream_half_closed_time: Time,
        "Timeout without data once client or node has closed its side and the other has not.";
    limits.stream_first_bytes_time: Time,
        "Timeout for the first bytes of a connection that the gateway inspects: a TLS hello, an \
         MQTT CONNECT.";
    limits.udp_idle_time: Time,
        "Timeout of a client's datagram session without datagrams in either direction.";
    limits.udp_sessions_per_worker: Count<1>,
        "Concurrent UDP sessions of one worker. One more ends the oldest session that is not in \
         use: with a single datagram, or without an answer. If all are in use, datagrams of \
         further clients are dropped.";
    limits.udp_sessions_per_address: Count<1>,
        "Concurrent datagram sessions of one client address with one worker, because source \
         addresses can be forged, and one address must not use up all sessions.";
    tracing.enabled: Switch,
        "Whether requests are traced: a span for each request and for each attempt at a node, sent to an OpenTelemetry \
         collector. `OTEL_TRACES_EXPORTER=otlp` turns it on too, and `OTEL_SDK_DISABLED=true` off.";
    tracing.endpoint: CollectorUrl,
        "URL of the collector. Over HTTP, `/v1/traces` is added to a URL without a path. Unset: \
         `http://localhost:4318/v1/traces`, or for gRPC `http://localhost:4317`. Variables \
         `OTEL_EXPORTER_OTLP_TRACES_ENDPOINT` and `OTEL_EXPORTER_OTLP_ENDPOINT`.";
    tracing.protocol: ProtocolName,
        "Transport to the collector. Collectors listen for HTTP on port 4318, and for gRPC on port 4317. Variables \
         `OTEL_EXPORTER_OTLP_TRACES_PROTOCOL` and `OTEL_EXPORTER_OTLP_PROTOCOL`.";
    tracing.headers: HeaderTable,
        "Headers of every export, such as credentials. Variables `OTEL_EXPORTER_OTLP_TRACES_HEADERS` and \
         `OTEL_EXPORTER_OTLP_HEADERS`.";
    tracing.timeout: Time,
        "Timeout of an export. Variables `OTEL_EXPORTER_OTLP_TRACES_TIMEOUT` and `OTEL_EXPORTER_OTLP_TIMEOUT`, in \
         milliseconds.";
    tracing.compression: CompressionName,
        "Compression of exports. Variables `OTEL_EXPORTER_OTLP_TRACES_COMPRESSION` and \
         `OTEL_EXPORTER_OTLP_COMPRESSION`.";
    tracing.tls.ca: OptionalPath,
        "CA certificates of the collector, PEM, instead of those that the system trusts. Variables \
         `OTEL_EXPORTER_OTLP_TRACES_CERTIFICATE` and `OTEL_EXPORTER_OTLP_CERTIFICATE`.";
    tracing.tls.cert: OptionalPath,
        "Client certificate chain for the collector, PEM. Variables \
         `OTEL_EXPORTER_OTLP_TRACES_CLIENT_CERTIFICATE` and `OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE`.";
    tracing.tls.key: OptionalPath,
        "Private key of that certificate, PEM. Variables `OTEL_EXPORTER_OTLP_TRACES_CLIENT_KEY` and \
         `OTEL_EXPORTER_OTLP_CLIENT_KEY`.";
    tracing.sampler: SamplerName,
        "Rule by which requests are recorded. The `parentbased` ones follow the decision that a request carries, \
         so that a trace is recorded whole; without one, the rest of the name says. Requests that are not recorded \
         still carry their trace's id to nodes. Variable `OTEL_TRACES_SAMPLER`.";
    tracing.ratio: Fraction,
        "Share of traces that the samplers with `traceidratio` record. Variable `OTEL_TRACES_SAMPLER_ARG`.";
    tracing.service_name: Text,
        "Name under which backends show the gateway (`service.name`). Variable `OTEL_SERVICE_NAME`.";
    tracing.resource: ResourceTable,
        "Further attributes of the resource, such as `deployment.environment.name: production`. Variable \
         `OTEL_RESOURCE_ATTRIBUTES`.";
    tracing.propagators: Propagations,
        "Headers that carry a trace's context from clients and to nodes: `tracecontext` (`traceparent` and \
         `tracestate`), `b3` (one header), `b3multi` (`x-b3-…`). All are sent, and the first with a valid context is \
         read. `baggage` passes through in any case. Variable `OTEL_PROPAGATORS`.";
    tracing.plugin_spans: Switch,
        "Whether each plugin gets spans of its own for the time that it took in a phase. They make a trace several \
         times as large; for finding a slow plugin.";
    tracing.in_errors: Switch,
        "Whether responses that the gateway makes for errors have the id of their trace, in the header `X-Trace-Id` and \
         on HTML pages, so that clients can quote it. Pages that imitate APISIX's and JSON bodies stay as they are.";
    tracing.queue_spans: Slots<1, QUEUE_SPANS_MAX>,
        "Spans that wait for export at most. Further ones are dropped, and counted by `tollhouse_spans_lost_total`. \
         Variable `OTEL_BSP_MAX_QUEUE_SIZE`.";
    tracing.batch_spans: Slots<1, QUEUE_SPANS_MAX>,
        "Spans at which a batch is sent at once. Variable `OTEL_BSP_MAX_EXPORT_BATCH_SIZE`.";
    tracing.batch_time: Time,
        "Longest time for which a batch is collected. Variable `OTEL_BSP_SCHEDULE_DELAY`, in milliseconds.";
    drain_time: TimeOrZero,
        "Time for pending requests to finish after the process was told to stop.";
    router: Router,
        "Route matching: by host and then path, by path only, or by path with `:name` parameters.";
    delete_uri_tail_slash: Switch, "Whether one trailing `/` of a path is removed before matching.";
    normalize_uri_like_servlet: Switch,
        "Whether `;parameters` of path segments are removed before matching, and suspicious \
         escapes are answered 400.";
    match_uri_encoded_slash: Switch, "Whether `%2F` stays encoded while matching.";
    ambiguous_paths: PathPolicy,
        "Paths that servers interpret in different ways (`%2F`, `%5C`, a backslash, \
         `;parameters`), if a plugin depends on the path: `refuse` answers 400, `allow` passes \
         them on as sent.";
    show_upstream_status_in_response_header: Switch,
        "Whether `X-APISIX-Upstream-Status` is sent with every proxied response, not only with \
         5xx.";
    on_client_half_close: HalfClose,
        "Meaning of a client that closes its sending side (FIN) while its answer is pending: \
         `abort`, as in nginx, aborts the request and logs 499; `wait` sends the answer, for \
         clients that half-close and keep reading. A reset always aborts the request.";
    imitate_apisix: Switch,
        "Whether `Server` and error pages contain APISIX's name instead of `tollhouse`, for tools \
         that compare answers or look for it. The `Server` header of the Admin API always contains \
         the version of APISIX whose dialect it speaks, because its clients check it.";
    server_tokens: Switch,
        "Whether the name of APISIX is sent with its version: `Server: APISIX/3.18.0`; otherwise \
         `Server: APISIX`.";
    trusted_addresses: Networks,
        "Peers whose `X-Forwarded-Proto`, `-Host`, `-Port` and `-For` are kept; those of other \
         peers are overwritten.";
    real_ip.header: HeaderName, "Header that contains the client's address.";
    real_ip.from: Peers, "Peers whose header is trusted.";
    real_ip.recursive: Switch,
        "Whether to use the last address in the header that does not belong to a trusted peer, \
         instead of the last one.";
    dns.servers: NameServers, "Name servers; an empty list uses those of the system.";
    dns.valid: OptionalTime, "Lifetime of an answer, overriding its TTL.";
    dns.timeout: Time, "Timeout for an answer.";
    upstream_keepalive.size: Count<1>,
        "Idle connections that each worker keeps to an upstream without its own pool.";
    upstream_keepalive.idle_timeout: TimeOrZero, "Timeout of such an idle connection.";
    upstream_keepalive.requests: Count<1>, "Requests after which such a connection is closed.";
    disable_upstream_healthcheck: Switch,
        "Whether all health checks are disabled, so that every node counts as healthy.";
    log: Text,
        "Filter for the log of the process: a level (`error`, `warn`, `info`, `debug`, `trace`), \
         or levels by module such as `info,tollhouse_proxy=debug`.";
}
