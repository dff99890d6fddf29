//! Header fields on their way through: what the origin is told about the client, what the client is
//! told about the origin, and what stays behind at the gateway.

use serde_json::{Value, json};
use tollhouse_testkit::{ClosedPort, Gateway, GatewayBuilder, Message, Origin};

use crate::support::{everything_to, everything_with, gateway, gateway_to, routes, upstream, with};

/// What the origin sees of a request with these header lines.
fn seen(gateway: &Gateway, origin: &Origin, lines: &str) -> Message {
    let answer = gateway.client().ask(format!("GET / HTTP/1.1\r\n{lines}\r\n"));
    assert_eq!(answer.status(), 200);
    origin.last_request()
}

#[test]
fn the_host_follows_pass_host() {
    let origin = Origin::named("a");
    let (address, port) = (origin.address(), origin.address().port());
    let host = format!("localhost:{port}");
    let named = json!({ "type": "roundrobin", "nodes": { host.clone(): 1 } });
    let node = address.to_string();
    let cases: [(Value, Value, &str); 5] = [
        (upstream([address]), json!({}), "Client.Test:81"),
        (upstream([address]), json!({ "pass_host": "pass" }), "Client.Test:81"),
        (upstream([address]), json!({ "pass_host": "node" }), &node),
        (named, json!({ "pass_host": "node" }), &host),
        (
            upstream([address]),
            json!({ "pass_host": "rewrite", "upstream_host": "other.test" }),
            "other.test",
        ),
    ];
    for (upstream, members, expected) in cases {
        let gateway = gateway().resources(&everything_with(upstream, members.clone())).start();
        let request = seen(&gateway, &origin, "Host: Client.Test:81\r\n");
        assert_eq!(request.all("host"), [expected], "{members}");
    }
}

#[test]
fn forwarding_headers_say_what_the_gateway_saw() {
    let origin = Origin::named("a");
    let gateway =
        gateway().set("real_ip.from", "").resources(&everything_to(origin.address())).start();
    let port = gateway.address().port().to_string();
    let claims = "X-Real-IP: 6.6.6.6\r\nX-Forwarded-For: 7.7.7.7\r\nX-Forwarded-For: 8.8.8.8\r\n\
                  X-Forwarded-Proto: https\r\nX-Forwarded-Host: evil.test\r\nX-Forwarded-Port: 1\r\n\
                  Forwarded: for=9.9.9.9\r\n";
    let request = seen(&gateway, &origin, &format!("Host: a.test:99\r\n{claims}"));
    assert_eq!(request.all("x-real-ip"), ["127.0.0.1"]);
    assert_eq!(request.all("x-forwarded-for"), ["7.7.7.7, 8.8.8.8, 127.0.0.1"]);
    assert_eq!(request.all("x-forwarded-proto"), ["http"]);
    assert_eq!(request.all("x-forwarded-host"), ["a.test"]);
    assert_eq!(request.all("x-forwarded-port"), [port.as_str()]);
    assert_eq!(request.all("forwarded"), [""; 0]);
    let request = seen(&gateway, &origin, "Host: a.test\r\n");
    assert_eq!(request.all("x-forwarded-for"), ["127.0.0.1"]);
}

const CLAIMS: &str = "Host: a.test\r\nX-Forwarded-For: 7.7.7.7\r\nX-Forwarded-Proto: https\r\n\
                      X-Forwarded-Host: front.test\r\nX-Forwarded-Port: 443\r\nForwarded: for=7.7.7.7\r\n";

#[test]
fn a_trusted_peer_is_believed_and_any_other_is_not() {
    let origin = Origin::named("a");
    let start = |trusted| {
        let resources = everything_to(origin.address());
        gateway().set("trusted_addresses", trusted).resources(&resources).start()
    };
    let trusting = start("10.0.0.0/8,127.0.0.0/8");
    let request = seen(&trusting, &origin, CLAIMS);
    assert_eq!(request.all("x-forwarded-for"), ["7.7.7.7, 127.0.0.1"]);
    assert_eq!(request.all("x-forwarded-proto"), ["https"]);
    assert_eq!(request.all("x-forwarded-host"), ["front.test"]);
    assert_eq!(request.all("x-forwarded-port"), ["443"]);
    let wary = start("10.0.0.0/8");
    let port = wary.address().port().to_string();
    let request = seen(&wary, &origin, CLAIMS);
    assert_eq!(request.all("x-forwarded-for"), ["127.0.0.1"]);
    assert_eq!(request.all("x-forwarded-proto"), ["http"]);
    assert_eq!(request.all("x-forwarded-host"), ["a.test"]);
    assert_eq!(request.all("x-forwarded-port"), [port.as_str()]);
    assert_eq!(request.all("forwarded"), [""; 0]);
}

