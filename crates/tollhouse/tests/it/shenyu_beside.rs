//! ShenYu's own gateway beside ours: both are set up by the same calls of the local interface, asked the same requests,
//! and do the same with them. What they do differently stands in the table of differences, with the reason.
//!
//! `cargo x install` builds it (2.4.3, the newest that is published as an artefact); a machine without one skips the test.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::process::Command;
use std::time::Duration;

use serde_json::{Value, json};
use tollhouse_testkit::program::{self, Running};
use tollhouse_testkit::{ClosedPort, Message, Origin, RawClient};

use crate::support::gateway;

/// A gateway in Java takes seconds to start, and more where others compile: this bounds a hang and measures nothing.
const PATIENCE: Duration = Duration::from_secs(180);

/// The SHA-512 digest of the key `sesame`.
const DIGEST: &str = concat!(
    "bb947e9c96a5620c696bd175a1b28eea6337fa8ca6c3dd19efb65e2cb1a4dfee",
    "0256cc87c21589354f1a9f5887af5d23ce05d72a143ae2f1efea9c455bf3d056"
);

/// A condition: type, operator, name, value.
type Condition = (&'static str, &'static str, &'static str, &'static str);

/// Conditions on the path alone.
fn at(operator: &'static str, value: &'static str) -> Condition {
    ("uri", operator, "/", value)
}

fn conditions(list: &[Condition]) -> Value {
    let condition = |(kind, operator, name, value): &Condition| json!({"paramType": kind, "operator": operator, "paramName": name, "paramValue": value});
    list.iter().map(condition).collect()
}

/// A call that sets a gateway up: its path and its body.
type Call = (&'static str, Value);

/// The calls that set a gateway up.
fn calls(one: SocketAddr, two: SocketAddr, closed: SocketAddr) -> Vec<Call> {
    let plugins = [("5", "divide", 200), ("14", "contextPath", 80)].map(|(id, name, sort)| {
        let plugin = json!({"id": id, "name": name, "enabled": true, "role": "x", "sort": sort});
        ("plugin/saveOrUpdate", plugin)
    });
    plugins.into_iter().chain(selectors(one, two, closed)).chain(rules()).collect()
}

fn selectors(one: SocketAddr, two: SocketAddr, closed: SocketAddr) -> Vec<Call> {
    let node = |address: SocketAddr| {
        json!([{"upstreamHost": "localhost", "protocol": "http://", "weight": 50, "status": true,
            "upstreamUrl": address.to_string(), "timestamp": 0, "warmup": 0}])
        .to_string()
    };
    let selector = |id: &str, list: &[Condition], (sort, mode): (i32, u8), handle: String| {
        let plugin = if id == "path" { "contextPath" } else { "divide" };
        let body = json!({"id": id, "name": id, "pluginId": "5", "pluginName": plugin, "matchMode": mode, "type": 1,
            "sort": sort, "enabled": true, "logged": false, "continued": id != "direct", "handle": handle,
            "conditionList": conditions(list)});
        ("plugin/selector/saveOrUpdate", body)
    };
    let plain = |id: &str, pattern: &'static str, handle: String| {
        selector(id, &[at("match", pattern)], (1, 0), handle)
    };
    vec![
        plain("order", "/order/**", node(one)),
        plain("none", "/none/**", "[]".into()),
        plain("norule", "/norule/**", node(one)),
        plain("direct", "/direct/**", node(one)),
        plain("down", "/down/**", node(closed)),
        plain("limits", "/limits/**", node(one)),
        plain("context", "/context/**", node(one)),
        plain("path", "/context/**", String::new()),
        // Two that take the same path, of which one asks for more.
        selector(
            "more",
            &[at("match", "/score/**"), ("header", "=", "x-a", "1")],
            (50, 0),
            node(one),
        ),
        plain("less", "/score/**", node(two)),
        // One of its conditions is enough.
        selector(
            "any",
            &[at("match", "/any/**"), ("header", "=", "x-any", "1")],
            (3, 1),
            node(two),
        ),
    ]
}

