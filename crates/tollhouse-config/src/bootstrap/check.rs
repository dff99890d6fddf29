//! Checks of the bootstrap configuration that involve several keys.

use std::net::{IpAddr, SocketAddr};

use tollhouse_model::{Problem, Problems};

use super::keys::HEAD_MAX;
use super::{
    AccessLogFormat, Acme, Admin, Bootstrap, Limits, ListenerTls, RegistryStore, Secret,
    StreamProtocol,
};

/// Maximum length of the prefix of table names in bytes. PostgreSQL truncates names after 63 bytes,
/// and the rest is appended to the prefix.
const TABLES_BYTES_MAX: usize = 48;

/// Listeners for which at most one address is accepted.
const HAVE_ONE_ADDRESS: [&str; 4] =
    ["listen.admin", "listen.control", "listen.metrics", "listen.status"];

/// Reports invalid combinations. `given` tells whether a key was set explicitly.
pub(super) fn check(bootstrap: &Bootstrap, given: impl Fn(&str) -> bool, problems: &mut Problems) {
    if given("access_log.fields") && bootstrap.access_log.format != AccessLogFormat::Json {
        let problem = Problem::warning("access_log.fields", "applies to the json format only");
        problems.push(problem.with_hint("set access_log.format to json"));
    }
    check_head(&bootstrap.limits, problems);
    check_tls("admin.tls", &bootstrap.admin.tls, problems);
    check_tls("control.tls", &bootstrap.control.tls, problems);
    check_tls("metrics.tls", &bootstrap.metrics.tls, problems);
    check_tls("status.tls", &bootstrap.status.tls, problems);
    check_tls("registry.tls", &bootstrap.registry.tls, problems);
    check_acme(&bootstrap.acme, problems);
    check_admin_keys(&bootstrap.admin, problems);
    check_own_secrets(bootstrap, problems);
    super::openid_connect::check(bootstrap, &given, problems);
    super::reach::check(bootstrap, problems);
    super::store::check(bootstrap, problems);
    super::discovery::check(&bootstrap.discovery, problems);
    check_registry_store(&bootstrap.registry.store, problems);
    check_addresses(bootstrap, problems);
    if !bootstrap.listen.shenyu.is_empty()
        && (bootstrap.resources.is_some() || bootstrap.admin.standalone)
    {
        let reason = "ShenYu's admin writes objects, and here they come from a file";
        let problem = Problem::error("listen.shenyu", reason);
        problems.push(problem.with_hint("leave it out, or resources and admin.standalone"));
    }
    super::tracing::check(&bootstrap.tracing, problems);
    check_shenyu_follow(bootstrap, problems);
    check_shenyu_local(bootstrap, problems);
    let tcp_address = bootstrap.shenyu.tcp_address.as_deref();
    if tcp_address.is_some_and(|address| address.parse::<IpAddr>().is_err()) {
        let problem = Problem::error("shenyu.tcp_address", "expected an address without a port");
        problems.push(problem.with_hint("give 0.0.0.0 for all addresses of this machine"));
    }
}

/// Refuses limits on the request line and the header fields that together exceed `HEAD_MAX`.
fn check_head(limits: &Limits, problems: &mut Problems) {
    let bytes = limits.request_line_bytes + limits.header_bytes;
    if bytes > HEAD_MAX {
        let reason =
            format!("{bytes} bytes with limits.request_line_bytes, and no head may be so long");
        let problem = Problem::error("limits.header_bytes", reason);
        problems.push(problem.with_hint("lower one of them: both together may be 63KiB"));
    }
}

/// Checks the settings for following a ShenYu admin.
fn check_shenyu_follow(bootstrap: &Bootstrap, problems: &mut Problems) {
    const NAME: &str = "shenyu.follow.addresses";
    let addresses = &bootstrap.shenyu.follow.addresses;
    let mut error = |reason: &str, hint: &str| {
        problems.push(Problem::error(NAME, reason).with_hint(hint));
    };
    for address in addresses {
        let schemes = ["ws://", "wss://", "http://", "https://"];
        if !schemes.iter().any(|scheme| address.starts_with(scheme)) {
            let reason = format!("{address:?} cannot be followed");
            error(
                &reason,
                "give ws://host:9095, or http://host:9095 to poll; over TLS wss:// or https://",
            );
        }
    }
    // Addresses are checked first, so that all problems are reported at once.
    if addresses.is_empty() {
        return;
    }
    if !bootstrap.listen.shenyu.is_empty() {
        let hint = "leave out one of them";
        error(
            "changes made through listen.shenyu would be overwritten by the followed admin",
            hint,
        );
    }
    if bootstrap.resources.is_some() || bootstrap.admin.standalone {
        let hint = "leave it out, or resources and admin.standalone";
        error("objects are kept in a store, and here they come from a file", hint);
    }
}

