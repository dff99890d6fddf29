//! Every way in which the gateway itself answers a request: status, page, headers, what becomes of
//! the connection, and the code by which an operator finds the reason.

use std::net::SocketAddr;

use serde_json::{Value, json};
use tollhouse_testkit::{ClosedPort, Gateway, Message, Origin, StuckPort};

use crate::support::{gateway, routes, upstream, with};

/// What becomes of the client's connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Kept,
    Closed,
}
use End::{Closed, Kept};

/// A request that is refused: its bytes, the answer's first line, the error code.
struct Case(String, &'static str, &'static str, End);

fn case(bytes: impl Into<String>, status: &'static str, code: &'static str, end: End) -> Case {
    Case(bytes.into(), status, code, end)
}

fn get(target: &str) -> String {
    format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n")
}

fn head_with(lines: &str) -> String {
    format!("POST /ok HTTP/1.1\r\nHost: a\r\n{lines}\r\n")
}

/// Origins that fail, each in its own way, and those that do not.
struct Origins {
    good: Origin,
    silent: Origin,
    rude: Origin,
    early: Origin,
    garbled: Origin,
    ambiguous: Origin,
    bloated: Origin,
    refusing: ClosedPort,
    stuck: StuckPort,
}

impl Origins {
    fn new() -> Self {
        let bloat = format!("HTTP/1.1 200 OK\r\nX-Bloat: {}\r\n\r\n", "x".repeat(70_000));
        Self {
            good: Origin::named("fine"),
            silent: Origin::script(|connection| {
                connection.request();
                // Until the gateway has had enough.
                let _ = connection.wait_end();
            }),
            rude: Origin::script(|connection| drop(connection.request())),
            early: Origin::closing_after("HTTP/1.1 200 OK\r\nContent-Le"),
            garbled: Origin::closing_after("220 mail.test ESMTP\r\n\r\n"),
            ambiguous: Origin::closing_after(
                "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nx",
            ),
            bloated: Origin::closing_after(bloat),
            refusing: ClosedPort::new(),
            stuck: StuckPort::new(),
        }
    }

    fn resources(&self) -> Value {
        let to = |id: &str, address: SocketAddr| {
            let members = json!({ "timeout": { "connect": 0.2, "send": 5, "read": 0.2 } });
            let upstream = with(upstream([address]), members);
            json!({ "id": id, "uri": format!("/{id}"), "upstream": upstream })
        };
        let mut resources = routes([
            to("ok", self.good.address()),
            to("silent", self.silent.address()),
            to("rude", self.rude.address()),
            to("early", self.early.address()),
            to("garbled", self.garbled.address()),
            to("ambiguous", self.ambiguous.address()),
            to("bloated", self.bloated.address()),
            to("refusing", self.refusing.address()),
            to("stuck", self.stuck.address()),
            json!({ "id": "noservice", "uri": "/noservice", "service_id": "gone" }),
            json!({ "id": "noupstream", "uri": "/noupstream", "upstream_id": "gone" }),
            json!({ "id": "nonodes", "uri": "/nonodes", "upstream_id": "empty" }),
            json!({ "id": "noweight", "uri": "/noweight", "upstream_id": "weightless" }),
            json!({ "id": "noname", "uri": "/noname", "upstream_id": "nameless" }),
        ]);
        let weightless = json!({ self.good.address().to_string(): 0 });
        resources["upstreams"] = json!([
            { "id": "empty", "type": "roundrobin", "nodes": {} },
            { "id": "weightless", "type": "roundrobin", "nodes": weightless },
            { "id": "nameless", "type": "roundrobin", "nodes": { "nobody.invalid:80": 1 } },
        ]);
        resources
    }

    fn gateway(&self) -> Gateway {
        gateway()
            .set("imitate_apisix", "true")
            .log_requests()
            .set("access_log.fields", "request_uri,status,error_code,remote_port")
            .set("limits.body_bytes", "1000")
            .set("limits.header_read_time", "1s")
            .set("limits.body_read_time", "1s")
            .set("dns.timeout", "1s")
            .resources(&self.resources())
            .start()
    }
}

/// Sends each request on a connection of its own and checks everything that follows from it.
fn check(gateway: &Gateway, cases: &[Case]) {
    let mut ports = Vec::new();
    for Case(request, status, code, end) in cases {
        let failures = gateway.failures(code);
        let mut client = gateway.client();
        ports.push(client.port());
        let answer = client.ask(request);
        let name = format!("{:?} answered {answer:?}", request.get(..60).unwrap_or(request));
        assert_eq!(answer.start_line, format!("HTTP/1.1 {status}"), "{name}");
        check_head_and_page(&answer, status, &name);
        match end {
            Kept => {
                assert_eq!(answer.field("connection"), None, "{name}");
                assert_eq!(client.ask(get("/ok")).text(), "fine", "{name}");
            }
            Closed => {
                assert_eq!(answer.field("connection"), Some("close"), "{name}");
                client.expect_end();
            }
        }
        gateway.wait_failures(code, failures as u32 + 1);
    }
    for (Case(request, status, code, _), port) in cases.iter().zip(ports) {
        let line = gateway.output().wait_line("an access-log line", |line| {
            let line: Value = serde_json::from_str(line).ok()?;
            (line["remote_port"] == json!(port)).then_some(line)
        });
        assert_eq!(line["error_code"], json!(code), "{request:?}: {line}");
        assert_eq!(line["status"].to_string(), status[..3], "{request:?}: {line}");
    }
}

