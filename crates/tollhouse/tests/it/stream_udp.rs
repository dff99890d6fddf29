//! Datagrams: sessions with one node each, bounded however many sources there are.

use std::net::{Ipv4Addr, SocketAddr, UdpSocket};

use serde_json::{Value, json};
use tollhouse_testkit::patience::{DEADLINE, wait_for};
use tollhouse_testkit::{Gateway, GatewayBuilder};

use crate::stream_routes::stream_addresses;
use crate::support::{gateway, upstream};

fn udp_gateway() -> GatewayBuilder {
    let listener = json!([{ "address": "127.0.0.1:0", "protocol": "udp" }]);
    gateway().set("listen.stream", &listener.to_string())
}

fn everything_to<const COUNT: usize>(addresses: [SocketAddr; COUNT]) -> Value {
    json!({ "stream_routes": [{ "id": "1", "upstream": upstream(addresses) }] })
}

fn socket() -> UdpSocket {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a free port");
    socket.set_read_timeout(Some(DEADLINE)).expect("an open socket");
    socket
}

/// A node that answers each datagram with its own name and what it got.
fn echo(name: &str) -> SocketAddr {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a free port");
    let address = socket.local_addr().expect("bound");
    let name = name.to_owned();
    std::thread::spawn(move || {
        let mut datagram = [0; 2048];
        while let Ok((bytes, from)) = socket.recv_from(&mut datagram) {
            let answer = [name.as_bytes(), b":", &datagram[..bytes]].concat();
            let _ = socket.send_to(&answer, from);
        }
    });
    address
}

fn ask(client: &UdpSocket, gateway: SocketAddr, text: &str) -> String {
    client.send_to(text.as_bytes(), gateway).expect("sent");
    let mut answer = [0; 2048];
    let (bytes, from) = client.recv_from(&mut answer).expect("an answer");
    assert_eq!(from, gateway, "from where it was asked");
    String::from_utf8_lossy(&answer[..bytes]).into_owned()
}

fn address(gateway: &Gateway) -> SocketAddr {
    stream_addresses(gateway)[0]
}

#[test]
fn a_session_keeps_its_node_and_sessions_take_turns() {
    let gateway = udp_gateway().resources(&everything_to([echo("one"), echo("other")])).start();
    let mut names = Vec::new();
    for _ in 0..8 {
        let client = socket();
        let first = ask(&client, address(&gateway), "a");
        for text in ["b", "c"] {
            let name = first.trim_end_matches('a');
            assert_eq!(ask(&client, address(&gateway), text), format!("{name}{text}"));
        }
        names.push(first);
    }
    names.sort();
    names.dedup();
    assert_eq!(names, ["one:a", "other:a"]);
    assert_eq!(gateway.metric("tollhouse_udp_sessions_total"), 8.0);
}

#[test]
fn ten_thousand_sources_fill_no_more_than_the_table_and_a_session_keeps_its_node() {
    const SESSIONS: f64 = 100.0;
    let gateway = udp_gateway()
        .set("workers", "1")
        .set("limits.udp_sessions_per_worker", "100")
        .set("limits.udp_sessions_per_address", "8")
        .resources(&everything_to([echo("one"), echo("other")]))
        .start();
    // A second datagram shows that the session is in use.
    let client = socket();
    let before = ask(&client, address(&gateway), "x");
    assert_eq!(ask(&client, address(&gateway), "x"), before);
    let memory = gateway.memory_before();
    for number in 0_u16..10_000 {
        let [high, low] = number.to_be_bytes();
        let source = SocketAddr::from((Ipv4Addr::new(127, 9, high, low), 0));
        let socket = UdpSocket::bind(source).expect("any address of this host");
        socket.send_to(b"flood", address(&gateway)).expect("sent");
    }
    let displaced = "tollhouse_udp_sessions_displaced_total";
    wait_for("the flood", || (gateway.metric(displaced) > 1000.0).then_some(()));
    assert!(gateway.metric("tollhouse_udp_sessions_open") <= SESSIONS);
    assert_eq!(ask(&client, address(&gateway), "x"), before, "its session stands");
    // All places are taken, and the next client finds one.
    assert!(!ask(&socket(), address(&gateway), "y").is_empty());
    let grown = gateway.memory_bytes_grown(memory);
    assert!(grown < 16 << 20, "{grown} bytes");
}