#[test]
fn the_clients_address_comes_from_a_believed_header() {
    let plain = |builder: GatewayBuilder| builder;
    let by_chain = |builder: GatewayBuilder| {
        let builder = builder.set("real_ip.header", "X-Forwarded-For");
        builder.set("real_ip.from", "127.0.0.1,10.0.0.0/8").set("real_ip.recursive", "true")
    };
    let by_last = |builder: GatewayBuilder| builder.set("real_ip.header", "X-Forwarded-For");
    type Configure = fn(GatewayBuilder) -> GatewayBuilder;
    let cases: [(Configure, &str, &str); 6] = [
        (plain, "X-Real-IP: 1.2.3.4\r\n", "1.2.3.4"),
        (plain, "", "127.0.0.1"),
        (plain, "X-Real-IP: nonsense\r\n", "127.0.0.1"),
        (plain, "X-Real-IP: 2001:db8::1\r\n", "2001:db8::1"),
        (by_last, "X-Forwarded-For: 1.1.1.1, 2.2.2.2\r\n", "2.2.2.2"),
        (by_chain, "X-Forwarded-For: 1.1.1.1, 2.2.2.2, 10.0.0.3\r\n", "2.2.2.2"),
    ];
    let origin = Origin::named("a");
    for (configure, line, expected) in cases {
        let gateway = configure(gateway()).resources(&everything_to(origin.address())).start();
        let request = seen(&gateway, &origin, &format!("Host: a\r\n{line}"));
        assert_eq!(request.field("x-real-ip"), Some(expected), "{line:?}");
        let chain = request.field("x-forwarded-for").expect("there is one");
        assert!(chain.ends_with(expected), "{line:?}: {chain}");
    }
}

#[test]
fn what_concerns_one_hop_stays_behind_on_the_way_up() {
    let origin = Origin::named("a");
    let gateway = gateway_to(&origin);
    let lines = "Host: a\r\nConnection: keep-alive, X-Mine, x-also\r\nKeep-Alive: timeout=5\r\n\
                 Proxy-Connection: keep-alive\r\nX-Mine: 1\r\nX-Also: 2\r\nTE: gzip\r\n\
                 Upgrade: h2c\r\nX-Other: 3\r\nx_under: 4\r\nX-Twice: 5\r\nX-Twice: 6\r\nX-Empty:\r\n";
    let request = seen(&gateway, &origin, lines);
    let gone =
        ["connection", "keep-alive", "proxy-connection", "x-mine", "x-also", "te", "upgrade"];
    for name in gone {
        assert_eq!(request.all(name), [""; 0], "{name}");
    }
    assert_eq!(request.all("x-other"), ["3"]);
    assert_eq!(request.all("x_under"), ["4"]);
    assert_eq!(request.all("x-twice"), ["5", "6"]);
    assert_eq!(request.all("x-empty"), [""]);
}

#[test]
fn an_upgrade_to_http_2_is_no_matter_of_the_node() {
    let origin = Origin::named("a");
    let gateway = gateway_to(&origin);
    let lines = "Host: a\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\n\
                 HTTP2-Settings: AAMAAABkAAQAAP__\r\n";
    for (method, length, body) in
        [("GET", "", ""), ("POST", "Content-Length: 5\r\n", "hello"), ("GET", "", "")]
    {
        let request = format!("{method} / HTTP/1.1\r\n{lines}{length}\r\n{body}");
        let answer = gateway.client().ask(request);
        assert_eq!((answer.status(), answer.text().as_str()), (200, "a"), "{method}");
        let seen = origin.last_request();
        assert_eq!(seen.text(), body, "{method}");
        for name in ["connection", "upgrade", "http2-settings"] {
            assert_eq!(seen.all(name), [""; 0], "{method} {name}");
        }
    }
}

