//! Requests of text through chains of objects as ShenYu's admin sends them.

use std::sync::Arc;

use serde_json::{Value, json};
use tollhouse_plugin::Services;
use tollhouse_plugin::testing::{FakeExchange, Harness, Outcome};
use tollhouse_shenyu::Kind;
use tollhouse_shenyu::answer::Statuses;

use crate::{Sources, Terms};

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
        Harness::with(Arc::new(chain.expect("a plugin is on")), services).request(request)
    }

    /// Status and body, or what becomes of a request that goes on.
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
    let mut harness = Harness::with(Arc::new(chain.expect("it is on")), services);
    let refused = harness.request(&get("/a")).answer.expect("it is refused");
    assert!(refused.body.contains("-1,"), "{}", refused.body);
    assert!(harness.request(&get("/b")).answer.is_none());
}

#[test]
fn paths_that_plugins_change_are_what_those_behind_them_see_and_nodes_get() {
    let order = |desk: Desk| {
        desk.plugin("contextPath", None)
            .rule("contextPath", "/order", &Value::Null, &json!({"contextPath": "/order"}))
            .divide("/order")
    };
    assert!(order(Desk::new()).answer(&get("/order/findById?id=1")).contains("/findById?id=1"));
    let moved = Desk::new()
        .plugin("contextPath", None)
        .rule(
            "contextPath",
            "/order",
            &Value::Null,
            &json!({
                "contextPath": "/order", "rewriteContextPath": "/order-canary",
            }),
        )
        .divide("/order-canary");
    assert!(moved.answer(&get("/order/a")).contains("/a"));
    assert!(moved.send(&get("/order/a")).answer.is_none());
    let rewritten = Desk::new()
        .plugin("rewrite", None)
        .rule("rewrite", "/v1", &Value::Null, &json!({"regex": "^/v1/(.*)", "replace": "/v2/$1"}))
        .divide("/v2");
    assert!(rewritten.answer(&get("/v1/a")).contains("/v2/a"));
    let illegal = Desk::new()
        .plugin("contextPath", None)
        .rule("contextPath", "/", &Value::Null, &json!({"contextPath": "/order"}))
        .divide("/");
    assert!(illegal.answer(&get("/o")).contains("-111"));
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
