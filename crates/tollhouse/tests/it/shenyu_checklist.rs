//! What a gateway of ShenYu's does for its plugins, row by row of the list by which users compare, against real
//! nodes. Rows that need no gateway have their tests in the crates of ShenYu's.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use tollhouse_testkit::patience::wait_for;
use tollhouse_testkit::{ClosedPort, Connection, Gateway, Origin, RawClient, ReservedPort};

use super::shenyu::{Pair, divide, nodes, objects, pair, serving};

fn post(gateway: &Gateway, path: &str, headers: &str, body: &str) -> tollhouse_testkit::Message {
    gateway.client().ask(format!(
        "POST {path} HTTP/1.1\r\nHost: a\r\n{headers}Content-Length: {}\r\n\r\n{body}",
        body.len()
    ))
}

/// A node that serves nobody who is not asked for by name.
fn gray(port: u16, gray: bool) -> Value {
    json!({"protocol": "http://", "upstreamUrl": format!("127.0.0.1:{port}"), "weight": 50,
        "status": true, "gray": gray})
}

#[test]
fn divide_with_six_balancers_retry_failover_limits_gray_warm_up() {
    let (one, two) = (Origin::named("one"), Origin::named("two"));
    let ports = [one.address().port(), two.address().port()];
    let closed = ClosedPort::new();
    let balanced = |prefix: &'static str, balance: &str| {
        pair("divide", prefix, nodes(ports), json!({"loadBalance": balance}))
    };
    let limits = json!({"headerMaxSize": 200, "requestMaxSize": 10});
    let failing = nodes([closed.address().port(), ports[0]]);
    let gateway = serving(&[
        balanced("/random", "random"),
        balanced("/roundRobin", "roundRobin"),
        balanced("/hash", "hash"),
        balanced("/leastActive", "leastActive"),
        balanced("/p2c", "p2c"),
        balanced("/shortestResponse", "shortestResponse"),
        pair("divide", "/limits", nodes(ports), limits),
        pair("divide", "/gray", json!([gray(ports[0], false), gray(ports[1], true)]), json!({})),
        pair("divide", "/failover", failing, json!({"retryStrategy": "failover", "retry": 2})),
    ])
    .start();
    let served = |path: &str| -> BTreeSet<String> {
        let mut client = gateway.client();
        (0..40).map(|_| client.get(path).text()).collect()
    };
    let both: BTreeSet<String> = ["one", "two"].map(str::to_owned).into();
    for path in ["/random", "/roundRobin", "/leastActive", "/p2c", "/shortestResponse"] {
        assert_eq!(served(path), both, "{path}");
    }
    assert_eq!(served("/hash").len(), 1, "a client stays with its node");
    assert_eq!(served("/gray"), ["two".to_owned()].into(), "gray nodes have everything");
    assert_eq!(served("/failover"), ["one".to_owned()].into());
    assert_eq!(post(&gateway, "/limits", "", "0123456789").status(), 200);
    assert_eq!(post(&gateway, "/limits", "", "01234567890").status(), 413);
    let long = format!("X-Long: {}\r\n", "x".repeat(200));
    assert_eq!(post(&gateway, "/limits", &long, "").status(), 431);
}