#[test]
fn a_client_cannot_have_framing_removed() {
    let origin = Origin::named("a");
    let gateway = gateway_to(&origin);
    let lines = "Host: a\r\nConnection: close, Content-Length, Host\r\nContent-Length: 2\r\n";
    let answer = gateway.client().ask(format!("POST / HTTP/1.1\r\n{lines}\r\nok"));
    if answer.status() == 200 {
        assert_eq!(origin.last_request().text(), "ok");
        assert_eq!(origin.last_request().all("host"), ["a"]);
    }
    assert!(matches!(answer.status(), 200 | 400), "{answer:?}");
}

#[test]
fn what_concerns_one_hop_stays_behind_on_the_way_down() {
    let origin = Origin::answering(
        "HTTP/1.1 200 OK\r\nServer: Secret/1.0\r\nDate: Tue, 01 Jan 2030 00:00:00 GMT\r\n\
         Connection: keep-alive, X-Mine\r\nX-Mine: 1\r\nKeep-Alive: timeout=5\r\n\
         Proxy-Authenticate: Basic\r\nSet-Cookie: a=1\r\nSet-Cookie: b=2\r\nX-Other: 3\r\n\
         Content-Length: 0\r\n\r\n",
    );
    let gateway = gateway_to(&origin);
    let answer = gateway.client().get("/");
    assert_eq!(answer.all("server"), ["tollhouse"]);
    assert_eq!(answer.all("date"), ["Tue, 01 Jan 2030 00:00:00 GMT"]);
    for name in ["connection", "x-mine", "keep-alive"] {
        assert_eq!(answer.all(name), [""; 0], "{name}");
    }
    assert_eq!(answer.all("set-cookie"), ["a=1", "b=2"]);
    assert_eq!(answer.all("x-other"), ["3"]);
}

#[test]
fn an_answer_without_a_date_gets_one() {
    let origin = Origin::answering("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
    let gateway = gateway_to(&origin);
    let answer = gateway.client().get("/");
    let dates = answer.all("date");
    assert_eq!(dates.len(), 1);
    assert!(dates[0].len() == 29 && dates[0].ends_with(" GMT"), "{dates:?}");
}

#[test]
fn the_upstreams_status_is_shown_for_its_errors() {
    const NAME: &str = "x-apisix-upstream-status";
    let failing = Origin::answering("HTTP/1.1 500 Oh\r\nContent-Length: 2\r\n\r\noh");
    let good = Origin::named("a");
    let refusing = ClosedPort::new();
    let to = |path: &str, upstream: Value| json!({ "id": path, "uri": format!("/{path}"), "upstream": upstream });
    let resources = routes([
        to("failing", upstream([failing.address()])),
        to("good", upstream([good.address()])),
        to("refusing", upstream([refusing.address()])),
        to(
            "retried",
            with(
                json!({ "type": "roundrobin" }),
                json!({ "nodes": [
            { "host": "127.0.0.1", "port": refusing.address().port(), "weight": 1, "priority": 1 },
            { "host": "127.0.0.1", "port": good.address().port(), "weight": 1, "priority": 0 },
        ] }),
            ),
        ),
    ]);
    let cases = [
        ("false", "/failing", Some("500")),
        ("false", "/good", None),
        ("false", "/refusing", Some("502")),
        ("true", "/failing", Some("500")),
        ("true", "/good", Some("200")),
        ("true", "/retried", Some("502, 200")),
        ("true", "/nothing", None),
    ];
    for show in ["false", "true"] {
        let key = "show_upstream_status_in_response_header";
        let gateway = gateway().set(key, show).resources(&resources).start();
        for (_, target, expected) in cases.iter().filter(|(of, _, _)| *of == show) {
            assert_eq!(gateway.client().get(target).field(NAME), *expected, "{show} {target}");
        }
    }
}

#[test]
fn an_origins_error_page_passes_unchanged() {
    let page = "HTTP/1.1 503 Busy\r\nContent-Type: text/x-own\r\nRetry-After: 7\r\nContent-Length: 4\r\n\r\nbusy";
    let origin = Origin::answering(page);
    let gateway = gateway_to(&origin);
    let answer = gateway.client().get("/");
    assert_eq!(answer.start_line, "HTTP/1.1 503 Busy");
    assert_eq!(answer.field("content-type"), Some("text/x-own"));
    assert_eq!((answer.field("retry-after"), answer.text().as_str()), (Some("7"), "busy"));
}
