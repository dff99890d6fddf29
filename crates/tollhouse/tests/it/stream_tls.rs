//! TLS that ends on listeners of stream routes, and what stands before and behind it: PROXY headers,
//! certificates of clients, nodes with TLS of their own.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};

use serde_json::{Value, json};
use tollhouse_testkit::patience::wait_for;
use tollhouse_testkit::{Gateway, GatewayBuilder, Origin};

use crate::stream_routes::stream_addresses;
use crate::support::{everything_to, gateway, upstream, with};
use crate::tls_support::{
    Authority, PATIENCE, Pair, TlsClient, TlsOptions, TlsStream, der, get, server_certificate, ssl,
};

/// A PROXY header (version 1) on behalf of 192.0.2.7.
const HEADER: &str = "PROXY TCP4 192.0.2.7 192.0.2.8 4711 80\r\n";

fn terminating(more: Value) -> GatewayBuilder {
    let listener = with(json!({ "address": "127.0.0.1:0", "tls": true }), more);
    gateway().set("listen.stream", &json!([listener]).to_string())
}

fn resources(routes: &[Value], ssls: &[Value]) -> Value {
    json!({ "stream_routes": routes, "ssls": ssls })
}

fn route(id: &str, node: SocketAddr) -> Value {
    json!({ "id": id, "upstream": upstream([node]) })
}

fn connect(client: &TlsClient, gateway: &Gateway, name: &str) -> std::io::Result<TlsStream> {
    client.connect(stream_addresses(gateway)[0], name)
}

fn failed(gateway: &Gateway, code: &str) -> f64 {
    gateway.metric(&format!("tollhouse_stream_failed_total{{code=\"{code}\"}}"))
}

/// Whether a connection reaches the node: with TLS 1.3 a client learns of a refusal behind its handshake.
fn is_let_in(opened: std::io::Result<TlsStream>) -> bool {
    let Ok(mut stream) = opened else { return false };
    crate::tls_support::ask(&mut stream, b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").is_ok()
}

#[test]
fn tls_ends_with_the_certificate_of_the_name_which_chooses_the_route_too() {
    let authority = Authority::new("root");
    let pair = |name: &str| authority.server(&[name]);
    let (first, second) = (pair("a.test"), pair("b.test"));
    let (one, other) = (Origin::named("one"), Origin::named("other"));
    let routes = [
        with(route("1", one.address()), json!({ "sni": "a.test" })),
        route("rest", other.address()),
    ];
    let ssls = [ssl("1", &["a.test"], &first), ssl("2", &["b.test"], &second)];
    let gateway = terminating(json!({}))
        .set(
            "access_log.format",
            "$route_id $status $ssl_protocol $ssl_server_name $ssl_session_reused $ssl_client_verify",
        )
        .resources(&resources(&routes, &ssls))
        .start();
    // What is spoken inside is nobody's business: no protocol is agreed on, and none refused.
    let client = TlsOptions::new(&authority).offering(&["mqtt", "h2"]).forgetful().build();
    for (name, pair, expected) in
        [("a.test", &first, "one"), ("A.TEST", &first, "one"), ("b.test", &second, "other")]
    {
        let mut stream = connect(&client, &gateway, name).expect("it is served");
        assert!(server_certificate(&stream) == der(pair), "{name}");
        assert_eq!(stream.conn.alpn_protocol(), None);
        for _ in 0..2 {
            assert!(get(&mut stream, name, "/").text().ends_with(expected), "{name}");
        }
    }
    let log = gateway.folder().join("access.log");
    wait_for("the lines", || {
        let text = std::fs::read_to_string(&log).unwrap_or_default();
        let expected = ["1 200 TLSv1.3 a.test . NONE\n", "rest 200 TLSv1.3 b.test . NONE\n"];
        expected.iter().all(|line| text.contains(line)).then_some(())
    });
    assert!(connect(&client, &gateway, "c.test").is_err(), "nobody has its certificate");
    wait_for("the count", || (failed(&gateway, "tls_handshake_failed") == 1.0).then_some(()));
}

#[test]
fn a_client_that_ends_its_side_is_answered_and_the_end_is_no_cut() {
    let authority = Authority::new("root");
    let pair = authority.server(&["a.test"]);
    let node = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let routes = [route("1", node.local_addr().expect("bound"))];
    let gateway = terminating(json!({}))
        .resources(&resources(&routes, &[ssl("1", &["a.test"], &pair)]))
        .start();
    let client = TlsOptions::new(&authority).build();
    let mut stream = connect(&client, &gateway, "a.test").expect("it is served");
    let long = vec![b'x'; 1_000_000];
    let (mut at_node, _) = node.accept().expect("the connection arrives");
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut heard = Vec::new();
            at_node.read_to_end(&mut heard).expect("the end arrives");
            assert!(heard == long, "{} bytes", heard.len());
            at_node.write_all(&heard).expect("sent");
            at_node.shutdown(std::net::Shutdown::Write).expect("an open socket");
        });
        stream.write_all(&long).expect("sent");
        stream.conn.send_close_notify();
        stream.flush().expect("sent");
        let mut answer = Vec::new();
        // Fails where the stream ends without a farewell.
        stream.read_to_end(&mut answer).expect("the end arrives");
        assert!(answer == long, "{} bytes", answer.len());
    });
}

