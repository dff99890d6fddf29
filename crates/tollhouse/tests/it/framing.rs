//! Where a message ends is the gateway's to say, whatever clients, nodes and plugins write: chunks made
//! anew, answers framed by the method that was sent, no body where there is none.

use std::sync::Mutex;
use std::sync::mpsc::channel;

use serde_json::{Value, json};
use tollhouse_testkit::origin::answer;
use tollhouse_testkit::{Gateway, Origin, RawClient};

use crate::support::{gateway, gateway_to, routes, upstream, with};

const CHUNKED: &str = "POST /open HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";

/// An origin that reads one request's head and then bytes up to `end`, and tells both.
fn raw_origin(end: &'static str) -> (Origin, std::sync::mpsc::Receiver<String>) {
    let (tell, told) = channel();
    let tell = Mutex::new(tell);
    let origin = Origin::script(move |connection| {
        while connection.head().is_some() {
            let bytes = connection.wire.take_through(end.as_bytes()).expect("bytes");
            let text = String::from_utf8_lossy(&bytes.expect("the end comes")).into_owned();
            tell.lock().expect("unharmed").send(text).expect("the test listens");
            connection.send(answer(200, "ok"));
        }
    });
    (origin, told)
}

#[test]
fn no_chunk_line_of_a_client_reaches_a_node() {
    let (origin, told) = raw_origin("\r\n0\r\n\r\n");
    let gateway = gateway_to(&origin);
    let mut client = gateway.client();
    let zeros = "0".repeat(40);
    for body in [
        "5\r\nhello\r\n0\r\n\r\n".to_owned(),
        format!("{zeros}5\r\nhello\r\n{zeros}\r\n\r\n"),
        "5;name=\"a;b\"\r\nhello\r\n0;x\r\n\r\n".to_owned(),
        "5 ; a=b\r\nhello\r\n0\t;x\r\n\r\n".to_owned(),
        "2\r\nhe\r\n3\r\nllo\r\n0\r\n\r\n".to_owned(),
        "5\r\nhello\r\n0\r\nConnection: close\r\nHost: b\r\nContent-Length: 3\r\n\r\n".to_owned(),
    ] {
        assert_eq!(client.ask(format!("{CHUNKED}{body}")).text(), "ok", "{body}");
        assert_eq!(told.recv().expect("a body"), "5\r\nhello\r\n0\r\n\r\n", "{body}");
    }
    assert_eq!(origin.connections(), 1, "nobody's trailer ends the node's connection");
}

#[test]
fn a_size_beyond_32_bits_hides_no_request() {
    let inner = "hello\r\n0\r\n\r\nGET /admin HTTP/1.1\r\nHost: a\r\n\r\n";
    let (origin, told) = raw_origin("Host: a\r\n\r\n\r\n");
    let gateway = gateway_to(&origin);
    let mut client = gateway.client();
    client.send(format!("{CHUNKED}100000005\r\n{inner}"));
    // What has arrived of the chunk is a chunk; the request has not ended.
    let expected = format!("{:x}\r\n{inner}\r\n", inner.len());
    assert_eq!(told.recv().expect("the part that was sent"), expected);
    assert_eq!(origin.requests().len(), 1);
}

#[test]
fn no_chunk_line_of_a_node_reaches_a_client() {
    let zeros = "0".repeat(40);
    let head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
    for body in [
        format!("{zeros}5;a=b\r\nhello\r\n{zeros};c\r\nX-Sum: 1\r\n\r\n"),
        "5 ; a=b\r\nhello\r\n0\r\n\r\n".to_owned(),
        "5   \r\nhello\r\n0  \r\n\r\n".to_owned(),
    ] {
        let origin = Origin::answering(format!("{head}{body}"));
        let gateway = gateway_to(&origin);
        let mut client = gateway.client();
        for _ in 0..2 {
            client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n").answer_head();
            client.expect("5\r\nhello\r\n0\r\n\r\n");
        }
    }
}

