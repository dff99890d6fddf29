//! TLS of the listeners for operators: the control API and the metrics.

use std::io::{Read, Write};
use std::net::SocketAddr;

use crate::support::{everything_to, gateway};
use crate::tls_support::{Answer, Authority, TlsOptions};
use tollhouse_testkit::{Gateway, Origin};

/// Where the listener of a line of the banner is, and how it is reached.
fn listener(gateway: &Gateway, name: &str) -> (bool, SocketAddr) {
    let text = gateway.output().text();
    let line = text.lines().find_map(|line| line.trim_start().strip_prefix(name));
    let url = line.expect("the banner names it").trim();
    let (scheme, rest) = url.split_once("://").expect("a URL");
    let address = rest.split('/').next().and_then(|address| address.parse().ok());
    (scheme == "https", address.expect("an address"))
}

#[test]
fn control_api_and_metrics_speak_tls_where_they_have_certificates() {
    let (servers, clients) = (Authority::new("servers"), Authority::new("clients"));
    let pair = servers.server(&["localhost"]);
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).expect("the file can be written");
        path.display().to_string()
    };
    let (cert, key) = (file("cert.pem", &pair.chain), file("key.pem", &pair.key));
    let old = file("old.pem", &servers.version_one(&pair).chain);
    let ca = file("ca.pem", &clients.pem);
    let origin = Origin::named("a");
    let gateway = gateway()
        .set("control.tls.cert", &cert)
        .set("control.tls.key", &key)
        .set("control.tls.client_ca", &ca)
        .set("metrics.tls.cert", &old)
        .set("metrics.tls.key", &key)
        .resources(&everything_to(origin.address()))
        .start();
    let anybody = TlsOptions::new(&servers).trusting_any().build();
    let old = clients.version_one(&clients.client("operator"));
    let known = TlsOptions::showing(&servers, &old).trusting_any().build();
    let (is_tls, control) = listener(&gateway, "control");
    assert!(is_tls);
    assert_eq!(known.get(control, "localhost", "/v1/configuration").status(), 200);
    assert!(matches!(anybody.get(control, "localhost", "/v1/configuration"), Answer::Broken(_)));
    let (is_tls, metrics) = listener(&gateway, "metrics");
    assert!(is_tls);
    assert_eq!(anybody.get(metrics, "localhost", "/status").status(), 404);
    let plain =
        tollhouse_testkit::RawClient::connect(metrics).send("GET /metrics HTTP/1.1\r\n\r\n").rest();
    assert!(!plain.starts_with(b"HTTP/1.1 200"), "{plain:?}");
}

#[test]
fn the_registry_and_the_status_pages_speak_tls_where_they_have_certificates() {
    let servers = Authority::new("servers");
    let pair = servers.server(&["localhost"]);
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).expect("the file can be written");
        path.display().to_string()
    };
    let (cert, key) = (file("cert.pem", &pair.chain), file("key.pem", &pair.key));
    let origin = Origin::named("a");
    let gateway = gateway()
        .registry()
        .set("listen.status", "127.0.0.1:0")
        .set("status.tls.cert", &cert)
        .set("status.tls.key", &key)
        .set("registry.tls.cert", &cert)
        .set("registry.tls.key", &key)
        .resources(&everything_to(origin.address()))
        .start();
    let client = TlsOptions::new(&servers).build();
    let (is_tls, status) = listener(&gateway, "status");
    assert!(is_tls);
    assert_eq!(client.get(status, "localhost", "/status/ready").status(), 200);
    let text = gateway.output().text();
    let address = |scheme: &str| -> SocketAddr {
        let line = text.lines().find_map(|line| line.trim_start().strip_prefix("registry"));
        let urls = text.lines().filter_map(|line| line.trim_start().strip_prefix("registry"));
        let url = urls.map(str::trim).find_map(|url| url.strip_prefix(scheme));
        url.and_then(|at| at.parse().ok()).unwrap_or_else(|| panic!("{scheme} in {line:?}"))
    };
    let answer = client.get(address("https://"), "localhost", "/");
    assert_eq!(answer.status(), 200, "{answer:?}");
    // Its preface, and settings of none; the server's settings come back.
    let client = TlsOptions::new(&servers).offering(&["h2"]).build();
    let mut stream = client.connect(address("grpcs://"), "localhost").expect("a handshake");
    stream.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0").expect("it reads");
    let mut head = [0; 9];
    stream.read_exact(&mut head).expect("it answers");
    assert_eq!((stream.conn.alpn_protocol(), head[3]), (Some(&b"h2"[..]), 4));
    let mut plain = tollhouse_testkit::RawClient::connect(address("https://"));
    let plain = plain.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n").rest();
    assert!(!plain.starts_with(b"HTTP/1.1 200"), "{plain:?}");
}
