//! Precomputed targets of paths equal the results of the full evaluation.

use serde_json::{Value, json};
use tollhouse_plugin::testing::FakeExchange;
use tollhouse_shenyu::Kind;

use super::{Desk, get};

fn condition(kind: &str, operator: &str, name: &str, value: &str) -> Value {
    json!({"paramType": kind, "operator": operator, "paramName": name, "paramValue": value})
}

fn uri(operator: &str, path: &str) -> Value {
    condition("uri", operator, "/", path)
}

impl Desk {
    /// Adds a selector with one rule under `id`; `said` contains settings of both.
    fn pair(self, plugin: &str, id: &str, [selector, rule]: [&Value; 2], said: &Value) -> Self {
        let nodes = json!([{"upstreamUrl": "127.0.0.1:8080", "weight": 1, "status": true}]);
        let mut about = json!({
            "id": id, "name": id, "pluginName": plugin, "type": 1, "matchMode": 0, "enabled": true,
            "continued": true, "loged": said["logged"], "handle": nodes.to_string(), "conditionList": selector,
        });
        about["continued"] = (!said["alone"].as_bool().unwrap_or(false)).into();
        self.put(Kind::Selector, &about).put(
            Kind::Rule,
            &json!({
                "id": id, "name": id, "pluginName": plugin, "selectorId": id, "matchMode": 0, "enabled": true,
                "handle": said["handle"].to_string(), "conditionDataList": rule,
            }),
        )
    }
}

fn refusing() -> Value {
    json!({"handle": {"permission": "reject", "statusCode": "403"}})
}

/// Objects of other plugins, to be added to those of the proxy.
fn others() -> [fn(Desk) -> Desk; 5] {
    fn guarded(desk: Desk, conditions: &Value) -> Desk {
        let desk = desk.plugin("waf", Some(&json!({"model": "black"})));
        desk.pair("waf", "w", [conditions, conditions], &refusing())
    }
    [
        |desk| desk,
        |desk| guarded(desk, &json!([uri("=", "/a/b")])),
        |desk| guarded(desk, &json!([condition("header", "=", "x-app", "shop")])),
        |desk| {
            let changed = json!({"handle": {"statusCode": 201}});
            let here = json!([uri("=", "/a/b")]);
            let desk = desk.plugin("modifyResponse", None);
            desk.pair("modifyResponse", "m", [&here, &here], &changed)
        },
        |desk| {
            let dubbo = json!({
                "id": "d", "path": "/a/b", "rpcType": "dubbo", "enabled": true, "appName": "a",
                "serviceName": "s", "methodName": "m",
            });
            desk.put(Kind::Metadata, &dubbo)
        },
    ]
}

#[test]
fn what_is_known_of_a_path_is_what_asking_everything_comes_to() {
    let header = || condition("header", "=", "x-app", "shop");
    let selectors = [
        json!([uri("startsWith", "/a")]),
        json!([uri("match", "/a/**")]),
        json!([uri("=", "/a/b")]),
        json!([uri("match", "/**"), header()]),
        json!([condition("req_method", "=", "", "GET")]),
    ];
    let rules = [
        json!([uri("=", "/a/b")]),
        json!([uri("match", "/a/*")]),
        json!([uri("=", "/a/b"), header()]),
        json!([uri("=", " ")]),
    ];
    let said = [
        json!({"handle": {}}),
        json!({"handle": {}, "logged": true}),
        json!({"handle": {}, "alone": true}),
        json!({"handle": {"headerMaxSize": 1}}),
        json!({"handle": {"requestMaxSize": 1}}),
    ];
    let head = |line: &str| format!("GET /a/b HTTP/1.1\nHost: a.com\n{line}\n\n");
    let mut requests: Vec<String> =
        ["/a/b", "/a/b?c=d", "/a/b/", "/a", "/a/c", "/a//b", "/x/../a/b"]
            .iter()
            .map(|path| get(path))
            .collect();
    requests
        .extend(["X-App: shop", "rpc_type: http", "rpc_type: dubbo", "rpc_type: none"].map(head));
    requests.push(head("Upgrade: websocket\nConnection: upgrade"));
    let mut known = 0;
    for selector in &selectors {
        for rule in &rules {
            for (said, beside) in said.iter().flat_map(|said| others().map(|other| (said, other))) {
                let desk = Desk::new().plugin("divide", None);
                let desk = beside(desk.pair("divide", "s", [selector, rule], said));
                let (chain, _) = desk.sources.compile(&desk.terms);
                let chain = chain.expect("divide is on");
                known += usize::from(chain.by_path.get(b"/a/b").is_some());
                for request in &requests {
                    let exchange = FakeExchange::parse(request, 0);
                    assert_eq!(
                        chain.plain_target(&exchange),
                        chain.search_plain_target(&exchange),
                        "{selector} {rule} {said} {request}"
                    );
                }
            }
        }
    }
    assert!(known >= 10, "{known}");
}
