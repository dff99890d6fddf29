//! Requests that ShenYu's selectors and rules take.

use super::*;

const OBJECTS: &str = r#"{
    "routes": [{"id": "own", "uri": "/own/*", "upstream": {"nodes": {"127.0.0.1:1": 1}}}],
    "shenyu": {
        "plugins": [{"name": "contextPath"}, {"name": "divide"}, {"name": "keyAuth"}],
        "selectors": [
            {"id": 1, "name": "order", "pluginName": "contextPath", "type": 0},
            {"id": 2, "name": "orders", "pluginName": "divide", "type": 1,
             "conditionList": [{"paramType": "uri", "operator": "startsWith", "paramName": "/",
                                "paramValue": "/order/"}],
             "handle": [{"upstreamUrl": "10.0.0.5:8080", "weight": 50}]},
            {"id": 3, "name": "canary", "pluginName": "divide", "type": 1,
             "conditionList": [
                {"paramType": "uri", "operator": "match", "paramValue": "/order/**"},
                {"paramType": "header", "operator": "=", "paramName": "x-canary", "paramValue": "1"}],
             "handle": [{"upstreamUrl": "10.0.0.6:8080", "weight": 50}]},
            {"id": 4, "name": "either", "pluginName": "divide", "type": 1, "matchMode": 1,
             "conditionList": [{"paramType": "req_method", "operator": "=", "paramValue": "PUT"}]}
        ],
        "rules": [
            {"id": 10, "selectorId": 1, "pluginName": "contextPath",
             "handle": {"contextPath": "/order", "addPrefixed": false}},
            {"id": 20, "name": "find", "selectorId": 2, "pluginName": "divide",
             "conditionDataList": [{"paramType": "uri", "operator": "pathPattern",
                                    "paramValue": "/order/{id}"}],
             "handle": {"timeout": 3000, "loadBalance": "roundRobin"}},
            {"id": 21, "name": "save", "selectorId": 2, "pluginName": "divide",
             "conditionDataList": [{"paramType": "uri", "operator": "=", "paramValue": "/order/save"}]}
        ]
    }
}"#;

#[test]
fn the_way_through_shenyus_plugins_is_told_with_who_won_and_why_others_lost() {
    check(
        OBJECTS,
        &["--url", "http://a.com/order/7?x=1"],
        "
request     GET /order/7 of a.com, from 127.0.0.1
route       ShenYu's plugins, as no route takes it, as http
plugins     contextPath: selector 1 (order), rule 10; nodes get /7
            divide: selector 2 (orders), rule 20 (find)
node path   /7?x=1
upstream    nodes of selector 2: roundrobin over http, 3 retries
            10.0.0.5:8080  weight 50  Host: 10.0.0.5:8080
timeouts    connect 3s, send 3s, read 3s

selectors of contextPath, the nearest first
  won   1 (order)  score 0, sort 0

rules of selector 1, the nearest first
  won   10  score 0, sort 0

selectors of divide, the nearest first
  won   2 (orders)  score 1, sort 0
  lost  3 (canary)  score 2, sort 0  does not hold: header x-canary = 1
  lost  4 (either)  score 0, sort 0  none of its conditions holds, such as req_method = PUT

rules of selector 2, the nearest first
  won   20 (find)  score 1, sort 0
  lost  21 (save)  score 1, sort 0  does not hold: uri = /order/save
",
    );
}

#[test]
fn what_no_selector_takes_is_answered_as_it_would_be() {
    let (text, matched) = explain(OBJECTS, &["--url", "http://a.com/order/7/8"]);
    assert!(text.contains("answer      404 {\"code\":-102"), "{text}");
    assert!(matched);
    let (text, matched) = explain(OBJECTS, &["--url", "http://a.com/own/1"]);
    assert!(text.contains("route       own, pattern /own/*") && matched, "{text}");
    let (text, _) = explain(OBJECTS, &["--url", "http://a.com/other"]);
    assert!(text.contains("answer      404 {\"code\":-111"), "{text}");
    let header = ["--url", "http://a.com/order/1", "-H", "rpc_type: pigeon"];
    let (text, matched) = explain(OBJECTS, &header);
    assert!(text.contains("answer      500") && !matched, "{text}");
}
