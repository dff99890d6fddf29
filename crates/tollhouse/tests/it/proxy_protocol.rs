//! PROXY headers: believed from named proxies alone, on listeners that ask for them, in either version.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use tollhouse_testkit::patience::wait_for;
use tollhouse_testkit::{Gateway, GatewayBuilder, Origin, RawClient};

use crate::stream_routes::stream_addresses;
use crate::support::{gateway, routes, upstream, with};

const V1: &str = "PROXY TCP4 192.0.2.7 192.0.2.8 4711 80\r\n";

fn header_v2(command: u8, tail: &[u8]) -> Vec<u8> {
    let mut header = b"\r\n\r\n\0\r\nQUIT\n".to_vec();
    header.extend([command, 0x11, 0, 12 + u8::try_from(tail.len()).expect("short")]);
    header.extend([192, 0, 2, 7, 192, 0, 2, 8, 0x12, 0x67, 0, 80]);
    header.extend(tail);
    header
}

/// A gateway that expects headers on a listener of stream routes and on one of HTTP.
fn expecting(from: &str, origin: SocketAddr) -> GatewayBuilder {
    let listener = json!([{ "address": "127.0.0.1:0", "proxy_protocol": true }]);
    let route = json!({ "id": "1", "uri": "/*", "upstream": upstream([origin]) });
    let stream = json!({ "id": "2", "upstream": upstream([origin]) });
    let mut resources: Value = routes([route]);
    resources["stream_routes"] = json!([stream]);
    gateway()
        .set("listen.stream", &listener.to_string())
        .set("listen.http", "")
        .set("listen.http_proxied", "127.0.0.1:0")
        .set("proxy_protocol.from", from)
        .resources(&resources)
}

/// Both listeners.
fn listeners(gateway: &Gateway) -> [SocketAddr; 2] {
    [gateway.address(), stream_addresses(gateway)[0]]
}

#[test]
fn headers_of_either_version_in_one_piece_or_two_are_taken() {
    let origin = Origin::named("a");
    let gateway = expecting("127.0.0.0/8", origin.address()).start();
    let local = [&header_v2(0x20, b"")[..], b""].concat();
    for header in
        [V1.as_bytes().to_vec(), header_v2(0x21, b""), local, b"PROXY UNKNOWN\r\n".to_vec()]
    {
        for address in listeners(&gateway) {
            for middle in [0, 5, header.len() - 1] {
                let mut client = RawClient::connect(address);
                client.send(&header[..middle]).send(&header[middle..]);
                assert_eq!(client.get("/").text(), "a", "{header:?} {middle}");
            }
        }
    }
}

#[test]
fn the_client_is_whom_the_header_names_for_nodes_plugins_and_the_log() {
    let origin = Origin::named("a");
    let gateway = expecting("127.0.0.1", origin.address())
        .set("access_log.format", "$remote_addr $status")
        .start();
    let [http, _] = listeners(&gateway);
    for (header, expected) in
        [(V1.as_bytes().to_vec(), "192.0.2.7"), (header_v2(0x20, b""), "127.0.0.1")]
    {
        let mut client = RawClient::connect(http);
        client.send(&header);
        assert_eq!(client.get("/").status(), 200);
        assert_eq!(origin.last_request().field("x-real-ip"), Some(expected));
    }
    let log = gateway.folder().join("access.log");
    wait_for("the lines", || {
        let text = std::fs::read_to_string(&log).unwrap_or_default();
        (text.contains("192.0.2.7 200\n") && text.contains("127.0.0.1 200\n")).then_some(())
    });
}

#[test]
fn what_is_no_header_is_dropped() {
    let origin = Origin::named("a");
    let gateway = expecting("127.0.0.1", origin.address()).start();
    let too_long = format!("PROXY UNKNOWN {}\r\n", "x".repeat(108 - 16));
    let bad_sum = header_v2(0x21, &[3, 0, 4, 1, 2, 3, 4]);
    for bytes in [too_long.into_bytes(), bad_sum, b"GET / HTTP/1.1\r\nHost: a\r\n\r\n".to_vec()] {
        for address in listeners(&gateway) {
            let mut client = RawClient::connect(address);
            client.send(&bytes).half_close();
            assert_eq!(client.rest(), b"", "{bytes:?}");
        }
    }
    // Half of one, and no more.
    for address in listeners(&gateway) {
        let mut client = RawClient::connect(address);
        client.send(&V1[..20]).half_close();
        assert_eq!(client.rest(), b"");
    }
    assert_eq!(origin.connections(), 0);
    let refused = "tollhouse_downstream_connections_refused_total{reason=\"proxy_header\"}";
    assert_eq!(gateway.metric(refused), 4.0);
}

#[test]
fn an_untrusted_peer_is_refused_whatever_it_sends() {
    let origin = Origin::named("a");
    let gateway = expecting("10.0.0.0/8", origin.address()).start();
    for address in listeners(&gateway) {
        let mut client = RawClient::connect(address);
        assert_eq!(client.rest(), b"", "before a byte is read");
    }
    let failed = "tollhouse_stream_failed_total{code=\"proxy_header_refused\"}";
    assert_eq!(gateway.metric(failed), 1.0);
}