#[test]
fn the_handshake_follows_a_proxy_header_in_the_same_segment_or_later() {
    let authority = Authority::new("root");
    let pair = authority.server(&["a.test"]);
    let origin = Origin::named("a");
    let mut all =
        with(everything_to(origin.address()), json!({ "ssls": [ssl("1", &["a.test"], &pair)] }));
    all["stream_routes"] = json!([route("1", origin.address())]);
    let gateway = terminating(json!({ "proxy_protocol": true }))
        .set("listen.https_proxied", "127.0.0.1:0")
        .set("proxy_protocol.from", "127.0.0.1")
        .set("access_log.format", "$remote_addr $ssl_protocol $status")
        .resources(&all)
        .start();
    let client = TlsOptions::new(&authority).forgetful().build();
    let stream_address = stream_addresses(&gateway)[0];
    for address in [stream_address, gateway.tls_address()] {
        for separate in [true, false] {
            let tcp = TcpStream::connect(address).expect("it listens");
            let mut stream = if separate {
                (&tcp).write_all(HEADER.as_bytes()).expect("sent");
                client.over(tcp, "a.test").expect("it is served")
            } else {
                in_one_segment(&client, tcp)
            };
            assert!(get(&mut stream, "a.test", "/").text().ends_with('a'));
        }
    }
    assert_eq!(origin.last_request().field("x-real-ip"), Some("192.0.2.7"));
    let log = gateway.folder().join("access.log");
    wait_for("the lines", || {
        let text = std::fs::read_to_string(&log).unwrap_or_default();
        (text.matches("192.0.2.7 TLSv1.3 200\n").count() == 4).then_some(())
    });
    // Without a header, or with half of one, no handshake begins.
    for address in [stream_address, gateway.tls_address()] {
        assert!(client.connect(address, "a.test").is_err());
        let mut tcp = TcpStream::connect(address).expect("it listens");
        tcp.set_read_timeout(Some(PATIENCE)).expect("an open socket");
        tcp.write_all(&HEADER.as_bytes()[..20]).expect("sent");
        tcp.shutdown(std::net::Shutdown::Write).expect("an open socket");
        let mut rest = Vec::new();
        let _ = tcp.read_to_end(&mut rest);
        assert_eq!(rest, b"");
    }
}

/// Sends the PROXY header and the first message of the handshake at once.
fn in_one_segment(client: &TlsClient, tcp: TcpStream) -> TlsStream {
    tcp.set_read_timeout(Some(PATIENCE)).expect("an open socket");
    let name = "a.test".try_into().expect("a name");
    let mut session =
        rustls::ClientConnection::new(std::sync::Arc::clone(&client.0), name).expect("a session");
    let mut first = HEADER.as_bytes().to_vec();
    while session.wants_write() {
        session.write_tls(&mut first).expect("into memory");
    }
    (&tcp).write_all(&first).expect("sent");
    let mut stream = rustls::StreamOwned::new(session, tcp);
    while stream.conn.is_handshaking() {
        stream.conn.complete_io(&mut stream.sock).expect("it is served");
    }
    stream
}

