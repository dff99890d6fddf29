//! Which route a request takes, as seen from outside: each route's upstream gives its nodes another
//! `Host`, and one origin answers with it.

use serde_json::{Value, json};
use tollhouse_testkit::origin::answer;
use tollhouse_testkit::{Gateway, GatewayBuilder, Origin, RawClient};

use crate::support::{gateway, upstream, with};

/// Routes, and an origin that tells which one a request took.
struct Routes {
    _origin: Origin,
    gateway: Gateway,
}

const NOWHERE: &str = "nowhere";

impl Routes {
    fn new(routes: &[Value]) -> Self {
        Self::configured(routes, |builder| builder)
    }

    fn configured(routes: &[Value], configure: impl Fn(GatewayBuilder) -> GatewayBuilder) -> Self {
        let origin = Origin::script(|connection| {
            while let Some(request) = connection.request_unremembered() {
                let route = request.field("host").unwrap_or_default();
                connection.send(answer(200, route));
            }
        });
        let routes = routes.iter().map(|route| {
            let members = json!({ "pass_host": "rewrite", "upstream_host": route["id"] });
            let named = with(upstream([origin.address()]), members);
            with(json!({ "upstream": named }), route.clone())
        });
        let resources = json!({ "routes": routes.collect::<Vec<_>>() });
        let gateway = configure(gateway()).resources(&resources).start();
        assert_eq!(gateway.configuration()["problems"], json!([]));
        Self { _origin: origin, gateway }
    }

    /// The route of a request, of which head and body are given without the version.
    fn route_taken(&self, client: &mut RawClient, request: &str) -> String {
        let (line, rest) = request.split_once('\n').unwrap_or((request, ""));
        let (head, body) = rest.split_once("\n\n").unwrap_or((rest, ""));
        let mut bytes = format!("{line} HTTP/1.1\r\n");
        if !head.to_ascii_lowercase().contains("host:") {
            bytes += "Host: any.test\r\n";
        }
        for line in head.lines().filter(|line| !line.is_empty()) {
            bytes += &format!("{line}\r\n");
        }
        if !body.is_empty() {
            bytes += &format!("Content-Length: {}\r\n", body.len());
        }
        let answer = client.ask(format!("{bytes}\r\n{body}"));
        match answer.status() {
            200 => answer.text(),
            404 => NOWHERE.to_owned(),
            status => status.to_string(),
        }
    }

    fn check(&self, cases: &[(&str, &str)]) {
        let mut client = self.gateway.client();
        for (request, expected) in cases {
            assert_eq!(self.route_taken(&mut client, request), *expected, "{request:?}");
        }
    }
}

fn route(id: &str, members: Value) -> Value {
    with(json!({ "id": id }), members)
}

#[test]
fn paths_match_exactly_by_prefix_and_in_the_middle() {
    let routes = Routes::new(&[
        route("exact", json!({ "uri": "/foo" })),
        route("prefix", json!({ "uri": "/pre*" })),
        route("below", json!({ "uri": "/dir/*" })),
        route("middle", json!({ "uri": "/a/*/b" })),
        route("several", json!({ "uris": ["/one", "/two/*"] })),
        route("literal", json!({ "uri": "/user/:id" })),
    ]);
    routes.check(&[
        ("GET /foo", "exact"),
        ("GET /foo?x=1", "exact"),
        ("GET /foo/", NOWHERE),
        ("GET /FOO", NOWHERE),
        ("GET /pre", "prefix"),
        ("GET /prefix", "prefix"),
        ("GET /pre/x/y", "prefix"),
        ("GET /dir/", "below"),
        ("GET /dir/x/y", "below"),
        ("GET /dir", NOWHERE),
        ("GET /a/x/b", "middle"),
        ("GET /a/x/y/b", "middle"),
        ("GET /a/b", NOWHERE),
        ("GET /a/x/c", NOWHERE),
        ("GET /one", "several"),
        ("GET /two/x", "several"),
        ("GET /user/:id", "literal"),
        ("GET /user/7", NOWHERE),
    ]);
}

#[test]
fn parameters_match_one_segment_where_they_are_switched_on() {
    let routes = [
        route("user", json!({ "uri": "/user/:id/posts" })),
        route("rest", json!({ "uri": "/user/*" })),
    ];
    let mode = "radixtree_uri_with_parameter";
    let routes = Routes::configured(&routes, |builder| builder.set("router", mode));
    routes.check(&[
        ("GET /user/7/posts", "user"),
        ("GET /user/7/8/posts", "rest"),
        ("GET /user//posts", "rest"),
    ]);
}

