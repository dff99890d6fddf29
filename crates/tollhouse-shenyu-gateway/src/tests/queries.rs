//! Queries that nodes get, and targets that ShenYu refuses.

use super::*;
use crate::CourseEnd;
use crate::shared::digest::{md5, upper_hex};

/// Target that a node gets; the edits are empty if it is the client's.
fn sent(desk: &Desk, target: &str) -> String {
    let (chain, problems) = desk.sources.compile(&desk.terms);
    assert_eq!(problems, []);
    let chain = chain.expect("a plugin is on");
    let exchange = FakeExchange::parse(&get(target), 0);
    let CourseEnd::Node { uri, .. } = chain.explain(&exchange).end else {
        panic!("{target} is answered")
    };
    // Requests that skip the chain keep their query.
    assert_eq!(chain.plain_target(&exchange).is_some(), uri.is_none(), "{target}");
    let outcome = desk.send(&get(target));
    assert!(outcome.answer.is_none(), "{target}");
    let Some(uri) = uri else { return target.to_owned() };
    let uri = String::from_utf8(uri).expect("ASCII");
    assert!(outcome.edits.contains(&uri), "explained as served: {}", outcome.edits);
    uri
}

#[test]
fn queries_reach_nodes_as_shenyu_writes_them() {
    let desk = Desk::new().divide("/a");
    for (target, expected) in [
        ("/a", "/a"),
        ("/a?b=1&c", "/a?b=1&c"),
        ("/a?b=c+d&e=f:g", "/a?b=c+d&e=f:g"),
        ("/a?b=c+d&e=f:g&h=%7e", "/a?b=c%20d&e=f%3Ag&h=~"),
        ("/a%20b?c=d+e", "/a%20b?c=d%20e"),
        ("/a%20b", "/a%20b"),
        ("/a?", "/a"),
        ("/a?&&b=1&&", "/a?b=1"),
        ("/a?=b", "/a?b"),
        ("/a?b=1&c=2&b=3", "/a?b=1&b=3&c=2"),
    ] {
        assert_eq!(sent(&desk, target), expected, "{target}");
    }
}

#[test]
fn conditions_judge_the_query_that_nodes_get() {
    let secret =
        json!([{"paramType": "query", "operator": "=", "paramName": "b c", "paramValue": "d e"}]);
    let desk = Desk::new().divide("/").plugin("waf", Some(&json!({"model": "black"})));
    let mut desk =
        desk.rule("waf", "/", &Value::Null, &json!({"permission": "reject", "statusCode": "403"}));
    desk = desk.put(
        Kind::Rule,
        &json!({"id": "waf-2", "name": "waf-2", "pluginName": "waf", "selectorId": "waf-2", "matchMode": 0,
            "enabled": true, "handle": "{\"permission\":\"reject\",\"statusCode\":\"403\"}", "conditionDataList": secret}),
    );
    for query in ["b%20c=d%20e", "%62+c=d+e", "=b%20c=d%20e", "&&b%20c=d%20e&b%20c=x"] {
        assert!(desk.answer(&get(&format!("/a?{query}"))).starts_with("403 "), "{query}");
    }
    assert!(desk.send(&get("/a?b%20c=x&b%20c=d%20e")).answer.is_none(), "the first one counts");
}

#[test]
fn a_target_that_is_no_uri_is_refused_before_anything_else() {
    let desk = Desk::new().divide("/");
    let (chain, _) = desk.sources.compile(&desk.terms);
    let chain = chain.expect("divide is on");
    for target in ["/a?b=\"", "/a?b|c", "/a?b=%zz", "/a?b=%", "/a[b]", "/a?{b}"] {
        assert_eq!(desk.answer(&get(target)), "400 ", "{target}");
        let exchange = FakeExchange::parse(&get(target), 0);
        assert_eq!(chain.plain_target(&exchange), None, "{target}");
        let end = chain.explain(&exchange).end;
        assert_eq!(end, CourseEnd::Answer { status: 400, body: String::new() }, "{target}");
    }
    assert!(desk.send(&get("/a?b=[c]")).answer.is_none());
}

#[test]
fn signatures_cover_the_query_as_it_was_sent() {
    let desk = Desk::new()
        .divide("/")
        .plugin("sign", None)
        .rule("sign", "/", &Value::Null, &json!({"signRequestBody": true}))
        .put(
            Kind::AppAuth,
            &json!({"appKey": "A1", "appSecret": "S1", "enabled": true, "open": false}),
        );
    let text = "b1:2%7epath/atimestamp1700000000000version1.0.0";
    let sign = upper_hex(&md5(&[text.as_bytes(), b"S1"]));
    let signed = format!(
        "GET /a?b=1:2%7e HTTP/1.1\nHost: a\nversion: 1.0.0\nappKey: A1\ntimestamp: 1700000000000\nsign: {sign}\n\n"
    );
    let outcome = desk.send(&signed);
    assert!(outcome.answer.is_none(), "{:?}", outcome.answer);
    assert!(outcome.edits.contains("/a?b=1%3A2~"), "{}", outcome.edits);
}

#[test]
fn a_rewrite_to_a_query_of_its_own_is_joined_as_in_shenyu() {
    let rule = json!({"regex": "/v1/(.*)", "replace": "/v2?path=$1"});
    let desk = Desk::new().plugin("rewrite", None).rule("rewrite", "/v1/", &Value::Null, &rule);
    let desk = desk.divide("/v1/");
    assert_eq!(sent(&desk, "/v1/a?b=1"), "/v2?path=a?b=1");
    assert_eq!(sent(&desk, "/v1/a"), "/v2?path=a");
    assert_eq!(sent(&desk, "/v1/a%20b"), "/v2?path=a%20b?");
}

#[test]
fn an_escape_of_a_rule_is_text_unless_the_request_has_some() {
    let rule = json!({"regex": "/v1/(.*)", "replace": "/v%202/$1"});
    let desk = Desk::new().plugin("rewrite", None).rule("rewrite", "/v1/", &Value::Null, &rule);
    let desk = desk.divide("/v1/");
    assert_eq!(sent(&desk, "/v1/a"), "/v%25202/a");
    assert_eq!(sent(&desk, "/v1/a%20b"), "/v%202/a%20b");
    assert_eq!(sent(&desk, "/v1/a?b=%41"), "/v%202/a?b=A");
}

#[test]
fn request_edits_write_the_query_anew_and_keep_names_without_a_value() {
    let rule = json!({"parameter": {"addParameters": {"z": "1", "p": "a:b"}, "replaceParameterKeys": {"c": "d"}}});
    let desk = Desk::new().plugin("request", None).rule("request", "/", &Value::Null, &rule);
    let desk = desk.divide("/");
    let edits = desk.answer(&get("/a?c=1&b&e=x"));
    assert!(edits.contains("/a?b&e=x&z=1&p=a:b&d=1"), "{edits}");
    let edits = desk.answer(&get("/a?e=1%2B2"));
    assert!(edits.contains("/a?e=1%2B2&z=1&p=a%3Ab"), "an encoded plus sign stays one: {edits}");
}