fn rules() -> Vec<Call> {
    let rule = |id: &str, selector: &str, list: &[Condition], sort: i32, handle: &Value| {
        let plugin = if selector == "path" { "contextPath" } else { "divide" };
        let body = json!({"id": id, "name": id, "selectorId": selector, "pluginName": plugin, "matchMode": 0,
            "sort": sort, "enabled": true, "loged": false, "handle": handle.to_string(),
            "conditionDataList": conditions(list)});
        ("plugin/rule/saveOrUpdate", body)
    };
    let plain =
        json!({"loadBalance": "random", "retryStrategy": "current", "retry": 0, "timeout": 20_000});
    let by_path = [
        ("equal", at("=", "/order/equal")),
        ("ant", at("match", "/order/ant/**")),
        ("segment", at("match", "/order/*.json")),
        ("variable", at("match", "/order/of/{id}/all")),
        ("contains", at("contains", "needle")),
        ("regex", at("regex", "/order/r[0-9]+x")),
        ("status", at("match", "/order/status/**")),
    ];
    let by_more = [
        ("query", "/order/query", ("query", "=", "a", "1")),
        ("header", "/order/header", ("header", "=", "x-a", "1")),
        ("cookie", "/order/cookie", ("cookie", "=", "sid", "1")),
        ("method", "/order/method", ("req_method", "=", "", "POST")),
        ("domain", "/order/domain", ("domain", "=", "", "shop.example")),
        ("ip", "/order/ip", ("ip", "=", "", "127.0.0.1")),
        ("not", "/order/not", ("header", "exclude", "x-a", "no")),
    ];
    let by_path = by_path.map(|(id, condition)| rule(id, "order", &[condition], 10, &plain));
    let by_more =
        by_more.map(|(id, path, second)| rule(id, "order", &[at("=", path), second], 1, &plain));
    let limits = json!({"loadBalance": "random", "timeout": 20_000, "headerMaxSize": 300, "requestMaxSize": 10});
    let shape = json!({"contextPath": "/context", "addPrefix": "/p"});
    let everything = [at("match", "/**")];
    let others = ["none", "down", "context", "more", "less", "any"]
        .map(|selector| rule(selector, selector, &everything, 1, &plain));
    let shaped = [
        rule("limits", "limits", &everything, 1, &limits),
        rule("path", "path", &everything, 1, &shape),
    ];
    by_path.into_iter().chain(by_more).chain(others).chain(shaped).collect()
}

/// A request that is asked of both: first line, header lines, body.
struct Asked {
    line: &'static str,
    headers: &'static str,
    body: &'static str,
}

const fn get(line: &'static str) -> Asked {
    Asked { line, headers: "", body: "" }
}

const fn with(line: &'static str, headers: &'static str) -> Asked {
    Asked { line, headers, body: "" }
}

const fn send(line: &'static str, body: &'static str) -> Asked {
    Asked { line, headers: "", body }
}