#[test]
fn the_more_literal_path_wins_and_priority_decides_among_equals() {
    let routes = Routes::new(&[
        route("all", json!({ "uri": "/*" })),
        route("api", json!({ "uri": "/api/*", "priority": 100 })),
        route("v1", json!({ "uri": "/api/v1/*" })),
        route("exact", json!({ "uri": "/api/v1/x", "methods": ["GET"] })),
        route("low", json!({ "uri": "/same", "priority": 1 })),
        route("high", json!({ "uri": "/same", "priority": 2, "methods": ["PUT"] })),
        route("first", json!({ "uri": "/twin" })),
        route("second", json!({ "uri": "/twin" })),
    ]);
    routes.check(&[
        ("GET /other", "all"),
        ("GET /api/x", "api"),
        ("GET /api/v1/y", "v1"),
        ("GET /api/v1/x", "exact"),
        ("PUT /api/v1/x", "v1"),
        ("GET /same", "low"),
        ("PUT /same", "high"),
        ("GET /twin", "first"),
    ]);
}

#[test]
fn hosts_go_before_paths() {
    let routes = Routes::new(&[
        route("anyone", json!({ "uri": "/*" })),
        route("exact", json!({ "uri": "/*", "host": "a.test" })),
        route("wild", json!({ "uri": "/*", "host": "*.a.test" })),
        route("deep", json!({ "uri": "/*", "hosts": ["*.b.a.test", "c.test"] })),
        route("narrow", json!({ "uri": "/only", "host": "d.test" })),
        route("ported", json!({ "uri": "/*", "host": "e.test:8080" })),
    ]);
    routes.check(&[
        ("GET /\nHost: other.test", "anyone"),
        ("GET /\nHost: a.test", "exact"),
        ("GET /\nHost: A.TEST:99", "exact"),
        ("GET /\nHost: x.a.test", "wild"),
        ("GET /\nHost: x.y.a.test", "wild"),
        ("GET /\nHost: x.b.a.test", "deep"),
        ("GET /\nHost: c.test", "deep"),
        ("GET /only\nHost: d.test", "narrow"),
        ("GET /else\nHost: d.test", "anyone"),
        ("GET /\nHost: e.test:8080", "ported"),
        ("GET /\nHost: e.test", "anyone"),
    ]);
}

#[test]
fn in_uri_mode_hosts_are_mere_conditions() {
    let routes = [
        route("path", json!({ "uri": "/api/*" })),
        route("host", json!({ "uri": "/*", "host": "a.test" })),
    ];
    let by_host = Routes::new(&routes);
    by_host.check(&[("GET /api/x\nHost: a.test", "host")]);
    let by_path = Routes::configured(&routes, |builder| builder.set("router", "radixtree_uri"));
    by_path.check(&[("GET /api/x\nHost: a.test", "path"), ("GET /x\nHost: a.test", "host")]);
}

#[test]
fn methods_and_addresses_are_conditions() {
    let routes = Routes::new(&[
        route("post", json!({ "uri": "/m", "methods": ["POST", "PUT"] })),
        route("get", json!({ "uri": "/m", "methods": ["GET"] })),
        route("lan", json!({ "uri": "/ip", "remote_addrs": ["10.0.0.0/8", "192.168.1.1"] })),
        route("six", json!({ "uri": "/ip", "remote_addr": "2001:db8::/32" })),
        route("local", json!({ "uri": "/ip", "remote_addr": "127.0.0.1" })),
    ]);
    routes.check(&[
        ("POST /m", "post"),
        ("PUT /m", "post"),
        ("GET /m", "get"),
        ("DELETE /m", NOWHERE),
        ("GET /ip", "local"),
        ("GET /ip\nX-Real-IP: 10.1.2.3", "lan"),
        ("GET /ip\nX-Real-IP: 192.168.1.1", "lan"),
        ("GET /ip\nX-Real-IP: 2001:db8::7", "six"),
        ("GET /ip\nX-Real-IP: 1.1.1.1", NOWHERE),
    ]);
}

/// A route that takes `/v` when the expression holds, above one that always does.
fn check_expression(expression: Value, cases: &[(&str, bool)]) {
    let routes = Routes::new(&[
        route("yes", json!({ "uri": "/v", "priority": 1, "vars": expression })),
        route("no", json!({ "uri": "/v" })),
    ]);
    let mut client = routes.gateway.client();
    for (request, holds) in cases {
        let expected = if *holds { "yes" } else { "no" };
        assert_eq!(routes.route_taken(&mut client, request), expected, "{expression} {request:?}");
    }
}

