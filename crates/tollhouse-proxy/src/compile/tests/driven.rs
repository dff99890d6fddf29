//! What goes on beside requests: health checks, slow start, discovered nodes; and what is told of problems.

use super::*;

#[test]
fn health_checks_follow_their_upstreams_and_can_be_switched_off() {
    let checked = || {
        let mut upstream = nodes(1);
        upstream["checks"] = json!({"active": {"http_path": "/"}});
        upstream
    };
    let batch = || {
        [
            put(Kind::Upstream, "u", checked()),
            put(Kind::Service, "s", json!({"upstream": checked()})),
            put(Kind::Route, "r", json!({"uri": "/", "upstream": checked()})),
            inline_route("plain", "/p", 1),
        ]
    };
    let mut desk = TestCompiler::new();
    desk.apply(batch());
    assert_eq!(driven_changes(&mut desk), ["routes/r", "services/s", "upstreams/u"]);
    // What stays as it is, is reported once, however much changes beside it.
    desk.apply(batch());
    desk.apply([inline_route("other", "/o", 1)]);
    assert_eq!(driven_changes(&mut desk), [""; 0]);
    desk.apply([delete(Kind::Upstream, "u"), inline_route("r", "/", 1)]);
    assert_eq!(driven_changes(&mut desk), ["-routes/r", "-upstreams/u"]);
    desk.apply([delete(Kind::Service, "s")]);
    assert_eq!(driven_changes(&mut desk), ["-services/s"]);

    let mut unchecked = TestCompiler::with(&Settings { disable_health_checks: true, ..settings() });
    unchecked.apply(batch());
    assert_eq!(driven_changes(&mut unchecked), [""; 0]);
}

/// The keys of driven upstreams that have changed, with a minus those that are gone.
fn driven_changes(desk: &mut TestCompiler) -> Vec<String> {
    let changes = desk.compiler.take_driven_changes().into_iter();
    let mut keys: Vec<String> = changes
        .map(|change| format!("{}{}", if change.state.is_some() { "" } else { "-" }, change.key))
        .collect();
    keys.sort();
    keys
}

#[test]
fn problems_are_told_anew_only_where_they_differ() {
    let mut desk = TestCompiler::new();
    let bad = || put(Kind::Route, "bad", json!({"uri": 1}));
    let mut versions = Vec::new();
    for change in [
        inline_route("good", "/", 1),
        bad(),
        bad(),
        inline_route("good", "/b", 1),
        put(Kind::Route, "bad", json!({"uri": 2})),
        inline_route("bad", "/c", 1),
        delete(Kind::Route, "bad"),
    ] {
        desk.apply([change]);
        versions.push(desk.compiler.problems_version());
    }
    assert_eq!(versions, [0, 1, 1, 1, 2, 3, 3]);
}

#[test]
fn discovered_upstreams_and_slow_starts_are_driven_too() {
    let registered = || json!({"discovery_type": "registry", "service_name": "orders"});
    let mut slow = nodes(1);
    slow["warmup"] = json!(30);
    let mut desk = TestCompiler::new();
    desk.apply([
        put(Kind::Upstream, "u", registered()),
        put(Kind::Service, "s", json!({"upstream": registered()})),
        put(Kind::Route, "r", json!({"uri": "/", "upstream": slow})),
        put(
            Kind::Route,
            "dns",
            json!({"uri": "/d", "upstream":
            {"discovery_type": "dns", "service_name": "orders.example"}}),
        ),
    ]);
    let driven = |desk: &mut TestCompiler| {
        let changes = desk.compiler.take_driven_changes().into_iter();
        let mut driven: Vec<_> = changes.filter_map(|change| change.state).collect();
        driven.sort_by(|one, other| one.key().cmp(other.key()));
        driven
    };
    let before = driven(&mut desk);
    let keys: Vec<&str> = before.iter().map(|state| state.key()).collect();
    assert_eq!(keys, ["routes/dns", "routes/r", "services/s", "upstreams/u"]);
    // Another field leaves the nodes where they are; another service does not.
    let mut retried = registered();
    retried["retries"] = json!(1);
    let mut other = registered();
    other["service_name"] = json!("users");
    before[2].publish_nodes(vec![node_at(1).into()]);
    before[3].publish_nodes(vec![node_at(1).into()]);
    desk.apply([
        put(Kind::Upstream, "u", retried),
        put(Kind::Service, "s", json!({"upstream": other})),
        delete(Kind::Route, "r"),
    ]);
    let counts: Vec<(String, usize)> =
        driven(&mut desk).iter().map(|it| (it.key().to_owned(), it.node_count())).collect();
    assert_eq!(counts, [("services/s".to_owned(), 0), ("upstreams/u".to_owned(), 1)]);
}