#[test]
fn no_path_exempts_a_connection_from_the_certificate_that_its_host_asks_for() {
    let (authority, clients, strangers) =
        (Authority::new("root"), Authority::new("clients"), Authority::new("strangers"));
    let pair = authority.server(&["strict.test", "exempt.test"]);
    let object = |id: &str, exempt: Value| {
        let client = with(json!({ "ca": clients.pem }), exempt);
        with(ssl(id, &[&format!("{id}.test")], &pair), json!({ "client": client }))
    };
    let ssls =
        [object("strict", json!({})), object("exempt", json!({ "skip_mtls_uri_regex": ["^/"] }))];
    let origin = Origin::named("a");
    let gateway = terminating(json!({}))
        .set("access_log.format", "$status $ssl_client_verify $ssl_client_s_dn $error_code")
        .resources(&resources(&[route("1", origin.address())], &ssls))
        .start();
    let showing = |pair: &Pair| TlsOptions::showing(&authority, pair).forgetful().build();
    let known = showing(&clients.client("known"));
    for (client, expected) in [
        (&known, true),
        (&TlsOptions::new(&authority).forgetful().build(), false),
        (&showing(&strangers.client("stranger")), false),
        (&showing(&clients.expired_client("late")), false),
    ] {
        for name in ["strict.test", "exempt.test"] {
            assert_eq!(is_let_in(connect(client, &gateway, name)), expected, "{name}");
        }
    }
    assert_eq!(failed(&gateway, "client_certificate_missing"), 1.0);
    assert_eq!(failed(&gateway, "client_certificate_invalid"), 2.0);
    assert_eq!(failed(&gateway, "tls_handshake_failed"), 3.0);
    let log = gateway.folder().join("access.log");
    wait_for("the lines", || {
        let text = std::fs::read_to_string(&log).unwrap_or_default();
        // The comma of a name is escaped, and the log escapes what escapes.
        text.contains("200 SUCCESS CN=known,O=Tests\\x5C, Inc. -\n").then_some(())
    });
}

#[test]
fn half_a_hello_and_what_is_no_tls_end_at_the_deadline_and_others_are_served() {
    let authority = Authority::new("root");
    let pair = authority.server(&["a.test"]);
    let origin = Origin::named("a");
    let gateway = terminating(json!({}))
        .set("limits.handshake_time", "3s")
        .set("limits.client_hello_bytes", "4KiB")
        .resources(&resources(&[route("1", origin.address())], &[ssl("1", &["a.test"], &pair)]))
        .start();
    let address = stream_addresses(&gateway)[0];
    let mut long = vec![22, 3, 1, 0x40, 0, 1, 0, 0x3f, 0xfc];
    long.resize(6000, 0);
    let hostile: [&[u8]; 4] =
        [b"", &[22, 3, 1, 2, 0, 1], b"GET / HTTP/1.1\r\nHost: a\r\n\r\n", &long];
    let mut held: Vec<TcpStream> = hostile
        .iter()
        .map(|bytes| {
            let mut stream = TcpStream::connect(address).expect("it listens");
            stream.set_read_timeout(Some(PATIENCE)).expect("an open socket");
            // It may be closed before all is sent.
            let _ = stream.write_all(bytes);
            stream
        })
        .collect();
    let client = TlsOptions::new(&authority).build();
    assert!(is_let_in(connect(&client, &gateway, "a.test")), "beside them");
    for stream in &mut held {
        let mut rest = Vec::new();
        let _ = stream.read_to_end(&mut rest);
        assert!(rest.len() < 100, "{rest:?}");
    }
    wait_for("all of them to be counted", || {
        (failed(&gateway, "tls_handshake_failed") == 4.0).then_some(())
    });
    assert_eq!(origin.connections(), 1);
}
