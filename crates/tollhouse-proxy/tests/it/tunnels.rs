//! A tunnel may last for days: it keeps its route, upstream and plugins, and no whole
//! configuration.

use std::io::{self, Read, Write};
use std::net::TcpListener;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tollhouse_proxy::SnapshotCell;
use tollhouse_telemetry::Metrics;
use tollhouse_telemetry::access_log::{AccessLog, Escape, Layout, Sink};

use crate::support::{Gateway, Options, PATIENCE, connect, read_head, snapshot};

const ASK: &str = "GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n";
const SWITCH: &str =
    "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n";

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
    let text = String::from_utf8_lossy(&head).to_ascii_lowercase();
    assert!(text.starts_with("http/1.1 101 ") && !text.contains("content-length"), "{text}");

    snapshots.publish(next);
    let since = Instant::now();
    while old.upgrade().is_some() {
        assert!(since.elapsed() < PATIENCE, "the tunnel holds the configuration it began with");
        // Each core lets go of it with its next request.
        let mut other = connect(&gateway);
        other.write_all(b"OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n").expect("the worker reads");
        read_head(&mut other, &mut head).expect("an answer");
        snapshots.drop_retired();
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

/// A client that has gone when the node agrees: nothing of the tunnel begins, and the log shows the
/// request and none of the bytes that came behind it.
#[test]
fn a_switch_that_finds_no_client_is_logged_as_the_request_that_asked_for_it() {
    let origin = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let node = origin.local_addr().expect("an address").to_string();
    let route = json!({
        "uri": "/*", "enable_websocket": true,
        "upstream": {"type": "roundrobin", "nodes": {node: 1}},
    });
    let snapshots = Arc::new(SnapshotCell::new(snapshot(route)));
    let lines = Lines::default();
    let metrics = Arc::new(Metrics::new());
    let layout = Layout::parse("$status $request $error_code", Escape::Default);
    let layout = layout.expect("a good format").expect("a format");
    let sink = Box::new(lines.clone());
    let log = AccessLog::with_sink(layout, sink, Arc::clone(metrics.process()), 16);
    let log = log.expect("a thread");
    let options = Options { log: Some(log.core()), metrics, ..Options::default() };
    let gateway = Gateway::start_with(&snapshots, options);

    let mut client = connect(&gateway);
    client.write_all(ASK.as_bytes()).expect("the worker reads");
    client.write_all(b"SECRET /behind HTTP/9").expect("the worker reads");
    let (mut tunnel, _) = origin.accept().expect("a connection");
    let mut head = Vec::new();
    read_head(&mut tunnel, &mut head).expect("a request");
    // The connection is reset, not ended: what the gateway writes from here on fails.
    rustix::net::sockopt::set_socket_linger(&client, Some(Duration::ZERO)).expect("an open socket");
    drop(client);
    tunnel.write_all(SWITCH.as_bytes()).expect("the worker reads");
    let mut rest = Vec::new();
    // The end of the node's connection is the end of the request.
    let _ = tunnel.read_to_end(&mut rest);
    assert_eq!(rest, b"");
    gateway.stop();
    log.shutdown();
    let written = lines.0.lock().expect("nobody panics inside").clone();
    let line = String::from_utf8(written).expect("text");
    assert_eq!(line, "101 GET / HTTP/1.1 downstream_gone\n");
}

/// An access log in memory.
#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<u8>>>);

impl Sink for Lines {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().expect("nobody panics inside").extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn reopen(&mut self) -> io::Result<()> {
        Ok(())
    }
}