fn check_head_and_page(answer: &Message, status: &str, name: &str) {
    assert_eq!(answer.field("server"), Some("APISIX/3.18.0"), "{name}");
    assert_eq!(answer.all("date").len(), 1, "{name}");
    let page = answer.text();
    if status == "404 Not Found"
        && answer.field("content-type") == Some("text/plain; charset=utf-8")
    {
        assert_eq!(page, "{\"error_msg\":\"404 Route Not Found\"}\n", "{name}");
        return;
    }
    assert_eq!(answer.field("content-type"), Some("text/html; charset=utf-8"), "{name}");
    for part in
        [&format!("<title>{status}</title>"), &format!("<h1>{status}</h1>"), "apisix.apache.org"]
    {
        assert!(page.contains(part), "{name} lacks {part}");
    }
}

#[test]
fn requests_that_are_no_http_are_refused() {
    let (bad, line, header) = ("400 Bad Request", "bad_request_line", "bad_header");
    let cases = [
        case("garbage\r\n\r\n", bad, line, Closed),
        case("\x16\x03\x01\x02\0\x01\0\x01\r\n\r\n", bad, line, Closed),
        case("GET  / HTTP/1.1\r\nHost: a\r\n\r\n", bad, line, Closed),
        case(head_with("X : y\r\n"), bad, header, Closed),
        case(head_with("X: a\r\n b\r\n"), bad, header, Closed),
        case(head_with("X: a\0b\r\n"), bad, header, Closed),
        case("GET / HTTP/1.1\nHost: a\n\n", bad, header, Closed),
        case("GET / HTTP/1.1\r\n\r\n", bad, "bad_host", Closed),
        case(head_with("Host: b\r\n"), bad, "bad_host", Closed),
        case(get("/%zz"), bad, "bad_path", Kept),
        case(get("/../x"), bad, "bad_path", Kept),
        case(
            head_with("Content-Length: 1\r\nTransfer-Encoding: chunked\r\n"),
            bad,
            "bad_framing",
            Closed,
        ),
        case(head_with("Content-Length: 1\r\nContent-Length: 1\r\n"), bad, "bad_framing", Closed),
        case(head_with("Content-Length: -1\r\n"), bad, "bad_framing", Closed),
        case(head_with("Transfer-Encoding: chunked\r\n") + "zz\r\n", bad, "bad_framing", Closed),
        case(
            head_with("Transfer-Encoding: chunked\r\n") + "1\r\nxx\r\n",
            bad,
            "bad_framing",
            Closed,
        ),
    ];
    let origins = Origins::new();
    check(&origins.gateway(), &cases);
    assert_eq!(origins.good.requests().iter().filter(|seen| seen.method() == "POST").count(), 0);
}

#[test]
fn requests_beyond_a_limit_are_refused() {
    let (large, fields) = ("413 Request Entity Too Large", "431 Request Header Fields Too Large");
    let chunked = head_with("Transfer-Encoding: chunked\r\n");
    let many: String = (0..101).map(|n| format!("X-{n}: y\r\n")).collect();
    let cases = [
        case(head_with("Content-Length: 1001\r\n"), large, "body_too_large", Closed),
        case(
            format!("{chunked}3e9\r\n{}\r\n0\r\n\r\n", "x".repeat(1001)),
            large,
            "body_too_large",
            Closed,
        ),
        case(
            get(&format!("/{}", "x".repeat(9000))),
            "414 Request-URI Too Large",
            "request_line_too_long",
            Closed,
        ),
        case(
            head_with(&format!("X: {}\r\n", "x".repeat(42_000))),
            fields,
            "header_too_large",
            Closed,
        ),
        case(head_with(&many), fields, "too_many_headers", Closed),
        case(
            head_with("Expect: a-miracle\r\n"),
            "417 Expectation Failed",
            "expectation_failed",
            Closed,
        ),
        case(
            "CONNECT a:443 HTTP/1.1\r\nHost: a:443\r\n\r\n",
            "501 Not Implemented",
            "method_not_implemented",
            Closed,
        ),
        case(
            head_with("Transfer-Encoding: gzip, chunked\r\n"),
            "501 Not Implemented",
            "transfer_coding_not_implemented",
            Closed,
        ),
        case(
            "GET / HTTP/2.0\r\nHost: a\r\n\r\n",
            "505 HTTP Version Not Supported",
            "version_not_supported",
            Closed,
        ),
        case(
            "GET / HTTP/1.1\r\nHost: a\r\nX: ",
            "408 Request Time-out",
            "header_read_timeout",
            Closed,
        ),
        case(
            head_with("Content-Length: 9\r\n") + "half",
            "408 Request Time-out",
            "body_read_timeout",
            Closed,
        ),
    ];
    let origins = Origins::new();
    check(&origins.gateway(), &cases);
}

