//! The one table of keys: name, shape and meaning. Reading, read-back and documentation follow it.
//!
//! To add a key, add a field with its default to `bootstrap.rs` and a line here.

use serde_json::Value;

use super::Bootstrap;
use super::admin_keys::NamedKeys;
use super::shape::{
    Count, CountOrNone, FilePath, HalfClose, HeaderName, LogFormat, LogTarget, OptionalPath,
    OptionalSecret, OptionalTime, PathPolicy, Read, Router, Shape, Size, SizeOrAuto, SizeOrNone,
    Slots, Switch, Text, Time, TimeOrZero, Words, WorkerCount,
};
use super::shape_acme::{Challenge, Contacts, DirectoryUrl, HostNames};
use super::shape_more::{Fraction, Keys, OptionalText, PrivateTable, Table, TlsVersions};
use super::shape_net::{LoopbackAddresses, NameServers, Networks, OpenAddresses, OwnNames, Peers};
use super::store::EtcdUrls;
use super::stream::StreamListeners;
use super::unix::UnixListeners;

pub(crate) struct Key {
    /// As in the file, with dots between levels.
    pub(crate) name: &'static str,
    /// What it means.
    pub(crate) doc: &'static str,
    /// Whether its value must stay out of messages.
    pub(crate) secret: bool,
    pub(crate) takes: fn() -> String,
    /// Reads a value into its field.
    pub(crate) read: fn(&mut Bootstrap, &Value) -> Read<()>,
    /// Writes its field back.
    pub(crate) show: fn(&Bootstrap) -> String,
}

impl Key {
    /// The variable that overrides it.
    pub(crate) fn variable(&self) -> String {
        format!("TOLLHOUSE_{}", self.name.replace('.', "_").to_ascii_uppercase())
    }
}

/// The key of that name.
pub(crate) fn find(name: &str) -> Option<&'static Key> {
    KEYS.iter().find(|key| key.name == name)
}

