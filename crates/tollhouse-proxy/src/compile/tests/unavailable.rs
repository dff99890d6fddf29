//! Plugins that cannot run, wherever they stand: what is done without them, and what is refused.

use tollhouse_model::encryption::Keyring;
use tollhouse_telemetry::ErrorCode;

use super::*;
use crate::l4::table::Arrival;
use crate::plugins::PluginStep;

/// The names of the steps of a chain; of those that refuse requests, in brackets.
fn steps(chain: &Chain) -> String {
    let shown = |step: &Arc<PluginStep>| match step.refuses_with {
        Some(_) => format!("[{}]", step.name()),
        None => step.name().to_owned(),
    };
    chain.steps().iter().map(shown).collect::<Vec<_>>().join(" ")
}

fn of_route(desk: &TestCompiler) -> String {
    steps(&desk.route("r").chain)
}

fn route(plugins: Value) -> Change {
    put(Kind::Route, "r", json!({"uri": "/", "plugins": plugins}))
}

#[test]
fn a_plugin_that_might_protect_and_cannot_run_refuses_in_its_place() {
    let table = [
        (json!({"key-auht": {}}), "[key-auht]"),
        (json!({"openid-connect": {}, "w": {}}), "[openid-connect] w"),
        (json!({"w": {"bad": true}}), "[w]"),
        (json!({"w": {"nothing": "of that name", "bad": "no flag"}, "x": {}}), "[w] x"),
        (json!({"kafka-logger": {}, "x": {}}), "x"),
        (json!({"key-auht": {"_meta": {"disable": true}}, "x": {}}), "x"),
        (json!({"key-auht": {"_meta": {"priority": -5}}, "x": {}}), "[key-auht] x"),
        // What cannot be read at all refuses as a whole.
        (json!({"key-auth": {"_meta": {"disabled": true}}}), "[plugins]"),
        (json!({"key-auth": 1}), "[plugins]"),
        (json!(["key-auth"]), "[plugins]"),
    ];
    for (plugins, expected) in table {
        let mut desk = TestCompiler::new();
        desk.apply([route(plugins.clone())]);
        assert_eq!(of_route(&desk), expected, "{plugins}");
        let refuses = expected.contains('[');
        let has_errors = desk.compiler.problems().any(|(_, problems)| problems.has_errors());
        assert_eq!(has_errors, refuses, "{plugins}");
        desk.apply([route(json!({"y": {}}))]);
        assert_eq!((of_route(&desk).as_str(), desk.problems().len()), ("y", 0), "mended");
    }
}

#[test]
fn the_last_good_version_stays_where_there_is_one() {
    let mut desk = TestCompiler::new();
    desk.apply([route(json!({"x": {}}))]);
    for bad in [json!({"key-auht": {}}), json!({"w": {"bad": true}}), json!({"x": 1})] {
        desk.apply([route(bad)]);
        assert_eq!(of_route(&desk), "x");
    }
    // One that refuses is not good: the newest of them counts, and what cannot be read keeps it.
    let mut desk = TestCompiler::new();
    desk.apply([route(json!({"key-auht": {}}))]);
    desk.apply([route(json!({"jwt-auht": {}}))]);
    assert_eq!(of_route(&desk), "[jwt-auht]");
    desk.apply([put(Kind::Route, "r", json!({"uri": 7, "plugins": {"key-auht": {}}}))]);
    assert!(of_route(&desk).starts_with('['));
}

/// What the only step of a route refuses with.
fn code_of_route(desk: &TestCompiler) -> Option<ErrorCode> {
    desk.route("r").chain.steps().first().and_then(|step| step.refuses_with)
}

#[test]
fn what_cannot_be_read_refuses_with_a_code_of_its_own() {
    let plugins = |plugins: Value| json!({"uri": "/", "upstream": nodes(1), "plugins": plugins});
    let upstream =
        |upstream: Value| json!({"uri": "/", "upstream": upstream, "plugins": {"x": {}}});
    let kafka = json!({"type": "roundrobin", "scheme": "kafka", "nodes": {"127.0.0.1:9092": 1}});
    let both = json!({"uri": "/", "upstream": 7, "plugins": 7});
    let table = [
        (plugins(json!({"key-auht": {}})), ErrorCode::PluginUnavailable),
        (plugins(json!(7)), ErrorCode::PluginUnavailable),
        (upstream(json!(7)), ErrorCode::RouteInvalid),
        (upstream(kafka), ErrorCode::RouteInvalid),
        (both, ErrorCode::RouteInvalid),
    ];
    for (value, expected) in table {
        let mut desk = TestCompiler::new();
        desk.apply([put(Kind::Route, "r", value.clone())]);
        assert_eq!(code_of_route(&desk), Some(expected), "{value}");
        // Wrong in another way then: the newest version counts.
        desk.apply([put(Kind::Route, "r", plugins(json!({"jwt-auht": {}})))]);
        assert_eq!(code_of_route(&desk), Some(ErrorCode::PluginUnavailable), "{value}");
        desk.apply([put(Kind::Route, "r", upstream(json!("nowhere")))]);
        assert_eq!(code_of_route(&desk), Some(ErrorCode::RouteInvalid), "{value}");
        desk.apply([put(Kind::Route, "r", plugins(json!({"x": {}})))]);
        assert_eq!((of_route(&desk).as_str(), code_of_route(&desk)), ("x", None), "mended");
    }
}