/// Checks the settings of the gateway's own ShenYu interface.
fn check_shenyu_local(bootstrap: &Bootstrap, problems: &mut Problems) {
    const NAME: &str = "shenyu.local_key_sha512";
    let Some(digest) = &bootstrap.shenyu.local_key_sha512 else { return };
    let digits = digest.expose().trim();
    if digits.len() != 128 || !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
        let reason = "expected 128 hexadecimal digits: the SHA-512 digest of the key";
        let hint = "make it of the key with `printf %s KEY | sha512sum | cut -d' ' -f1`";
        problems.push(Problem::error(NAME, reason).with_hint(hint));
    }
    if bootstrap.resources.is_some() || bootstrap.admin.standalone {
        let reason = "changes made there are stored, but the objects come from a file";
        let hint = "leave it out, or resources and admin.standalone";
        problems.push(Problem::error(NAME, reason).with_hint(hint));
    }
    if !bootstrap.shenyu.follow.addresses.is_empty() {
        let reason = "changes made there would be overwritten by the followed admin";
        let hint = "leave out one of them";
        problems.push(Problem::error(NAME, reason).with_hint(hint));
    }
}

/// Checks that a listener has a complete TLS configuration or none.
fn check_tls(name: &str, tls: &ListenerTls, problems: &mut Problems) {
    if tls.cert.is_some() != tls.key.is_some() {
        let problem = Problem::error(name, "a certificate and its key must be set together");
        problems
            .push(problem.with_hint(format!("set both {name}.cert and {name}.key, or neither")));
    }
    if tls.client_ca.is_some() && tls.cert.is_none() {
        let problem = Problem::error(format!("{name}.client_ca"), "requires a server certificate");
        problems.push(problem.with_hint(format!("set {name}.cert and {name}.key")));
    }
}

/// Checks that the names of Admin API keys are unique.
fn check_admin_keys(admin: &Admin, problems: &mut Problems) {
    for name in ["admin", "viewer"] {
        if admin.keys.iter().any(|one| one.name == name) {
            let problem =
                Problem::error("admin.keys", format!("{name:?} is the name of another key"));
            problems.push(problem.with_hint("give each key a different name"));
        }
    }
}

/// Minimum length of a key of the Admin API in characters; shorter keys can be guessed.
const KEY_CHARACTERS_MIN: usize = 16;

/// Refuses short keys of the Admin API, and secrets used for several purposes. A secret that is
/// sent in clear text or known to every client would otherwise also give access to the other
/// interface.
fn check_own_secrets(bootstrap: &Bootstrap, problems: &mut Problems) {
    let (admin, registry) = (&bootstrap.admin, &bootstrap.registry);
    let keys = [("admin.key", &admin.key), ("admin.viewer_key", &admin.viewer_key)];
    for (name, key) in keys {
        let is_short = |key: &Secret| key.expose().chars().count() < KEY_CHARACTERS_MIN;
        if key.as_ref().is_some_and(is_short) {
            let problem = Problem::error(name, "the key can be guessed");
            let hint = format!("give {KEY_CHARACTERS_MIN} random characters or more");
            problems.push(problem.with_hint(hint));
        }
    }
    let registrys = [
        ("registry.password", &registry.password),
        ("registry.token", &registry.token),
        ("registry.client_token", &registry.client_token),
        ("shenyu.sync_token", &bootstrap.shenyu.sync_token),
        ("shenyu.admin_password", &bootstrap.shenyu.admin_password),
        ("admin.openid_connect.client_secret", &admin.openid_connect.client_secret),
    ];
    let single = keys.into_iter().chain(registrys);
    let single = single.filter_map(|(name, secret)| Some((name, secret.as_ref()?)));
    let named = admin.keys.iter().map(|one| ("admin.keys", &one.key));
    let mut seen: Vec<(&str, &Secret)> = Vec::new();
    for (name, secret) in single.chain(named) {
        let same = seen.iter().find(|(_, other)| *other == secret);
        if let Some((other, _)) = same.filter(|_| !secret.expose().is_empty()) {
            let problem = Problem::error(name, format!("the same secret as {other}"));
            problems.push(problem.with_hint("give each of them a different random secret"));
        }
        seen.push((name, secret));
    }
}

/// Checks the settings of the registry's database.
fn check_registry_store(store: &RegistryStore, problems: &mut Problems) {
    if let Err(error) = store.database() {
        let problem = Problem::error("registry.store", error.to_string());
        let hint = "give one of registry.store.mysql and registry.store.postgresql, as \
                    mysql://user:password@host:3306/database";
        problems.push(problem.with_hint(hint));
    }
    let is_sound = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
    if store.tables.len() > TABLES_BYTES_MAX || !store.tables.bytes().all(is_sound) {
        let reason = format!("{:?} cannot begin the name of a table", store.tables);
        let problem = Problem::error("registry.store.tables", reason);
        problems
            .push(problem.with_hint("give lower-case letters, digits and underscores, at most 48"));
    }
}