macro_rules! keys {
    ($($first:ident $(. $rest:ident)* : $shape:ty, $doc:literal;)*) => {
        /// All keys, in the order in which they are documented.
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

/// Longest head that can be allowed, in bytes: request line and header fields together. Places in a head are counted in
/// 16 bits, and each connection can be made to hold that much.
pub(super) const HEAD_MAX: usize = 63 << 10;

/// Shortest and longest bound on a request line, in bytes: below, plain paths with a token would fail.
const LINE_MIN: usize = 512;
const LINE_MAX: usize = HEAD_MAX - HEADERS_MIN;

/// The same for all header fields together.
const HEADERS_MIN: usize = 1 << 10;
const HEADERS_MAX: usize = 62 << 10;

/// Fewest and most header fields: browsers send some twenty; work for each is done before a route is known, and the
/// parser counts no more.
const FIELDS_MIN: usize = 16;
const FIELDS_MAX: usize = 256;

/// Shortest and longest bound on the first message of a TLS handshake, in bytes: with keys that withstand
/// quantum computers it takes two thousand, and the session layer reads no more than 64 KiB.
const HELLO_MIN: usize = 4 << 10;
const HELLO_MAX: usize = 64 << 10;

/// Least and most memory of the registry: a few ten thousand instances, and more than a machine has.
const MEMORY_MIN: usize = 64 << 20;
const MEMORY_MAX: usize = 1 << 40;

keys! {
    data_dir: FilePath, "Folder for what the process keeps; made when missing.";
    workers: WorkerCount,
        "Serving threads. `auto` is one for each core the process may use. Threads are pinned to \
         cores when there are as many of both.";
    resources: OptionalPath,
        "A declarative file in APISIX's standalone shape, YAML or JSON by its ending; watched, \
         and applied without a restart.";
    listen.http: OpenAddresses,
        "Data plane, plain HTTP. The default serves this machine alone; `0.0.0.0:9080` serves others too.";
    listen.https: OpenAddresses,
        "Data plane, TLS, for this machine alone by default, with the certificates of the `ssls` objects. A client that asks for a name \
         without a certificate is refused in the handshake.";
    listen.http_proxied: OpenAddresses,
        "Data plane, plain HTTP behind proxies that send a PROXY header (version 1 or 2) ahead of each \
         connection. The client is whom the header names: for routes, plugins, limits and the log. Peers \
         outside of `proxy_protocol.from` are refused.";
    listen.https_proxied: OpenAddresses, "The same over TLS, which begins behind the header.";
    listen.unix: UnixListeners,
        "Data plane, plain HTTP on Unix sockets: a list of addresses such as `unix:/run/tollhouse.sock`, or of tables \
         with `address` and `mode`, the rights of the file in octal, which are `\"0660\"` by default. A file that a \
         dead process has left is replaced. Clients have no address: `remote_addr` is `unix:`, as in nginx; \
         `real_ip.from` knows them by that name, and of networks only `0.0.0.0/0` contains them.";
    listen.stream: StreamListeners,
        "Connections below HTTP, and datagrams, for stream routes: a list of tables with `address`; \
         `protocol`, which is `tcp` unless it is `udp`; `tls`, which is `false`, `true` to \
         end TLS with the certificates of the `ssls` objects, or `passthrough` to choose the route by the name \
         that the client's TLS hello asks for and send the bytes on as they are; `proxy_protocol`, whether \
         connections begin with a PROXY header; `proxy_protocol_to_upstream`, which is `false`, `v1` or \
         `v2`: whether nodes get one.";
    proxy_protocol.from: Networks,
        "Proxies whose PROXY headers are believed, on listeners that ask for one; everybody else is refused \
         there.";
    proxy_protocol.header_time: Time, "How long a PROXY header may take to arrive.";
    listen.admin: LoopbackAddresses, "Admin API.";
    listen.control: LoopbackAddresses, "Control API: read-only introspection.";
    listen.metrics: LoopbackAddresses, "Prometheus metrics.";
    listen.status: LoopbackAddresses,
        "`/status`, which answers 200 while the process lives, and `/status/ready`, which answers \
         503 until there is a configuration to serve.";
    listen.registry_grpc: LoopbackAddresses,
        "Registry, Polaris gRPC. Whoever reaches it may register; clients of other machines need \
         `0.0.0.0:8091`.";
    listen.registry_http: LoopbackAddresses, "Registry, Polaris HTTP; the same holds for it.";
    listen.shenyu: LoopbackAddresses,
        "ShenYu's admin: its REST interface, registration of services, and configuration for ShenYu's \
         gateways. ShenYu's clients look for it on port 9095.";
    listen.hosts: OwnNames,
        "Names by which people and programs call the listeners for operators and the registry's, where these are not \
         local ones: such as that of a proxy on this machine. Addresses, names without a dot and names for private \
         use (`.local`, `.internal`, `.lan`, `.svc` and such) need not be told. Any other name is refused by the console, \
         by what asks for no key, and on loopback addresses: a website can have its own name resolved to this machine \
         and have browsers call here.";
    tls.protocols: TlsVersions,
        "Versions of TLS for clients, where an `ssls` object names none in `ssl_protocols`.";
    tls.ciphers: Words,
        "Cipher suites for clients, by their names in OpenSSL or in the standards; none named is all \
         that are served, each of which has forward secrecy.";
    tls.session_tickets: Switch,
        "Whether clients may come back with a ticket in the place of a full handshake. The keys of \
         tickets change every six hours, open for twelve, and go on to a successor.";
    tls.fallback_sni: OptionalText,
        "The name whose certificate a client is shown that asks for none. Without it, such a client is \
         shown that of `*`, if there is one.";
    tls.ocsp_stapling: Switch,
        "Whether the responder that a certificate names (OCSP) is asked about it, over plain HTTP, so that \
         clients are shown its answer along with the certificate. No handshake waits for that.";
    admin.key: OptionalSecret,
        "Key of the Admin API, of 16 characters or more. By default one is generated at the first run and kept in \
         `data_dir/admin.key`; each start prints where it is.";
    admin.viewer_key: OptionalSecret, "A second key of the Admin API, which may only read.";
    admin.keys: NamedKeys,
        "Further keys of the Admin API, a list of tables with `name`, `key` and `role`. An `admin` may do \
         everything. An `operator` writes objects and the registry, and so controls all traffic, but cannot read a \
         secret in the clear, send a hidden secret elsewhere, or control the process. A `viewer` only reads. The \
         audit and the list of changes record these names. No key may equal another secret here.";
    admin.key_required: Switch, "Whether the Admin API asks for a key at all.";
    admin.allow: Networks,
        "Clients that may connect to the Admin API; others are answered 403. An empty list allows all.";
    admin.cors: Switch, "Lets pages of other origins call the Admin API.";
    admin.prefix: Text, "What the keys of objects begin with, in answers and in the store.";
    admin.standalone: Switch,
        "The Admin API takes whole documents at `/apisix/admin/configs`, kept in memory only, \
         instead of single objects kept in the store.";
    console.bench: Switch,
        "Lets administrators start the load generator from the console. It runs as a process of its own, one at a \
         time and for ten minutes at most.";
    console.bench_targets: Words,
        "What it may measure besides this machine: hosts, or hosts with ports, such as `staging.example:8080`.";
    admin.tls.cert: OptionalPath, "Certificate chain of the Admin API, PEM; without it, plain HTTP.";
    admin.tls.key: OptionalPath, "Private key of that certificate, PEM.";
    admin.tls.client_ca: OptionalPath,
        "Authorities, PEM; clients of the Admin API must then show a certificate of theirs.";
    store.allow_missing: Switch,
        "Starts with an empty store although `store.db` is missing from a `data_dir` in which objects were kept. \
         Otherwise such a start is refused, because a volume may be unmounted or a restore unfinished. Set it for one \
         start, with `--set`.";
    store.etcd.endpoints: EtcdUrls,
        "Members of an etcd that keeps the configuration in the place of `data_dir`, for any number of \
         gateways that share it; keys begin with `admin.prefix`. One is asked at a time, the next once \
         that one fails. Takes an `encryption.keyring` that all of them have.";
    store.etcd.user: OptionalText, "A user of that etcd, where it asks for one.";
    store.etcd.password: OptionalSecret, "The password of that user.";
    store.etcd.tls.ca: OptionalPath,
        "Who signs for etcd, PEM, where those are not authorities that the system trusts.";
    store.etcd.tls.cert: OptionalPath, "Certificate chain that etcd is shown, PEM.";
    store.etcd.tls.key: OptionalPath, "Private key of that certificate, PEM.";
    store.etcd.timeout: Time, "How long one request to one member may take.";
    shenyu.comes_first: Switch,
        "Whether ShenYu's selectors are asked before routes are. Without it they have what no route takes; \
         with it, routes have what no selector takes.";
    shenyu.compatible_statuses: Switch,
        "Answers of ShenYu's plugins have the statuses of ShenYu's gateway, most of which are 200, for \
         clients that look at the `code` in the body. Without it they have those of HTTP; bodies are \
         the same.";
    shenyu.namespace: OptionalText,
        "The namespace of ShenYu (2.7) whose objects count; without it, ShenYu's default one.";
    shenyu.sign_delay: Time,
        "How old a signature that ShenYu's `sign` checks may be, or how far ahead; in whole minutes.";
    shenyu.admin_password: OptionalSecret,
        "The password of the user `admin` of ShenYu's admin when it first starts. Without it, `123456`, \
         with which ShenYu's own begins.";
    shenyu.sync_token: OptionalSecret,
        "What ShenYu's gateways have to show that follow `listen.shenyu` over WebSocket, as \
         `X-Shenyu-Sync-Token`. Without it, whoever reaches the listener reads every object, secrets of \
         applications too, as with ShenYu up to 2.7.1.";
    shenyu.probe_upstreams: Switch,
        "Whether ShenYu's admin asks the nodes that services have registered for a TCP connection every ten \
         seconds, marks those that refuse as off, and on again once they answer. A node whose properties \
         have `healthCheckEnabled` as false is left alone.";
    shenyu.aes_key: OptionalSecret,
        "The key, 16, 24 or 32 bytes, under which login pages and clients of ShenYu encrypt passwords: \
         `shenyu.aes.secret.key` of its admin. Plain ones are taken too. Needs `shenyu.aes_iv`.";
    shenyu.aes_iv: OptionalSecret,
        "The vector that goes with that key, 16 bytes: `shenyu.aes.secret.iv` of ShenYu's admin.";
    shenyu.follow.addresses: Words,
        "Admins of ShenYu's whose selectors, rules and other objects this gateway takes over, as ShenYu's \
         gateways do: `ws://host:9095`, or `http://host:9095` to poll; `wss://` and `https://` over TLS. One \
         is followed at a time, the next once that one fails; what it had last goes on to serve. Not with `listen.shenyu`.";
    shenyu.follow.ca: OptionalPath,
        "Who signs for those admins, PEM, where those are not authorities that the system trusts.";
    shenyu.follow.user: Text, "The user that polls.";
    shenyu.follow.password: OptionalSecret,
        "The password of that user. Without it, `123456`, with which ShenYu begins.";
    shenyu.follow.token: OptionalSecret,
        "The token that admins from 2.7.2 on ask WebSockets for: their `shenyu.sync.websocket.token`.";
    shenyu.follow.origin: Text,
        "`Origin` of WebSockets to admins: one of their `shenyu.sync.websocket.allowOrigins`, spelled the same. An \
         admin with ShenYu's default settings allows this default.";
    shenyu.local_key_sha512: OptionalSecret,
        "The SHA-512 digest, 128 hexadecimal digits, of the key that calls to `/shenyu/…` on the gateway's own \
         listeners have to bring as `localKey`: `shenyu.local.sha512Key` of ShenYu's gateway. They write \
         plugins, selectors, rules, metadata and applications. Off without it.";
    shenyu.tcp_address: OptionalText,
        "The address, such as `0.0.0.0`, at which the ports of ShenYu's `tcp` are opened and closed as its proxy \
         selectors say. Without it none is opened: whoever writes objects would choose ports of this machine.";
    shenyu.collapse_slashes: Switch,
        "Whether ShenYu's selectors, rules and nodes see several slashes of a path as one.";
    shenyu.cross.enabled: Switch,
        "Whether pages of other sites may read what ShenYu's objects answer; headers that nodes send about it \
         are replaced. ShenYu begins with it on.";
    shenyu.cross.origins: Words,
        "The sites, such as `https://shop.example`; all of them where empty.";
    shenyu.cross.headers: Words, "Headers that such pages may send, beside those of ShenYu's own list.";
    shenyu.cross.exposed: Words, "Headers of answers that such pages may read.";
    shenyu.cross.credentials: Switch,
        "Whether such pages may send cookies along. ShenYu lets them, whatever the site; with `shenyu.cross.origins` \
         empty, any page could then act for whoever looks at it.";
    shenyu.cross.max_age: Time, "How long browsers need not ask again.";
    shenyu.health_paths: Words,
        "Paths at which, and below which, the gateway says that it lives, whatever ShenYu's objects say: \
         `/actuator` and `/health_check` of ShenYu.";
    shenyu.actuator: Switch,
        "Whether `/actuator/plugins`, `pluginData`, `selectorData`, `ruleData` and `metadata` show ShenYu's objects on \
         the gateway's own listeners, to all clients, with secrets masked. Tools and tests of ShenYu use these pages.";
    shenyu.file_bytes: SizeOrNone,
        "Longest form with files (`multipart/…`) for ShenYu's objects; a longer one is answered as ShenYu does.";
    shenyu.exclude_paths: Words,
        "Paths that are answered with nothing and status 200, whatever ShenYu's objects say.";
    shenyu.fallback_paths: Words,
        "Those of `/fallback/hystrix`, `/fallback/resilience4j` and `/fallback/sentinel` that clients may ask for. \
         Breakers fall back to them without it.";
    control.tls.cert: OptionalPath, "Certificate chain of the control API, PEM; without it, plain HTTP.";
    control.tls.key: OptionalPath, "Private key of that certificate, PEM.";
    control.tls.client_ca: OptionalPath,
        "Authorities, PEM; clients of the control API must then show a certificate of theirs.";
    metrics.tls.cert: OptionalPath, "Certificate chain of the metrics, PEM; without it, plain HTTP.";
    metrics.tls.key: OptionalPath, "Private key of that certificate, PEM.";
    metrics.tls.client_ca: OptionalPath,
        "Authorities, PEM; whoever reads the metrics must then show a certificate of theirs.";
    status.tls.cert: OptionalPath,
        "Certificate chain of the status pages, PEM; without it, plain HTTP.";
    status.tls.key: OptionalPath, "Private key of that certificate, PEM.";
    status.tls.client_ca: OptionalPath,
        "Authorities, PEM; whoever reads the status pages must then show a certificate of theirs.";
    acme.directory: DirectoryUrl,
        "The ACME directory of the authority that certificates are got from and renewed by; without it, \
         none are.";
    acme.hosts: HostNames,
        "Names to have certificates for, one certificate each. They are kept as `ssls` objects whose ids \
         begin with `acme-`.";
    acme.agree: Switch,
        "That you agree to the authority's terms of service; nothing is asked of it before.";
    acme.contact: Contacts, "Whom the authority may write to about the account.";
    acme.challenge: Challenge,
        "How the authority is shown that a name is yours: by a plain request, for which port 80 of the \
         name must lead to `listen.http`, or by a TLS handshake, for which port 443 must lead to \
         `listen.https`.";
    acme.profile: OptionalText,
        "Which of the authority's kinds of certificates to ask for, such as `shortlived`.";
    acme.ca: OptionalPath,
        "Who signs for the authority's own server, PEM, where those are not authorities that the system \
         trusts.";
    acme.eab.key_id: OptionalText,
        "The id of an account that you have with the authority already (external account binding).";
    acme.eab.key: OptionalSecret, "The key of that account, in base64url, as the authority gave it.";
    registry.workers: WorkerCount,
        "Threads that serve Polaris gRPC. `auto` is one for each core the process may use.";
    registry.client_auth: Switch,
        "Whether SDKs must bring `registry.client_token` as `x-polaris-token`.";
    registry.console_auth: Switch,
        "Whether calls of the console group (`/naming/v1`, `/core/v1`) must bring `registry.token` as \
         `X-Polaris-Token`.";
    registry.user: Text, "Who logs in at `/core/v1/user/login`.";
    registry.password: OptionalSecret,
        "Password of `registry.user`. By default one is generated at the first run and kept in \
         `data_dir/registry.password`.";
    registry.token: OptionalSecret,
        "The token that a login gives. The default is generated and kept in `data_dir/registry.token`.";
    registry.client_token: OptionalSecret,
        "The token of SDKs, which opens nothing else. The default is generated and kept in \
         `data_dir/registry.client-token`.";
    registry.mass_expiry_threshold: Fraction,
        "While as small a part of a service's instances or less would be left healthy, silent ones \
         are kept; 0 lets all expire. A service sets its own by its metadata \
         `internal-service-protectthreshold`.";
    registry.local_instances: Switch,
        "Whether upstreams may follow instances on loopback and link-local addresses. Always allowed while the \
         registry listens on loopback only. An instance never leads to a listener for operators or of the registry.";
    registry.memory_max: Size<MEMORY_MIN, MEMORY_MAX>,
        "Memory that all registered objects together may take, as it is estimated; more are refused. An \
         eighth of it each is for rules and for contracts.";
    registry.delete_unhealthy_after: OptionalTime,
        "Deletes instances that have stayed unhealthy for so long; none are where this is not set.";
    registry.tls.cert: OptionalPath,
        "Certificate chain of the registry's listeners, gRPC and HTTP, PEM; without it, clear text.";
    registry.tls.key: OptionalPath, "Private key of that certificate, PEM.";
    registry.tls.client_ca: OptionalPath,
        "Authorities, PEM; clients of the registry must then show a certificate of theirs.";
    registry.delete_empty_services_after: OptionalTime,
        "Deletes services that came into being with an instance, of which nobody has written anything, \
         once they have been without instances and aliases for so long; then their namespaces, where \
         nothing else is in them, and their contracts. None are where this is not set.";
    registry.store.mysql: OptionalSecret,
        "Keeps what is registered in a MySQL 8 or MariaDB instead of the data folder, for several nodes that \
         serve at once: `mysql://user:password@host:3306,other-host:3306/database`. What is special in \
         a password is written as in URLs, `%40` for `@`.";
    registry.store.postgresql: OptionalSecret,
        "The same in a PostgreSQL: `postgresql://user:password@host:5432,other-host:5432/database`.";
    registry.store.tls: Switch,
        "Whether connections to that database use TLS, with its certificate and name checked. Turn it off for \
         a database on this machine only.";
    registry.store.ca: OptionalPath,
        "Authorities, PEM, that the database's certificate may be signed by, beside those that browsers know.";
    registry.store.tables: Text,
        "What the names of the tables in that database begin with: nodes that share them are one registry.";
    registry.store.redis: OptionalSecret,
        "A Redis that heartbeats go over between the nodes instead of that database, five times a second instead \
         of once: `redis://user:password@host:6379/0`, with `rediss://` over TLS. Several with commas between \
         them are nodes of one Redis cluster, or sentinels where `registry.store.redis_master` is set. Nothing \
         is lost with it.";
    registry.store.redis_master: OptionalText,
        "The name by which the sentinels in `registry.store.redis` know the server to write to.";
    encryption.keyring: Keys,
        "Keys that secrets in the store are sealed with: the first seals, all open. Where \
         none is given, one is generated at the first run and kept in `data_dir/keyring`.";
    encryption.apisix_form: Switch,
        "Writes secrets as APISIX nodes read them, for a store that they share. Otherwise in a form \
         that tells which key a value was sealed with, and whether it is as it was.";
    encryption.allow_lost_keys: Switch,
        "Starts although the store holds secrets of which no key is left. What they belong to is set \
         aside until it is written anew.";
    secrets.env: Words,
        "Environment variables that objects may refer to as `$env://NAME`; `PREFIX*` lists all that begin with \
         `PREFIX`. None by default, because authors of objects could read them. Variables that begin with \
         `TOLLHOUSE_` are never read.";
    log_files.folder: FilePath,
        "Folder of the files that plugins write (`file-logger`). A relative `path` of a plugin starts there; an \
         absolute one must be inside it. The default is `logs` in `data_dir`.";
    plugins: Words, "Plugins that may be used; none named is all of them.";
    skip_plugins: Words,
        "Plugins that objects may name and that are passed over where this build does not have them, \
         `*` for all. Requests that others might protect are answered 503.";
    plugin_attr: PrivateTable, "Settings of the process for plugins, by plugin, such as `redirect.https_port`.";
    proxy_cache: Table, "Zones of the `proxy-cache` plugin, and `cache_ttl` for answers that do not say.";
    stream_routes: Switch,
        "Whether the Admin API takes stream routes. They are served on `listen.stream`.";
    access_log.format: LogFormat, "What a line looks like.";
    access_log.file: LogTarget, "Where lines go. The default is `access.log` in `data_dir`.";
    access_log.fields: Words, "Fields of a line in the `json` format; none is all of them.";
    limits.request_line_bytes: Size<LINE_MIN, LINE_MAX>,
        "Longest request line; a longer one is answered 414. With `limits.header_bytes` it makes 63KiB at most.";
    limits.header_bytes: Size<HEADERS_MIN, HEADERS_MAX>,
        "All header lines together, with their names and line ends; more is answered 431.";
    limits.header_count: Slots<FIELDS_MIN, FIELDS_MAX>, "Most header fields; more is answered 431.";
    limits.body_bytes: SizeOrNone, "Longest request body; a longer one is answered 413.";
    limits.grpc_message_bytes: SizeOrNone, "Longest message of a call of gRPC, in either direction; a longer one ends the call with status 8.";
    limits.buffered_bytes: SizeOrAuto,
        "Memory for bodies that are read whole, bodies over HTTP/2 that nodes have not taken yet, and answers \
         that are kept, in all of the process; requests that find none are answered 503. `auto` is a quarter of the machine's memory, or \
         of what the control group may use.";
    limits.header_read_time: Time,
        "From the first byte of a request to the end of its head; a slower one is answered 408.";
    limits.idle_time: Time, "How long a connection may stay open between two requests.";
    limits.body_read_time: Time,
        "Between two reads of a request body; a slower one is answered 408.";
    limits.send_time: Time,
        "Between two writes to a client that does not read; then the connection closes.";
    limits.requests_per_connection: Count<1>,
        "Requests over one connection, which then closes: few enough that connections spread anew \
         over workers, many enough that nobody notices.";
    limits.http2_streams: Count<1>,
        "Requests at a time over one connection of HTTP/2; further ones are refused, and safe to repeat.";
    limits.connections_per_worker: Count<1>,
        "Client connections of one worker at a time. Of further ones 64 at a time are answered 503 over plain HTTP; \
         all others are closed.";
    limits.connections_per_address: CountOrNone,
        "Client connections of one address to one worker at a time; further ones are treated in the same way.";
    limits.silent_connections_per_worker: Count<1>,
        "Connections to TLS listeners whose first message is not complete, at a time on one worker; one more closes \
         the one that has been silent longest.";
    limits.silent_connections_per_address: Count<1>,
        "The same for one client address; one more closes a connection of that address.";
    limits.handshakes_per_worker: Count<1>,
        "TLS handshakes under way at a time on one worker, counted once the client's first message is complete; \
         further ones are refused.";
    limits.handshake_time: Time,
        "How long a TLS handshake may take, from the connection to its end.";
    limits.client_hello_bytes: Size<HELLO_MIN, HELLO_MAX>,
        "Longest first message of a TLS handshake; a longer one is refused.";
    limits.stream_idle_time: Time,
        "How long a connection of a stream route may stay open without a byte in either direction, where \
         the upstream's `timeout` does not say.";
    limits.stream_half_closed_time: Time,
        "The same once client or node has said its last byte and the other has not.";
    limits.stream_first_bytes_time: Time,
        "For the first bytes of a connection where the gateway looks at them: a TLS hello, an MQTT CONNECT.";
    limits.udp_idle_time: Time,
        "How long a client's session of datagrams lasts without one in either direction.";
    limits.udp_sessions_per_worker: Count<1>,
        "UDP sessions of one worker at a time. One more ends the oldest session that is not in use: with a single \
         datagram, or without an answer. If all are in use, datagrams of further clients are dropped.";
    limits.udp_sessions_per_address: Count<1>,
        "Sessions of datagrams of one client address to one worker at a time: sources can be forged, and \
         one address shall not take all.";
    drain_time: TimeOrZero,
        "How long requests under way may still take once the process is told to stop.";
    router: Router,
        "How routes are matched: by host and then path, by path only, or by path with `:name` \
         parameters.";
    delete_uri_tail_slash: Switch, "Strips one trailing `/` of a path before matching.";
    normalize_uri_like_servlet: Switch,
        "Drops `;parameters` of path segments before matching and answers suspicious escapes with \
         400.";
    match_uri_encoded_slash: Switch, "Keeps `%2F` encoded while matching.";
    ambiguous_paths: PathPolicy,
        "Paths that servers read in several ways (`%2F`, `%5C`, a backslash, `;parameters`), where a plugin \
         judges the path: answered with 400, or passed on as sent.";
    show_upstream_status_in_response_header: Switch,
        "Sends `X-APISIX-Upstream-Status` with every proxied response, not only with 5xx.";
    on_client_half_close: HalfClose,
        "Meaning of a client that closes its sending side (FIN) while its answer is pending: `abort`, as nginx \
         has it, gives the request up and logs 499; `wait` sends the answer, for clients that half-close and \
         read on. A reset always gives the request up.";
    imitate_apisix: Switch,
        "Shows APISIX's name in `Server` and on the pages of errors instead of `tollhouse`, for those who \
         compare answers or look for it. The Admin API's `Server` always names the version of APISIX \
         whose dialect it speaks, since its clients ask for that.";
    server_tokens: Switch,
        "Whether APISIX's name comes with its version: `Server: APISIX/3.18.0`; without it, `Server: \
         APISIX`.";
    trusted_addresses: Networks,
        "Peers whose `X-Forwarded-Proto`, `-Host`, `-Port` and `-For` are kept; those of others \
         are overwritten.";
    real_ip.header: HeaderName, "Header that carries the client's address.";
    real_ip.from: Peers, "Peers whose header is believed.";
    real_ip.recursive: Switch,
        "Takes the last address in the header that is not itself of a believed peer, instead of \
         the last one.";
    dns.servers: NameServers, "Name servers; none is those of the system.";
    dns.valid: OptionalTime, "How long an answer holds, whatever its own time to live.";
    dns.timeout: Time, "How long to wait for an answer.";
    upstream_keepalive.size: Count<1>,
        "Idle connections that each worker keeps to an upstream without a pool of its own.";
    upstream_keepalive.idle_timeout: TimeOrZero, "How long such a connection may idle.";
    upstream_keepalive.requests: Count<1>, "Requests over one such connection.";
    disable_upstream_healthcheck: Switch,
        "Turns all health checks off: every node counts as healthy.";
    log: Text,
        "What the process logs of itself: a level (`error`, `warn`, `info`, `debug`, `trace`), or \
         levels by part such as `info,tollhouse_proxy=debug`.";
}