#[test]
fn a_route_whose_requests_are_not_known_is_not_there() {
    let mut desk = TestCompiler::new();
    desk.apply([put(Kind::Route, "r", json!({"uri": 7, "plugins": {"key-auht": {}}}))]);
    assert!(!desk.has_route("r"));
}

#[test]
fn a_route_that_is_wrong_in_other_ways_keeps_its_requests() {
    let whole = || json!({"uri": "/", "plugins": {"x": {}}, "upstream": nodes(1)});
    for (name, value) in [
        ("not_a_field", json!(1)),
        ("desc", json!(1)),
        ("labels", json!({"a": 1})),
        ("timeout", json!({"connect": 0})),
        ("enable_websocket", json!("yes")),
        ("upstream_id", json!([])),
        ("service_id", json!({})),
        ("plugin_config_id", json!({})),
        ("upstream", json!(7)),
        ("script", json!("return")),
    ] {
        let mut desk = TestCompiler::new();
        let mut bad = whole();
        bad[name] = value;
        desk.apply([put(Kind::Route, "r", bad)]);
        assert!(desk.has_route("r"), "{name}");
        assert_eq!(of_route(&desk), "[route]", "{name}");
        desk.apply([put(Kind::Route, "r", whole())]);
        assert_eq!((of_route(&desk).as_str(), desk.problems().len()), ("x", 0), "mended: {name}");
    }
}

#[test]
fn a_stream_route_that_is_wrong_in_other_ways_keeps_its_connections() {
    let lost = Keyring::generate().expect("a keyring").seal("key", "upstream.tls.client_key");
    for (name, value) in [
        ("not_a_field", json!(1)),
        ("desc", json!(1)),
        ("protocol", json!(7)),
        ("service_id", json!({})),
        ("upstream", json!({"scheme": "kafka"})),
        ("upstream", json!({"tls": {"client_cert": "cert", "client_key": lost}})),
    ] {
        let mut desk = TestCompiler::new();
        let mut bad = json!({"server_port": 9100, "upstream": nodes(1)});
        bad[name] = value;
        desk.apply([
            put(Kind::StreamRoute, "own", bad),
            put(Kind::StreamRoute, "all", json!({"upstream": nodes(2)})),
        ]);
        let arrival = Arrival {
            client: IpAddr::V4(Ipv4Addr::LOCALHOST),
            local: (Ipv4Addr::LOCALHOST, 9100).into(),
            server_name: None,
        };
        let found = desk.snapshot.streams.find(&arrival).expect("a route");
        assert_eq!((found.route.id.as_str(), &*steps(&found.chain)), ("own", "[route]"), "{name}");
    }
}

#[test]
fn a_route_with_a_value_that_no_key_opens_keeps_its_requests() {
    let lost = Keyring::generate().expect("a keyring");
    let sealed = lost.seal("key", "upstream.tls.client_key");
    let mut upstream = nodes(1);
    upstream["tls"] = json!({"client_cert": "cert", "client_key": sealed});
    let mut desk = TestCompiler::new();
    desk.apply([put(Kind::Route, "r", json!({"uri": "/", "upstream": upstream}))]);
    assert_eq!(of_route(&desk), "[route]");
}

#[test]
fn what_a_route_gets_from_elsewhere_refuses_as_its_own_does() {
    let bad = || json!({"key-auht": {}});
    let mut desk = TestCompiler::new();
    let named =
        json!({"uri": "/", "service_id": "s", "plugin_config_id": "c", "plugins": {"x": {}}});
    desk.apply([
        put(Kind::Service, "s", json!({"upstream": nodes(1), "plugins": {"jwt-auht": {}}})),
        put(Kind::PluginConfig, "c", json!({"plugins": bad()})),
        put(Kind::GlobalRule, "g", json!({"plugins": {"ip-restricton": {}}})),
        put(Kind::ConsumerGroup, "gold", json!({"plugins": bad()})),
        put(Kind::Consumer, "jack", json!({"username": "jack", "plugins": bad()})),
        put(Kind::Route, "r", named),
    ]);
    assert_eq!(of_route(&desk), "[key-auht] [jwt-auht] x");
    assert_eq!(steps(&desk.snapshot.globals), "[ip-restricton]");
    let group = desk.snapshot.consumers.group("gold").map(steps);
    assert_eq!(group.as_deref(), Some("[key-auht]"));
    assert_eq!(desk.snapshot.consumers.len(), 0, "a consumer that cannot be checked is nobody");
}

