//! What no key can judge alone.

use std::net::{IpAddr, SocketAddr};

use tollhouse_model::{Problem, Problems};

use super::keys::HEAD_MAX;
use super::{
    AccessLogFormat, Acme, Admin, Bootstrap, Limits, ListenerTls, RegistryStore, Secret,
    StreamProtocol,
};

/// Names of PostgreSQL's tables end after 63 bytes, and ours go on after this.
const TABLES_BYTES_MAX: usize = 48;

/// Listeners of which the process has one each.
const HAVE_ONE_ADDRESS: [&str; 4] =
    ["listen.admin", "listen.control", "listen.metrics", "listen.status"];

/// Adds what is wrong; `given` tells keys that somebody gave from those at their default.
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
    super::reach::check(bootstrap, problems);
    super::store::check(bootstrap, problems);
    check_registry_store(&bootstrap.registry.store, problems);
    check_addresses(bootstrap, problems);
    if !bootstrap.listen.shenyu.is_empty()
        && (bootstrap.resources.is_some() || bootstrap.admin.standalone)
    {
        let reason = "ShenYu's admin writes objects, and here they come from a file";
        let problem = Problem::error("listen.shenyu", reason);
        problems.push(problem.with_hint("leave it out, or resources and admin.standalone"));
    }
    check_shenyu_follow(bootstrap, problems);
    check_shenyu_local(bootstrap, problems);
    let tcp_address = bootstrap.shenyu.tcp_address.as_deref();
    if tcp_address.is_some_and(|address| address.parse::<IpAddr>().is_err()) {
        let problem = Problem::error("shenyu.tcp_address", "expected an address without a port");
        problems.push(problem.with_hint("give 0.0.0.0 for all addresses of this machine"));
    }
}

/// Refuses bounds of a head that could not be kept.
fn check_head(limits: &Limits, problems: &mut Problems) {
    let bytes = limits.request_line_bytes + limits.header_bytes;
    if bytes > HEAD_MAX {
        let reason =
            format!("{bytes} bytes with limits.request_line_bytes, and no head may be so long");
        let problem = Problem::error("limits.header_bytes", reason);
        problems.push(problem.with_hint("lower one of them: both together may be 63KiB"));
    }
}

/// Whether ShenYu's objects can come from an admin elsewhere.
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
    // Addresses are looked at first, so that all that is wrong is named at once.
    if addresses.is_empty() {
        return;
    }
    if !bootstrap.listen.shenyu.is_empty() {
        let hint = "leave one of both out";
        error("what is written at listen.shenyu would be lost to the admin that is followed", hint);
    }
    if bootstrap.resources.is_some() || bootstrap.admin.standalone {
        let hint = "leave it out, or resources and admin.standalone";
        error("objects are kept in a store, and here they come from a file", hint);
    }
}

/// Whether the gateway's own interface of ShenYu's has somewhere to write to.
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
        let reason = "what is written there is kept in a store, and here objects come from a file";
        let hint = "leave it out, or resources and admin.standalone";
        problems.push(Problem::error(NAME, reason).with_hint(hint));
    }
    if !bootstrap.shenyu.follow.addresses.is_empty() {
        let reason = "what is written there would be lost to the admin that is followed";
        let hint = "leave one of both out";
        problems.push(Problem::error(NAME, reason).with_hint(hint));
    }
}

/// Whether a listener has all that TLS takes, or nothing of it.
fn check_tls(name: &str, tls: &ListenerTls, problems: &mut Problems) {
    if tls.cert.is_some() != tls.key.is_some() {
        let problem = Problem::error(name, "a certificate and its key come together");
        problems
            .push(problem.with_hint(format!("set both {name}.cert and {name}.key, or neither")));
    }
    if tls.client_ca.is_some() && tls.cert.is_none() {
        let problem = Problem::error(format!("{name}.client_ca"), "needs a certificate of its own");
        problems.push(problem.with_hint(format!("set {name}.cert and {name}.key")));
    }
}

/// Checks that each key of the Admin API has one bearer.
fn check_admin_keys(admin: &Admin, problems: &mut Problems) {
    for name in ["admin", "viewer"] {
        if admin.keys.iter().any(|one| one.name == name) {
            let problem =
                Problem::error("admin.keys", format!("{name:?} is the name of another key"));
            problems.push(problem.with_hint("give each bearer a name of its own"));
        }
    }
}

/// Shortest key of the Admin API, in characters; shorter ones can be guessed.
const KEY_CHARACTERS_MIN: usize = 16;

/// Refuses short keys of the Admin API, and secrets that open more than one door: the one that is sent in clear
/// text, or given to every client, would open the other too.
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
    ];
    let single = keys.into_iter().chain(registrys);
    let single = single.filter_map(|(name, secret)| Some((name, secret.as_ref()?)));
    let named = admin.keys.iter().map(|one| ("admin.keys", &one.key));
    let mut seen: Vec<(&str, &Secret)> = Vec::new();
    for (name, secret) in single.chain(named) {
        let same = seen.iter().find(|(_, other)| *other == secret);
        if let Some((other, _)) = same.filter(|_| !secret.expose().is_empty()) {
            let problem = Problem::error(name, format!("the same secret as {other}"));
            problems.push(problem.with_hint("give each of them a random secret of its own"));
        }
        seen.push((name, secret));
    }
}

/// Whether the registry's database can be looked for.
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

/// Whether there is all that certificates take.
fn check_acme(acme: &Acme, problems: &mut Problems) {
    let mut error = |name: &str, reason: &str, hint: &str| {
        problems.push(Problem::error(name, reason).with_hint(hint));
    };
    if acme.eab.key_id.is_some() != acme.eab.key.is_some() {
        let hint = "set both acme.eab.key_id and acme.eab.key, or neither";
        error("acme.eab", "an account's id and its key come together", hint);
    }
    if acme.directory.is_none() {
        if !acme.hosts.is_empty() {
            let hint = "set acme.directory, for example to letsencrypt-staging";
            error("acme.hosts", "no authority is named to get certificates from", hint);
        }
        return;
    }
    if !acme.agree {
        let hint = "read the authority's terms of service, then set acme.agree to true";
        error("acme.agree", "certificates take your agreement to the authority's terms", hint);
    }
    if acme.hosts.is_empty() {
        let problem =
            Problem::warning("acme.hosts", "names no host, so that no certificate is got");
        problems.push(problem.with_hint("list the names that clients use, without wildcards"));
    }
}

/// No address may be listened on twice by what is served.
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
    // A port of TCP is another one than that of UDP.
    check_lists(&[("listen.stream", &datagrams)], problems);
    let expects_header = listen.stream.iter().any(|it| it.proxy_protocol)
        || !listen.http_proxied.is_empty()
        || !listen.https_proxied.is_empty();
    if expects_header && bootstrap.proxy_protocol.from.is_empty() {
        let reason =
            "nobody may send a PROXY header, and listeners ask for one: they refuse everybody";
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
                problems.push(problem.with_hint("give each listener a port of its own"));
            }
            seen.push((name, *address));
        }
    }
}

/// Whether two addresses of one family cannot be listened on by two listeners; port 0 is any free
/// one.
fn collide(one: SocketAddr, other: SocketAddr) -> bool {
    let hosts = one.ip() == other.ip() || one.ip().is_unspecified() || other.ip().is_unspecified();
    one.is_ipv4() == other.is_ipv4() && one.port() == other.port() && one.port() != 0 && hosts
}
