//! Tests of route parsing: defaults, every rule, and that no input panics.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::{GlobalRule, PluginConfig, Problems, Service};

fn parse(value: &Value) -> (Option<Route>, Problems) {
    Route::parse(Id::new("1"), value, "routes[0]")
}

/// Returns the problems of a route that is valid without the fields `extra`.
fn problems_with(extra: Value) -> String {
    let mut value = json!({"uri": "/a", "upstream_id": "u"});
    let fields = value.as_object_mut().expect("it is written as an object");
    for (name, field) in extra.as_object().expect("it is written as an object") {
        fields.insert(name.clone(), field.clone());
    }
    let (route, problems) = parse(&value);
    assert_eq!(route.is_none(), problems.has_errors());
    problems.to_string()
}

#[test]
fn a_small_route_has_the_documented_defaults() {
    let (route, problems) = parse(&json!({"uri": "/a", "service_id": 7}));
    assert_eq!(problems.to_string(), "");
    let route = route.expect("no problem was found");
    assert_eq!(route.uris, ["/a"]);
    assert_eq!(route.priority, 0);
    assert_eq!(route.methods, None);
    assert_eq!(route.service_id, Some(Id::new("7")));
    assert!(route.enabled);
    assert_eq!(route.enable_websocket, None);
    assert!(route.hosts.is_empty() && route.remote_addrs.is_empty() && route.plugins.is_empty());
}

#[test]
fn a_full_route_is_read_field_by_field() {
    let (route, problems) = parse(&json!({
        "id": "1", "uris": ["/a", "/b/*"], "priority": -5.0, "methods": ["GET", "PURGE"],
        "hosts": ["A.com", "*.b.com"], "remote_addrs": ["10.0.0.0/8", "::1"],
        "plugins": {"cors": {}}, "plugin_config_id": "p", "upstream": {"nodes": {"a": 1}},
        "timeout": {"connect": 0.5, "send": 1, "read": 2}, "enable_websocket": true,
        "status": 0, "name": "n", "desc": "", "labels": {"k": "v"},
        "create_time": 1, "update_time": 2,
    }));
    assert_eq!(problems.to_string(), "");
    let route = route.expect("no problem was found");
    assert_eq!(route.uris, ["/a", "/b/*"]);
    assert_eq!(route.priority, -5);
    let methods: Vec<&str> = route.methods.expect("methods were given").names().collect();
    assert_eq!(methods, ["GET", "PURGE"]);
    assert_eq!(route.hosts, ["a.com", "*.b.com"]);
    assert_eq!(route.remote_addrs.len(), 2);
    assert_eq!(route.timeout.expect("a time-out was given").connect.as_millis(), 500);
    assert!(!route.enabled);
    assert_eq!(route.upstream.expect("an upstream was given").nodes[0].port, 80);
    assert_eq!(route.labels["k"], "v");
}

#[test]
fn conditions_are_read_where_they_stand() {
    let condition = json!([["arg_name", "==", "json"]]);
    let (route, problems) = parse(&json!({
        "uri": "/a", "upstream_id": 1, "vars": condition,
        "plugins": {"cors": {"_meta": {"filter": condition}}},
    }));
    assert_eq!(problems.to_string(), "");
    let route = route.expect("no problem was found");
    assert!(route.vars.is_some());
    assert_eq!(route.plugins["cors"].meta.filter, route.vars);

    let wrong = json!([["arg_name", "=", "json"]]);
    let found = problems_with(json!({
        "vars": wrong, "plugins": {"cors": {"_meta": {"filter": wrong}}},
    }));
    assert_eq!(found.matches("invalid operator '='").count(), 2, "{found}");
    assert!(found.starts_with("routes[0].vars"), "{found}");
    assert!(found.contains("routes[0].plugins.cors._meta.filter"), "{found}");
}

#[test]
fn a_list_without_methods_leaves_the_method_open() {
    let (route, _) = parse(&json!({"uri": "/a", "upstream_id": 1, "methods": []}));
    assert_eq!(route.expect("no problem was found").methods, None);
}

