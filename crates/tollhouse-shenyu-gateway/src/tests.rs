//! Requests of text through chains of objects as ShenYu's admin sends them.

use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use tollhouse_plugin::testing::{FakeExchange, Harness, Outcome};
use tollhouse_plugin::{Identity, Services, Transfer};
use tollhouse_shenyu::Kind;
use tollhouse_shenyu::answer::Statuses;

use crate::{Sources, Terms};

mod bodies;
mod by_path;
mod casdoor;
mod engines;
mod filters;
mod paths;
mod queries;

use engines::{FakeEngines, FakeRedis, Notes};

/// Objects under construction.
struct Desk {
    sources: Sources,
    terms: Terms,
    objects: usize,
}

impl Desk {
    fn new() -> Self {
        let terms = Terms { statuses: Statuses::Compatible, ..Terms::default() };
        Self { sources: Sources::default(), terms, objects: 0 }
    }

    fn put(mut self, kind: Kind, object: &Value) -> Self {
        let id = object["id"].as_str().unwrap_or("1").to_owned();
        self.sources.put(kind, &id, &object.to_string()).expect("the object is good");
        self
    }

    fn plugin(self, name: &str, config: Option<&Value>) -> Self {
        let config = config.map(Value::to_string);
        self.put(
            Kind::Plugin,
            &json!({"id": name, "name": name, "enabled": true, "config": config}),
        )
    }

    /// A selector and a rule for paths that begin with `prefix`.
    fn rule(mut self, plugin: &str, prefix: &str, selector: &Value, rule: &Value) -> Self {
        self.objects += 1;
        let id = format!("{plugin}-{}", self.objects);
        let condition = json!([{"paramType": "uri", "operator": "startsWith", "paramName": "/", "paramValue": prefix}]);
        let written =
            |value: &Value| if value.is_null() { Value::Null } else { value.to_string().into() };
        self.put(Kind::Selector, &json!({
            "id": id, "name": id, "pluginName": plugin, "type": 1, "matchMode": 0,
            "enabled": true, "continued": true, "handle": written(selector), "conditionList": condition,
        }))
        .put(Kind::Rule, &json!({
            "id": id, "name": id, "pluginName": plugin, "selectorId": id, "matchMode": 0,
            "enabled": true, "handle": written(rule), "conditionDataList": condition,
        }))
    }

    fn divide(self, prefix: &str) -> Self {
        let nodes = json!([{"protocol": "http://", "upstreamUrl": "127.0.0.1:8080", "weight": 50, "status": true}]);
        self.plugin("divide", None).rule("divide", prefix, &nodes, &json!({}))
    }

    fn send(&self, request: &str) -> Outcome {
        let (chain, problems) = self.sources.compile(&self.terms);
        assert_eq!(problems, []);
        let services = Arc::new(Services::new("APISIX/3.18.0"));
        Harness::with(chain.expect("a plugin is on"), services).request(request)
    }

    /// Returns the status and body of the answer, or the edits of a request that passes.
    fn answer(&self, request: &str) -> String {
        let outcome = self.send(request);
        match &outcome.answer {
            Some(answer) => format!("{} {}", answer.status, answer.body),
            None => outcome.edits.clone(),
        }
    }
}

fn get(path: &str) -> String {
    format!("GET {path} HTTP/1.1\nHost: a.com\n\n")
}

#[test]
fn divide_answers_in_shenyus_words_where_nothing_takes_the_request() {
    let desk = Desk::new().divide("/order/");
    assert_eq!(
        desk.answer(&get("/other")),
        r#"200 {"code":-107,"message":"divide:Can not find selector, please check your configuration!"}"#
    );
    assert!(desk.send(&get("/order/1")).answer.is_none());
    let mut desk = Desk::new().divide("/order/");
    desk.sources.remove(Kind::Rule, "divide-1");
    assert_eq!(
        desk.answer(&get("/order/1")),
        r#"200 {"code":-102,"message":"divide:Rule not found!"}"#
    );
    desk.terms.statuses = Statuses::Honest;
    assert!(desk.answer(&get("/order/1")).starts_with("404 "));
}

#[test]
fn nodes_of_discovery_count_before_those_of_the_handle() {
    let desk = Desk::new().divide("/").put(Kind::DiscoveryUpstream, &json!({
        "selectorId": "divide-1", "pluginName": "divide",
        "upstreamDataList": [{"protocol": "http://", "url": "10.0.0.9:1", "status": 0, "weight": 1}],
    }));
    let (chain, _) = desk.sources.compile(&desk.terms);
    let chain = chain.expect("divide is on");
    assert_eq!(chain.targets()[0].upstream.nodes[0].host, "10.0.0.9");
    let desk = Desk::new().divide("/").put(
        Kind::DiscoveryUpstream,
        &json!({
            "selectorId": "divide-1", "pluginName": "divide",
            "upstreamDataList": [{"url": "10.0.0.9:1", "status": 1}],
        }),
    );
    assert!(desk.answer(&get("/")).contains("-119"));
}

