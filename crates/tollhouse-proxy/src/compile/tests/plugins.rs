//! Which plugins run on a route, in which order, and how consumers are found.

use super::*;

#[test]
fn plugins_of_route_config_and_service_are_listed_once_each() {
    let mut desk = TestCompiler::new();
    let plugins = |names: &[&str]| {
        let plugins: serde_json::Map<String, Value> =
            names.iter().map(|name| ((*name).to_owned(), json!({}))).collect();
        Value::Object(plugins)
    };
    desk.apply([
        put(Kind::Service, "s", json!({"upstream": nodes(1), "plugins": plugins(&["x", "z"])})),
        put(Kind::PluginConfig, "c", json!({"plugins": plugins(&["x", "y"])})),
        put(
            Kind::Route,
            "r",
            json!({"uri": "/", "service_id": "s", "plugin_config_id": "c",
                "plugins": plugins(&["w", "x"])}),
        ),
    ]);
    let route = desk.route("r");
    let steps: Vec<(&str, &str)> =
        route.chain.steps().iter().map(|step| (step.name(), step.owner)).collect();
    let expected = [("w", "route"), ("x", "route"), ("y", "plugin config"), ("z", "service")];
    assert_eq!(steps, expected);
}

#[test]
fn meta_says_whether_and_when_a_plugin_runs() {
    let mut desk = TestCompiler::new();
    let names = |desk: &TestCompiler| {
        let route = desk.route("r");
        route.chain.steps().iter().map(|step| step.name().to_owned()).collect::<Vec<_>>()
    };
    let route = |plugins: Value| put(Kind::Route, "r", json!({"uri": "/", "plugins": plugins}));
    desk.apply([route(json!({"w": {}, "z": {"_meta": {"priority": 50}}}))]);
    assert_eq!(names(&desk), ["z", "w"]);
    // A conf that is switched off is not looked at.
    desk.apply([route(json!({"w": {"bad": true, "_meta": {"disable": true}}, "x": {}}))]);
    assert_eq!(names(&desk), ["x"]);
    // A conf that is refused leaves the route as it was.
    desk.apply([route(json!({"w": {"bad": true}}))]);
    assert_eq!(names(&desk), ["x"]);
    let problems: Vec<String> = desk.compiler.problems().map(|(_, it)| it.to_string()).collect();
    assert!(problems[0].contains("failed to check the configuration of plugin w err: it is bad"));
}

#[test]
fn one_plugin_runs_once_among_global_rules() {
    let mut desk = TestCompiler::new();
    let rule = |id, plugins: Value| put(Kind::GlobalRule, id, json!({"plugins": plugins}));
    desk.apply([rule("2", json!({"x": {}, "y": {}})), rule("1", json!({"y": {}, "z": {}}))]);
    let globals = |desk: &TestCompiler| {
        let snapshot = Arc::clone(&desk.snapshot);
        snapshot.globals.steps().iter().map(|step| step.name().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(globals(&desk), ["x", "y", "z"]);
    desk.apply([delete(Kind::GlobalRule, "1")]);
    assert_eq!(globals(&desk), ["x", "y"]);
}

#[test]
fn consumers_are_found_by_what_they_and_their_credentials_say() {
    let mut desk = TestCompiler::new();
    let consumer = |name: &str, key: &str| {
        let value = json!({"username": name, "plugins": {"key-auth": {"key": key}, "x": {}}});
        put(Kind::Consumer, name, value)
    };
    let credential = |id: &str, key: &str| {
        put(Kind::Credential, id, json!({"plugins": {"key-auth": {"key": key}}}))
    };
    let found = |desk: &TestCompiler, key: &str| {
        let snapshot = Arc::clone(&desk.snapshot);
        let found = snapshot.consumers.credential("key-auth", key.as_bytes())?;
        Some((found.consumer.username.to_string(), found.credential_id.clone()))
    };
    // A credential may come before its consumer.
    desk.apply([credential("jack/credentials/c1", "k2"), consumer("jack", "k1")]);
    assert_eq!(found(&desk, "k1"), Some(("jack".into(), None)));
    assert_eq!(found(&desk, "k2"), Some(("jack".into(), Some("c1".into()))));
    assert_eq!(found(&desk, "k3"), None);
    desk.apply([consumer("jack", "k3"), consumer("jill", "k4")]);
    assert_eq!(found(&desk, "k1"), None);
    assert_eq!(found(&desk, "k3"), Some(("jack".into(), None)));
    let snapshot = Arc::clone(&desk.snapshot);
    assert_eq!(snapshot.consumers.len(), 2);
    let names = |chain: &Chain| chain.steps().iter().map(|it| it.name().to_owned()).collect();
    assert_eq!(snapshot.consumers.chain("jack").map(names), Some(vec!["x".to_owned()]));
    desk.apply([delete(Kind::Credential, "jack/credentials/c1"), delete(Kind::Consumer, "jill")]);
    assert_eq!((found(&desk, "k2"), found(&desk, "k4")), (None, None));
    assert_eq!(found(&desk, "k3"), Some(("jack".into(), None)));
}

#[test]
fn global_rules_stand_in_the_order_of_their_ids() {
    let mut desk = TestCompiler::new();
    let rule = |id| put(Kind::GlobalRule, id, json!({"plugins": {}}));
    desk.apply([rule("b"), rule("a"), rule("c")]);
    desk.apply([delete(Kind::GlobalRule, "c")]);
    let ids: Vec<&str> = desk.compiler.global_rules().map(|rule| rule.id.as_str()).collect();
    assert_eq!(ids, ["a", "b"]);
}