#[test]
fn requests_that_lead_nowhere_are_refused() {
    let unavailable = "503 Service Temporarily Unavailable";
    let cases = [
        case(get("/nothing"), "404 Not Found", "route_not_found", Kept),
        case(
            "POST /nothing HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nok",
            "404 Not Found",
            "route_not_found",
            Kept,
        ),
        case(get("/noservice"), "404 Not Found", "service_not_found", Kept),
        case(get("/noupstream"), "502 Bad Gateway", "upstream_not_found", Kept),
        case(get("/nonodes"), unavailable, "no_nodes", Kept),
        case(get("/noweight"), unavailable, "no_nodes", Kept),
        case(get("/noname"), unavailable, "upstream_unresolved", Kept),
    ];
    let origins = Origins::new();
    check(&origins.gateway(), &cases);
}

#[test]
fn a_failing_origin_is_answered_for() {
    let (bad, late) = ("502 Bad Gateway", "504 Gateway Time-out");
    let cases = [
        case(get("/refusing"), bad, "upstream_connect_failed", Kept),
        case(get("/stuck"), late, "upstream_connect_timeout", Kept),
        case(get("/silent"), late, "upstream_read_timeout", Kept),
        case(get("/rude"), bad, "upstream_reset", Kept),
        case(get("/early"), bad, "upstream_reset", Kept),
        case(get("/garbled"), bad, "upstream_bad_response", Kept),
        case(get("/ambiguous"), bad, "upstream_bad_response", Kept),
        case(get("/bloated"), bad, "upstream_response_head_too_large", Kept),
    ];
    let origins = Origins::new();
    check(&origins.gateway(), &cases);
}

#[test]
fn a_refusal_of_head_has_no_body() {
    let origins = Origins::new();
    let gateway = origins.gateway();
    let mut client = gateway.client();
    let answer = client.send("HEAD /nothing HTTP/1.1\r\nHost: a\r\n\r\n").answer_to_head();
    assert_eq!((answer.status(), answer.field("content-length")), (404, Some("36")));
    assert_eq!(client.ask(get("/ok")).text(), "fine");
}

#[test]
fn connections_beyond_a_limit_are_told_so() {
    let cases = [
        ("limits.connections_per_worker", "connection_limit"),
        ("limits.connections_per_address", "connection_limit_per_address"),
    ];
    let origin = Origin::named("fine");
    for (key, code) in cases {
        let resources = crate::support::everything_to(origin.address());
        let gateway = gateway().set(key, "2").resources(&resources).start();
        let mut kept = [gateway.client(), gateway.client()];
        for client in &mut kept {
            assert_eq!(client.ask(get("/")).text(), "fine");
        }
        let mut refused = gateway.client();
        let answer = refused.answer();
        assert_eq!((answer.status(), answer.field("connection")), (503, Some("close")));
        refused.expect_end();
        gateway.wait_failures(code, 1);
        let [first, mut second] = kept;
        drop(first);
        // The place is free once the gateway has seen the end.
        tollhouse_testkit::patience::wait_for("a free place", || {
            (gateway.client().ask(get("/")).status() == 200).then_some(())
        });
        assert_eq!(second.ask(get("/")).text(), "fine");
    }
}

#[test]
fn a_gateway_without_server_tokens_names_no_version() {
    let gateway = gateway().set("imitate_apisix", "true").set("server_tokens", "false");
    let gateway = gateway.resources(&json!({})).start();
    assert_eq!(gateway.client().get("/").field("server"), Some("APISIX"));
}

#[test]
fn a_gateway_shows_its_own_name_unless_it_is_told_to_show_another() {
    let closed = ClosedPort::new();
    for (imitates, server, page) in [
        ("false", "tollhouse", "<center>tollhouse</center>"),
        ("true", "APISIX/3.18.0", "openresty"),
    ] {
        let resources = crate::support::everything_to(closed.address());
        let gateway = gateway().set("imitate_apisix", imitates).resources(&resources).start();
        let answer = gateway.client().get("/");
        assert_eq!((answer.status(), answer.field("server")), (502, Some(server)));
        assert!(answer.text().contains(page), "{}", answer.text());
        assert_eq!(answer.text().to_lowercase().contains("apisix"), imitates == "true");
    }
}
