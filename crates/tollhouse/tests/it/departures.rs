//! Clients that leave before they are answered: their requests end at once, and what they held is free for the next.

use std::io::Write;
use std::net::Shutdown;
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, channel};

use serde_json::{Value, json};
use tollhouse_testkit::origin::answer;
use tollhouse_testkit::patience::{DEADLINE, wait_for};
use tollhouse_testkit::{Connection, Gateway, GatewayBuilder, Origin, RawClient};

use crate::support::{everything_to, everything_with, gateway, routes, upstream};
use crate::tls_support::{Authority, TlsOptions, ssl};

/// How a client leaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Leave {
    Reset,
    HalfClose,
}

impl Leave {
    /// Leaves; what is returned keeps a half-closed connection open.
    fn run(self, mut client: RawClient) -> Option<RawClient> {
        match self {
            Self::Reset => {
                client.wire.reset().expect("an open connection");
                None
            }
            Self::HalfClose => {
                client.half_close();
                Some(client)
            }
        }
    }
}

/// An origin that answers targets below `/silent` with their query, then says nothing; it tells when the gateway
/// has ended such a connection. Other targets it answers.
fn silent_origin() -> (Origin, Receiver<()>) {
    let (ended, told) = channel();
    let ended = Mutex::new(ended);
    let origin = Origin::script(move |connection: &mut Connection| {
        while let Some(request) = connection.request() {
            let Some(rest) = request.target().strip_prefix("/silent") else {
                connection.send(answer(200, "served"));
                continue;
            };
            if rest.starts_with("?amid") {
                connection
                    .send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n");
            }
            // In order or by a reset.
            let _ = connection.wait_end();
            let _ = ended.lock().expect("no script panics").send(());
            return;
        }
    });
    (origin, told)
}

/// Gateway with one place of each kind: the next client is served only after the previous one has left all of them.
fn narrow(origin: &Origin, plugins: Value) -> GatewayBuilder {
    let mut all = json!({"limit-conn": {
        "conn": 1, "burst": 0, "default_conn_delay": 0.1, "key": "remote_addr", "rejected_code": 503,
    }});
    if let (Some(all), Value::Object(plugins)) = (all.as_object_mut(), plugins) {
        all.extend(plugins);
    }
    let route = json!({
        "id": "all", "uri": "/*", "enable_websocket": true, "plugins": all,
        "upstream": upstream([origin.address()]),
    });
    gateway()
        .set("workers", "1")
        .set("limits.connections_per_address", "1")
        .log_requests()
        .resources(&routes([route]))
}

