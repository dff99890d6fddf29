//! Whose certificates nodes must show, for requests, for connections and for probes.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Sender, channel};

use serde_json::{Value, json};
use tollhouse_testkit::patience::wait_for;

use crate::http2_clients::{self, Http2Client};
use crate::stream_routes::stream_addresses;
use crate::support::{gateway, routes, with};
use crate::tls_support::{Authority, tls_node};

fn trusting(authority: &Authority) -> Value {
    json!({ "tls": { "verify": true, "ca": authority.pem } })
}

#[test]
fn a_node_is_taken_by_its_authority_and_name_and_others_are_not_asked() {
    let (servers, strangers) = (Authority::new("servers"), Authority::new("strangers"));
    let node = tls_node(&servers.server(&["node.test"]), None);
    let upstream = |more: Value| {
        let own =
            json!({ "type": "roundrobin", "scheme": "https", "nodes": { node.to_string(): 1 } });
        with(with(own, json!({ "pass_host": "rewrite", "upstream_host": "node.test" })), more)
    };
    let route = |path: &str, more: Value| json!({ "id": path.trim_start_matches('/'), "uri": path, "upstream": upstream(more) });
    let passive = json!({ "checks": {
        "active": { "healthy": { "interval": 3600 }, "unhealthy": { "interval": 3600 }, "type": "tcp" },
        "passive": { "type": "tcp", "unhealthy": { "tcp_failures": 1 } },
    } });
    let gateway = gateway()
        .resources(&routes([
            route("/anybody", json!({})),
            route("/ours", trusting(&servers)),
            route("/implied", json!({ "tls": { "ca": servers.pem } })),
            route(
                "/other-name",
                with(trusting(&servers), json!({ "upstream_host": "other.test" })),
            ),
            route("/strange", trusting(&strangers)),
            route("/system", json!({ "tls": { "verify": true } })),
            route(
                "/clients-name",
                with(with(trusting(&servers), passive), json!({ "pass_host": "pass" })),
            ),
        ]))
        .start();
    // Kept connections of one are none of another's.
    for _ in 0..2 {
        for (path, expected) in [
            ("/anybody", 200),
            ("/ours", 200),
            ("/implied", 200),
            ("/strange", 502),
            ("/other-name", 502),
            ("/system", 502),
        ] {
            assert_eq!(gateway.client().get(path).status(), expected, "{path}");
        }
    }
    gateway.output().wait_line("the reason", |line| {
        (line.contains("upstream_connect_failed") && line.contains("UnknownIssuer")).then_some(())
    });
    // A name that a client makes up says nothing about the node.
    for (host, expected) in [("made-up.test", 502), ("made-up.test", 502), ("node.test", 200)] {
        let mut client = gateway.client();
        client.send(format!(
            "GET /clients-name HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n"
        ));
        let answer = String::from_utf8(client.rest()).expect("text");
        assert!(answer.starts_with(&format!("HTTP/1.1 {expected}")), "{host}: {answer}");
    }
}

#[test]
fn a_node_may_show_what_people_make_with_one_command() {
    let authority = Authority::new("servers");
    let old = authority.version_one(&authority.server(&["node.test"]));
    let pinned = Authority::own_authority(&["node.test"]);
    let (old_node, pinned_node) = (tls_node(&old, None), tls_node(&pinned, None));
    let route = |path: &str, node: SocketAddr, tls: Value| {
        let upstream = json!({
            "type": "roundrobin", "scheme": "https", "nodes": { node.to_string(): 1 },
            "pass_host": "rewrite", "upstream_host": "node.test", "tls": tls,
        });
        json!({ "id": path.trim_start_matches('/'), "uri": path, "upstream": upstream })
    };
    let ours = json!({ "verify": true, "ca": authority.pem });
    let itself = json!({ "verify": true, "ca": pinned.chain });
    let gateway = gateway()
        .resources(&routes([
            route("/old", old_node, json!({})),
            route("/old-verified", old_node, ours.clone()),
            route("/pinned", pinned_node, itself),
            route("/pinned-unlisted", pinned_node, ours),
        ]))
        .start();
    for (path, expected) in
        [("/old", 200), ("/pinned", 200), ("/old-verified", 502), ("/pinned-unlisted", 502)]
    {
        assert_eq!(gateway.client().get(path).status(), expected, "{path}");
    }
    gateway.output().wait_line("the reason", |line| {
        (line.contains("upstream_connect_failed") && line.contains("version 1 certificate"))
            .then_some(())
    });
}

