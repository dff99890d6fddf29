//! Connections that change their protocol: tunnels where the route allows them, plain answers where
//! it does not.

use serde_json::json;
use tollhouse_testkit::{Connection, Gateway, Origin};

use crate::support::{gateway, gateway_to, routes, upstream};

const ASK: &str = "GET /chat HTTP/1.1\r\nHost: a\r\nConnection: keep-alive, Upgrade\r\n\
                   Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
                   Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";

const SWITCH: &str = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n\
                      Connection: Upgrade\r\nSec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n";

/// Switches, greets in the same breath, sends back what it is sent, and says farewell at the end.
fn echo(connection: &mut Connection) {
    let Some(request) = connection.request() else { return };
    if request.field("upgrade").is_none() {
        connection.send("HTTP/1.1 426 Upgrade Required\r\nContent-Length: 0\r\n\r\n");
        return;
    }
    connection.send(format!("{SWITCH}hello"));
    loop {
        if connection.wire.pending().is_empty() && connection.wire.fill().unwrap_or(0) == 0 {
            break;
        }
        let count = connection.wire.pending().len();
        let bytes = connection.wire.take(count).expect("these bytes are there");
        connection.send(bytes);
    }
    connection.send("farewell");
}

fn gateway_with_tunnels(origin: &Origin) -> Gateway {
    let route = json!({
        "id": "chat", "uri": "/chat", "enable_websocket": true,
        "upstream": upstream([origin.address()]),
    });
    gateway().log_requests().resources(&routes([route])).start()
}

#[test]
fn a_tunnel_carries_bytes_both_ways_and_ends_side_by_side() {
    let origin = Origin::script(echo);
    let gateway = gateway_with_tunnels(&origin);
    let mut client = gateway.client();
    let answer = client.ask(ASK);
    assert_eq!(answer.start_line, "HTTP/1.1 101 Switching Protocols");
    assert_eq!(answer.field("upgrade"), Some("websocket"));
    assert_eq!(answer.field("connection").map(str::to_lowercase).as_deref(), Some("upgrade"));
    assert_eq!(answer.field("sec-websocket-accept"), Some("s3pPLMBiTxaQ9kYGzzhZRbK+xOo="));
    client.expect("hello");
    for piece in ["one", "\r\n\r\n", "\0\u{1}\u{2}"] {
        client.send(piece).expect(piece);
    }
    let long = vec![b'l'; 300_000];
    client.send(&long).expect(&long);
    // The origin sees the end, and its last word still comes.
    client.half_close().expect("farewell").expect_end();
    let line = gateway.log_line("/chat");
    assert_eq!(line["status"], json!(101));
    let seen = origin.last_request();
    assert_eq!(seen.field("upgrade"), Some("websocket"));
    assert_eq!(seen.field("connection").map(str::to_lowercase).as_deref(), Some("upgrade"));
    assert_eq!(seen.field("sec-websocket-key"), Some("dGhlIHNhbXBsZSBub25jZQ=="));
}

#[test]
fn bytes_sent_along_with_the_request_wait_for_the_switch() {
    let origin = Origin::script(echo);
    let gateway = gateway_with_tunnels(&origin);
    let mut client = gateway.client();
    assert_eq!(client.ask(format!("{ASK}early")).status(), 101);
    client.expect("hello").expect("early");
}

#[test]
fn the_origin_may_end_the_tunnel_first() {
    let origin = Origin::script(|connection| {
        connection.request();
        connection.send(format!("{SWITCH}that is all"));
        connection.wire.half_close().expect("the connection is still there");
        let word = connection.wire.take(5).expect("the client's last word");
        assert_eq!(word, b"fine!");
    });
    let gateway = gateway_with_tunnels(&origin);
    let mut client = gateway.client();
    assert_eq!(client.ask(ASK).status(), 101);
    client.expect("that is all").expect_end();
    client.send("fine!").half_close();
    gateway.log_line("/chat");
}