#[test]
fn rules_limit_headers_and_bodies() {
    let nodes = json!([{"upstreamUrl": "127.0.0.1:8080"}]);
    let limits = json!({"headerMaxSize": 10, "requestMaxSize": "100"});
    let desk = Desk::new().plugin("divide", None).rule("divide", "/", &nodes, &limits);
    let long = "GET / HTTP/1.1\nHost: a\nX: 0123456789\n\n";
    assert_eq!(
        desk.answer(long),
        r#"200 {"code":431,"message":"Request Header Fields Too Large"}"#
    );
    let large = format!("POST / HTTP/1.1\nHost: a\nContent-Length: 101\n\n{}", "x".repeat(101));
    assert_eq!(desk.answer(&large), r#"200 {"code":413,"message":"Request Entity Too Large"}"#);
    assert!(desk.send(&get("/")).answer.is_none());
    // A body of undeclared length is counted as it arrives.
    let chunked = "POST / HTTP/1.1\nHost: a\nTransfer-Encoding: chunked\n\nx";
    let edits = desk.answer(chunked);
    assert!(edits.contains("body_bytes_max 100\n"), "{edits}");
    let (chain, _) = desk.sources.compile(&desk.terms);
    let chain = chain.expect("divide is on");
    assert_eq!(chain.plain_target(&FakeExchange::parse(chunked, 0)), None);
    assert_eq!(chain.plain_target(&FakeExchange::parse(&get("/"), 0)), Some(0));
}

#[test]
fn waf_passes_or_refuses_what_it_does_not_know_by_its_model() {
    let reject = json!({"permission": "reject", "statusCode": "405"});
    let forbidden = r#"403 {"code":405,"message":" You are forbidden to visit"}"#;
    let black = Desk::new().divide("/").plugin("waf", Some(&json!({"model": "black"})));
    let black = black.rule("waf", "/secret", &Value::Null, &reject);
    assert_eq!(black.answer(&get("/secret/1")), forbidden);
    assert!(black.send(&get("/open")).answer.is_none());
    let allow = json!({"permission": "allow"});
    let mixed = Desk::new().divide("/").plugin("waf", Some(&json!({"model": "mixed"})));
    let mixed = mixed.rule("waf", "/open", &Value::Null, &allow);
    assert!(mixed.send(&get("/open")).answer.is_none());
    assert!(mixed.answer(&get("/secret")).starts_with("403 "));
}

#[test]
fn a_protection_that_cannot_be_read_refuses_what_it_was_meant_for() {
    let desk = Desk::new().divide("/").plugin("waf", Some(&json!({"model": "black"})));
    let desk = desk.rule("waf", "/a", &Value::Null, &json!({"permission": "perhaps"}));
    let (chain, problems) = desk.sources.compile(&desk.terms);
    assert_eq!(problems.len(), 1, "{problems:?}");
    let services = Arc::new(Services::new("APISIX/3.18.0"));
    let mut harness = Harness::with(chain.expect("it is on"), services);
    let refused = harness.request(&get("/a")).answer.expect("it is refused");
    assert!(refused.body.contains("-1,"), "{}", refused.body);
    assert!(harness.request(&get("/b")).answer.is_none());
}

#[test]
fn redirects_begin_anew_inside_or_answer_and_never_run_in_circles() {
    let desk = |uri: &str| {
        Desk::new()
            .plugin("redirect", None)
            .rule("redirect", "/old", &Value::Null, &json!({"redirectURI": uri}))
            .divide("/new")
    };
    assert!(desk("/new/a").answer(&get("/old")).contains("/new/a"));
    assert!(desk("http://b.com/").answer(&get("/old")).starts_with("302 "));
    assert!(desk("/old").answer(&get("/old")).starts_with("500 "));
}

#[test]
fn keys_and_signatures_are_asked_for_before_a_node() {
    let desk = Desk::new().divide("/").plugin("keyAuth", None);
    let desk = desk.rule("keyAuth", "/", &Value::Null, &json!({"keyName": "apiKey", "key": "k1"}));
    assert_eq!(desk.answer(&get("/")), r#"200 {"code":401,"message":"Key is incorrect"}"#);
    assert!(desk.send(&get("/?apiKey=k1")).answer.is_none());
    let desk = Desk::new()
        .divide("/")
        .plugin("sign", None)
        .rule("sign", "/", &Value::Null, &json!({"signRequestBody": false}))
        .put(
            Kind::AppAuth,
            &json!({"appKey": "A1", "appSecret": "S1", "enabled": true, "open": false}),
        );
    let signed = "GET /order/findById HTTP/1.1\nHost: a\nversion: 1.0.0\nappKey: A1\n\
                  timestamp: 1700000000000\nsign: 912181052A1233D2F827DBCE9C4BB92F\n\n";
    assert!(desk.send(signed).answer.is_none());
    assert!(
        desk.answer(&signed.replace("findById", "delete")).contains("signature value is error!")
    );
    assert!(desk.answer(&get("/")).contains("sign version does not exist or is wrong!"));
}

#[test]
fn plain_requests_need_no_chain_and_others_do() {
    let desk = Desk::new().divide("/order").plugin("waf", Some(&json!({"model": "black"})));
    let desk = desk.rule("waf", "/order/secret", &Value::Null, &json!({"permission": "reject"}));
    let (chain, _) = desk.sources.compile(&desk.terms);
    let chain = chain.expect("divide is on");
    let target = |path: &str| {
        let exchange = FakeExchange::parse(&get(path), 0);
        chain.plain_target(&exchange)
    };
    assert_eq!(target("/order/1?a=b"), Some(0));
    assert_eq!(target("/order/secret"), None);
    assert_eq!(target("/order/a/../secret"), None);
    assert_eq!(target("/other"), None);
}

#[test]
fn requests_are_carried_by_the_proxy_of_their_kind() {
    let nodes =
        json!([{"protocol": "ws://", "url": "127.0.0.1:8080", "weight": 1, "status": true}]);
    let desk = Desk::new().divide("/").plugin("websocket", None);
    let desk = desk.rule("websocket", "/chat", &nodes, &json!({"loadBalance": "random"}));
    let upgrade = |path: &str| {
        format!("GET {path} HTTP/1.1\nHost: a\nUpgrade: websocket\nConnection: upgrade\n\n")
    };
    assert!(desk.send(&upgrade("/chat/1")).answer.is_none());
    assert!(desk.answer(&upgrade("/")).contains("websocket:Can not find selector"));
    let unknown = "GET / HTTP/1.1\nHost: a\nrpc_type: pigeon\n\n";
    assert_eq!(desk.answer(unknown), r#"500 {"code":500,"message":"Internal Server Error"}"#);
    let uncarried = "GET / HTTP/1.1\nHost: a\nrpc_type: tars\n\n";
    assert!(desk.answer(uncarried).contains("-103"));
}

#[test]
fn objects_of_other_namespaces_do_not_count() {
    let mut desk = Desk::new().divide("/");
    desk.terms.namespace = "elsewhere".to_owned();
    assert!(desk.sources.compile(&desk.terms).0.is_none());
}

/// Returns the request that a node receives, and the response that the client receives.
fn exchanged(desk: &Desk, request: &str, head: &str, body: &str) -> (String, String) {
    let (chain, problems) = desk.sources.compile(&desk.terms);
    assert_eq!(problems, []);
    let services = Arc::new(Services::new("APISIX/3.18.0"));
    let mut harness = Harness::with(chain.expect("a plugin is on"), services);
    let mut exchange = FakeExchange::parse(request, 1_700_000_000_000);
    let outcome = harness.run(&mut exchange);
    assert!(outcome.answer.is_none(), "{:?}", outcome.answer);
    let reply = harness.respond(&mut exchange, head, &[body]);
    (outcome.edits, format!("{reply:?}"))
}

#[test]
fn request_edits_headers_parameters_and_cookies() {
    let rule = json!({
        "header": {"addHeaders": {"X-Add": "1"}, "setHeaders": {"X-Set": "2"}, "replaceHeaderKeys": {"X-Old": "X-New"},
            "removeHeaderKeys": ["X-Gone"]},
        "parameter": {"addParameters": {"p": "a b"}, "removeParameterKeys": ["q"]},
        "cookie": {"setCookies": {"c": "2"}, "removeCookieKeys": ["d"]},
        "preserveHost": true,
    });
    let desk =
        Desk::new().plugin("request", None).rule("request", "/", &Value::Null, &rule).divide("/");
    let request = "GET /order?q=1&r=%20 HTTP/1.1\nHost: a.com\nX-Old: old\nX-Gone: x\nX-Set: 1\nCookie: c=1; d=3; e=4\n\n";
    let edits = desk.answer(request);
    for part in
        ["X-Add: 1", "X-Set: 2", "X-New: old", "cookie: c=2; e=4", "/order?r=%20&p=a%20b", "a.com"]
    {
        assert!(edits.contains(part), "{part}: {edits}");
    }
}

#[test]
fn modify_response_edits_what_a_node_answered() {
    let rule = json!({
        "addHeaders": {"X-Add": "1"}, "setHeaders": {"X-Set": "2"}, "replaceHeaderKeys": {"X-Old": "X-New"},
        "removeHeaderKeys": ["X-Gone"], "statusCode": 201,
        "addBodyKeys": [{"path": "$", "key": "added", "value": "yes"}], "removeBodyKeys": ["$.secret"],
    });
    let desk = Desk::new()
        .plugin("modifyResponse", None)
        .rule("modifyResponse", "/order", &Value::Null, &rule)
        .divide("/");
    let head = "HTTP/1.1 200 OK\nContent-Type: application/json\nX-Old: old\nX-Gone: x\n\n";
    let (_, reply) = exchanged(&desk, &get("/order"), head, "{\"secret\":1,\"a\":2}");
    for part in ["201", "X-Add", r#"{\"a\":2,\"added\":\"yes\"}"#] {
        assert!(reply.contains(part), "{part}: {reply}");
    }
    assert!(reply.contains(r#"("X-Old", "X-New")"#), "the value is replaced: {reply}");
    assert!(!reply.contains("secret") && !reply.contains("X-Gone"), "{reply}");
    let typed = json!({"setHeaders": {"Content-Type": "text/x"}, "removeHeaderKeys": ["X-Gone"]});
    let typed = Desk::new()
        .plugin("modifyResponse", None)
        .rule("modifyResponse", "/", &Value::Null, &typed)
        .divide("/");
    let (_, json) = exchanged(&typed, &get("/"), head, "{}");
    assert!(json.contains("application/json") && !json.contains("text/x"), "as in ShenYu: {json}");
    let (_, other) = exchanged(&desk, &get("/other"), head, "{\"secret\":1}");
    assert!(other.contains("secret") && other.contains("200"), "{other}");
    // A body that cannot be edited is not sent on.
    let gzip = head.replace("\n\n", "\nContent-Encoding: gzip\n\n");
    for (head, body) in [(head, "{\"secret"), (&*gzip, "{\"secret\":1}")] {
        let (_, refused) = exchanged(&desk, &get("/order"), head, body);
        assert!(refused.contains("answer_unreadable") && !refused.contains("secret"), "{refused}");
    }
    let (_, empty) = exchanged(&desk, &get("/order"), head, "");
    assert!(empty.contains("201"), "{empty}");
    let (chain, _) = desk.sources.compile(&desk.terms);
    let chain = chain.expect("divide is on");
    assert_eq!(chain.plain_target(&FakeExchange::parse(&get("/order"), 0)), None);
    assert_eq!(chain.plain_target(&FakeExchange::parse(&get("/other"), 0)), Some(0));
}

#[test]
fn tokens_are_asked_for_and_their_claims_become_headers() {
    let rule = json!({"converter": [{"jwtVal": "user.name", "headerVal": "X-Name"}]});
    let desk = Desk::new()
        .plugin("jwt", Some(&json!({"secretKey": "your-256-bit-secret"})))
        .rule("jwt", "/", &Value::Null, &rule)
        .divide("/");
    let refused = r#"200 {"code":401,"message":"Illegal authorization"}"#;
    assert_eq!(desk.answer(&get("/")), refused);
    assert_eq!(desk.answer("GET / HTTP/1.1\nHost: a\ntoken: a.b.c\n\n"), refused);
    let unset =
        Desk::new().plugin("jwt", None).rule("jwt", "/", &Value::Null, &Value::Null).divide("/");
    assert!(unset.answer(&get("/")).contains("-112"));
}

#[test]
fn more_than_the_limit_of_requests_is_refused_and_counts_outlive_changes() {
    let rule = json!({"algorithmName": "tokenBucket", "replenishRate": 1, "burstCapacity": 2, "requestCount": 1});
    let mut desk = Desk::new()
        .plugin("rateLimiter", None)
        .rule("rateLimiter", "/", &Value::Null, &rule)
        .divide("/");
    let passes = |desk: &Desk| desk.send(&get("/")).answer.is_none();
    assert_eq!([passes(&desk), passes(&desk), passes(&desk)], [true, true, false]);
    assert_eq!(
        desk.answer(&get("/")),
        r#"429 {"code":429,"message":"You have been restricted, please try again later!"}"#
    );
    desk = desk.put(Kind::AppAuth, &json!({"id": "x", "appKey": "x", "appSecret": "x"}));
    assert!(!passes(&desk), "another object changed");
}

#[test]
fn mock_answers_in_the_place_of_a_node() {
    let rule = json!({"httpStatusCode": 201, "responseContent": "{\"n\": ${int|3-3}}"});
    let desk = Desk::new().plugin("mock", None).rule("mock", "/", &Value::Null, &rule).divide("/");
    assert_eq!(desk.answer(&get("/")), "201 {\"n\": 3}");
}

#[test]
fn bodies_are_mapped_before_a_node_gets_them() {
    let rule = json!({
        "addParameterKeys": [{"path": "$", "key": "a", "value": "1"}],
        "replaceParameterKeys": [{"path": "$", "key": "old", "value": "new"}],
        "removeParameterKeys": ["$.gone"],
    });
    let desk = Desk::new()
        .plugin("paramMapping", None)
        .rule("paramMapping", "/", &Value::Null, &rule)
        .divide("/");
    let post = |kind: &str, body: &str| {
        format!(
            "POST / HTTP/1.1\nHost: a\nContent-Type: {kind}\nContent-Length: {}\n\n{body}",
            body.len()
        )
    };
    for (kind, body, expected) in [
        ("application/json", r#"{"old":2,"gone":3}"#, r#"{"a":"1","new":2}"#),
        ("application/x-www-form-urlencoded", "old=2&gone=3", "a=1&new=2"),
    ] {
        let edits = desk.answer(&post(kind, body));
        assert!(edits.contains(expected), "{edits}");
    }
    assert!(!desk.answer(&post("text/plain", "old")).contains("new"));
    assert!(!desk.answer(&post("application/json", "{old")).contains("new"));
}

#[test]
fn a_breaker_opens_for_failures_of_nodes_and_calls_go_to_its_fallback() {
    let rule = |fallback: &str| json!({"requestVolumeThreshold": 2, "errorThresholdPercentage": 50, "callBackUri": fallback});
    for (fallback, expected) in [
        (
            "",
            r#"500 {"code":-103,"message":"Service invocation exception, or no result is returned!"}"#,
        ),
        (
            "fallback:/fallback/hystrix",
            r#"200 {"code":429,"message":"HystrixPlugin fallback success, please check your service status!"}"#,
        ),
        ("https://b.com/sorry", "302 "),
    ] {
        let desk = Desk::new().plugin("hystrix", None);
        let desk = desk.rule("hystrix", "/", &Value::Null, &rule(fallback)).divide("/");
        let (chain, problems) = desk.sources.compile(&desk.terms);
        assert_eq!(problems, []);
        let services = Arc::new(Services::new("APISIX/3.18.0"));
        let mut harness = Harness::with(chain.expect("a plugin is on"), services);
        for _ in 0..2 {
            let mut exchange = FakeExchange::parse(&get("/"), 0);
            assert!(harness.run(&mut exchange).answer.is_none());
            let transfer = Transfer { upstream_status: Some(502), ..Transfer::default() };
            harness.log(&mut exchange, transfer);
        }
        let refused = harness.request(&get("/")).answer.expect("it is open");
        assert_eq!(format!("{} {}", refused.status, refused.body), expected);
    }
}

#[test]
fn resilience4j_decides_before_a_proxy_wherever_its_row_stands() {
    let rule = json!({"limitForPeriod": 1, "limitRefreshPeriod": 60000, "timeoutDurationRate": 1});
    let mut desk = Desk::new().divide("/");
    desk = desk.put(
        Kind::Plugin,
        &json!({"id": "r", "name": "resilience4j", "enabled": true, "sort": 310}),
    );
    let desk = desk.rule("resilience4j", "/", &Value::Null, &rule);
    assert!(desk.send(&get("/")).answer.is_none());
    assert!(desk.answer(&get("/")).starts_with("429 "));
}

#[test]
fn spring_cloud_asks_registered_nodes_and_without_any_the_service_of_the_registry() {
    let metadata = json!({"id": "m", "path": "/pay/**", "rpcType": "springCloud", "enabled": true});
    let desk = |handle: &Value| {
        Desk::new()
            .plugin("springCloud", None)
            .rule(
                "springCloud",
                "/pay/",
                handle,
                &json!({"timeout": 500, "loadBalance": "roundRobin"}),
            )
            .put(Kind::Metadata, &metadata)
    };
    let node = |url: &str, gray: bool, status: bool| json!({"upstreamUrl": url, "protocol": "http://", "gray": gray, "status": status});
    let nodes = json!([
        node("10.0.0.1:80", false, true),
        node("10.0.0.2:80", true, true),
        node("10.0.0.3:80", true, false)
    ]);
    let upstream = |desk: &Desk| {
        let (chain, problems) = desk.sources.compile(&desk.terms);
        assert_eq!(problems, []);
        let upstream = Arc::clone(&chain.expect("it is on").targets()[0].upstream);
        let hosts: Vec<_> = upstream.nodes.iter().map(|node| node.host.clone()).collect();
        (hosts, upstream)
    };
    let (hosts, upstream_used) =
        upstream(&desk(&json!({"serviceId": "pay", "divideUpstreams": nodes})));
    assert_eq!(hosts, ["10.0.0.1", "10.0.0.2"]);
    assert_eq!((upstream_used.retries, upstream_used.discovery.is_none()), (Some(0), true));
    let (hosts, _) =
        upstream(&desk(&json!({"serviceId": "pay", "gray": true, "divideUpstreams": nodes})));
    assert_eq!(hosts, ["10.0.0.2"]);
    for (id, expected) in [("pay", "default/pay"), ("prod/pay", "prod/pay")] {
        let (hosts, service) = upstream(&desk(&json!({"serviceId": id})));
        let service = service.discovery.as_ref().expect("it has a service");
        assert_eq!((hosts.len(), service.to_string()), (0, expected.to_owned()));
    }
    let found = desk(&json!({"serviceId": "pay"})).put(
        Kind::DiscoveryUpstream,
        &json!({
            "selectorId": "springCloud-1", "upstreamDataList": [{"url": "10.0.0.9:1", "status": 0}],
        }),
    );
    assert_eq!(upstream(&found).0, ["10.0.0.9"]);
    // Other services do not match.
    assert!(desk(&json!({"serviceId": "pay"})).send(&get("/pay/1")).answer.is_none());
    let other = desk(&json!({"serviceId": "pay"})).divide("/").answer(&get("/other"));
    assert!(!other.contains("springCloud"), "{other}");
    let (_, problems) = desk(&json!({})).sources.compile(&Terms::default());
    assert_eq!(problems.len(), 1, "{problems:?}");
}

#[test]
fn cache_answers_again_what_a_node_answered_to_anybody() {
    let desk = Desk::new()
        .plugin("cache", Some(&json!({"cacheType": "memory"})))
        .rule("cache", "/", &Value::Null, &json!({"timeoutSeconds": 10}))
        .plugin("keyAuth", None)
        .rule("keyAuth", "/kept", &Value::Null, &json!({"keyName": "apiKey", "key": "k1"}))
        .divide("/");
    let (chain, problems) = desk.sources.compile(&desk.terms);
    assert_eq!(problems, []);
    let services = Arc::new(Services::new("APISIX/3.18.0"));
    let mut harness = Harness::with(chain.expect("a plugin is on"), services);
    let json = "200\nContent-Type: application/json\n";
    // Request, head of the node's answer, whether it is kept.
    let cases = [
        ("GET /a?b=1 HTTP/1.1\nHost: a\n\n", json.to_owned(), true),
        ("GET /post HTTP/1.1\nHost: a\nAuthorization: x\n\n", json.to_owned(), false),
        ("POST /p HTTP/1.1\nHost: a\n\n", json.to_owned(), false),
        ("GET /c HTTP/1.1\nHost: a\n\n", format!("{json}Set-Cookie: a=b\n"), false),
        (
            "GET /d HTTP/1.1\nHost: a\n\n",
            format!("{json}Cache-Control: max-age=3, Private\n"),
            false,
        ),
        ("GET /e HTTP/1.1\nHost: a\n\n", "500\n".to_owned(), false),
        ("GET /g HTTP/1.1\nHost: a\nCookie: sid=1\n\n", json.to_owned(), false),
        (
            "GET /h HTTP/1.1\nHost: a\nCookie: sid=1\n\n",
            format!("{json}Cache-Control: public\n"),
            true,
        ),
        ("GET /f HTTP/1.1\nHost: a\n\n", format!("{json}Content-Encoding: gzip\n"), false),
    ];
    for (request, head, is_kept) in cases {
        let mut exchange = FakeExchange::parse(request, harness.now_ms);
        assert!(harness.run(&mut exchange).answer.is_none(), "{request}");
        harness.respond(&mut exchange, &format!("{head}\n"), &["bo", "dy"]);
        let again = harness.request(request).answer;
        assert_eq!(
            again.as_ref().map(|answer| &*answer.body),
            is_kept.then_some("body"),
            "{request}"
        );
        assert!(again.is_none_or(|answer| format!("{answer:?}").contains("application/json")));
    }
    assert!(harness.request(&get("/a?b=1")).answer.is_none(), "another host");
    // A user whom another plugin has authenticated.
    let mut exchange = FakeExchange::parse("GET /a?b=1 HTTP/1.1\nHost: a\n\n", harness.now_ms);
    exchange.edits.identities.note(Identity { by: "x", name: b"alice", grant: b"" });
    assert!(harness.run(&mut exchange).answer.is_none(), "another user");
    assert!(harness.request("GET /a?b=2 HTTP/1.1\nHost: a\n\n").answer.is_none());
    harness.now_ms += 10_000;
    assert!(harness.request("GET /a?b=1 HTTP/1.1\nHost: a\n\n").answer.is_none(), "it is old");
    // Protecting plugins decide before the cache.
    let mut exchange = FakeExchange::parse(&get("/kept?apiKey=k1"), harness.now_ms);
    assert!(harness.run(&mut exchange).answer.is_none());
    harness.respond(&mut exchange, &format!("{json}\n"), &["secret"]);
    let refused = harness.request(&get("/kept")).answer.expect("there is no key");
    assert!(refused.body.contains("Key is incorrect"), "{}", refused.body);
}

#[test]
fn cache_keeps_no_answer_that_there_is_no_memory_to_hold() {
    let desk = Desk::new()
        .plugin("cache", Some(&json!({"cacheType": "memory"})))
        .rule("cache", "/", &Value::Null, &json!({"timeoutSeconds": 10}))
        .divide("/");
    let (chain, problems) = desk.sources.compile(&desk.terms);
    assert_eq!(problems, []);
    let services = Arc::new(Services::new("APISIX/3.18.0"));
    let mut harness = Harness::with(chain.expect("a plugin is on"), services);
    for (bytes_max, is_kept) in [(3, false), (4, true)] {
        let exchange = FakeExchange::parse(&get("/a"), harness.now_ms);
        let mut exchange = exchange.with_memory(bytes_max);
        assert!(harness.run(&mut exchange).answer.is_none());
        let reply = harness.respond(&mut exchange, "200\n\n", &["bo", "dy"]);
        assert_eq!(reply.body, "body");
        assert_eq!(exchange.held_memory.held(), 0);
        assert_eq!(harness.request(&get("/a")).answer.is_some(), is_kept);
    }
}

/// A frame of gRPC around a message with one field of text.
fn frame(json: &str) -> String {
    let length = u8::try_from(json.len()).expect("it is short");
    format!("\0\0\0\0{}\n{}{json}", char::from(length + 2), char::from(length))
}

#[test]
fn grpc_calls_the_method_of_a_path_and_answers_with_json() {
    let method = |path: &str, kind: &str| {
        json!({"id": path, "path": path, "rpcType": "grpc", "enabled": true, "serviceName": "shop.Orders",
            "methodName": "place", "rpcExt": format!("{{\"timeout\":100,\"methodType\":\"{kind}\"}}")})
    };
    let nodes = json!([{"upstreamUrl": "10.0.0.1:9000", "weight": 1, "status": true}]);
    let desk = Desk::new()
        .plugin("grpc", None)
        .rule("grpc", "/grpc/", &nodes, &json!({"loadBalance": "random"}))
        .put(Kind::Metadata, &method("/grpc/place", "UNARY"))
        .put(Kind::Metadata, &method("/grpc/follow", "SERVER_STREAMING"))
        .put(
            Kind::Metadata,
            &json!({"id": "x", "path": "/grpc/none", "rpcType": "grpc", "enabled": true}),
        );
    let post = |path: &str, body: &str| {
        format!("POST {path} HTTP/1.1\nHost: a\nContent-Length: {}\n\n{body}", body.len())
    };
    let call = post("/grpc/place", r#"{"data":[{"a":1}]}"#);
    let edits = desk.answer(&call);
    for part in ["/shop.OrdersJSON/place", "application/grpc", "grpc-timeout: 100m", "{\"a\":1}"] {
        assert!(edits.contains(part), "{part}: {edits}");
    }
    let missing = r#"500 {"code":435,"message":"Grpc must have body param, please enter the JSON format in the body!"}"#;
    assert_eq!(desk.answer(&post("/grpc/place", "")), missing);
    assert!(desk.answer(&post("/grpc/place", "[]")).contains("-100"));
    let unknown = r#"500 {"code":430,"message":"Meta data error!"}"#;
    assert_eq!(desk.answer(&post("/grpc/none", "{}")), unknown);
    let (chain, problems) = desk.sources.compile(&desk.terms);
    assert_eq!(problems, []);
    let chain = Arc::new(chain.expect("grpc is on"));
    assert!(chain.targets()[0].upstream.speaks_http2());
    let head = "200\nContent-Type: application/grpc\n\n";
    let one = frame(r#"{"b":2}"#);
    let two = format!("{one}{}", frame("{}"));
    // Path, head, body, status of the call, status and body of the answer.
    let cases = [
        ("/grpc/place", head, &*one, "0", 200, r#"[{"b":2}]"#),
        ("/grpc/follow", head, &*two, "0", 200, r#"[{"b":2},{}]"#),
        ("/grpc/follow", head, "", "0", 200, "[]"),
        ("/grpc/place", head, "", "5", 200, r#"{"code":-103,"message":"Service"#),
        (
            "/grpc/place",
            "200\nContent-Type: application/grpc\ngrpc-status: 5\n\n",
            "",
            "5",
            500,
            r#"{"code":-103"#,
        ),
        ("/grpc/place", "404\nContent-Type: text/html\n\n", "none", "0", 500, r#"{"code":-103"#),
    ];
    for (path, head, body, status, expected_status, expected) in cases {
        let services = Arc::new(Services::new("APISIX/3.18.0"));
        let mut harness = Harness::with(Arc::<crate::Chain>::clone(&chain), services);
        for cut in 0..=body.len() {
            let mut exchange = FakeExchange::parse(&post(path, r#"{"data":[{}]}"#), harness.now_ms);
            assert!(harness.run(&mut exchange).answer.is_none());
            let pieces = [&body[..cut], &body[cut..]];
            let trailers = format!("grpc-status: {status}\n");
            let reply = harness.respond_with_trailers(&mut exchange, head, &pieces, &trailers);
            assert_eq!(reply.status, expected_status, "{path} {cut}");
            assert!(reply.body.starts_with(expected), "{path} {cut}: {}", reply.body);
        }
    }
}

#[test]
fn gateways_that_share_a_redis_share_counts_and_without_an_answer_requests_pass() {
    let redis = Arc::new(FakeRedis {
        // The last element is the first answer.
        answers: Mutex::new(vec![None, Some(0), Some(1)]),
        asked: Notes::default(),
    });
    let engines = FakeEngines { redis: Some(Arc::clone(&redis)), ..FakeEngines::default() };
    let mut desk = Desk::new();
    desk.sources = Sources::with_engines(Some(Arc::new(engines)));
    let desk = desk
        .plugin("rateLimiter", Some(&json!({"mode": "standalone", "url": "127.0.0.1:6379"})))
        .rule("rateLimiter", "/", &Value::Null, &json!({"algorithmName": "concurrent"}))
        .divide("/");
    assert!(desk.send(&get("/")).answer.is_none());
    assert!(desk.answer(&get("/")).starts_with("429 "));
    assert!(desk.send(&get("/")).answer.is_none());
    let key = "concurrent_request_rate_limiter.{rateLimiter-1-WHOLE_KEY_RESOLVER}.tokens";
    let expected = ["ask", "leave", "ask", "ask"].map(|word| format!("{word} {key}"));
    assert_eq!(redis.asked.all(), expected);
}

#[test]
fn dubbo_calls_the_method_of_a_path_with_what_the_body_says() {
    let method = |path: &str, types: &str| {
        json!({"id": path, "path": path, "rpcType": "dubbo", "enabled": true, "serviceName": "shop.Orders",
            "methodName": "find", "parameterTypes": types, "rpcExt": "{\"retries\":1}"})
    };
    let answer = |nodes: &[&str], path: &str, body: &str| {
        let servers = Arc::new(FakeEngines::default());
        let mut desk = Desk::new();
        desk.sources = Sources::with_engines(Some(Arc::<FakeEngines>::clone(&servers)));
        let node = |url: &&str| json!({"upstreamUrl": url, "protocol": "dubbo://", "weight": 1, "status": true});
        let nodes: Value = nodes.iter().map(node).collect();
        let desk = desk
            .plugin("dubbo", None)
            .rule("dubbo", "/d/", &nodes, &json!({"timeout": 100, "loadBalance": "random"}))
            .put(Kind::Metadata, &method("/d/find", "int,java.lang.String"))
            .put(Kind::Metadata, &method("/d/all", ""))
            .put(
                Kind::Metadata,
                &json!({"id": "x", "path": "/d/none", "rpcType": "dubbo", "enabled": true}),
            );
        let length = body.len();
        let answer = desk
            .answer(&format!("POST {path} HTTP/1.1\nHost: a\nContent-Length: {length}\n\n{body}"));
        let asked = servers.called.all().join(", ");
        (answer, asked)
    };
    let body = r#"{"z":7,"a":"x"}"#;
    let called =
        |server: &str| format!(r#"{server} shop.Orders.find ["int", "java.lang.String"] [7,"x"]"#);
    let (given, asked) = answer(&["10.0.0.3:1"], "/d/find", body);
    assert_eq!((&*given, asked), (r#"200 {"id":7}"#, called("10.0.0.3:1")));
    let (given, asked) = answer(&["10.0.0.1:1", "10.0.0.3:1"], "/d/find", body);
    assert_eq!(given, r#"200 {"id":7}"#, "another server is asked");
    assert_eq!(asked, format!("{}, {}", called("10.0.0.1:1"), called("10.0.0.3:1")));
    let (given, asked) = answer(&["10.0.0.2:1", "10.0.0.3:1"], "/d/find", body);
    assert_eq!(given, r#"500 {"code":-104,"message":"Service call timeout!"}"#);
    assert_eq!(asked, called("10.0.0.2:1"), "it may have been done");
    assert_eq!(answer(&["10.0.0.3:1"], "/d/all", "").0, r#"200 {"id":7}"#);
    assert!(answer(&["10.0.0.1:1"], "/d/all", "").0.starts_with(r#"500 {"code":-103,"#));
    assert!(answer(&["10.0.0.3:1"], "/d/find", "").0.starts_with(r#"500 {"code":431,"#));
    assert!(answer(&["10.0.0.3:1"], "/d/find", "{}").0.contains("-100"));
    assert!(answer(&["10.0.0.3:1"], "/d/none", "{}").0.starts_with(r#"500 {"code":430,"#));
    assert!(answer(&[], "/d/all", "").0.contains("-119"));
}

#[test]
fn what_a_change_does_not_touch_stays_compiled_and_goes_on_counting() {
    let limit = json!({"algorithmName": "tokenBucket", "replenishRate": 1, "burstCapacity": 1});
    let nodes = |port: u16| json!([{"upstreamUrl": format!("127.0.0.1:{port}")}]);
    let mut desk = Desk::new()
        .plugin("rateLimiter", None)
        .rule("rateLimiter", "/b/", &json!(null), &limit)
        .plugin("divide", None)
        .rule("divide", "/a/", &nodes(1), &json!({}))
        .rule("divide", "/b/", &nodes(2), &json!({}));
    let first = desk.sources.compile(&desk.terms).0.expect("it is on");
    assert!(desk.send(&get("/b/1")).answer.is_none());
    let second = desk.sources.compile(&desk.terms).0.expect("it is on");
    for (one, other) in first.targets().iter().zip(second.targets()) {
        assert!(Arc::ptr_eq(one, other));
    }
    // The first selector of divide goes, and the target of the second moves up.
    let (gone, stays) = ("divide-2", Arc::clone(&first.targets()[1]));
    desk.sources.remove(Kind::Selector, gone);
    let third = desk.sources.compile(&desk.terms).0.expect("it is on");
    assert_eq!(third.targets().len(), 1);
    assert!(Arc::ptr_eq(&third.targets()[0], &stays));
    assert!(desk.answer(&get("/b/1")).contains("429"), "it was counted before the change");
}

#[test]
fn a_selector_of_a_plugin_that_is_not_built_in_is_reported_also_without_rules() {
    let problems = |desk: &mut Desk| {
        let (_, problems) = desk.sources.compile(&desk.terms);
        let place = |it: &tollhouse_shenyu::matching::Problem| (it.kind, it.id.clone());
        problems.iter().map(place).collect::<Vec<_>>()
    };
    for (plugin, is_reported) in
        [("mcpServer", true), ("loggingPulsar", true), ("webClient", false)]
    {
        let mut desk = Desk::new().plugin(plugin, None).rule(plugin, "/", &json!({}), &json!({}));
        let id = format!("{plugin}-1");
        let expected = |kind| if is_reported { vec![(kind, id.clone())] } else { vec![] };
        assert_eq!(problems(&mut desk), expected(Kind::Rule), "{plugin}");
        desk.sources.remove(Kind::Rule, &id);
        assert_eq!(problems(&mut desk), expected(Kind::Selector), "{plugin}");
    }
}