#[test]
fn waf_rate_limiter_sign_jwt_key_auth_basic_auth_refuse_in_shenyus_words() {
    let origin = Origin::named("order");
    let all = || nodes([origin.address().port()]);
    let protections = [
        ("waf", "/waf", json!({"permission": "reject", "statusCode": "405"})),
        (
            "rateLimiter",
            "/limited",
            // A request costs more than the bucket ever holds, at whichever second of the clock it comes.
            json!({"algorithmName": "tokenBucket", "burstCapacity": 1, "requestCount": 2}),
        ),
        ("sign", "/signed", json!({})),
        ("jwt", "/token", json!({})),
        ("keyAuth", "/key", json!({"keyName": "apiKey", "key": "k1"})),
        ("basicAuth", "/basic", json!({"authorization": "jack:secret"})),
    ];
    let pairs = protections.map(|(plugin, prefix, rule)| pair(plugin, prefix, Value::Null, rule));
    let pairs: Vec<Pair> =
        pairs.into_iter().chain([pair("divide", "/", all(), json!({}))]).collect();
    let mut resources = objects(&pairs);
    for plugin in resources["shenyu"]["plugins"].as_array_mut().expect("a list") {
        plugin["config"] =
            json!({"model": "black", "secretKey": "0123456789abcdef0123456789abcdef"});
    }
    let gateway = super::support::gateway()
        .set("shenyu.compatible_statuses", "true")
        .resources(&resources)
        .start();
    let mut client = gateway.client();
    for (path, status, body) in [
        ("/waf", 403, r#"{"code":405,"message":" You are forbidden to visit"}"#),
        (
            "/limited",
            429,
            r#"{"code":429,"message":"You have been restricted, please try again later!"}"#,
        ),
        ("/signed", 200, r#"{"code":401,"message":"sign version does not exist or is wrong!"}"#),
        ("/token", 200, r#"{"code":401,"message":"Illegal authorization"}"#),
        ("/key", 200, r#"{"code":401,"message":"Key is incorrect"}"#),
        ("/basic", 200, r#"{"code":401,"message":"Illegal authorization"}"#),
    ] {
        let refused = client.get(path);
        assert_eq!((refused.status(), refused.text().as_str()), (status, body), "{path}");
    }
    assert_eq!(client.get("/key?apiKey=k1").text(), "order");
    let basic = "GET /basic HTTP/1.1\r\nHost: a\r\nAuthorization: Basic amFjazpzZWNyZXQ=\r\n\r\n";
    assert_eq!(client.ask(basic).text(), "order");
}

#[test]
fn rewrite_redirect_request_modify_response_context_path_mock_cache_change_what_passes() {
    let origin = Origin::named("order");
    let shapes = [
        ("rewrite", "/old", json!({"regex": "^/old/(.*)", "replace": "/new/$1"})),
        ("redirect", "/gone", json!({"redirectURI": "https://b.com/"})),
        ("request", "/asked", json!({"header": {"setHeaders": {"X-Set": "1"}}})),
        (
            "modifyResponse",
            "/answered",
            json!({"setHeaders": {"X-Answer": "1"}, "statusCode": 201}),
        ),
        ("contextPath", "/shop", json!({"contextPath": "/shop"})),
        ("mock", "/mock", json!({"httpStatusCode": 200, "responseContent": "${int|7-7}"})),
        ("cache", "/kept", json!({"timeoutSeconds": 60})),
    ];
    let pairs = shapes.map(|(plugin, prefix, rule)| pair(plugin, prefix, Value::Null, rule));
    let pairs: Vec<Pair> = pairs.into_iter().chain([divide("/", &origin, json!({}))]).collect();
    let gateway = serving(&pairs).start();
    let mut client = gateway.client();
    assert_eq!(client.get("/old/1?a=b").text(), "order");
    assert_eq!(origin.last_request().target(), "/new/1?a=b");
    let redirected = client.get("/gone");
    assert_eq!((redirected.status(), redirected.field("location")), (302, Some("https://b.com/")));
    client.get("/asked");
    assert_eq!(origin.last_request().field("x-set"), Some("1"));
    let answered = client.get("/answered");
    assert_eq!((answered.status(), answered.field("x-answer")), (201, Some("1")));
    client.get("/shop/findById");
    assert_eq!(origin.last_request().target(), "/findById");
    assert_eq!(client.get("/mock").text(), "7");
    assert_eq!(client.get("/kept").text(), "order");
    let asked = origin.requests().len();
    assert_eq!(client.get("/kept").text(), "order");
    assert_eq!(origin.requests().len(), asked, "the second answer is the first one");
}

#[test]
fn websocket_grpc_tcp_reach_their_servers() {
    // gRPC: `grpc_calls_the_method_of_a_path_and_answers_with_json` of the gateway's crate.
    let chat = Origin::script(|connection: &mut Connection| {
        if connection.request().is_some_and(|request| request.field("upgrade").is_some()) {
            connection.send(
                "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\nhello",
            );
        }
    });
    let (one, two) = (Origin::named("one"), Origin::named("two"));
    let (port, own) = (ReservedPort::new(), ReservedPort::new());
    let ws = json!([{"protocol": "ws://", "url": chat.address().to_string(), "status": true}]);
    let with_port = |to: &Origin| {
        let mut resources = objects(&[pair("websocket", "/chat", ws.clone(), json!({}))]);
        let shenyu = &mut resources["shenyu"];
        let tcp = json!({"name": "tcp", "enabled": true});
        shenyu["plugins"].as_array_mut().expect("a list").push(tcp);
        let selector = |id: &str, port: u16| {
            json!({"id": id, "name": id, "pluginName": "tcp", "type": "tcp", "forwardPort": port,
                "props": {"loadBalance": "random"}})
        };
        // The second one would have a port that the gateway itself listens at.
        shenyu["proxySelectors"] =
            json!([selector("p1", port.number()), selector("p2", own.number())]);
        let node =
            json!({"url": to.address().to_string(), "protocol": "tcp", "status": 0, "weight": 1});
        shenyu["discoveryUpstreams"] = json!([
            {"selectorId": "p1", "pluginName": "tcp", "upstreamDataList": [node]},
            {"selectorId": "p2", "pluginName": "tcp", "upstreamDataList": [node]},
        ]);
        resources
    };
    let gateway = super::support::gateway()
        .set("shenyu.tcp_address", "127.0.0.1")
        .set("listen.http", &own.address().to_string())
        .resources(&with_port(&one))
        .start();
    let mut client = gateway.client();
    let asked = client.ask(
        "GET /chat HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
         Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n",
    );
    assert_eq!(asked.status(), 101);
    client.expect("hello");
    let passed_on = |text: &str| {
        wait_for(text, || {
            std::net::TcpStream::connect(port.address()).ok()?;
            (RawClient::connect(port.address()).get("/").text() == text).then_some(())
        });
    };
    passed_on("one");
    gateway.reload(&with_port(&two));
    passed_on("two");
    let own = gateway.client().get("/nothing").text();
    assert!(own.contains("-103"), "its own port is its own: {own}");
    gateway.reload(&objects(&[pair("websocket", "/chat", ws.clone(), json!({}))]));
    wait_for("the port to be closed", || {
        std::net::TcpStream::connect(port.address()).is_err().then_some(())
    });
}