#[test]
fn a_global_rule_that_only_looks_on_stops_nothing() {
    let mut desk = TestCompiler::new();
    let rule = |id, plugins: Value| put(Kind::GlobalRule, id, json!({"plugins": plugins}));
    desk.apply([rule("1", json!({"skywalking": {}})), rule("2", json!(7))]);
    assert_eq!(steps(&desk.snapshot.globals), "[plugins]");
    desk.apply([rule("2", json!({"x": {}}))]);
    assert_eq!(steps(&desk.snapshot.globals), "x");
}

#[test]
fn what_a_nearer_object_switches_off_does_not_run() {
    let mut desk = TestCompiler::new();
    let off = || json!({"_meta": {"disable": true}});
    let named = |plugins: Value| {
        put(
            Kind::Route,
            "r",
            json!({"uri": "/", "service_id": "s", "plugin_config_id": "c", "plugins": plugins}),
        )
    };
    desk.apply([
        put(
            Kind::Service,
            "s",
            json!({"upstream": nodes(1), "plugins": {"w": {}, "x": {}, "y": {}, "key-auht": {}}}),
        ),
        put(Kind::PluginConfig, "c", json!({"plugins": {"y": off(), "z": {}}})),
        named(json!({"w": off(), "key-auht": off()})),
    ]);
    assert_eq!(of_route(&desk), "x z");
    desk.apply([named(json!({"y": {}, "z": off(), "key-auht": off()}))]);
    assert_eq!(of_route(&desk), "w x y");
    // Among global rules none is nearer than the other.
    let rule = |id, plugins: Value| put(Kind::GlobalRule, id, json!({"plugins": plugins}));
    desk.apply([rule("1", json!({"x": off()})), rule("2", json!({"x": {}}))]);
    assert_eq!(steps(&desk.snapshot.globals), "x");
}

#[test]
fn names_that_may_be_passed_over_are() {
    let mut desk = TestCompiler::new();
    let mut services = Services::new("APISIX");
    services.skipped_plugins = vec!["key-auht".to_owned()];
    desk.compiler.plugins = Plugins::new(Arc::new(test_catalogue()), Arc::new(services));
    desk.apply([route(json!({"key-auht": {}, "jwt-auht": {}, "x": {}}))]);
    assert_eq!(of_route(&desk), "[jwt-auht] x");
}

#[test]
fn metadata_reaches_the_plugins_of_consumers() {
    let mut desk = TestCompiler::new();
    let jack = json!({"username": "jack", "plugins": {"key-auth": {"key": "k"}, "x": {}}});
    desk.apply([put(Kind::Consumer, "jack", jack)]);
    let handler = |desk: &TestCompiler| {
        let chain = desk.snapshot.consumers.chain("jack").expect("it has plugins");
        Arc::clone(&chain.steps()[0].handler)
    };
    let before = handler(&desk);
    desk.apply([put(Kind::PluginMetadata, "x", json!({}))]);
    assert!(!Arc::ptr_eq(&before, &handler(&desk)), "it is compiled with the metadata");
    let found = desk.snapshot.consumers.credential("key-auth", b"k");
    assert_eq!(found.map(|it| it.consumer.username.to_string()).as_deref(), Some("jack"));
}

#[test]
fn a_key_that_two_have_goes_back_to_the_one_who_keeps_it() {
    let mut desk = TestCompiler::new();
    let consumer = |name: &str, key: &str| {
        let value = json!({"username": name, "plugins": {"key-auth": {"key": key}}});
        put(Kind::Consumer, name, value)
    };
    let owner = |desk: &TestCompiler| {
        let found = desk.snapshot.consumers.credential("key-auth", b"k")?;
        Some(found.consumer.username.to_string())
    };
    desk.apply([consumer("a", "k"), consumer("b", "k"), consumer("c", "k")]);
    assert_eq!(owner(&desk).as_deref(), Some("c"), "the latest counts");
    desk.apply([consumer("b", "other"), delete(Kind::Consumer, "c")]);
    assert_eq!(owner(&desk).as_deref(), Some("a"));
    desk.apply([delete(Kind::Consumer, "a")]);
    assert_eq!(owner(&desk), None);
    desk.apply([consumer("b", "k")]);
    assert_eq!(owner(&desk).as_deref(), Some("b"));
}