/// What both do the same with.
const SAME: &[Asked] = &[
    get("GET /order/equal"),
    get("GET /order/equal/"),
    get("GET /order/equal?c=a+b"),
    get("GET /order/equal?b=%20&c=a+b"),
    get("GET /order/ant"),
    get("GET /order/ant/a/b"),
    get("GET /order/ant/a;b=1"),
    get("GET /order/a.json"),
    get("GET /order/a/b.json"),
    get("GET /order/of/me/all"),
    get("GET /order/of/me/too/all"),
    get("GET /order/xneedley"),
    get("GET /order/r12x"),
    get("GET /order/r12xx"),
    get("GET /order/other"),
    get("GET /order/query"),
    get("GET /order/query?a=1"),
    get("GET /order/query?a=1&a=2"),
    get("GET /order/header"),
    with("GET /order/header", "x-a: 1\r\n"),
    with("GET /order/header", "X-A: 2\r\n"),
    get("GET /order/cookie"),
    with("GET /order/cookie", "cookie: b=2; sid=1\r\n"),
    get("GET /order/method"),
    send("POST /order/method", "{\"a\":1}"),
    get("GET /order/domain"),
    with("GET /order/domain", "Host: shop.example\r\n"),
    get("GET /order/ip"),
    with("GET /order/not", "x-a: yes\r\n"),
    with("GET /order/not", "x-a: not\r\n"),
    with("GET /order/equal", "rpc_type: http\r\n"),
    with("GET /order/equal", "rpc_type: nonsense\r\n"),
    get("GET /order/status/404"),
    get("GET /order/status/500"),
    get("GET /order/status/204"),
    get("HEAD /order/equal"),
    get("DELETE /order/equal"),
    get("OPTIONS /order/equal"),
    send("PUT /order/equal", "0123456789"),
    send("PATCH /order/equal", "0123456789"),
    get("GET /none/x"),
    get("GET /norule/x"),
    get("GET /nobody"),
    get("GET /"),
    get("GET /context/a/b?x=1&y=%20"),
    get("GET /context/"),
    get("GET /score/x"),
    get("GET /any/x"),
    with("GET /elsewhere", "x-any: 1\r\n"),
    send("POST /limits/x", "0123456789"),
    send("POST /limits/x", "0123456789a"),
    with(
        "GET /limits/x",
        "x-long: 0123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789\
         0123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789\
         0123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789\r\n",
    ),
];

/// What they do differently, each as ShenYu and as we, and why. The guide tells users the same.
const DIFFERENT: &[(Asked, &str, &str, &str)] = &[
    (
        get("GET /order/ant//x"),
        "200 one: GET /order/ant//x",
        "200 one: GET /order/ant/x",
        "the node gets the path that conditions have judged",
    ),
    (
        get("GET /order/ant/a%20b"),
        "500 code 500",
        "200 one: GET /order/ant/a%20b",
        "it decodes the path, and can then make no URL of it",
    ),
    (
        get("GET /order/ant/a%2Fb"),
        "200 one: GET /order/ant/a/b",
        "200 one: GET /order/ant/a%2Fb",
        "it sends the path decoded, so that an encoded slash becomes a real one",
    ),
    (
        with("GET /score/x", "x-a: 1\r\n"),
        "200 two: GET /score/x",
        "200 one: GET /score/x",
        "of selectors that match it takes the first by `sort`; later versions, and we, the one with more conditions",
    ),
    (
        get("GET /direct/x"),
        "200 code -102: divide:Rule not found!",
        "200 one: GET /direct/x",
        "it asks for a rule though `continued` is off; later versions, and we, use the default one",
    ),
    (
        get("GET /down/x"),
        "500 code 500",
        "200 code -103: Service invocation exception, or no result is returned!",
        "a node that refuses connections is a fault of its own to it",
    ),
    (
        with("GET /order/equal", "rpc_type: dubbo\r\n"),
        "500 code 500",
        "200 code -103: Service invocation exception, or no result is returned!",
        "without the plugin for a type it fails",
    ),
];

/// A gateway with the two nodes behind it.
struct Side {
    address: SocketAddr,
    one: Origin,
    two: Origin,
}

impl Side {
    fn set_up(&self, closed: SocketAddr) {
        for (path, body) in calls(self.one.address(), self.two.address(), closed) {
            let body = body.to_string();
            let answer = RawClient::connect(self.address).ask(format!(
                "POST /shenyu/{path} HTTP/1.1\r\nHost: a\r\nlocalKey: sesame\r\nContent-Type: application/json\r\n\
                 Content-Length: {}\r\n\r\n{body}",
                body.len()
            ));
            assert_eq!(answer.status(), 200, "{path} {body}: {}", answer.text());
        }
    }