/// Waits until a new client from the same address is served.
fn expect_room(gateway: &Gateway) {
    wait_for("the place of the client that has left", || {
        let status =
            gateway.client().ask("GET /next HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
        (status.status() == 200).then_some(())
    });
}

const HANDSHAKE: &str = "GET /silent?chat HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
    Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";

/// Requests after which the node falls silent, and the status of their line in the log.
const REQUESTS: [(&str, u16); 5] = [
    ("GET /silent HTTP/1.1\r\nHost: a\r\n\r\n", 499),
    ("POST /silent HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nbody", 499),
    ("GET /silent HTTP/1.1\r\nHost: a\r\n\r\nGET /pipelined HTTP/1.1\r\nHost: a\r\n\r\n", 499),
    ("GET /silent?amid HTTP/1.1\r\nHost: a\r\n\r\n", 200),
    (HANDSHAKE, 499),
];

#[test]
fn a_client_that_leaves_a_silent_node_gives_up_all_that_it_held() {
    for (request, status) in REQUESTS {
        for leave in [Leave::Reset, Leave::HalfClose] {
            let (origin, told) = silent_origin();
            let gateway = narrow(&origin, json!({})).start();
            let mut client = gateway.client();
            client.send(request);
            origin.wait_requests(1);
            if status == 200 {
                client.answer_head();
                client.expect("5\r\nhello\r\n");
            }
            let left = leave.run(client);
            told.recv_timeout(DEADLINE).unwrap_or_else(|_| panic!("{leave:?} {request}"));
            if let Some(mut client) = left {
                client.expect_end();
            }
            expect_room(&gateway);
            let target = request.split(' ').nth(1).expect("a request line");
            let line = gateway.log_line(target);
            assert_eq!(
                (line["status"].clone(), &line["error_code"]),
                (json!(status), &json!("downstream_gone")),
                "{leave:?} {request}"
            );
        }
    }
}

#[test]
fn a_client_that_leaves_over_tls_gives_up_all_that_it_held() {
    let authority = Authority::new("root");
    let pair = authority.server(&["a.test"]);
    for leave in [Leave::Reset, Leave::HalfClose] {
        let (origin, told) = silent_origin();
        let mut resources = everything_to(origin.address());
        resources["ssls"] = json!([ssl("1", &["a.test"], &pair)]);
        let gateway = gateway()
            .tls()
            .set("workers", "1")
            .set("limits.connections_per_address", "1")
            .resources(&resources)
            .start();
        let client = TlsOptions::new(&authority).build();
        let mut stream = client.connect(gateway.tls_address(), "a.test").expect("a handshake");
        stream.write_all(b"GET /silent HTTP/1.1\r\nHost: a.test\r\n\r\n").expect("sent");
        origin.wait_requests(1);
        match leave {
            Leave::Reset => {
                let wire = tollhouse_testkit::RawClient::over(stream.sock).wire;
                wire.reset().expect("an open connection");
            }
            Leave::HalfClose => {
                stream.conn.send_close_notify();
                while stream.conn.wants_write() {
                    stream.conn.write_tls(&mut stream.sock).expect("sent");
                }
                stream.sock.shutdown(Shutdown::Write).expect("an open connection");
                told.recv_timeout(DEADLINE).expect("the node's connection ends");
                continue;
            }
        }
        told.recv_timeout(DEADLINE).expect("the node's connection ends");
    }
}

#[test]
fn a_client_that_half_closes_and_waits_is_answered_where_the_setting_says_so() {
    let (go_on, wait) = channel::<()>();
    let wait = Mutex::new(wait);
    let origin = Origin::script(move |connection| {
        while connection.request().is_some() {
            if wait.lock().expect("one at a time").recv().is_err() {
                return;
            }
            connection.send(answer(200, "late"));
        }
    });
    let gateway = gateway()
        .set("on_client_half_close", "wait")
        .log_requests()
        .resources(&everything_to(origin.address()))
        .start();
    let mut client = gateway.client();
    client.send("GET /1 HTTP/1.1\r\nHost: a\r\n\r\n").half_close();
    origin.wait_requests(1);
    // A client that is reset leaves in this mode too, and is noticed later than the half-close was to be.
    let mut other = gateway.client();
    other.send("GET /2 HTTP/1.1\r\nHost: a\r\n\r\n").half_close();
    origin.wait_requests(2);
    other.wire.reset().expect("an open connection");
    drop(other);
    gateway.wait_failures("downstream_gone", 1);
    assert_eq!(gateway.log_line("/2")["status"], 499);
    go_on.send(()).expect("the origin waits");
    go_on.send(()).expect("the origin waits");
    assert_eq!(client.answer().text(), "late");
    client.expect_end();
}

#[test]
fn a_client_that_leaves_while_a_plugin_waits_is_logged_by_plugins() {
    let waits = [
        (
            "limit-conn",
            json!({"limit-conn": {
                "conn": 1, "burst": 1, "default_conn_delay": 3600, "only_use_default_delay": true,
                "key": "remote_addr",
            }}),
        ),
        ("limit-req", json!({"limit-req": {"rate": 0.001, "burst": 1, "key": "remote_addr"}})),
        ("forward-auth", json!({"forward-auth": {"uri": "http://AUTH/silent", "timeout": 60000}})),
    ];
    for (name, mut plugins) in waits {
        for leave in [Leave::Reset, Leave::HalfClose] {
            let (origin, _told) = silent_origin();
            let (auth, asked) = silent_origin();
            if name == "forward-auth" {
                let uri = format!("http://{}/silent", auth.address());
                plugins[name]["uri"] = json!(uri);
            }
            plugins["file-logger"] = json!({"path": "requests.log"});
            let route = json!({
                "id": "all", "uri": "/*", "plugins": plugins, "upstream": upstream([origin.address()]),
            });
            let gateway =
                gateway().set("workers", "1").log_requests().resources(&routes([route])).start();
            // The first one takes the place for which the other waits.
            let mut first = gateway.client();
            first.send("GET /silent?first HTTP/1.1\r\nHost: a\r\n\r\n");
            match name {
                "forward-auth" => auth.wait_requests(1),
                _ => origin.wait_requests(1),
            };
            let mut second = gateway.client();
            second.send("GET /silent?second HTTP/1.1\r\nHost: a\r\n\r\n");
            if name == "forward-auth" {
                auth.wait_requests(2);
            } else {
                wait_for("the second request", || {
                    (gateway.metric("tollhouse_requests_open") == 2.0).then_some(())
                });
            }
            let left = leave.run(second);
            let line = gateway.log_line("/silent?second");
            assert_eq!(line["status"], 499, "{name} {leave:?}");
            wait_for("the plugin's line", || {
                let path = gateway.folder().join("logs/requests.log");
                let text = std::fs::read_to_string(path).unwrap_or_default();
                text.contains("/silent?second").then_some(())
            });
            if name == "forward-auth" {
                asked.recv_timeout(DEADLINE).expect("the call ends with its request");
            }
            drop((left, first));
        }
    }
}

#[test]
fn a_pipelined_request_behind_a_slow_one_is_no_departure() {
    let (go_on, wait) = channel::<()>();
    let wait = Mutex::new(wait);
    let origin = Origin::script(move |connection| {
        while let Some(request) = connection.request() {
            if wait.lock().expect("one at a time").recv().is_err() {
                return;
            }
            connection.send(answer(200, request.target()));
        }
    });
    let gateway = gateway().set("workers", "1").resources(&everything_to(origin.address())).start();
    let mut client = gateway.client();
    client.send("GET /1 HTTP/1.1\r\nHost: a\r\n\r\nGET /2 HTTP/1.1\r\nHost: a\r\n\r\n");
    origin.wait_requests(1);
    // Somebody else who leaves later is noticed: by then the client with the pipelined request has been looked at.
    let mut other = gateway.client();
    other.send("GET /3 HTTP/1.1\r\nHost: a\r\n\r\n");
    origin.wait_requests(2);
    drop(other);
    gateway.wait_failures("downstream_gone", 1);
    client.send("GET /4 HTTP/1.1\r\nHost: a\r\n\r\n");
    for target in ["/1", "/2", "/4"] {
        go_on.send(()).expect("the origin waits");
        // The connection of the client that has left is waited for, too.
        let _ = go_on.send(());
        assert_eq!(client.answer().text(), target);
    }
}

#[test]
fn a_client_that_leaves_is_no_failure_of_the_node() {
    let (origin, told) = silent_origin();
    let checks = json!({"passive": {"unhealthy": {"http_failures": 1, "tcp_failures": 1, "timeouts": 1}},
        "active": {"http_path": "/", "healthy": {"interval": 3600}, "unhealthy": {"interval": 3600}}});
    let resources = everything_with(upstream([origin.address()]), json!({"checks": checks}));
    let gateway = gateway().set("workers", "1").resources(&resources).start();
    for _ in 0..3 {
        let mut client = gateway.client();
        client.send("GET /silent HTTP/1.1\r\nHost: a\r\n\r\n");
        drop(client);
        told.recv_timeout(DEADLINE).expect("the node's connection ends");
    }
    assert_eq!(gateway.client().get("/next").status(), 200);
}
