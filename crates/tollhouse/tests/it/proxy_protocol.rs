//! PROXY headers: believed from named proxies alone, on listeners that ask for them, in either version.

use std::io::Read;
use std::net::{SocketAddr, TcpListener};

use serde_json::{Value, json};
use tollhouse_testkit::patience::wait_for;
use tollhouse_testkit::{Gateway, GatewayBuilder, Origin, RawClient};

use crate::stream_routes::stream_addresses;
use crate::support::{gateway, routes, upstream};

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