/// Checks that the ACME settings are complete.
fn check_acme(acme: &Acme, problems: &mut Problems) {
    let mut error = |name: &str, reason: &str, hint: &str| {
        problems.push(Problem::error(name, reason).with_hint(hint));
    };
    if acme.eab.key_id.is_some() != acme.eab.key.is_some() {
        let hint = "set both acme.eab.key_id and acme.eab.key, or neither";
        error("acme.eab", "an account's id and its key must be set together", hint);
    }
    if acme.directory.is_none() {
        if !acme.hosts.is_empty() {
            let hint = "set acme.directory, for example to letsencrypt-staging";
            error("acme.hosts", "acme.directory is not set", hint);
        }
        return;
    }
    if !acme.agree {
        let hint = "read the authority's terms of service, then set acme.agree to true";
        error("acme.agree", "certificates require your agreement to the authority's terms", hint);
    }
    if acme.hosts.is_empty() {
        let problem = Problem::warning("acme.hosts", "empty, so that no certificate is requested");
        problems.push(problem.with_hint("list the names that clients use, without wildcards"));
    }
}

/// Refuses two listeners with equal addresses.
fn check_addresses(bootstrap: &Bootstrap, problems: &mut Problems) {
    let listen = &bootstrap.listen;
    let of_stream = |protocol: StreamProtocol| -> Vec<SocketAddr> {
        let listeners = listen.stream.iter().filter(|it| it.protocol == protocol);
        listeners.map(|it| it.address).collect()
    };
    let (stream, datagrams) = (of_stream(StreamProtocol::Tcp), of_stream(StreamProtocol::Udp));
    let lists = [
        ("listen.http", &listen.http),
        ("listen.https", &listen.https),
        ("listen.http_proxied", &listen.http_proxied),
        ("listen.https_proxied", &listen.https_proxied),
        ("listen.stream", &stream),
        ("listen.admin", &listen.admin),
        ("listen.control", &listen.control),
        ("listen.metrics", &listen.metrics),
        ("listen.status", &listen.status),
        ("listen.registry_grpc", &listen.registry_grpc),
        ("listen.registry_http", &listen.registry_http),
        ("listen.shenyu", &listen.shenyu),
    ];
    check_lists(&lists, problems);
    for (name, addresses) in lists {
        if HAVE_ONE_ADDRESS.contains(&name) && addresses.len() > 1 {
            let reason = format!("{} addresses, and it listens on one", addresses.len());
            let hint = "give one address; 0.0.0.0 is all of IPv4";
            problems.push(Problem::error(name, reason).with_hint(hint));
        }
    }
    for (index, socket) in listen.unix.iter().enumerate() {
        if listen.unix[..index].iter().any(|other| other.path == socket.path) {
            let reason = format!("{} is there twice", socket.path);
            let problem = Problem::error("listen.unix", reason);
            problems.push(problem.with_hint("give each listener a path of its own"));
        }
    }
    // TCP and UDP ports are independent.
    check_lists(&[("listen.stream", &datagrams)], problems);
    let expects_header = listen.stream.iter().any(|it| it.proxy_protocol)
        || !listen.http_proxied.is_empty()
        || !listen.https_proxied.is_empty();
    if expects_header && bootstrap.proxy_protocol.from.is_empty() {
        let reason = "empty, although a listener expects PROXY headers and would refuse every peer";
        let problem = Problem::error("proxy_protocol.from", reason);
        problems.push(problem.with_hint("name the networks of the proxies before this one"));
    }
}

fn check_lists(lists: &[(&'static str, &Vec<SocketAddr>)], problems: &mut Problems) {
    let mut seen: Vec<(&str, SocketAddr)> = Vec::new();
    for (name, addresses) in lists {
        for address in *addresses {
            let first = seen.iter().find(|(_, other)| collide(*other, *address));
            if let Some((owner, other)) = first {
                let reason = format!("{address} collides with {other} of {owner}");
                let problem = Problem::error(*name, reason);
                problems.push(problem.with_hint("give each listener a different port"));
            }
            seen.push((name, *address));
        }
    }
}

/// Whether two listeners cannot use these addresses simultaneously. Port 0 stands for any free
/// port.
fn collide(one: SocketAddr, other: SocketAddr) -> bool {
    let hosts = one.ip() == other.ip() || one.ip().is_unspecified() || other.ip().is_unspecified();
    one.is_ipv4() == other.is_ipv4() && one.port() == other.port() && one.port() != 0 && hosts
}
