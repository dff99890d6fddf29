//! Paths that `contextPath` and `rewrite` make: those that later selectors see, and those that nodes get.

use super::*;
use crate::{CourseEnd, Effect};

const REWRITE: &str = "/v1/(.*)";

fn context(desk: Desk, prefix: &str, rule: &Value) -> Desk {
    desk.plugin("contextPath", None).rule("contextPath", prefix, &Value::Null, rule)
}

fn rewrite(desk: Desk, prefix: &str, rule: &Value) -> Desk {
    desk.plugin("rewrite", None).rule("rewrite", prefix, &Value::Null, rule)
}

/// The path of a node that takes the request, or the answer in its place.
fn node(desk: &Desk, path: &str) -> String {
    let (chain, problems) = desk.sources.compile(&desk.terms);
    assert_eq!(problems, []);
    let chain = chain.expect("a plugin is on");
    let outcome = desk.send(&get(path));
    match chain.explain(&FakeExchange::parse(&get(path), 0)).end {
        CourseEnd::Node { uri, .. } => {
            let uri = uri.map_or_else(|| path.to_owned(), |uri| String::from_utf8(uri).unwrap());
            // Explaining uses the same code as serving.
            assert!(uri == path || outcome.edits.contains(&uri), "{uri}: {}", outcome.edits);
            uri
        }
        CourseEnd::Answer { body, .. } => {
            assert_eq!(outcome.answer.expect("it is answered").body, body);
            body
        }
        CourseEnd::Elsewhere { location, .. } => location,
    }
}

#[test]
fn selectors_behind_a_rewrite_see_the_path_that_was_asked_for_and_nodes_get_the_new_one() {
    let rule = json!({"regex": REWRITE, "replace": "/api/v2/$1"});
    let desk = rewrite(Desk::new(), "/v1/", &rule).divide("/v1/");
    assert_eq!(node(&desk, "/v1/order/1?a=b"), "/api/v2/order/1?a=b");
    let desk = rewrite(Desk::new(), "/v1/", &rule).divide("/api/");
    assert!(node(&desk, "/v1/order/1").contains("-107"));
}

#[test]
fn selectors_behind_a_context_path_see_it_before_the_path_that_nodes_get() {
    let order = json!({"contextPath": "/order"});
    let desk = context(Desk::new(), "/order", &order).divide("/order");
    assert_eq!(node(&desk, "/order/findById?id=1"), "/findById?id=1");
    assert_eq!(node(&desk, "/order"), "/");
    let prefixed = json!({"contextPath": "/order", "addPrefix": "/v2", "addPrefixed": true});
    let desk = context(Desk::new(), "/order", &prefixed).divide("/order/v2/");
    assert_eq!(node(&desk, "/order/a"), "/v2/a");
    assert_eq!(node(&desk, "/order"), "/v2/order", "a prefix comes before the whole path");
    let alone = context(Desk::new(), "/shop/", &json!({"addPrefix": "/api"})).divide("/shop/");
    assert_eq!(node(&alone, "/shop/a"), "/api/shop/a");
    let illegal = context(Desk::new(), "/", &order).divide("/");
    assert!(node(&illegal, "/o").contains("-111"));
}

#[test]
fn a_rewrite_behind_a_context_path_begins_with_the_path_that_was_asked_for() {
    let desk = context(Desk::new(), "/v1", &json!({"contextPath": "/v1"}));
    let desk = rewrite(desk, "/v1", &json!({"regex": REWRITE, "replace": "/v2/$1"})).divide("/v1");
    assert_eq!(node(&desk, "/v1/a"), "/v2/a");
    let unlike = context(Desk::new(), "/v1", &json!({"contextPath": "/v1"}));
    let unlike = rewrite(unlike, "/v1", &json!({"regex": "/none", "replace": "/x"})).divide("/v1");
    assert_eq!(node(&unlike, "/v1/a"), "/v1/a", "what no expression matches stays whole");
}

#[test]
fn selectors_see_a_replaced_context_path_before_what_is_rewritten() {
    let moved = json!({"contextPath": "/order", "rewriteContextPath": "/canary"});
    let desk = context(Desk::new(), "/order", &moved).divide("/canary/");
    assert_eq!(node(&desk, "/order/a"), "/a");
    let desk = context(Desk::new(), "/order", &moved);
    let rule = json!({"regex": "/canary/(.*)", "replace": "/v2/$1"});
    let desk = rewrite(desk, "/canary/", &rule).divide("/canary/v2/");
    assert_eq!(node(&desk, "/order/a"), "/v2/a");
}

#[test]
fn variables_of_a_rewrite_are_filled_in() {
    let rule = json!({"regex": "/shop/order/{id}/{item}", "replace": "/v2/orders/{id}/{item}"});
    let desk = rewrite(Desk::new(), "/shop/", &rule).divide("/");
    assert_eq!(node(&desk, "/shop/order/123/blue"), "/v2/orders/123/blue");
}

#[test]
fn a_rewrite_by_metadata_changes_the_kind_of_call() {
    let rule = json!({"regex": "/old/(.*)", "replace": "/new/$1", "rewriteMetaData": true});
    let desk = rewrite(Desk::new(), "/old/", &rule).divide("/old/");
    let nodes = json!([{"protocol": "ws://", "url": "127.0.0.1:9", "status": true}]);
    let desk = desk.plugin("websocket", None).rule("websocket", "/old/", &nodes, &Value::Null).put(
        Kind::Metadata,
        &json!({"id": "1", "path": "/new/a", "rpcType": "websocket", "enabled": true}),
    );
    let (chain, _) = desk.sources.compile(&desk.terms);
    let chain = chain.expect("a plugin is on");
    let carries = |path: &str| match chain.explain(&FakeExchange::parse(&get(path), 0)).end {
        CourseEnd::Node { target, .. } => format!("{:?}", chain.targets()[target].carries),
        other => panic!("{other:?}"),
    };
    assert_eq!(carries("/old/a"), "WebSocket");
    assert_eq!(carries("/old/b"), "Http");
}

#[test]
fn a_rewrite_that_cannot_be_used_passes_and_says_why() {
    let desk = rewrite(Desk::new(), "/", &json!({"regex": "/a/(", "replace": "/x"})).divide("/");
    let (chain, problems) = desk.sources.compile(&desk.terms);
    assert!(problems[0].reason.contains("cannot be compiled"), "{problems:?}");
    let course = chain.expect("divide is on").explain(&FakeExchange::parse(&get("/a"), 0));
    let effect = &course.steps[0].effect;
    assert!(
        matches!(effect, Effect::Broken(why) if why.contains("cannot be compiled")),
        "{effect:?}"
    );
}

#[test]
fn a_response_rule_that_cannot_be_used_passes_and_says_why() {
    let rule = json!({"statusCode": 99});
    let desk = Desk::new().plugin("modifyResponse", None);
    let desk = desk.rule("modifyResponse", "/", &Value::Null, &rule).divide("/");
    let (chain, _) = desk.sources.compile(&desk.terms);
    let course = chain.expect("divide is on").explain(&FakeExchange::parse(&get("/a"), 0));
    let effects: Vec<&Effect> = course.steps.iter().map(|step| &step.effect).collect();
    assert!(
        matches!(effects[..], [Effect::Ends, Effect::Broken(why)] if why.contains("`statusCode`")),
        "{effects:?}"
    );
    assert!(matches!(course.end, CourseEnd::Node { .. }), "{:?}", course.end);
}