    /// What becomes of a request, in a line.
    fn outcome(&self, asked: &Asked) -> String {
        self.one.forget();
        self.two.forget();
        let Asked { line, headers, body } = asked;
        let host = if headers.starts_with("Host") { "" } else { "Host: gateway.example\r\n" };
        let length = if body.is_empty() {
            String::new()
        } else {
            format!("Content-Length: {}\r\n", body.len())
        };
        let mut client = RawClient::connect(self.address);
        client.send(format!("{line} HTTP/1.1\r\n{host}{headers}{length}\r\n{body}"));
        let answer =
            if line.starts_with("HEAD") { client.answer_to_head() } else { client.answer() };
        let reached = [("one", &self.one), ("two", &self.two)];
        let reached = reached.iter().find_map(|(name, origin)| {
            let request = origin.requests().pop()?;
            let body = if request.body.is_empty() {
                String::new()
            } else {
                format!(" {}", request.text())
            };
            Some(format!("{name}: {} {}{body}", request.method(), request.target()))
        });
        let status = answer.status();
        match reached {
            Some(reached) => format!("{status} {reached}"),
            None => format!("{status} {}", own_words(&answer)),
        }
    }
}

/// What a gateway says itself: code and message, and of a fault its code alone, as ShenYu adds where in its code it was.
fn own_words(answer: &Message) -> String {
    let said: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
    match (said["code"].as_i64(), said["message"].as_str()) {
        (Some(500), _) => "code 500".to_owned(),
        (Some(code), Some(message)) => format!("code {code}: {message}"),
        _ => answer.text(),
    }
}

fn nodes() -> (Origin, Origin) {
    let node = || {
        Origin::script(|connection| {
            while let Some(request) = connection.request() {
                let status =
                    request.target().rsplit_once("/status/").map_or("200", |(_, status)| status);
                let body =
                    if status == "204" || request.method() == "HEAD" { "" } else { "answered" };
                let length = if status == "204" {
                    String::new()
                } else {
                    "Content-Length: 8\r\n".to_owned()
                };
                connection
                    .send(format!("HTTP/1.1 {status} Said\r\nX-Node: 1\r\n{length}\r\n{body}"));
            }
        })
    };
    (node(), node())
}

#[test]
fn shenyus_own_gateway_does_the_same_but_for_what_is_written_down() {
    let Some(program) = program::find("shenyu-gateway-2.4.3") else { return };
    let running = Running::start(Command::new(program).args([
        "--server.port=0",
        "--server.address=127.0.0.1",
        "--shenyu.local.enabled=true",
        &format!("--shenyu.local.sha512Key={DIGEST}"),
    ]));
    let port = running.output().wait_line_within(PATIENCE, "the port", |line| {
        line.split_once("Netty started on port(s): ").and_then(|(_, port)| port.trim().parse().ok())
    });
    let (one, two) = nodes();
    let theirs = Side { address: SocketAddr::from(([127, 0, 0, 1], port)), one, two };
    let gateway = gateway()
        .without_resources()
        .set("shenyu.local_key_sha512", DIGEST)
        .set("shenyu.compatible_statuses", "true")
        .start();
    let (one, two) = nodes();
    let ours = Side { address: gateway.address(), one, two };
    let closed = ClosedPort::new();
    theirs.set_up(closed.address());
    ours.set_up(closed.address());
    let mut wrong = BTreeSet::new();
    for asked in SAME {
        let (their, our) = (theirs.outcome(asked), ours.outcome(asked));
        if their != our {
            wrong.insert(format!(
                "{} {}\n  theirs {their}\n  ours   {our}",
                asked.line, asked.headers
            ));
        }
    }
    for (asked, expected, expected_of_us, reason) in DIFFERENT {
        let (their, our) = (theirs.outcome(asked), ours.outcome(asked));
        if (&*their, &*our) != (*expected, *expected_of_us) {
            wrong.insert(format!("{} ({reason})\n  theirs {their}\n  ours   {our}", asked.line));
        }
    }
    assert!(wrong.is_empty(), "{}", Vec::from_iter(wrong).join("\n"));
}