#[test]
fn connections_below_http_and_probes_trust_the_same_authorities() {
    let (servers, strangers) = (Authority::new("servers"), Authority::new("strangers"));
    let node = tls_node(&servers.server(&["node.test"]), None);
    let check = json!({ "checks": { "active": {
        "type": "https", "http_path": "/",
        "healthy": { "interval": 1, "successes": 1 }, "unhealthy": { "interval": 1, "tcp_failures": 1 },
    } } });
    let route = |authority: &Authority| {
        let own =
            json!({ "type": "roundrobin", "scheme": "tls", "nodes": { node.to_string(): 1 } });
        let named = json!({ "pass_host": "rewrite", "upstream_host": "node.test" });
        let upstream = with(with(with(own, named), trusting(authority)), check.clone());
        json!({ "id": "1", "upstream": upstream })
    };
    let listener = json!([{ "address": "127.0.0.1:0" }]).to_string();
    let resources = |authority| json!({ "stream_routes": [route(authority)] });
    let gateway =
        gateway().set("listen.stream", &listener).resources(&resources(&strangers)).start();
    let ask = || {
        let mut client = TcpStream::connect(stream_addresses(&gateway)[0]).expect("it listens");
        // One that is refused may be closed before it is read from.
        let _ = client.write_all(b"GET / HTTP/1.1\r\n\r\n");
        let mut answer = Vec::new();
        let _ = client.read_to_end(&mut answer);
        answer.ends_with(b"ok")
    };
    let wait_until = |status: &str| {
        wait_for(status, || {
            let page = gateway.control("/v1/healthcheck/stream_routes/1");
            (page["nodes"][0]["status"] == json!(status)).then_some(())
        });
    };
    assert!(!ask());
    wait_until("unhealthy");
    gateway.reload(&resources(&servers));
    wait_until("healthy");
    assert!(ask());
}

/// An address whose connections reach `node` once the sender is dropped, and the number of them.
fn gate(node: SocketAddr) -> (SocketAddr, Arc<AtomicUsize>, Sender<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback can be bound");
    let address = listener.local_addr().expect("bound");
    let accepted = Arc::new(AtomicUsize::new(0));
    let (close, is_open) = channel::<()>();
    let count = Arc::clone(&accepted);
    std::thread::spawn(move || {
        while let Ok((client, _)) = listener.accept() {
            count.fetch_add(1, Ordering::SeqCst);
            let _ = is_open.recv();
            let node = TcpStream::connect(node).expect("the node listens");
            let (mut up, mut down) = (
                (client.try_clone().expect("a handle"), node.try_clone().expect("a handle")),
                (node, client),
            );
            std::thread::spawn(move || std::io::copy(&mut up.0, &mut up.1));
            std::thread::spawn(move || std::io::copy(&mut down.0, &mut down.1));
        }
    });
    (address, accepted, close)
}

#[test]
fn a_connection_that_is_being_opened_to_a_node_of_http_1_outlives_the_request_that_asked_for_it() {
    let authority = Authority::new("servers");
    let node = tls_node(&authority.server(&["node.test"]), None);
    let (address, accepted, close) = gate(node);
    let upstream =
        json!({ "type": "roundrobin", "scheme": "https", "nodes": { address.to_string(): 1 } });
    let gateway = gateway()
        .log_requests()
        .resources(&routes([json!({ "id": "1", "uri": "/*", "upstream": upstream })]))
        .start();
    http2_clients::run(async {
        let client = Http2Client::plain(gateway.address()).await.expect("a connection");
        let asked = {
            let client = client.clone();
            tokio::task::spawn_local(async move { client.get("a.test", "/cancelled").await })
        };
        while accepted.load(Ordering::SeqCst) == 0 {
            tokio::task::yield_now().await;
        }
        // The stream is reset, while the node has not said a word of its handshake.
        asked.abort();
        assert!(asked.await.is_err_and(|error| error.is_cancelled()));
        gateway.log_line("/cancelled");
        drop(close);
        wait_for("the connection", || {
            let opened = gateway.metric("tollhouse_upstream_connections_opened_total");
            (opened > 0.0).then_some(())
        });
        let answer = client.get("a.test", "/").await.expect("an answer");
        assert_eq!((answer.status, &*answer.text), (200, "ok"));
        assert_eq!(accepted.load(Ordering::SeqCst), 1, "one opening for both");
    });
}