#[test]
fn expressions_compare_what_a_request_says() {
    type Case = (Value, &'static [(&'static str, bool)]);
    let cases: [Case; 12] = [
        (
            json!([["arg_a", "==", "1"]]),
            &[("GET /v?a=1", true), ("GET /v?a=2", false), ("GET /v", false)],
        ),
        (json!([["arg_a", "1"]]), &[("GET /v?a=1", true), ("GET /v?b=1", false)]),
        (json!([["arg_a", "~=", "1"]]), &[("GET /v?a=1", false), ("GET /v", true)]),
        (
            json!([["arg_a", ">", 5]]),
            &[("GET /v?a=10", true), ("GET /v?a=5", false), ("GET /v?a=x", false)],
        ),
        (
            json!([["http_x_tag", "~~", "^v[0-9]$"]]),
            &[("GET /v\nX-Tag: v1", true), ("GET /v\nX-Tag: V1", false), ("GET /v", false)],
        ),
        (json!([["http_x_tag", "~*", "^v[0-9]$"]]), &[("GET /v\nX-Tag: V1", true)]),
        (
            json!([["http_x_tag", "!", "~~", "^v"]]),
            &[("GET /v\nX-Tag: v1", false), ("GET /v\nX-Tag: w", true)],
        ),
        (
            json!([["cookie_c", "in", ["x", "y"]]]),
            &[("GET /v\nCookie: b=1; c=y", true), ("GET /v\nCookie: c=z", false)],
        ),
        (
            json!([["remote_addr", "ipmatch", ["10.0.0.0/8"]]]),
            &[("GET /v\nX-Real-IP: 10.9.9.9", true), ("GET /v", false)],
        ),
        (
            json!(["OR", ["arg_a", "==", "1"], ["arg_b", "==", "1"]]),
            &[("GET /v?b=1", true), ("GET /v", false)],
        ),
        (
            json!(["!AND", ["arg_a", "==", "1"], ["arg_b", "==", "1"]]),
            &[("GET /v?b=1", true), ("GET /v?a=1&b=1", false)],
        ),
        (
            json!([["request_method", "==", "PURGE"], ["host", "==", "h.test"]]),
            &[("PURGE /v\nHost: h.test", true), ("GET /v\nHost: h.test", false)],
        ),
    ];
    for (expression, requests) in cases {
        check_expression(expression, requests);
    }
}

