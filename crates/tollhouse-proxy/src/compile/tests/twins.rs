//! Equal inline upstreams of routes, which share their node.

use super::*;

fn entry(desk: &TestCompiler, id: &str) -> Arc<UpstreamEntry> {
    let route = desk.route(id);
    Arc::clone(upstream_of(&desk.snapshot, &route).expect("the route has an upstream"))
}

/// Place of the upstream's only node in memory.
fn node_of(desk: &TestCompiler, id: &str) -> usize {
    let mut place = 0;
    entry(desk, id).state.each_node(|node| place = std::ptr::from_ref(node).addr());
    place
}

#[test]
fn equal_upstreams_share_their_node_and_have_keys_of_their_own() {
    let mut desk = TestCompiler::new();
    desk.apply([inline_route("a", "/a", 1), inline_route("b", "/b", 1)]);
    desk.apply([inline_route("c", "/c", 1), inline_route("other", "/o", 2)]);
    for id in ["b", "c"] {
        assert_eq!(node_of(&desk, id), node_of(&desk, "a"), "{id}");
        assert!(Arc::ptr_eq(&entry(&desk, id).conf, &entry(&desk, "a").conf), "{id}");
        assert_eq!(entry(&desk, id).state.key(), format!("routes/{id}"));
    }
    assert_ne!(node_of(&desk, "other"), node_of(&desk, "a"));
    // The first of them may go.
    desk.apply([delete(Kind::Route, "a"), inline_route("d", "/d", 1)]);
    assert_eq!((desk.goes_to("b"), desk.goes_to("d")), (Ok(1), Ok(1)));
}

#[test]
fn a_route_that_changes_its_upstream_leaves_the_others_alone() {
    let mut desk = TestCompiler::new();
    desk.apply([inline_route("a", "/a", 1), inline_route("b", "/b", 1)]);
    let before = node_of(&desk, "b");
    let mut checked = nodes(1);
    checked["checks"] = json!({"active": {"http_path": "/"}});
    desk.apply([put(Kind::Route, "a", json!({"uri": "/a", "upstream": checked}))]);
    assert!(entry(&desk, "a").state.checks().is_some());
    assert!(entry(&desk, "b").state.checks().is_none());
    assert_eq!(node_of(&desk, "b"), before);
    assert_ne!(node_of(&desk, "a"), before, "its health is its own");
}

#[test]
fn upstreams_that_differ_or_have_state_are_not_shared() {
    let with = |field: &str, value: Value| {
        let mut upstream = nodes(1);
        upstream[field] = value;
        upstream
    };
    for upstream in [
        with("scheme", json!("https")),
        with("retries", json!(3)),
        with("checks", json!({"active": {"http_path": "/"}})),
        with("nodes", json!({"127.0.0.1:1": 1, "127.0.0.1:2": 1})),
        with("keepalive_pool", json!({"size": 3})),
    ] {
        let mut desk = TestCompiler::new();
        let route = |uri: &str| json!({"uri": uri, "upstream": upstream});
        desk.apply([
            inline_route("plain", "/p", 1),
            put(Kind::Route, "a", route("/a")),
            put(Kind::Route, "b", route("/b")),
        ]);
        assert_ne!(node_of(&desk, "a"), node_of(&desk, "plain"), "{upstream}");
        let is_plain = upstream.get("scheme").or(upstream.get("retries")).is_some();
        assert_eq!(node_of(&desk, "a") == node_of(&desk, "b"), is_plain, "{upstream}");
    }
}
