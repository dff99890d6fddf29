//! Objects that cannot be used: what each kind does, in whatever way it cannot be read.

use tollhouse_model::encryption::Keyring;
use tollhouse_model::problem::Severity;

use super::*;
use crate::l4::table::Arrival;
use crate::snapshot::Reference;

/// Something that no key opens.
fn sealed() -> String {
    Keyring::generate().expect("a keyring").seal("a", "place")
}

/// Which route takes a request, and whether it refuses it.
fn answers(desk: &TestCompiler, host: &str, path: &str) -> (String, bool) {
    let id = desk.taken(host, path).unwrap_or_default();
    let refuses = desk.has_route(&id) && refuses(&desk.route(&id).chain);
    (id, refuses)
}

fn refuses(chain: &Chain) -> bool {
    chain.steps().iter().any(|step| step.refuses_with.is_some())
}

fn warnings(desk: &TestCompiler) -> Vec<String> {
    let all = desk.compiler.problems().flat_map(|(_, problems)| problems.iter());
    let warnings = all.filter(|problem| problem.severity == Severity::Warning);
    warnings.map(|problem| problem.reason.clone()).collect()
}

#[test]
fn a_condition_that_cannot_be_read_leaves_no_request_to_a_broader_route() {
    let own = |name: &str, value: Value| {
        let mut route = json!({"uri": "/own", "host": "h", "upstream": nodes(1)});
        route[name] = value;
        route
    };
    let table = [
        own("vars", json!("arg_a == b")),
        own("vars", json!([["arg_a", "=", "b"]])),
        own("vars", json!([["arg_a", "==", sealed()]])),
        own("vars", json!([["arg_a", "~~", "("]])),
        own("methods", json!(["BREW"])),
        own("methods", json!("POST")),
        own("remote_addr", json!("10.0.0")),
        own("remote_addrs", json!(["10.0.0.0/8", "ten"])),
        own("priority", json!("7")),
        own("status", json!("on")),
        own("filter_func", json!("function(vars) return true end")),
        own("hosts", json!(["h", "a b"])),
        own("hosts", json!(7)),
        own("host", json!("a b")),
        own("uris", json!(["/own", 7])),
        own("uri", json!("/own")),
    ];
    for mut bad in table {
        if bad.get("uris").is_some() {
            bad.as_object_mut().expect("it is one").remove("uri");
        }
        // Whatever else is wrong beside it.
        bad["nonsense"] = json!(true);
        let mut desk = TestCompiler::new();
        desk.apply([
            put(Kind::Route, "own", bad.clone()),
            inline_route("exact", "/own", 2),
            inline_route("rest", "/*", 3),
        ]);
        assert_eq!(answers(&desk, "h", "/own"), ("own".to_owned(), true), "{bad}");
        assert_eq!(answers(&desk, "h", "/other"), ("rest".to_owned(), false), "{bad}");
        let warnings = warnings(&desk);
        assert!(warnings[0].starts_with("requests to /own"), "{bad}: {warnings:?}");
        let good = json!({"uri": "/own", "host": "h", "upstream": nodes(1)});
        desk.apply([put(Kind::Route, "own", good)]);
        assert_eq!(answers(&desk, "h", "/own"), ("own".to_owned(), false), "mended: {bad}");
        assert_eq!(desk.problems(), [""; 0]);
        // A version that is good goes on where there is one.
        desk.apply([put(Kind::Route, "own", bad.clone())]);
        assert_eq!(answers(&desk, "h", "/own"), ("own".to_owned(), false), "last good: {bad}");
    }
}

#[test]
fn conditions_that_can_be_read_go_on_telling_requests_apart() {
    let bad = json!({
        "uri": "/own", "hosts": ["h", "x.h"], "vars": 7, "methods": ["GET"], "plugins": {"w": {}},
    });
    let other = json!({"uri": "/own", "methods": ["POST"], "vars": 7, "upstream": nodes(1)});
    let off = json!({"uri": "/own", "status": 0, "vars": 7, "upstream": nodes(1)});
    let mut desk = TestCompiler::new();
    desk.apply([
        put(Kind::Route, "off", off),
        put(Kind::Route, "post", other),
        put(Kind::Route, "own", bad),
        inline_route("rest", "/*", 3),
    ]);
    for (host, taken) in [("h", "own"), ("x.h", "own"), ("other", "rest")] {
        assert_eq!(answers(&desk, host, "/own").0, taken, "{host}");
    }
}