#[test]
fn expressions_look_into_forms_and_json() {
    const FORM: &str = "Content-Type: application/x-www-form-urlencoded";
    const JSON: &str = "Content-Type: application/json; charset=utf-8";
    let form = |body: &str| format!("POST /v\n{FORM}\n\n{body}");
    let document = |body: &str| format!("POST /v\n{JSON}\n\n{body}");
    let name = json!([["post_arg_name", "==", "jack"]]);
    check_expression(
        name,
        &[
            (&form("age=7&name=jack"), true),
            (&form("name=jill"), false),
            ("POST /v\nX-Kind: none\n\nname=jack", false),
            ("GET /v", false),
        ],
    );
    let model = json!([["post_arg.messages[0].model", "==", "big"]]);
    check_expression(
        model,
        &[
            (&document(r#"{"messages":[{"model":"big"}]}"#), true),
            (&document(r#"{"messages":[{"model":"small"}]}"#), false),
            (&document("{"), false),
            (&document(""), false),
        ],
    );
}

#[test]
fn a_body_that_is_of_no_known_kind_does_not_hide_those_after_it() {
    const FORM: &str = "Content-Type: application/x-www-form-urlencoded";
    let form = format!("POST /v\n{FORM}\n\nname=jack");
    check_expression(
        json!([["post_arg_name", "==", "jack"]]),
        &[
            (&form, true),
            ("POST /v\nContent-Type: text/plain\n\nname=jack", false),
            (&form, true),
            ("POST /v\nX-Kind: none\n\nname=jack", false),
            (&form, true),
        ],
    );
}

#[test]
fn a_body_that_was_looked_into_still_arrives_whole() {
    let origin = Origin::named("a");
    let resources = json!({ "routes": [{
        "id": "r", "uri": "/*", "vars": [["post_arg_x", "==", "1"]],
        "upstream": upstream([origin.address()]),
    }] });
    let gateway = gateway().resources(&resources).start();
    let mut client = gateway.client();
    let form = "Content-Type: application/x-www-form-urlencoded\r\n";
    let long = format!("x=1&y={}", "z".repeat(200_000));
    let length = long.len();
    let sized =
        format!("POST / HTTP/1.1\r\nHost: a\r\n{form}Content-Length: {length}\r\n\r\n{long}");
    let chunks = format!("{length:x}\r\n{long}\r\n0\r\nX-Sum: 1\r\n\r\n");
    let chunked =
        format!("POST / HTTP/1.1\r\nHost: a\r\n{form}Transfer-Encoding: chunked\r\n\r\n{chunks}");
    for request in [sized, chunked] {
        assert_eq!(client.ask(&request).status(), 200);
        assert_eq!(origin.last_request().text(), long);
    }
    let head = format!(
        "POST / HTTP/1.1\r\nHost: a\r\n{form}Expect: 100-continue\r\nContent-Length: 3\r\n\r\n"
    );
    client.send(head).expect("HTTP/1.1 100 Continue\r\n\r\n");
    assert_eq!(client.ask("x=1").status(), 200);
    assert_eq!(origin.last_request().text(), "x=1");
}

#[test]
fn a_route_whose_discovery_is_not_here_lets_no_request_go_on_to_others() {
    let origin = Origin::named("a");
    let elsewhere = json!({ "service_name": "orders", "discovery_type": "zookeeper" });
    let gateway = gateway()
        .resources(&json!({ "routes": [
            { "id": "elsewhere", "uri": "/orders", "upstream": elsewhere },
            { "id": "rest", "uri": "/*", "upstream": upstream([origin.address()]) },
        ] }))
        .start();
    assert_eq!(gateway.client().get("/orders").status(), 503);
    assert_eq!(gateway.client().get("/rest").status(), 200);
}

#[test]
fn a_route_that_cannot_send_its_requests_anywhere_keeps_them_from_others() {
    let origin = Origin::named("a");
    let kafka =
        json!({ "scheme": "kafka", "type": "roundrobin", "nodes": { "127.0.0.1:9092": 1 } });
    let unreadable = json!({ "type": "roundrobin", "nodes": "127.0.0.1:9092" });
    let gateway = gateway()
        .resources(&json!({ "routes": [
            { "id": "kafka", "uri": "/kafka", "upstream": kafka },
            { "id": "unreadable", "uri": "/unreadable", "upstream": unreadable },
            { "id": "rest", "uri": "/*", "upstream": upstream([origin.address()]) },
        ] }))
        .start();
    for path in ["/kafka", "/unreadable"] {
        assert_eq!(gateway.client().get(path).status(), 503, "{path}");
    }
    gateway.wait_failures("route_invalid", 2);
    assert_eq!(gateway.client().get("/rest").status(), 200);
}

#[test]
fn a_route_that_is_switched_off_is_not_there() {
    let routes = Routes::new(&[
        route("off", json!({ "uri": "/x", "status": 0 })),
        route("on", json!({ "uri": "/*", "status": 1 })),
    ]);
    routes.check(&[("GET /x", "on")]);
}

#[test]
fn a_services_hosts_count_for_routes_without_any() {
    let origin = Origin::named("here");
    let resources = json!({
        "routes": [
            { "id": "1", "uri": "/a", "service_id": "s" },
            { "id": "2", "uri": "/b", "service_id": "s", "host": "own.test" },
        ],
        "services": [{ "id": "s", "hosts": ["svc.test"], "upstream": upstream([origin.address()]) }],
    });
    let gateway = gateway().resources(&resources).start();
    let mut client = gateway.client();
    let cases = [
        ("/a", "svc.test", 200),
        ("/a", "own.test", 404),
        ("/b", "own.test", 200),
        ("/b", "svc.test", 404),
    ];
    for (target, host, status) in cases {
        let request = format!("GET {target} HTTP/1.1\r\nHost: {host}\r\n\r\n");
        assert_eq!(client.ask(request).status(), status, "{target} {host}");
    }
}

#[test]
fn paths_are_normalised_before_they_are_matched() {
    let list = [
        route("foo", json!({ "uri": "/foo" })),
        route("slash", json!({ "uri": "/a/b" })),
        route("dir", json!({ "uri": "/dir/" })),
    ];
    Routes::new(&list).check(&[
        ("GET /%66oo", "foo"),
        ("GET //foo", "foo"),
        ("GET /x/../foo", "foo"),
        ("GET /./foo", "foo"),
        ("GET /a%2Fb", "slash"),
        ("GET /a/%2e/b", "slash"),
        ("GET /dir", NOWHERE),
        ("GET /foo/", NOWHERE),
        ("GET /foo;v=1", NOWHERE),
        ("GET /../foo", "400"),
        ("GET /%2e%2e/foo", "400"),
    ]);
    let tail = |builder: GatewayBuilder| builder.set("delete_uri_tail_slash", "true");
    Routes::configured(&list, tail).check(&[("GET /foo/", "foo"), ("GET /foo", "foo")]);
    let servlet = |builder: GatewayBuilder| builder.set("normalize_uri_like_servlet", "true");
    Routes::configured(&list, servlet).check(&[("GET /foo;v=1", "foo"), ("GET /a;x/b;y", "slash")]);
    let encoded = |builder: GatewayBuilder| builder.set("match_uri_encoded_slash", "true");
    Routes::configured(&list, encoded).check(&[("GET /a%2Fb", NOWHERE), ("GET /a/b", "slash")]);
}
