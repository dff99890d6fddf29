//! Connections below HTTP: which route takes them, which node gets them, and what becomes of those that
//! misbehave.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::Command;

use serde_json::{Value, json};
use tollhouse_testkit::patience::wait_for;
use tollhouse_testkit::program::run_well;
use tollhouse_testkit::{ClosedPort, Gateway, GatewayBuilder, Origin, RawClient};

use crate::support::{gateway, upstream};

/// A gateway with one listener of stream routes.
fn stream_gateway(listener: &Value) -> GatewayBuilder {
    gateway().set("listen.stream", &json!([listener]).to_string())
}

/// Where stream routes are served, in the order of the configuration.
pub(crate) fn stream_addresses(gateway: &Gateway) -> Vec<SocketAddr> {
    let text = gateway.output().text();
    let address = |line: &str| {
        let rest = line.trim_start().strip_prefix("stream")?.trim_start();
        rest.split_once("://")?.1.parse().ok()
    };
    text.lines().filter_map(address).collect()
}

/// A client of the first listener.
fn client(gateway: &Gateway) -> RawClient {
    RawClient::connect(stream_addresses(gateway)[0])
}

fn any_port() -> Value {
    json!({ "address": "127.0.0.1:0" })
}

fn stream_routes<const COUNT: usize>(routes: [Value; COUNT]) -> Value {
    json!({ "stream_routes": routes.as_slice() })
}

fn everything_to(address: SocketAddr) -> Value {
    stream_routes([json!({ "id": "all", "upstream": upstream([address]) })])
}

/// A node that is played by hand.
fn node() -> (TcpListener, SocketAddr) {
    let node = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = node.local_addr().expect("bound");
    (node, address)
}

/// All bytes until the end.
fn all(mut stream: &TcpStream) -> Vec<u8> {
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).expect("the end arrives");
    bytes
}

#[test]
fn bytes_pass_both_ways_and_a_half_closed_client_is_answered() {
    let (node, address) = node();
    let gateway = stream_gateway(&any_port()).resources(&everything_to(address)).start();
    let mut client = client(&gateway);
    client.send("question").half_close();
    let (mut at_node, _) = node.accept().expect("the connection arrives");
    assert_eq!(all(&at_node), b"question");
    at_node.write_all(b"answer").expect("sent");
    drop(at_node);
    assert_eq!(client.rest(), b"answer");
    for (metric, expected) in [
        ("tollhouse_stream_connections_total", 1.0),
        ("tollhouse_stream_received_bytes_total", 8.0),
        ("tollhouse_stream_sent_bytes_total", 6.0),
    ] {
        wait_for(metric, || (gateway.metric(metric) == expected).then_some(()));
    }
}

#[test]
fn routes_are_tried_in_order_and_a_connection_of_none_is_closed() {
    let (one, other) = (Origin::named("one"), Origin::named("other"));
    let route = |id: &str, conditions: Value, origin: &Origin| {
        let route = json!({ "id": id, "upstream": upstream([origin.address()]) });
        crate::support::with(route, conditions)
    };
    let gateway = stream_gateway(&any_port())
        .resources(&stream_routes([
            route("elsewhere", json!({ "remote_addr": "10.0.0.0/8" }), &one),
            route("here", json!({ "remote_addr": "127.0.0.0/8" }), &other),
            route("late", json!({}), &one),
        ]))
        .start();
    assert_eq!(client(&gateway).get("/").text(), "other");
    gateway.reload(&stream_routes([route("first", json!({}), &one)]));
    assert_eq!(client(&gateway).get("/").text(), "one");
    gateway.reload(&stream_routes([route("no", json!({ "server_port": 1 }), &one)]));
    assert_eq!(client(&gateway).rest(), b"");
    let failed = "tollhouse_stream_failed_total{code=\"route_not_found\"}";
    assert_eq!(gateway.metric(failed), 1.0);
}

#[test]
fn upstreams_are_found_by_id_and_by_service_and_a_node_that_refuses_is_passed_over() {
    let origin = Origin::named("a");
    let closed = {
        let (_node, address) = node();
        address
    };
    let nodes = upstream([closed, origin.address()]);
    let named = crate::support::with(nodes.clone(), json!({ "id": "u", "scheme": "tcp" }));
    for route in [
        json!({ "id": "1", "upstream": nodes }),
        json!({ "id": "1", "upstream_id": "u" }),
        json!({ "id": "1", "service_id": "s" }),
    ] {
        let resources = json!({
            "stream_routes": [route],
            "services": [{ "id": "s", "upstream_id": "u" }],
            "upstreams": [named],
        });
        let gateway = stream_gateway(&any_port()).resources(&resources).start();
        for _ in 0..4 {
            assert_eq!(client(&gateway).get("/").text(), "a", "{route}");
        }
        assert!(gateway.metric("tollhouse_upstream_retries_total") >= 1.0, "{route}");
    }
}