#[test]
fn hosts_of_a_service_are_those_of_its_route_that_refuses() {
    let mut desk = TestCompiler::new();
    let service = json!({"hosts": ["h"], "upstream": nodes(1)});
    desk.apply([
        put(Kind::Service, "s", service),
        put(Kind::Route, "own", json!({"uri": "/*", "service_id": "s", "vars": 7})),
        inline_route("rest", "/*", 3),
    ]);
    assert_eq!(answers(&desk, "h", "/"), ("own".to_owned(), true));
    assert_eq!(answers(&desk, "other", "/"), ("rest".to_owned(), false));
    // Hosts of its own would have counted instead: which, is not known.
    let bad = json!({"uri": "/*", "service_id": "s", "hosts": 7});
    desk.apply([delete(Kind::Route, "own")]);
    desk.apply([put(Kind::Route, "own", bad)]);
    assert_eq!(answers(&desk, "elsewhere", "/own").0, "rest", "it comes last now");
    desk.apply([delete(Kind::Route, "rest")]);
    assert_eq!(answers(&desk, "elsewhere", "/own"), ("own".to_owned(), true));
}

#[test]
fn without_a_path_a_route_claims_its_hosts_and_without_both_nothing() {
    let mut desk = TestCompiler::new();
    desk.apply([
        put(Kind::Route, "own", json!({"uri": 7, "host": "h", "upstream": nodes(1)})),
        put(Kind::Route, "lost", json!({"uri": "", "hosts": [7], "upstream": nodes(1)})),
        put(Kind::Route, "good", json!({"uri": "/good", "host": "h", "upstream": nodes(2)})),
        inline_route("rest", "/*", 3),
    ]);
    assert_eq!(answers(&desk, "h", "/any/thing"), ("own".to_owned(), true));
    assert_eq!(answers(&desk, "h", "/good"), ("good".to_owned(), false));
    assert_eq!(answers(&desk, "other", "/"), ("rest".to_owned(), false));
    assert!(!desk.has_route("lost"));
    let expected =
        ["it is not known which requests are its own", "requests to /* at h are refused"];
    for (found, expected) in warnings(&desk).iter().zip(expected) {
        assert!(found.starts_with(expected), "{found}");
    }
}

fn connection(desk: &TestCompiler, port: u16) -> Option<(String, bool)> {
    let local = (Ipv4Addr::LOCALHOST, port).into();
    let client = IpAddr::V4(Ipv4Addr::LOCALHOST);
    let found = desk.snapshot.streams.find(&Arrival { client, local, server_name: None })?;
    Some((found.route.id.as_str().to_owned(), refuses(&found.chain)))
}

#[test]
fn a_stream_route_refuses_what_its_readable_conditions_claim() {
    for (name, value) in
        [("sni", json!("a b")), ("remote_addr", json!("ten")), ("server_addr", json!(7))]
    {
        let mut bad = json!({"server_port": 9100, "upstream": nodes(1)});
        bad[name] = value;
        let mut desk = TestCompiler::new();
        desk.apply([
            put(Kind::StreamRoute, "own", bad),
            put(Kind::StreamRoute, "rest", json!({"upstream": nodes(2)})),
        ]);
        assert_eq!(connection(&desk, 9100), Some(("own".to_owned(), true)), "{name}");
        assert_eq!(connection(&desk, 9200), Some(("rest".to_owned(), false)), "{name}");
    }
    // Its port was all that it said: it would be every connection.
    let mut desk = TestCompiler::new();
    desk.apply([
        put(Kind::StreamRoute, "own", json!({"server_port": 0, "upstream": nodes(1)})),
        put(Kind::StreamRoute, "rest", json!({"upstream": nodes(2)})),
    ]);
    assert_eq!(connection(&desk, 9100), Some(("rest".to_owned(), false)));
    assert_eq!(warnings(&desk), ["it is not known which connections are its own"]);
}