#[test]
fn a_size_padded_with_blanks_is_refused_in_a_request() {
    let (origin, _told) = raw_origin("\r\n0\r\n\r\n");
    let gateway = gateway_to(&origin);
    for body in ["5 \r\nhello\r\n0\r\n\r\n", "5\r\nhello\r\n0  \r\n\r\n"] {
        let mut client = gateway.client();
        let answer = client.ask(format!("{CHUNKED}{body}"));
        assert_eq!((answer.status(), answer.field("connection")), (400, Some("close")), "{body}");
    }
}

fn gateway_with(origin: &Origin, plugins: &Value) -> Gateway {
    let route = json!({ "id": "all", "uri": "/*", "upstream": upstream([origin.address()]) });
    gateway().resources(&routes([with(route, json!({ "plugins": plugins }))])).start()
}

#[test]
fn the_body_that_a_rewritten_head_brings_is_nobody_elses_answer() {
    let forged = "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nforged";
    let origin = Origin::script(move |connection| {
        while let Some(request) = connection.request() {
            if request.target() == "/other" {
                connection.send(answer(200, "own"));
                continue;
            }
            connection.send(format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", forged.len()));
            // The gateway is done with this connection before the body is sent.
            let _ = connection.wait_end();
            connection.send(forged);
        }
    });
    let gateway = gateway_with(&origin, &json!({ "proxy-rewrite": { "method": "GET" } }));
    let mut client = gateway.client();
    for _ in 0..3 {
        client.send("HEAD /report HTTP/1.1\r\nHost: a\r\n\r\n");
        let head = client.answer_to_head();
        assert_eq!((head.status(), head.field("content-length")), (200, Some("44")));
        assert_eq!(origin.last_request().method(), "GET");
        assert_eq!(client.get("/other").text(), "own");
    }
}

#[test]
fn a_node_that_is_asked_with_head_leaves_nothing_to_wait_for() {
    let origin = Origin::answering("HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\n");
    let gateway = gateway_with(&origin, &json!({ "proxy-rewrite": { "method": "HEAD" } }));
    let mut client = gateway.client();
    for _ in 0..2 {
        let answer = client.get("/");
        assert_eq!((answer.status(), answer.field("content-length")), (200, Some("0")));
        assert_eq!(origin.last_request().method(), "HEAD");
    }
    assert_eq!(origin.connections(), 1);
}

#[test]
fn a_status_without_a_body_has_none_whatever_a_plugin_says() {
    let origin = Origin::named("a body of the node");
    for (plugins, status) in [
        (json!({ "workflow": { "rules": [{ "actions": [["return", { "code": 204 }]] }] } }), 204),
        (json!({ "fault-injection": { "abort": { "http_status": 204, "body": "x" } } }), 204),
        (json!({ "fault-injection": { "abort": { "http_status": 304, "body": "x" } } }), 304),
        (json!({ "mocking": { "response_status": 204, "response_example": "x" } }), 204),
        (json!({ "response-rewrite": { "status_code": 204 } }), 204),
        (json!({ "response-rewrite": { "status_code": 304 } }), 304),
        (json!({ "response-rewrite": { "status_code": 204, "body": "x" } }), 204),
        (json!({ "response-rewrite": { "status_code": 204 }, "gzip": { "min_length": 1 } }), 204),
    ] {
        let gateway = gateway_with(&origin, &plugins);
        let mut client = gateway.client();
        let request = "GET /1 HTTP/1.1\r\nHost: a\r\nAccept-Encoding: gzip\r\n\r\n";
        client.send(request.repeat(3));
        for _ in 0..3 {
            let head = client.answer_head();
            assert_eq!(head.status(), status, "{plugins}");
            assert_eq!(head.field("transfer-encoding"), None, "{plugins}");
            assert!(status == 304 || head.field("content-length").is_none(), "{plugins}");
        }
        client.half_close().expect_end();
    }
}

#[test]
fn a_body_may_be_given_to_an_answer_that_had_none() {
    let plugins = json!({ "response-rewrite": { "status_code": 200, "body": "made up" } });
    for head in ["204 No Content", "200 OK\r\nContent-Length: 0", "304 Not Modified"] {
        let origin = Origin::answering(format!("HTTP/1.1 {head}\r\n\r\n"));
        let gateway = gateway_with(&origin, &plugins);
        let mut client = gateway.client();
        for _ in 0..2 {
            let answer = client.get("/");
            assert_eq!((answer.status(), answer.text().as_str()), (200, "made up"), "{head}");
        }
        let mut old = gateway.client();
        assert_eq!(old.ask("GET / HTTP/1.0\r\n\r\n").text(), "made up", "{head}");
    }
}

#[test]
fn no_answer_ends_with_an_interim_status() {
    let origin = Origin::named("a");
    for plugins in [
        json!({ "mocking": { "response_status": 100, "response_example": "x" } }),
        json!({ "workflow": { "rules": [{ "actions": [["return", { "code": 101 }]] }] } }),
    ] {
        let gateway = gateway_with(&origin, &plugins);
        let mut client = gateway.client();
        for _ in 0..2 {
            assert_eq!(client.get("/").status(), 500, "{plugins}");
        }
    }
}

#[test]
fn a_body_that_comes_with_an_upgrade_is_refused() {
    let origin = Origin::named("a");
    let route = json!({ "id": "all", "uri": "/*", "enable_websocket": true });
    let route = with(route, json!({ "upstream": upstream([origin.address()]) }));
    let gateway = gateway().resources(&routes([route])).start();
    let ask = "GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n";
    for body in ["Content-Length: 5\r\n\r\nhello", "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n"] {
        let answer = gateway.client().ask(format!("{ask}{body}"));
        assert_eq!(answer.status(), 400, "{body}");
    }
    assert_eq!(origin.requests().len(), 0);
    assert_eq!(gateway.client().ask(format!("{ask}Content-Length: 0\r\n\r\n")).status(), 200);
}

#[test]
fn after_an_interim_answer_the_node_has_its_whole_time() {
    let (go_on, wait) = channel::<()>();
    let wait = Mutex::new(wait);
    let slow = Origin::script(move |connection| {
        while connection.request().is_some() {
            connection.send("HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n");
            wait.lock().expect("unharmed").recv().expect("the test goes on");
            connection.send(answer(200, "late"));
        }
    });
    let silent = Origin::script(|connection| while connection.request().is_some() {});
    let hurried = with(
        upstream([silent.address()]),
        json!({ "timeout": { "connect": 5, "send": 5, "read": 0.5 }, "retries": 0 }),
    );
    let gateway = gateway()
        .set("limits.send_time", "50ms")
        .resources(&routes([
            json!({ "id": "slow", "uri": "/slow", "upstream": upstream([slow.address()]) }),
            json!({ "id": "silent", "uri": "/silent", "upstream": hurried }),
        ]))
        .start();
    let mut client = gateway.client();
    assert_eq!(client.get("/slow").status(), 103);
    // Ten times what a client may take to accept bytes has passed when this is answered.
    assert_eq!(gateway.client().get("/silent").status(), 504);
    go_on.send(()).expect("the origin waits");
    assert_eq!(client.answer().text(), "late");
    assert_eq!(slow.requests().len(), 1);
}

#[test]
fn lengths_are_written_plainly_on_both_sides() {
    let origin = Origin::script(|connection| {
        while let Some(request) = connection.request() {
            let length = request.field("content-length").unwrap_or("none").to_owned();
            let head = "HTTP/1.1 200 OK\r\nContent-Length:\t  000";
            connection.send(format!("{head}{}  \r\n\r\n{length}", length.len()));
        }
    });
    let gateway = gateway_to(&origin);
    let mut client: RawClient = gateway.client();
    for length in ["\t5", "5 \t", "0000000005", "5"] {
        let head = format!("POST / HTTP/1.1\r\nHost: a\r\nContent-Length:{length}\r\n\r\n");
        let answer = client.ask(format!("{head}hello"));
        assert_eq!((answer.field("content-length"), answer.text().as_str()), (Some("1"), "5"));
    }
}
