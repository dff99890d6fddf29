//! Objects of ShenYu through the compiler, and what the snapshot then says.

use serde_json::json;

use super::*;
use crate::compile::tests::TestCompiler;

fn put(kind: Kind, id: &str, object: &serde_json::Value) -> crate::Change {
    let text = object.to_string().into();
    let (id, path) = (id.to_owned(), format!("{}/{id}", kind.segment()));
    crate::Change::Shenyu(ShenyuChange::Put { kind, id, text, path })
}

fn selector(nodes: &serde_json::Value) -> serde_json::Value {
    json!({"id": "s", "pluginName": "divide", "type": 0, "enabled": true, "handle": nodes.to_string()})
}

fn everything() -> Vec<crate::Change> {
    let nodes = json!([{"upstreamUrl": "127.0.0.1:8080", "weight": 50}]);
    vec![
        put(Kind::Plugin, "divide", &json!({"name": "divide", "enabled": true})),
        put(Kind::Selector, "s", &selector(&nodes)),
        put(
            Kind::Rule,
            "r",
            &json!({"selectorId": "s", "pluginName": "divide", "handle": "{\"timeout\":100}"}),
        ),
    ]
}

#[test]
fn there_is_a_table_for_as_long_as_a_plugin_is_on() {
    let mut desk = TestCompiler::new();
    assert!(desk.apply([]).shenyu.is_none());
    let snapshot = desk.apply(everything());
    let table = snapshot.shenyu.as_ref().expect("divide is on");
    assert_eq!(table.targets[0].route.id.as_str(), "shenyu/r");
    let gone = ShenyuChange::Delete { kind: Kind::Plugin, id: "divide".to_owned() };
    assert!(desk.apply([crate::Change::Shenyu(gone)]).shenyu.is_none());
}

#[test]
fn nodes_go_on_through_changes_that_are_not_theirs() {
    let state =
        |snapshot: &crate::Snapshot| match &snapshot.shenyu.as_ref().expect("a table").targets[0]
            .target
        {
            Target::Inline(upstream) => Arc::clone(upstream),
            _ => panic!("it has nodes"),
        };
    let mut desk = TestCompiler::new();
    let first = state(&desk.apply(everything()));
    let other =
        put(Kind::Plugin, "waf", &json!({"name": "waf", "config": "{\"model\":\"black\"}"}));
    assert!(Arc::ptr_eq(&first, &state(&desk.apply([other]))));
    let route = Arc::clone(&desk.apply([]).shenyu.as_ref().expect("a table").targets[0]);
    let again = desk.apply([put(Kind::Plugin, "waf", &json!({"name": "waf"}))]);
    let table = again.shenyu.as_ref().expect("a table");
    assert!(Arc::ptr_eq(&route, &table.targets[0]), "its route is not made anew");
    let nodes = json!([{"upstreamUrl": "127.0.0.1:8081", "weight": 50}]);
    let moved = state(&desk.apply([put(Kind::Selector, "s", &selector(&nodes))]));
    assert_eq!(moved.conf.nodes[0].port, 8081);
}

#[test]
fn an_object_that_cannot_be_read_is_reported_and_leaves_the_last_good_one() {
    let mut desk = TestCompiler::new();
    desk.apply(everything());
    let text = "[]".into();
    let bad = ShenyuChange::Put {
        kind: Kind::Rule,
        id: "r".into(),
        text,
        path: "shenyu.rules[0]".into(),
    };
    let snapshot = desk.apply([crate::Change::Shenyu(bad)]);
    assert_eq!(snapshot.shenyu.as_ref().expect("a table").targets.len(), 1);
    let problems: Vec<_> =
        desk.compiler.shenyu_problems().iter().map(|it| it.path.clone()).collect();
    assert_eq!(problems, ["shenyu.rules[0]"]);
    desk.apply(everything());
    assert!(desk.compiler.shenyu_problems().is_empty());
}

#[test]
fn what_a_full_listing_leaves_out_is_gone() {
    let mut desk = TestCompiler::new();
    desk.apply(everything());
    let mut listing = vec![crate::Change::Shenyu(ShenyuChange::Clear)];
    listing.extend(everything().into_iter().take(2));
    let snapshot = desk.apply(listing);
    assert!(snapshot.shenyu.as_ref().expect("divide is on").targets.is_empty());
}