/// In how many ways an object cannot be used, with what is wrong.
fn ways(kind: Kind, good: &Value) -> Vec<(&'static str, Change)> {
    let with = |name: &str, value: Value| {
        let mut bad = good.clone();
        bad[name] = value;
        put(kind, "x", bad)
    };
    let path = || "x".to_owned();
    let id = || Id::new("x");
    let mut gone = good.clone();
    gone["desc"] = Value::Null;
    let unreadable = Err(Problem::error("x", "no JSON"));
    vec![
        ("an unknown field", with("nonsense", json!(1))),
        ("a wrong type", with("labels", json!(7))),
        ("a sealed value", with("desc", sealed().into())),
        (
            "a variable that is not set",
            Change::Withheld { kind, id: id(), rest: gone, path: path() },
        ),
        ("no JSON", Change::Upsert { kind, id: id(), value: unreadable, path: path() }),
    ]
}

#[test]
fn whatever_is_wrong_with_an_object_what_it_protects_stays_closed() {
    let auth = || json!({"key-auth": {}});
    let who = |key: &str| json!({"basic-auth": {"username": key, "password": "p"}});
    let named = |field: &str| {
        let mut route = json!({"uri": "/own", "upstream": nodes(1)});
        if field == "upstream_id" || field == "service_id" {
            route = json!({"uri": "/own"});
        }
        route[field] = "x".into();
        put(Kind::Route, "user", route)
    };
    let rest = || inline_route("rest", "/*", 3);
    // What uses the object, what it is, and what becomes of requests; in brackets where nothing can be told of it.
    let table: Vec<(Kind, Value, Vec<Change>, &str, &str)> = vec![
        (Kind::Route, json!({"uri": "/own", "plugins": auth()}), vec![], "x refuses", "rest"),
        (
            Kind::Service,
            json!({"plugins": auth()}),
            vec![named("service_id")],
            "missing",
            "missing",
        ),
        (Kind::Upstream, nodes(1), vec![named("upstream_id")], "empty slot", "empty slot"),
        (
            Kind::PluginConfig,
            json!({"plugins": auth()}),
            vec![named("plugin_config_id")],
            "missing",
            "missing",
        ),
        (Kind::GlobalRule, json!({"plugins": auth()}), vec![], "all refuse", "all refuse"),
        (Kind::Consumer, json!({"username": "x", "plugins": who("k")}), vec![], "nobody", "a"),
    ];
    for (kind, good, users, expected, without_text) in table {
        for (way, change) in ways(kind, &good) {
            let expected = if way == "no JSON" { without_text } else { expected };
            // A consumer's own name may be claimed by one who comes before it, or has it besides.
            let a = json!({"username": "a", "plugins": who("k")});
            let mut desk = TestCompiler::new();
            desk.apply([put(Kind::Consumer, "a", a), rest()].into_iter().chain(users_of(&users)));
            desk.apply([change]);
            assert_eq!(outcome(&desk), expected, "{kind} with {way}");
            assert!(
                desk.compiler.problems().count() > 0 || way.contains("variable"),
                "{kind}: {way}"
            );
            desk.apply([delete(kind, "x")]);
            let after = outcome(&desk);
            assert!(!after.contains("refuse") && after != "nobody", "{kind} with {way}: {after}");
        }
    }
}

fn users_of(users: &[Change]) -> Vec<Change> {
    let copy = |change: &Change| match change {
        Change::Upsert { kind, id, value, path } => {
            Change::Upsert { kind: *kind, id: id.clone(), value: value.clone(), path: path.clone() }
        }
        _ => unreachable!("users are put"),
    };
    users.iter().map(copy).collect()
}

/// What becomes of a request for `/own`, and of somebody who shows the key `k`.
fn outcome(desk: &TestCompiler) -> String {
    if refuses(&desk.snapshot.globals) {
        return "all refuse".to_owned();
    }
    let (id, refuses) = answers(desk, "h", "/own");
    if refuses {
        return format!("{id} refuses");
    }
    if id != "user" {
        let who = desk.snapshot.consumers.credential("basic-auth", b"k");
        let Some(who) = who else { return "nobody".to_owned() };
        let has_x = desk.compiler.problems().any(|((kind, _), _)| *kind == Kind::Consumer);
        return if has_x { who.consumer.username.to_string() } else { id };
    }
    let route = desk.route("user");
    let terms = route.terms();
    let is_missing = matches!(terms.service, Reference::Missing)
        || matches!(terms.plugin_config, Reference::Missing);
    match is_missing {
        true => "missing".to_owned(),
        false => desk.goes_to("user").map_or_else(str::to_owned, |port| port.to_string()),
    }
}