#[test]
fn a_header_that_stays_away_is_waited_for_no_longer_than_configured() {
    let origin = Origin::named("a");
    let gateway =
        expecting("127.0.0.1", origin.address()).set("proxy_protocol.header_time", "50ms").start();
    for address in listeners(&gateway) {
        let mut client = RawClient::connect(address);
        client.send(&V1[..20]);
        assert_eq!(client.rest(), b"");
    }
}

#[test]
fn a_route_is_chosen_by_the_listener_that_a_connection_came_in_on() {
    let (here, elsewhere) = (Origin::named("here"), Origin::named("elsewhere"));
    let gateway = expecting("127.0.0.1", elsewhere.address())
        .set("access_log.format", "$remote_addr $server_addr:$server_port")
        .start();
    let address = stream_addresses(&gateway)[0];
    let route = |id: &str, origin: &Origin, more: Value| {
        with(json!({ "id": id, "upstream": upstream([origin.address()]) }), more)
    };
    let named = json!({ "server_addr": "127.0.0.1", "server_port": address.port() });
    // What the header says that the client has connected to is a proxy's.
    let of_proxy = json!({ "server_addr": "192.0.2.8", "server_port": 80 });
    gateway.reload(&json!({ "stream_routes": [
        route("1", &elsewhere, of_proxy),
        route("2", &here, named),
    ] }));
    for header in [V1.as_bytes().to_vec(), header_v2(0x21, b"")] {
        let mut client = RawClient::connect(address);
        client.send(&header);
        assert_eq!(client.get("/").text(), "here", "{header:?}");
    }
    let line = format!("192.0.2.7 {address}\n");
    let log = gateway.folder().join("access.log");
    wait_for("the lines", || {
        let text = std::fs::read_to_string(&log).unwrap_or_default();
        (text.matches(&line).count() == 2).then_some(())
    });
}

#[test]
fn nodes_get_the_header_that_is_configured() {
    let node = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = node.local_addr().expect("bound");
    for version in ["v1", "v2"] {
        let listener = json!([{
            "address": "127.0.0.1:0", "proxy_protocol": true, "proxy_protocol_to_upstream": version,
        }]);
        let resources =
            json!({ "stream_routes": [{ "id": "1", "upstream": upstream([address]) }] });
        let gateway = gateway()
            .set("listen.stream", &listener.to_string())
            .set("proxy_protocol.from", "127.0.0.1")
            .resources(&resources)
            .start();
        let mut client = RawClient::connect(stream_addresses(&gateway)[0]);
        client.send(V1).send("hello").half_close();
        let (mut stream, _) = node.accept().expect("the connection arrives");
        let mut heard = Vec::new();
        stream.read_to_end(&mut heard).expect("the end arrives");
        let header = heard.strip_suffix(b"hello").expect("what the client sent is behind it");
        if version == "v1" {
            assert_eq!(header, V1.as_bytes());
        } else {
            assert_eq!(header[..28], header_v2(0x21, &[3, 0, 4, 0, 0, 0, 0])[..28]);
        }
    }
}

#[test]
fn a_listener_that_believes_nobody_does_not_start() {
    let failure = expecting("", ([127, 0, 0, 1], 1).into()).fail();
    assert!(failure.text.contains("proxy_protocol.from"), "{}", failure.text);
}

/// A node that takes a PROXY header at the front of each connection, and answers each request with the header
/// and how many requests the connection has had.
struct HeaderNode {
    address: SocketAddr,
    connections: Arc<Mutex<Vec<Vec<u8>>>>,
    closed: Arc<AtomicUsize>,
}

impl HeaderNode {
    /// `header_bytes` of a header of version 2; a line where there are none.
    fn start(header_bytes: Option<usize>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("bound");
        let node = Self { address, connections: Arc::default(), closed: Arc::default() };
        let (connections, closed) = (Arc::clone(&node.connections), Arc::clone(&node.closed));
        std::thread::spawn(move || {
            while let Ok((stream, _)) = listener.accept() {
                let (connections, closed) = (Arc::clone(&connections), Arc::clone(&closed));
                std::thread::spawn(move || {
                    serve_behind_header(stream, header_bytes, &connections);
                    closed.fetch_add(1, Ordering::SeqCst);
                });
            }
        });
        node
    }

    fn headers(&self) -> Vec<Vec<u8>> {
        self.connections.lock().expect("no panic").clone()
    }
}

fn serve_behind_header(
    mut stream: TcpStream,
    header_bytes: Option<usize>,
    connections: &Mutex<Vec<Vec<u8>>>,
) {
    let mut byte = [0];
    let mut read_until = |end: &dyn Fn(&[u8]) -> bool, stream: &mut TcpStream| {
        let mut read = Vec::new();
        while !end(&read) {
            if !matches!(stream.read(&mut byte), Ok(1)) {
                return None;
            }
            read.push(byte[0]);
        }
        Some(read)
    };
    let is_header = |read: &[u8]| match header_bytes {
        Some(bytes) => read.len() == bytes,
        None => read.ends_with(b"\r\n"),
    };
    let Some(header) = read_until(&is_header, &mut stream) else { return };
    connections.lock().expect("no panic").push(header.clone());
    let mut requests = 0;
    while let Some(head) = read_until(&|read| read.ends_with(b"\r\n\r\n"), &mut stream) {
        assert!(head.starts_with(b"GET /"), "{head:?}");
        requests += 1;
        let body = format!("{requests} {}", String::from_utf8_lossy(&header).trim_end());
        let answer = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len());
        stream.write_all(answer.as_bytes()).expect("the gateway reads");
    }
}