#[test]
fn a_line_of_the_log_says_how_a_connection_went() {
    let origin = Origin::named("a");
    let gateway = stream_gateway(&any_port())
        .set("access_log.format", "$server_protocol $status $route_id $upstream_addr $error_code")
        .resources(&everything_to(origin.address()))
        .start();
    let mut client = client(&gateway);
    assert_eq!(client.get("/").text(), "a");
    drop(client);
    let expected = format!("TCP 200 all {} -\n", origin.address());
    let log = gateway.folder().join("access.log");
    wait_for("the line", || {
        let text = std::fs::read_to_string(&log).unwrap_or_default();
        text.contains(&expected).then_some(())
    });
}

#[test]
fn plugins_refuse_count_and_divide_connections() {
    let (one, other) = (Origin::named("one"), Origin::named("other"));
    let with_plugins = |plugins: Value| {
        let upstream = upstream([one.address()]);
        stream_routes([json!({ "id": "1", "upstream": upstream, "plugins": plugins })])
    };
    let gateway = stream_gateway(&any_port())
        .resources(&with_plugins(json!({ "ip-restriction": { "blacklist": ["127.0.0.0/8"] } })))
        .start();
    assert_eq!(client(&gateway).rest(), b"");
    let refused = "tollhouse_stream_failed_total{code=\"plugin_refused\"}";
    assert_eq!(gateway.metric(refused), 1.0);

    let limit = json!({ "conn": 1, "burst": 0, "default_conn_delay": 0.1, "key": "remote_addr" });
    gateway.reload(&with_plugins(json!({ "limit-conn": limit, "prometheus": {} })));
    let mut first = client(&gateway);
    assert_eq!(first.get("/").text(), "one");
    assert_eq!(client(&gateway).rest(), b"");
    drop(first);
    wait_for("the place to be free", || {
        let mut next = TcpStream::connect(stream_addresses(&gateway)[0]).ok()?;
        // One that is refused may be closed before it is read from.
        let _ = next.write_all(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
        let mut answer = Vec::new();
        let _ = next.read_to_end(&mut answer);
        answer.ends_with(b"one").then_some(())
    });
    let counted = "apisix_stream_connection_total{route=\"1\"}";
    wait_for("the count", || (gateway.metric(counted) >= 2.0).then_some(()));

    let share = json!({ "upstream": upstream([other.address()]), "weight": 1 });
    let rules = json!([{ "weighted_upstreams": [share, { "weight": 1 }] }]);
    gateway.reload(&with_plugins(json!({ "traffic-split": { "rules": rules } })));
    let mut seen: Vec<String> = (0..4).map(|_| client(&gateway).get("/").text()).collect();
    seen.sort();
    assert_eq!(seen, ["one", "one", "other", "other"]);
}

#[test]
fn plugins_of_requests_are_refused_in_stream_routes() {
    let origin = Origin::named("a");
    let gateway = stream_gateway(&any_port()).without_resources().start();
    let upstream = upstream([origin.address()]);
    let route = json!({ "upstream": upstream, "plugins": { "key-auth": {} } });
    let answer = gateway.admin("PUT", "/stream_routes/1", &route);
    assert_eq!(answer.status(), 400);
    assert!(answer.text().contains("unknown plugin [key-auth]"), "{}", answer.text());
    // In a file it cannot be refused: connections are, which it might have protected.
    let protected = stream_gateway(&any_port())
        .resources(&stream_routes([crate::support::with(route, json!({ "id": "1" }))]))
        .start();
    assert_eq!(client(&protected).rest(), b"");
    let failed = "tollhouse_stream_failed_total{code=\"plugin_unavailable\"}";
    assert_eq!(protected.metric(failed), 1.0);
}

#[test]
fn a_stream_route_whose_upstream_cannot_be_read_closes_connections_and_says_why() {
    let unreadable = json!({ "type": "roundrobin", "nodes": "127.0.0.1:9092" });
    let gateway = stream_gateway(&any_port())
        .resources(&stream_routes([json!({ "id": "1", "upstream": unreadable })]))
        .start();
    assert_eq!(client(&gateway).rest(), b"");
    let failed = "tollhouse_stream_failed_total{code=\"route_invalid\"}";
    assert_eq!(gateway.metric(failed), 1.0);
}

/// A CONNECT packet of MQTT 3.1.1.
fn mqtt_connect(client_id: &str) -> Vec<u8> {
    let id = u8::try_from(client_id.len()).expect("short");
    let mut packet = vec![0x10, 12 + id, 0, 4];
    packet.extend(b"MQTT\x04\x02\0\x3c\0");
    packet.push(id);
    packet.extend(client_id.as_bytes());
    packet
}

#[test]
fn clients_of_mqtt_go_by_their_id_and_other_versions_are_closed() {
    let ((one, first), (other, second)) = (node(), node());
    let balance = json!({ "type": "chash", "hash_on": "vars", "key": "mqtt_client_id" });
    let upstream = crate::support::with(upstream([first, second]), balance);
    let plugins = json!({ "mqtt-proxy": { "protocol_level": 4 } });
    let gateway = stream_gateway(&any_port())
        .resources(&stream_routes([json!({ "id": "1", "upstream": upstream, "plugins": plugins })]))
        .start();
    let nodes = [&one, &other];
    for node in nodes {
        node.set_nonblocking(true).expect("an open socket");
    }
    let mut counts = [0; 2];
    for id in ["a", "b", "c", "d", "e", "f", "g", "h", ""] {
        for _ in 0..2 {
            let mut client = client(&gateway);
            let packet = mqtt_connect(id);
            // In two pieces: the first says nothing yet.
            client.send(&packet[..3]).send(&packet[3..]);
            let (at, mut stream) = wait_for("the connection", || {
                let accepted = nodes.iter().map(|node| node.accept().ok());
                accepted.enumerate().find_map(|(at, accepted)| Some((at, accepted?.0)))
            });
            stream.set_nonblocking(false).expect("an open socket");
            let mut heard = vec![0; packet.len()];
            stream.read_exact(&mut heard).expect("the packet arrives");
            assert_eq!(heard, packet, "unchanged");
            counts[at] += 1;
        }
        assert!(counts.iter().all(|count| count % 2 == 0), "{id:?} went to both: {counts:?}");
    }
    assert!(counts.iter().all(|count| *count > 0), "all went to one node");
    for bytes in [&b"GET / HTTP/1.1\r\n\r\n"[..], &[0x10, 14, 0, 4, b'M', b'Q', b'T', b'T', 5]] {
        let mut client = client(&gateway);
        client.send(bytes).half_close();
        assert_eq!(client.rest(), b"");
    }
}

/// A ClientHello for `name`, spread over records of `payload` bytes.
fn client_hello(name: &str, payload: usize) -> Vec<u8> {
    let long = |bytes: &[u8]| {
        let length = u16::try_from(bytes.len()).expect("short");
        [&length.to_be_bytes()[..], bytes].concat()
    };
    let names = long(&[&[0][..], &long(name.as_bytes())].concat());
    // A key share as long as post-quantum ones are.
    let extensions = [&[0, 51][..], &long(&[7; 1500]), &[0, 0], &long(&names)].concat();
    let mut body = vec![3, 3];
    body.extend([9; 32]);
    body.extend([0, 0, 2, 0x13, 1, 1, 0]);
    body.extend(long(&extensions));
    let length = u32::try_from(body.len()).expect("short").to_be_bytes();
    let message = [&[1][..], &length[1..], &body].concat();
    message.chunks(payload).flat_map(|part| [&[22, 3, 1][..], &long(part)].concat()).collect()
}

#[test]
fn tls_is_passed_through_by_name_unchanged_and_what_is_no_tls_is_closed() {
    let ((one, first), (other, second)) = (node(), node());
    let gateway = stream_gateway(&json!({ "address": "127.0.0.1:0", "tls": "passthrough" }))
        .resources(&stream_routes([
            json!({ "id": "a", "sni": "*.a.com", "upstream": upstream([first]) }),
            json!({ "id": "rest", "upstream": upstream([second]) }),
        ]))
        .start();
    for (name, node) in [("x.A.com", &one), ("b.com", &other)] {
        // Three records, in pieces that follow none of their borders.
        let hello = client_hello(name, 600);
        let mut client = client(&gateway);
        for piece in hello.chunks(97) {
            client.send(piece);
        }
        let (mut stream, _) = node.accept().expect("the connection arrives");
        let mut heard = vec![0; hello.len()];
        stream.read_exact(&mut heard).expect("the hello arrives");
        assert_eq!(heard, hello, "{name}");
        stream.write_all(b"!").expect("sent");
        client.expect("!");
    }
    let garbage = vec![b'x'; 20 * 1024];
    let long_hello = vec![22, 3, 1, 0, 4, 1, 0, 0x50, 0];
    for bytes in [garbage, long_hello] {
        let mut stream = TcpStream::connect(stream_addresses(&gateway)[0]).expect("it listens");
        // It may be closed before all is sent.
        let _ = stream.write_all(&bytes);
        let mut rest = Vec::new();
        let _ = stream.read_to_end(&mut rest);
        assert_eq!(rest, b"");
    }
    let failed = "tollhouse_stream_failed_total{code=\"client_hello_invalid\"}";
    assert_eq!(gateway.metric(failed), 2.0);
}

#[test]
fn floods_of_half_open_connections_and_nodes_that_never_accept_leave_others_undisturbed() {
    let origin = Origin::named("a");
    let gateway = stream_gateway(&any_port())
        .set("limits.connections_per_worker", "40")
        .set("workers", "1")
        .resources(&stream_routes([json!({
            "id": "1",
            "plugins": { "mqtt-proxy": { "protocol_level": 4 } },
            "upstream": upstream([origin.address()]),
        })]))
        .start();
    // Nothing is said over any of them.
    let held: Vec<RawClient> = (0..80).map(|_| client(&gateway)).collect();
    let refused = "tollhouse_stream_failed_total{code=\"connection_limit\"}";
    wait_for("the limit", || (gateway.metric(refused) >= 40.0).then_some(()));
    assert!(gateway.metric("tollhouse_stream_connections_open") <= 40.0);
    drop(held);
    wait_for("the end of the flood", || {
        (gateway.metric("tollhouse_stream_connections_open") == 0.0).then_some(())
    });
    // A node whose queue is full: the connect ends by its own time-out.
    let silent: SocketAddr = ([192, 0, 2, 1], 9).into();
    let timeout = json!({ "timeout": { "connect": 0.2, "send": 1, "read": 1 } });
    gateway.reload(&stream_routes([json!({
        "id": "1",
        "upstream": crate::support::with(upstream([silent]), timeout),
    })]));
    assert_eq!(client(&gateway).rest(), b"");
}

#[test]
fn a_successor_takes_the_listeners_over_and_open_connections_live_on() {
    let origin = Origin::named("a");
    let gateway = stream_gateway(&any_port()).resources(&everything_to(origin.address())).start();
    let address = stream_addresses(&gateway)[0];
    let mut before = client(&gateway);
    assert_eq!(before.get("/").text(), "a");
    let listener = json!([{ "address": address.to_string() }]).to_string();
    let successor = gateway.successor().set("listen.stream", &listener).flag("--upgrade").start();
    assert_eq!(stream_addresses(&successor), [address]);
    assert_eq!(before.get("/").text(), "a", "by the predecessor");
    // The predecessor takes connections too until its drain begins.
    wait_for("a connection to the successor", || {
        assert_eq!(RawClient::connect(address).get("/").text(), "a");
        (successor.metric("tollhouse_stream_connections_total") > 0.0).then_some(())
    });
}

#[test]
fn a_stream_route_that_no_listener_serves_is_named_in_the_answer_and_in_the_status() {
    let address = ClosedPort::new().address();
    let listener = json!({ "address": address.to_string() });
    let gateway = stream_gateway(&listener).without_resources().start();
    let on_port = |port: u16| json!({ "server_port": port, "upstream": upstream([address]) });
    let answer = gateway.admin("PUT", "/stream_routes/1", &on_port(address.port()));
    assert_eq!((answer.status(), answer.field("x-tollhouse-warning")), (201, None));
    let answer = gateway.admin("PUT", "/stream_routes/2", &on_port(1));
    let warning = answer.field("x-tollhouse-warning").unwrap_or_default();
    assert!(warning.starts_with("nothing listens on port 1, "), "{warning}");
    let url = format!("http://{}", gateway.control_address());
    let status = wait_for("the warning", || {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tollhouse"));
        let text = run_well(command.args(["status", "--control", &url]));
        text.contains("warning").then_some(text)
    });
    assert!(status.contains("nothing listens on port 1,"), "{status}");
    assert!(!status.contains("set aside"), "it is in service: {status}");
}