#[test]
fn each_field_is_checked() {
    let table = [
        (json!({"urii": "/b"}), "unknown field \"urii\""),
        (json!({"uris": ["/b"]}), "matches both schemas 1 and 2"),
        (json!({"uri": ""}), "string too short, expected at least 1, got 0"),
        (json!({"uri": "/".repeat(4097)}), "string too long, expected at most 4096, got 4097"),
        (json!({"uri": 1}), "routes[0].uri: wrong type: expected string, got number"),
        (json!({"host": "a", "hosts": ["b"]}), "only one of host or hosts is allowed"),
        (
            json!({"remote_addr": "1.1.1.1", "remote_addrs": ["1.1.1.1"]}),
            "only one of remote_addr or remote_addrs is allowed",
        ),
        (json!({"remote_addr": "1.1.1"}), "object matches none of the required"),
        (json!({"methods": ["GET", "GET"]}), "expected unique items but items 1 and 2 are equal"),
        (json!({"methods": ["BREW"]}), "routes[0].methods[0]: matches none of the enum values"),
        (json!({"status": 2}), "matches none of the enum values"),
        (json!({"priority": "1"}), "wrong type: expected integer, got string"),
        (json!({"enable_websocket": "true"}), "wrong type: expected boolean, got string"),
        (json!({"timeout": {"connect": 1, "send": 1}}), "property \"read\" is required"),
        (json!({"timeout": {"connect": 0, "send": 1, "read": 1}}), "to be greater than 0"),
        (json!({"labels": {"a": "b c"}}), r#"failed to match pattern "^\S+$" with "b c""#),
        (json!({"labels": {"a": 1}}), "routes[0].labels.a: wrong type"),
        (json!({"name": ""}), "string too short"),
        (json!({"service_id": "a b"}), "failed to match pattern"),
        (json!({"upstream_id": 0}), "expected 0 to be at least 1"),
        (json!({"id": "2"}), "wrong id"),
        (json!({"script": "return {}"}), "string too short"),
        (json!({"script_id": "1"}), "\"script_id\" is not supported here"),
        (json!({"upstream": {"nodes": {"a:x": 1}}}), "upstream.nodes[\"a:x\"]: invalid port x"),
        (json!({"create_time": -1}), "expected -1 to be at least 0"),
    ];
    for (extra, expected) in table {
        let found = problems_with(extra);
        assert!(found.contains(expected), "{found}");
        assert_eq!(found.lines().count(), 1, "{found}");
    }
}

#[test]
fn a_uri_that_never_matches_is_a_warning() {
    let (route, problems) = parse(&json!({"uri": "a", "upstream_id": 1}));
    assert!(route.is_some());
    assert_eq!(
        problems.to_string(),
        "routes[0].uri: matches no request (got \"a\"); begin it with \"/\""
    );
}

#[test]
fn a_route_needs_a_path_and_something_to_do() {
    let (_, problems) = parse(&json!({"plugin_config_id": 1}));
    let reasons: Vec<&str> = problems.iter().map(|problem| problem.reason.as_str()).collect();
    assert_eq!(reasons[0], "value should match only one schema, but matches none");
    assert!(reasons[1].starts_with(
        r#"object matches none of the required: ["plugins","uri"] or ["upstream","uri"] or "#
    ));
    assert_eq!(reasons.len(), 2);
}

#[test]
fn every_problem_is_reported_at_once() {
    let (route, problems) = parse(&json!({
        "uri": 1, "methods": ["X", "Y"], "vars": "x",
        "upstream": {"nodes": {"a:99999": -1}, "retries": -1},
        "plugins": {"a": 1, "b": {"_meta": {"priority": "x"}}},
    }));
    assert!(route.is_none());
    let paths: Vec<&str> = problems.iter().map(|problem| problem.path.as_str()).collect();
    assert_eq!(
        paths,
        [
            "routes[0].uri",
            "routes[0].methods[0]",
            "routes[0].methods[1]",
            "routes[0].vars",
            "routes[0].plugins.a",
            "routes[0].plugins.b._meta.priority",
            "routes[0].upstream.nodes[\"a:99999\"]",
            "routes[0].upstream.nodes[\"a:99999\"]",
            "routes[0].upstream.retries",
        ]
    );
}

/// Strategy for arbitrary JSON values that contain field names of routes.
fn any_value() -> impl Strategy<Value = Value> {
    let names = prop_oneof![
        "[a-z_]{1,12}",
        proptest::sample::select(vec![
            "uri",
            "uris",
            "hosts",
            "upstream",
            "nodes",
            "checks",
            "active",
            "healthy",
            "timeout",
            "plugins",
            "_meta",
            "vars",
            "tls",
            "type",
            "key",
            "labels",
            "id",
            "methods",
            "filter",
            "keepalive_pool",
            "passive",
            "interval",
            "req_headers",
            "remote_addrs",
            "disable",
        ])
        .prop_map(str::to_owned),
    ];
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        ".{0,20}".prop_map(Value::from),
        "[\\[\\]:.a-f0-9]{0,12}".prop_map(Value::from),
        proptest::sample::select(vec!["chash", "https", "rewrite", "vars", "dns", "=="])
            .prop_map(Value::from),
    ];
    leaf.prop_recursive(5, 64, 8, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            prop::collection::vec((names.clone(), inner), 0..8)
                .prop_map(|fields| Value::Object(fields.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn no_value_makes_any_parser_panic(value in any_value()) {
        let id = || Id::new("1");
        let (route, problems) = Route::parse(id(), &value, "x");
        prop_assert_eq!(route.is_none(), problems.has_errors());
        let (service, problems) = Service::parse(id(), &value, "x");
        prop_assert_eq!(service.is_none(), problems.has_errors());
        let (upstream, problems) = Upstream::parse(None, &value, "x");
        prop_assert_eq!(upstream.is_none(), problems.has_errors());
        let (rule, problems) = GlobalRule::parse(id(), &value, "x");
        prop_assert_eq!(rule.is_none(), problems.has_errors());
        let (config, problems) = PluginConfig::parse(id(), &value, "x");
        prop_assert_eq!(config.is_none(), problems.has_errors());
        crate::plugins::parse(&value, "x", &mut Problems::new());
    }
}