/// The line that names a client of the gateway.
fn line_for(client: &RawClient, gateway: &Gateway) -> String {
    format!("PROXY TCP4 127.0.0.1 127.0.0.1 {} {}", client.port(), gateway.address().port())
}

fn announced(node: SocketAddr, version: &str) -> Value {
    let upstream = with(upstream([node]), json!({ "proxy_protocol": version }));
    routes([json!({ "id": "1", "uri": "/*", "upstream": upstream })])
}

#[test]
fn nodes_of_requests_are_told_the_client_and_a_kept_connection_is_one_clients() {
    let node = HeaderNode::start(None);
    let gateway = gateway().set("workers", "1").resources(&announced(node.address, "v1")).start();
    let (mut one, mut other) =
        (RawClient::connect(gateway.address()), RawClient::connect(gateway.address()));
    for round in 1..=3 {
        for client in [&mut one, &mut other] {
            let expected = format!("{round} {}", line_for(client, &gateway));
            assert_eq!(client.get("/").text(), expected, "its own connection, used again");
        }
    }
    assert_eq!(node.headers().len(), 2);
    // What is kept for a client is of no use once it is gone.
    drop(one);
    wait_for("the first to close", || (node.closed.load(Ordering::SeqCst) == 1).then_some(()));
    let expected = format!("4 {}", line_for(&other, &gateway));
    assert_eq!(other.get("/").text(), expected);
}

#[test]
fn the_binary_header_says_the_same_ahead_of_tls() {
    let node = HeaderNode::start(Some(16 + 12 + 7));
    let gateway = gateway().set("workers", "1").resources(&announced(node.address, "v2")).start();
    let mut client = RawClient::connect(gateway.address());
    assert_eq!(client.get("/").status(), 200);
    let ports = [client.port(), gateway.address().port()];
    let ports: Vec<u8> = ports.iter().flat_map(|port| port.to_be_bytes()).collect();
    let header = node.headers().remove(0);
    assert_eq!(header[..16], *b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x13");
    assert_eq!(header[16..24], [127, 0, 0, 1, 127, 0, 0, 1]);
    assert_eq!(header[24..28], ports);
    // To nodes over TLS it goes in clear text, and what follows is the handshake.
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("bound");
    let https = with(upstream([address]), json!({ "proxy_protocol": "v2", "scheme": "https" }));
    gateway.reload(&routes([json!({ "id": "1", "uri": "/*", "upstream": https })]));
    client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    let (mut stream, _) = listener.accept().expect("the connection arrives");
    let mut heard = [0; 16 + 12 + 7 + 1];
    stream.read_exact(&mut heard).expect("a header, and the first byte behind it");
    assert_eq!((&heard[..28], heard[35]), (&header[..28], 22), "a record of a handshake");
}

#[test]
fn whom_a_proxy_in_front_reports_is_who_nodes_are_told() {
    let node = HeaderNode::start(None);
    let gateway = gateway()
        .set("workers", "1")
        .set("real_ip.header", "X-Forwarded-For")
        .set("real_ip.from", "127.0.0.1")
        .resources(&announced(node.address, "v1"))
        .start();
    let port = gateway.address().port();
    let mut client = RawClient::connect(gateway.address());
    // Over one connection of the proxy come many clients, and a node's connection is of one.
    for round in 1..=2 {
        for reported in ["192.0.2.1", "192.0.2.2"] {
            client
                .send(format!("GET / HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: {reported}\r\n\r\n"));
            let expected = format!("{round} PROXY TCP4 {reported} 127.0.0.1 0 {port}");
            assert_eq!(client.answer().text(), expected);
        }
    }
    assert_eq!(node.headers().len(), 2);
}

#[test]
fn connections_that_are_kept_for_one_client_are_bounded() {
    const CLIENTS: usize = 80;
    let node = HeaderNode::start(None);
    let gateway = gateway()
        .set("workers", "1")
        .set("real_ip.header", "X-Forwarded-For")
        .set("real_ip.from", "127.0.0.1")
        .resources(&announced(node.address, "v1"))
        .start();
    let mut client = RawClient::connect(gateway.address());
    for number in 0..CLIENTS {
        client.send(format!(
            "GET / HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: 192.0.2.{number}\r\n\r\n"
        ));
        assert_eq!(client.answer().status(), 200);
    }
    let closed = || node.closed.load(Ordering::SeqCst);
    wait_for("those of the first clients to close", || (closed() >= CLIENTS - 64).then_some(()));
    drop(client);
    wait_for("all to close", || (closed() == CLIENTS).then_some(()));
}
