//! A tunnel may last for days: it keeps its route, upstream and plugins, and no whole configuration.

mod support;

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::time::Instant;

use serde_json::{Value, json};
use support::{Gateway, PATIENCE, read_head, snapshot};
use tollhouse_proxy::SnapshotCell;

const ASK: &str = "GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n";
const SWITCH: &str =
    "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n";

fn connect(gateway: &Gateway) -> TcpStream {
    let client = TcpStream::connect(gateway.address).expect("the worker accepts");
    client.set_read_timeout(Some(PATIENCE)).expect("an open socket");
    client
}

/// Opens a tunnel and replaces the configuration under it.
fn check(plugins: Value) {
    let origin = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let node = origin.local_addr().expect("an address").to_string();
    let route = json!({
        "uri": "/*", "enable_websocket": true, "plugins": plugins,
        "upstream": {"type": "roundrobin", "nodes": {node: 1}},
    });
    let (first, next) = (snapshot(route.clone()), snapshot(route));
    let old = Arc::downgrade(&first);
    let snapshots = Arc::new(SnapshotCell::new(first));
    let gateway = Gateway::start(&snapshots, || {});
    let mut client = connect(&gateway);
    client.write_all(ASK.as_bytes()).expect("the worker reads");
    let (mut tunnel, _) = origin.accept().expect("a connection");
    let mut head = Vec::new();
    read_head(&mut tunnel, &mut head).expect("a request");
    tunnel.write_all(SWITCH.as_bytes()).expect("the worker reads");
    read_head(&mut client, &mut head).expect("an answer");
    assert!(head.starts_with(b"HTTP/1.1 101 "), "{}", String::from_utf8_lossy(&head));

    snapshots.publish(next);
    let since = Instant::now();
    while old.upgrade().is_some() {
        assert!(since.elapsed() < PATIENCE, "the tunnel holds the configuration it began with");
        // Each core lets go of it with its next request.
        let mut other = connect(&gateway);
        other.write_all(b"OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n").expect("the worker reads");
        read_head(&mut other, &mut head).expect("an answer");
    }

    client.write_all(b"hello").expect("the tunnel stands");
    let mut word = [0; 5];
    tunnel.read_exact(&mut word).expect("the client's word");
    assert_eq!(&word, b"hello");
    drop((tunnel, client));
    gateway.stop();
}

#[test]
fn a_tunnel_keeps_no_configuration() {
    check(json!({}));
}

#[test]
fn a_tunnel_with_plugins_keeps_no_configuration() {
    check(json!({"limit-conn": {
        "conn": 1, "burst": 0, "default_conn_delay": 0.1, "key": "remote_addr",
    }}));
}