#[test]
fn a_refused_upgrade_is_an_ordinary_answer() {
    let origin = Origin::answering("HTTP/1.1 403 Forbidden\r\nContent-Length: 2\r\n\r\nno");
    let gateway = gateway_with_tunnels(&origin);
    let mut client = gateway.client();
    for _ in 0..2 {
        let answer = client.ask(ASK);
        assert_eq!((answer.status(), answer.text().as_str()), (403, "no"));
    }
}

#[test]
fn a_route_without_websocket_passes_no_upgrade_on() {
    let origin = Origin::script(echo);
    let gateway = gateway_to(&origin);
    let mut client = gateway.client();
    assert_eq!(client.ask(ASK).status(), 426);
    let seen = origin.last_request();
    assert_eq!((seen.field("upgrade"), seen.field("connection")), (None, None));
    assert_eq!(client.ask(ASK).status(), 426, "the connection goes on");
}

#[test]
fn an_origin_that_switches_unasked_is_refused() {
    let origin = Origin::answering(SWITCH);
    let gateway = gateway_to(&origin);
    assert_eq!(gateway.client().get("/chat").status(), 502);
    assert_eq!(gateway.client().ask(ASK).status(), 502);
}

#[test]
fn only_websockets_pass() {
    let origin = Origin::script(echo);
    let gateway = gateway_with_tunnels(&origin);
    let settings = "HTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA\r\n";
    let ask = |upgrade: &str, more: &str| {
        let request = format!(
            "GET /chat HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: {upgrade}\r\n{more}\r\n"
        );
        let status = gateway.client().ask(request).status();
        let seen = origin.last_request();
        assert_eq!(seen.field("http2-settings"), None, "{upgrade}");
        (status, seen.field("upgrade").map(str::to_owned))
    };
    for upgrade in ["h2c", "H2C", "websocket2", "tls/1.3", "xwebsocket", "websocket/13"] {
        assert_eq!(ask(upgrade, settings), (426, None), "{upgrade}");
    }
    for upgrade in ["WebSocket", "h2c, websocket", "h2c\r\nUpgrade: websocket"] {
        assert_eq!(ask(upgrade, settings), (101, Some("websocket".into())), "{upgrade}");
    }
}

#[test]
fn a_body_beside_an_offer_of_h2c_arrives_whole_and_the_offer_does_not() {
    let origin = Origin::named("a");
    let gateway = gateway_to(&origin);
    let mut client = gateway.client();
    for body in [
        "Content-Length: 5\r\n\r\nhello",
        "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
    ] {
        let offer =
            "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\n";
        let answer = client.ask(format!("POST / HTTP/1.1\r\nHost: a\r\n{offer}{body}"));
        assert_eq!((answer.status(), answer.text().as_str()), (200, "a"));
        let seen = origin.last_request();
        assert_eq!(seen.text(), "hello");
        for name in ["upgrade", "http2-settings", "connection"] {
            assert_eq!(seen.field(name), None, "{name}");
        }
    }
}

#[test]
fn an_origin_that_switches_to_something_else_is_refused() {
    for upgrade in ["h2c", "websocket, h2c", ""] {
        let line =
            if upgrade.is_empty() { String::new() } else { format!("Upgrade: {upgrade}\r\n") };
        let head = format!("HTTP/1.1 101 Switching Protocols\r\n{line}Connection: Upgrade\r\n\r\n");
        let origin = Origin::answering(head);
        let gateway = gateway_with_tunnels(&origin);
        assert_eq!(gateway.client().ask(ASK).status(), 502, "{upgrade}");
    }
}

#[test]
fn a_quiet_tunnel_ends_after_the_read_time_out() {
    let origin = Origin::script(echo);
    let route = json!({
        "id": "chat", "uri": "/chat", "enable_websocket": true,
        "timeout": { "connect": 1, "send": 5, "read": 1 },
        "upstream": upstream([origin.address()]),
    });
    let gateway = gateway().resources(&routes([route])).start();
    let mut client = gateway.client();
    assert_eq!(client.ask(ASK).status(), 101);
    client.expect("hello").expect_end();
}