#[test]
fn who_cannot_be_read_authenticates_nobody_and_leaves_the_name_to_nobody_else() {
    let login = |name: &str, password: &str| json!({"username": name, "password": password});
    let found = |desk: &TestCompiler| {
        let found = desk.snapshot.consumers.credential("basic-auth", b"k")?;
        Some(found.consumer.username.to_string())
    };
    let jill = || {
        let plugins = json!({"basic-auth": login("k", "jill's")});
        put(Kind::Consumer, "jill", json!({"username": "jill", "plugins": plugins}))
    };
    let of_jack = |plugins: Value| json!({"username": "jack", "plugins": plugins});
    let credential =
        |plugins: Value| put(Kind::Credential, "jack/credentials/c", json!({"plugins": plugins}));
    let bad = json!({"basic-auth": login("k", &sealed())});
    let good = || json!({"basic-auth": login("k", "jack's")});
    let mut also_bad = good();
    also_bad["w"] = json!({"bad": true});
    let bare = || put(Kind::Consumer, "jack", json!({"username": "jack"}));
    let table = [
        vec![put(Kind::Consumer, "jack", of_jack(bad.clone()))],
        vec![put(Kind::Consumer, "jack", of_jack(also_bad))],
        vec![put(Kind::Consumer, "jack", json!({"username": "jack", "x": 1, "plugins": good()}))],
        vec![bare(), credential(bad)],
        // His credential is good, and he is not.
        vec![credential(good()), put(Kind::Consumer, "jack", json!({"username": "jack", "x": 1}))],
    ];
    for changes in table {
        let told = format!("{changes:?}");
        let mut desk = TestCompiler::new();
        desk.apply([jill()]);
        assert_eq!(found(&desk).as_deref(), Some("jill"));
        desk.apply(changes);
        assert_eq!(found(&desk), None, "{told}");
        desk.apply([
            delete(Kind::Credential, "jack/credentials/c"),
            delete(Kind::Consumer, "jack"),
        ]);
        assert_eq!(found(&desk).as_deref(), Some("jill"), "gone: {told}");
        // What was good goes on.
        desk.apply([put(Kind::Consumer, "jack", of_jack(good()))]);
        desk.apply([put(Kind::Consumer, "jack", json!({"username": "jack", "x": 1}))]);
        assert_eq!(found(&desk).as_deref(), Some("jack"), "{told}");
    }
}

fn has_errors(desk: &TestCompiler) -> bool {
    desk.compiler.problems().any(|((_, id), of)| id.as_str() == "x" && of.has_errors())
}

#[test]
fn what_others_name_and_cannot_be_read_is_not_there_for_them() {
    for (kind, good) in [
        (Kind::ConsumerGroup, json!({"plugins": {"key-auth": {}}})),
        (Kind::Proto, json!({"content": "syntax = \"proto3\";"})),
        (Kind::PluginMetadata, json!({"log_format": {}})),
        (Kind::Ssl, json!({"sni": "h", "client": {"ca": "ca"}})),
        (Kind::Ssl, json!({"sni": "h"})),
    ] {
        for (way, change) in ways(kind, &good) {
            let mut desk = TestCompiler::new();
            desk.apply([change]);
            // An unknown field of some kinds is passed over, as in APISIX.
            if way == "an unknown field" && !has_errors(&desk) {
                continue;
            }
            // Consumers of a group that is not there are refused.
            assert!(desk.snapshot.consumers.group("x").is_none(), "{kind} with {way}");
            let keeps = good.get("client").is_some() || way == "a sealed value";
            let keeps = keeps && kind == Kind::Ssl && way != "no JSON";
            assert_eq!(desk.snapshot.certificates.refuses("h"), keeps, "{kind} {good} with {way}");
            desk.apply([delete(kind, "x")]);
            assert!(!desk.snapshot.certificates.refuses("h"), "{kind} with {way}");
        }
    }
}