#[test]
fn sessions_keep_nothing_of_what_they_began_with() {
    const CLIENTS: usize = 300;
    const DATAGRAM_BYTES: usize = 60_000;
    let gateway = udp_gateway()
        .set("workers", "1")
        .set("limits.udp_sessions_per_address", "1000")
        .resources(&everything_to([echo("one")]))
        .start();
    let text = "x".repeat(DATAGRAM_BYTES);
    let talk = || {
        let client = socket();
        // The node and this client look at what stands first.
        assert!(ask(&client, address(&gateway), &text).starts_with("one:xxx"));
        client
    };
    // What one long datagram needs is there before memory is looked at.
    let first = talk();
    let memory = gateway.memory_before();
    let clients: Vec<UdpSocket> = (1..CLIENTS).map(|_| talk()).collect();
    assert_eq!(gateway.metric("tollhouse_udp_sessions_open"), CLIENTS as f64);
    let grown = gateway.memory_bytes_grown(memory);
    assert!(grown < (CLIENTS * DATAGRAM_BYTES / 2) as u64, "{grown} bytes");
    drop((first, clients));
}

#[test]
fn every_datagram_of_a_flood_is_served_or_counted() {
    const SOURCES: u16 = 10_000;
    let gateway = udp_gateway()
        .set("workers", "1")
        .set("limits.udp_sessions_per_worker", "100")
        .resources(&everything_to([echo("one")]))
        .start();
    for number in 0..SOURCES {
        let [high, low] = number.to_be_bytes();
        let source = SocketAddr::from((Ipv4Addr::new(127, 10, high, low), 0));
        let socket = UdpSocket::bind(source).expect("any address of this host");
        socket.send_to(b"flood", address(&gateway)).expect("sent");
    }
    // What the kernel could not hold while the gateway was busy is counted beside what it refused.
    let count = |reason| {
        gateway.metric(&format!("tollhouse_udp_datagrams_dropped_total{{reason=\"{reason}\"}}"))
    };
    wait_for("all to be accounted for", || {
        let served = gateway.metric("tollhouse_udp_sessions_total");
        let lost = count("limit") + count("receive_buffer");
        (served + lost >= f64::from(SOURCES)).then_some(())
    });
    assert!(gateway.metric("tollhouse_udp_sessions_total") >= 100.0);
}

#[test]
fn one_address_has_no_more_sessions_than_it_may() {
    let gateway = udp_gateway()
        .set("workers", "1")
        .set("limits.udp_sessions_per_address", "2")
        .resources(&everything_to([echo("one")]))
        .start();
    let clients = [socket(), socket()];
    // In use: a session of one datagram would make room.
    for client in [&clients[0], &clients[0], &clients[1], &clients[1]] {
        assert_eq!(ask(client, address(&gateway), "x"), "one:x");
    }
    let third = socket();
    third.send_to(b"x", address(&gateway)).expect("sent");
    let dropped = "tollhouse_udp_datagrams_dropped_total{reason=\"limit_per_address\"}";
    wait_for("the refusal", || (gateway.metric(dropped) == 1.0).then_some(()));
}

#[test]
fn a_node_that_is_not_there_is_passed_over_once_it_has_refused() {
    // Its port is kept from others, and what it has not asked for is refused.
    let refusing = socket();
    refusing.connect(refusing.local_addr().expect("bound")).expect("it talks to itself");
    let gone = refusing.local_addr().expect("bound");
    let gateway = udp_gateway().resources(&everything_to([gone, echo("one")])).start();
    let client = socket();
    client.set_read_timeout(Some(std::time::Duration::from_millis(50))).expect("an open socket");
    wait_for("the other node", || {
        client.send_to(b"x", address(&gateway)).ok()?;
        let mut answer = [0; 16];
        client.recv_from(&mut answer).ok()
    });
}

#[test]
fn nodes_are_told_the_client_where_that_is_configured() {
    let node = socket();
    let address_of_node = node.local_addr().expect("bound");
    let listener = json!([{
        "address": "127.0.0.1:0", "protocol": "udp", "proxy_protocol_to_upstream": "v2",
    }]);
    let gateway = gateway()
        .set("listen.stream", &listener.to_string())
        .resources(&everything_to([address_of_node]))
        .start();
    let client = socket();
    for _ in 0..2 {
        client.send_to(b"hello", address(&gateway)).expect("sent");
        let mut datagram = [0; 256];
        let (bytes, _) = node.recv_from(&mut datagram).expect("it arrives");
        let port = client.local_addr().expect("bound").port().to_be_bytes();
        // IPv4 over datagrams, then the addresses, the ports, and the checksum.
        assert_eq!(datagram[12..16], [0x21, 0x12, 0, 19]);
        assert_eq!((&datagram[16..20], &datagram[24..26]), (&[127, 0, 0, 1][..], &port[..]));
        assert!(datagram[..bytes].ends_with(b"hello"));
    }
}
