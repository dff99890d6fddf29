//! Batches of changes to a compiler, and what the snapshot then says.

use std::borrow::Cow;
use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use serde_json::json;
use tokio::runtime::{Builder, Runtime};
use tollhouse_model::upstream::{KeepalivePool, Node};
use tollhouse_model::variable::{Lookup, Variable};
use tollhouse_net::resolve::ResolverSettings;
use tollhouse_plugin::{Category, ConfError, ConsumerIndex, Phases, Plugin, PluginType, Scope};
use tollhouse_plugins::basic_auth::BasicAuth;
use tollhouse_plugins::grpc_transcode::GrpcTranscode;
use tollhouse_plugins::key_auth::KeyAuth;
use tollhouse_router::{Captures, MatchRequest};

use super::*;
use crate::snapshot::UpstreamEntry;
use crate::testing::{NoNames, settings};

mod claims;
mod driven;
mod plugins;
mod protos;
mod secrets;
mod twins;
mod unavailable;

/// Plugins that do nothing but stand in a chain; their priorities follow their names.
macro_rules! idle_plugins {
    ($($plugin:ident = $name:literal, $priority:literal;)*) => {
        $(struct $plugin;

        impl Plugin for $plugin {
            const NAME: &'static str = $name;
            const PRIORITY: i32 = $priority;
            const CATEGORY: Category = Category::Utility;
            const PHASES: Phases = Phases::ACCESS;
            type Config = IdleConfig;

            fn compile(config: IdleConfig, _scope: &Scope<'_>) -> Result<Self, ConfError> {
                if config.bad { Err("it is bad".into()) } else { Ok($plugin) }
            }
        })*

        fn test_catalogue() -> Catalogue {
            Catalogue::new([
                $(PluginType::new::<$plugin>(),)*
                PluginType::new::<KeyAuth>(),
                PluginType::new::<BasicAuth>(),
                PluginType::new::<GrpcTranscode>(),
            ])
        }
    };
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct IdleConfig {
    #[serde(default)]
    bad: bool,
}

idle_plugins! {
    W = "w", 40;
    X = "x", 30;
    Y = "y", 20;
    Z = "z", 10;
}

/// A request without any variable.
struct NoVariables;

impl Lookup for NoVariables {
    fn variable(&self, _variable: &Variable) -> Option<Cow<'_, [u8]>> {
        None
    }
}

/// A compiler, the last snapshot it made, and the runtime its resolver needs.
pub(super) struct TestCompiler {
    pub(super) compiler: Compiler,
    snapshot: Arc<Snapshot>,
    _runtime: Runtime,
}

impl TestCompiler {
    pub(super) fn new() -> Self {
        Self::with(&settings())
    }

    fn with(settings: &Settings) -> Self {
        let runtime = Builder::new_current_thread().build().expect("a runtime");
        let resolver = Resolver::with_source(
            Arc::new(NoNames),
            ResolverSettings::default(),
            runtime.handle().clone(),
        );
        let mut compiler = Compiler::new(
            settings,
            resolver,
            Arc::new(test_catalogue()),
            Arc::new(Services::new("APISIX")),
        );
        let snapshot = compiler.apply([]);
        Self { compiler, snapshot, _runtime: runtime }
    }

    pub(super) fn apply(&mut self, changes: impl IntoIterator<Item = Change>) -> Arc<Snapshot> {
        self.snapshot = self.compiler.apply(changes);
        Arc::clone(&self.snapshot)
    }

    fn route(&self, id: &str) -> Arc<RouteEntry> {
        Arc::clone(self.snapshot.router.get(&Id::new(id)).expect("the route is in the matcher"))
    }

    fn has_route(&self, id: &str) -> bool {
        self.snapshot.router.get(&Id::new(id)).is_some()
    }

    /// The id of the route that a GET takes.
    fn taken(&self, host: &str, path: &str) -> Option<String> {
        taken(&self.snapshot, host, path)
    }

    /// Where requests of a route go: the port of its only node, or why they go nowhere.
    fn goes_to(&self, id: &str) -> Result<u16, &'static str> {
        goes_to(&self.snapshot, &self.route(id))
    }

    /// Quarantined and partly effective objects, as `routes/1: 2`.
    fn problems(&self) -> Vec<String> {
        let line = |((kind, id), problems): (&(Kind, Id), &Problems)| {
            format!("{kind:?} {id}: {}", problems.len())
        };
        self.compiler.problems().map(line).collect()
    }
}

fn node_at(port: u16) -> Node {
    Node { host: "127.0.0.1".to_owned(), port, socket: None, weight: 1, priority: 0 }
}

fn taken(snapshot: &Snapshot, host: &str, path: &str) -> Option<String> {
    let request = MatchRequest {
        path: path.as_bytes(),
        host: host.as_bytes(),
        host_with_port: host.as_bytes(),
        method: b"GET",
        remote_addr: IpAddr::V4(Ipv4Addr::LOCALHOST),
        variables: &NoVariables,
    };
    let found = snapshot.router.find(&request, &mut Captures::default())?;
    Some(found.value.route.id.as_str().to_owned())
}

fn upstream_of<'a>(
    snapshot: &'a Snapshot,
    route: &'a RouteEntry,
) -> Result<&'a Arc<UpstreamEntry>, &'static str> {
    match &route.target {
        Target::None => Err("nowhere"),
        Target::Inline(upstream) => Ok(upstream),
        Target::Slot(slot) => {
            snapshot.upstreams.get(*slot).expect("slots exist").as_ref().ok_or("empty slot")
        }
    }
}

fn goes_to(snapshot: &Snapshot, route: &RouteEntry) -> Result<u16, &'static str> {
    upstream_of(snapshot, route).map(|upstream| upstream.conf.nodes[0].port)
}

fn put(kind: Kind, id: &str, value: Value) -> Change {
    Change::Upsert { kind, id: Id::new(id), value: Ok(value), path: format!("{kind:?}/{id}") }
}

fn delete(kind: Kind, id: &str) -> Change {
    Change::Delete { kind, id: Id::new(id) }
}

fn move_route(id: &str) -> Change {
    Change::Move { kind: Kind::Route, id: Id::new(id) }
}

/// An upstream whose only node is at `port`.
fn nodes(port: u16) -> Value {
    let node = format!("127.0.0.1:{port}");
    json!({"type": "roundrobin", "nodes": {node: 1}})
}

/// A route on `uri` with an inline upstream at `port`.
fn inline_route(id: &str, uri: &str, port: u16) -> Change {
    put(Kind::Route, id, json!({"uri": uri, "upstream": nodes(port)}))
}

#[test]
fn an_empty_configuration_serves_nothing_and_counts_revisions() {
    let mut desk = TestCompiler::new();
    assert_eq!((desk.snapshot.revision, desk.snapshot.router.len()), (1, 0));
    assert_eq!(desk.apply([]).revision, 2);
    assert_eq!(desk.taken("h", "/"), None);
    assert_eq!(desk.problems(), [""; 0]);
}

#[test]
fn a_bad_object_is_quarantined_while_its_last_good_version_serves() {
    let mut desk = TestCompiler::new();
    desk.apply([inline_route("r", "/r", 1), put(Kind::Upstream, "u", nodes(2))]);
    let by_id = json!({"uri": "/by-id", "upstream_id": "u"});
    desk.apply([put(Kind::Route, "by-id", by_id), inline_route("other", "/o", 3)]);

    desk.apply([
        put(Kind::Route, "r", json!({"uri": 7, "nonsense": true})),
        put(Kind::Upstream, "u", json!({"type": "roundrobin", "nodes": "x"})),
        put(Kind::Service, "never-good", json!({"upstream": 1})),
        inline_route("other", "/o", 4),
    ]);
    assert_eq!(desk.goes_to("r"), Ok(1));
    assert_eq!(desk.taken("h", "/r"), Some("r".into()));
    assert_eq!(desk.goes_to("by-id"), Ok(2));
    assert_eq!(desk.goes_to("other"), Ok(4), "others go on changing");
    let problems = desk.problems();
    let named: Vec<&str> = problems.iter().map(|p| p.split(':').next().unwrap()).collect();
    assert_eq!(named, ["Route r", "Service never-good", "Upstream u"]);
}

#[test]
fn content_that_cannot_be_read_is_a_problem_of_its_object() {
    let mut desk = TestCompiler::new();
    desk.apply([inline_route("r", "/r", 1)]);
    let value = Err(Problem::error("routes[0]", "cannot be read"));
    let path = "routes[0]".to_owned();
    desk.apply([Change::Upsert { kind: Kind::Route, id: Id::new("r"), value, path }]);
    assert_eq!(desk.problems(), ["Route r: 1"]);
    assert_eq!(desk.goes_to("r"), Ok(1));
}

#[test]
fn problems_are_cleared_by_a_good_version_and_by_deletion() {
    let mut desk = TestCompiler::new();
    let bad = || json!({"uri": ""});
    desk.apply([put(Kind::Route, "mended", bad()), put(Kind::Route, "deleted", bad())]);
    assert_eq!(desk.problems().len(), 2);
    assert!(!desk.has_route("mended"), "what was never good does not serve");
    desk.apply([inline_route("mended", "/", 1), delete(Kind::Route, "deleted")]);
    assert_eq!(desk.problems(), [""; 0]);
    assert!(desk.has_route("mended"));
}

#[test]
fn a_problem_names_the_place_it_was_found_at() {
    let mut desk = TestCompiler::new();
    desk.apply([put(Kind::Route, "r", json!({"uri": 7, "upstream": nodes(1)}))]);
    let (_, problems) = desk.compiler.problems().next().expect("a problem");
    let first = problems.iter().next().expect("a problem");
    assert!(first.path.starts_with("Route/r"), "{first}");
}

#[test]
fn ids_beat_inline_upstreams_and_the_route_beats_its_service() {
    let upstream = |value: Option<Value>| value.unwrap_or(Value::Null);
    let object = |fields: Vec<(&str, Value)>| {
        Value::Object(
            fields
                .into_iter()
                .filter(|(_, value)| !value.is_null())
                .map(|(name, value)| (name.to_owned(), value))
                .collect(),
        )
    };
    let (route_id, route_inline, service_id, service_inline) = (1, 2, 3, 4);
    // Which of the four are given, by bit, and which wins.
    for given in 0..16_u16 {
        let has = |bit: u16| given & (1 << bit) != 0;
        let route = object(vec![
            ("uri", json!("/")),
            ("service_id", json!("s")),
            ("upstream_id", upstream(has(0).then(|| json!("of-route")))),
            ("upstream", upstream(has(1).then(|| nodes(route_inline)))),
        ]);
        let service = object(vec![
            ("name", json!("s")),
            ("upstream_id", upstream(has(2).then(|| json!("of-service")))),
            ("upstream", upstream(has(3).then(|| nodes(service_inline)))),
        ]);
        let mut desk = TestCompiler::new();
        desk.apply([
            put(Kind::Route, "r", route),
            put(Kind::Service, "s", service),
            put(Kind::Upstream, "of-route", nodes(route_id)),
            put(Kind::Upstream, "of-service", nodes(service_id)),
        ]);
        let winner = (0..4).find(|&bit| has(bit)).map(|bit| bit + 1).ok_or("nowhere");
        assert_eq!(desk.goes_to("r"), winner, "{given:04b} {:?}", desk.problems());
    }
}

#[test]
fn objects_may_come_in_any_order() {
    let route = || put(Kind::Route, "r", json!({"uri": "/", "service_id": "s"}));
    let service = || put(Kind::Service, "s", json!({"upstream_id": "u"}));
    let upstream = || put(Kind::Upstream, "u", nodes(5));
    for order in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
        let change = |which| match which {
            0 => route(),
            1 => service(),
            _ => upstream(),
        };
        let mut together = TestCompiler::new();
        together.apply(order.map(change));
        let mut apart = TestCompiler::new();
        for which in order {
            apart.apply([change(which)]);
        }
        assert_eq!((together.goes_to("r"), apart.goes_to("r")), (Ok(5), Ok(5)), "{order:?}");
    }
}

#[test]
fn what_is_named_but_missing_is_told_apart_from_what_is_not_named() {
    let mut desk = TestCompiler::new();
    desk.apply([
        put(Kind::Route, "service", json!({"uri": "/s", "service_id": "gone"})),
        put(Kind::Route, "upstream", json!({"uri": "/u", "upstream_id": "gone"})),
        put(
            Kind::Route,
            "config",
            json!({"uri": "/c", "plugin_config_id": "gone", "upstream": nodes(1)}),
        ),
        inline_route("none", "/n", 2),
    ]);
    assert_eq!(desk.route("service").terms().service, Reference::Missing);
    assert_eq!(desk.goes_to("service"), Err("nowhere"));
    assert_eq!(desk.goes_to("upstream"), Err("empty slot"));
    assert_eq!(desk.route("config").terms().plugin_config, Reference::Missing);
    let none = desk.route("none");
    assert_eq!(
        (&none.terms().service, &none.terms().plugin_config),
        (&Reference::Unnamed, &Reference::Unnamed)
    );

    // The missing appear.
    desk.apply([
        put(Kind::Service, "gone", json!({"upstream": nodes(3)})),
        put(Kind::Upstream, "gone", nodes(4)),
        put(Kind::PluginConfig, "gone", json!({"plugins": {}})),
    ]);
    assert_eq!((desk.goes_to("service"), desk.goes_to("upstream")), (Ok(3), Ok(4)));
    assert_eq!(desk.route("config").terms().plugin_config, Reference::Found(()));

    // And go again.
    desk.apply([
        delete(Kind::Service, "gone"),
        delete(Kind::Upstream, "gone"),
        delete(Kind::PluginConfig, "gone"),
    ]);
    assert_eq!(desk.route("service").terms().service, Reference::Missing);
    assert_eq!(desk.goes_to("upstream"), Err("empty slot"));
    assert_eq!(desk.route("config").terms().plugin_config, Reference::Missing);
}

#[test]
fn a_deleted_route_is_taken_no_more_and_can_come_back() {
    let mut desk = TestCompiler::new();
    desk.apply([inline_route("a", "/x", 1), inline_route("b", "/*", 2)]);
    assert_eq!(desk.taken("h", "/x"), Some("a".into()));
    desk.apply([delete(Kind::Route, "a"), delete(Kind::Route, "never-was")]);
    assert_eq!(desk.taken("h", "/x"), Some("b".into()));
    desk.apply([inline_route("a", "/x", 3)]);
    assert_eq!((desk.taken("h", "/x"), desk.goes_to("a")), (Some("a".into()), Ok(3)));
}

#[test]
fn in_one_batch_the_last_word_counts() {
    let mut desk = TestCompiler::new();
    desk.apply([inline_route("a", "/a", 1), delete(Kind::Route, "a")]);
    assert!(!desk.has_route("a"));
    desk.apply([inline_route("a", "/a", 1), delete(Kind::Route, "a"), inline_route("a", "/a", 2)]);
    assert_eq!(desk.goes_to("a"), Ok(2));
}

#[test]
fn a_service_lends_its_hosts_to_routes_without_any() {
    let mut desk = TestCompiler::new();
    let of_service = |hosts: Value| json!({"upstream": nodes(1), "hosts": hosts});
    desk.apply([
        put(Kind::Service, "s", of_service(json!(["s.example"]))),
        put(Kind::Route, "lent", json!({"uri": "/lent", "service_id": "s"})),
        put(Kind::Route, "own", json!({"uri": "/own", "service_id": "s", "host": "own.example"})),
    ]);
    assert_eq!(desk.taken("s.example", "/lent"), Some("lent".into()));
    assert_eq!(desk.taken("own.example", "/lent"), None);
    assert_eq!(desk.taken("own.example", "/own"), Some("own".into()));
    assert_eq!(desk.taken("s.example", "/own"), None);

    desk.apply([put(Kind::Service, "s", of_service(json!(["new.example"])))]);
    assert_eq!(desk.taken("s.example", "/lent"), None);
    assert_eq!(desk.taken("new.example", "/lent"), Some("lent".into()));
    assert_eq!(desk.taken("own.example", "/own"), Some("own".into()));
}

#[test]
fn editing_an_upstream_leaves_the_routes_that_name_it_as_they_are() {
    let mut desk = TestCompiler::new();
    desk.apply([
        put(Kind::Upstream, "u", nodes(1)),
        put(Kind::Service, "s", json!({"upstream_id": "u"})),
        put(Kind::Route, "direct", json!({"uri": "/d", "upstream_id": "u"})),
        put(Kind::Route, "via-service", json!({"uri": "/v", "service_id": "s"})),
    ]);
    let before = [desk.route("direct"), desk.route("via-service")];
    desk.apply([put(Kind::Upstream, "u", nodes(2))]);
    let after = [desk.route("direct"), desk.route("via-service")];
    for (before, after) in before.iter().zip(&after) {
        assert!(Arc::ptr_eq(before, after), "{}", before.route.id);
    }
    assert_eq!((desk.goes_to("direct"), desk.goes_to("via-service")), (Ok(2), Ok(2)));
}

#[test]
fn editing_a_shared_object_compiles_only_the_routes_that_name_it() {
    let mut desk = TestCompiler::new();
    desk.apply([
        put(Kind::Service, "s", json!({"upstream": nodes(1)})),
        put(Kind::Service, "t", json!({"upstream": nodes(2)})),
        put(Kind::PluginConfig, "c", json!({"plugins": {}})),
        put(Kind::Route, "s1", json!({"uri": "/s1", "service_id": "s"})),
        put(Kind::Route, "s2", json!({"uri": "/s2", "service_id": "s", "plugin_config_id": "c"})),
        put(Kind::Route, "t", json!({"uri": "/t", "service_id": "t"})),
        inline_route("none", "/n", 3),
    ]);
    let ids = ["s1", "s2", "t", "none"];
    for (change, compiled) in [
        (put(Kind::Service, "s", json!({"upstream": nodes(9)})), &["s1", "s2"][..]),
        (put(Kind::PluginConfig, "c", json!({"plugins": {}, "desc": "x"})), &["s2"]),
        (put(Kind::GlobalRule, "g", json!({"plugins": {}})), &[]),
        (delete(Kind::Service, "t"), &["t"]),
        (move_route("none"), &["none"]),
    ] {
        let before = ids.map(|id| desk.route(id));
        let text = format!("{change:?}");
        desk.apply([change]);
        let changed: Vec<&str> = ids
            .into_iter()
            .zip(&before)
            .filter(|(id, before)| !Arc::ptr_eq(&desk.route(id), before))
            .map(|(id, _)| id)
            .collect();
        assert_eq!(changed, compiled, "{text}");
    }
    assert_eq!((desk.goes_to("s1"), desk.goes_to("s2")), (Ok(9), Ok(9)));
}

#[test]
fn a_route_that_names_another_service_depends_on_the_old_one_no_more() {
    let mut desk = TestCompiler::new();
    desk.apply([
        put(Kind::Service, "s", json!({"upstream": nodes(1)})),
        put(Kind::Service, "t", json!({"upstream": nodes(2)})),
        put(Kind::Route, "r", json!({"uri": "/", "service_id": "s"})),
    ]);
    desk.apply([put(Kind::Route, "r", json!({"uri": "/", "service_id": "t"}))]);
    let before = desk.route("r");
    desk.apply([put(Kind::Service, "s", json!({"upstream": nodes(3)}))]);
    assert!(Arc::ptr_eq(&before, &desk.route("r")));
    desk.apply([put(Kind::Service, "t", json!({"upstream": nodes(4)}))]);
    assert_eq!(desk.goes_to("r"), Ok(4));
}

#[test]
fn an_unchanged_upstream_keeps_its_entry_and_a_changed_one_its_place() {
    let mut desk = TestCompiler::new();
    desk.apply([inline_route("r", "/", 1), put(Kind::Upstream, "u", nodes(2))]);
    let first = desk.route("r");
    let entry = |route: &RouteEntry, snapshot: &Snapshot| {
        Arc::clone(upstream_of(snapshot, route).expect("an upstream"))
    };
    let before = entry(&first, &desk.snapshot);
    desk.apply([put(Kind::Route, "r", json!({"uri": "/new", "upstream": nodes(1)}))]);
    assert!(Arc::ptr_eq(&before, &entry(&desk.route("r"), &desk.snapshot)));

    let mut named = nodes(1);
    named["name"] = json!("another name");
    desk.apply([put(Kind::Route, "r", json!({"uri": "/new", "upstream": named}))]);
    let after = entry(&desk.route("r"), &desk.snapshot);
    assert!(!Arc::ptr_eq(&before, &after));
    assert_eq!(before.terms.pool, after.terms.pool, "its idle connections stay of use");
}

#[test]
fn connections_are_shared_unless_something_sets_them_apart() {
    let mut desk = TestCompiler::new();
    let mut isolated = nodes(1);
    isolated["keepalive_pool"] = json!({"size": 4, "idle_timeout": 7, "requests": 9});
    desk.apply([
        inline_route("a", "/a", 1),
        inline_route("b", "/b", 2),
        put(Kind::Route, "apart", json!({"uri": "/c", "upstream": isolated})),
    ]);
    let entry = |id: &str| {
        let route = desk.route(id);
        let Target::Inline(upstream) = &route.target else { panic!("inline") };
        Arc::clone(upstream)
    };
    assert_eq!(entry("a").terms.pool, entry("b").terms.pool);
    assert_ne!(entry("a").terms.pool, entry("apart").terms.pool);
    assert_eq!(entry("a").terms.keepalive, settings().upstream_keepalive);
    let own = KeepalivePool { size: 4, idle_timeout: Duration::from_secs(7), requests: 9 };
    assert_eq!(entry("apart").terms.keepalive, own);
}

#[test]
fn a_disabled_route_is_not_matched_but_kept() {
    let mut desk = TestCompiler::new();
    let with_status = |status: u8| json!({"uri": "/", "upstream": nodes(1), "status": status});
    desk.apply([put(Kind::Route, "r", with_status(0))]);
    assert_eq!((desk.taken("h", "/"), desk.problems()), (None, Vec::new()));
    desk.apply([put(Kind::Route, "r", with_status(1))]);
    assert_eq!(desk.taken("h", "/"), Some("r".into()));
    desk.apply([put(Kind::Route, "r", with_status(0))]);
    assert_eq!(desk.taken("h", "/"), None);
}

#[test]
fn upgrades_pass_by_the_routes_word_or_else_its_services() {
    for (route, service, expected) in [
        (None, None, false),
        (None, Some(true), true),
        (None, Some(false), false),
        (Some(true), None, true),
        (Some(true), Some(false), true),
        (Some(false), Some(true), false),
    ] {
        let with = |mut value: Value, setting: Option<bool>| {
            if let Some(setting) = setting {
                value["enable_websocket"] = json!(setting);
            }
            value
        };
        let mut desk = TestCompiler::new();
        desk.apply([
            put(Kind::Route, "r", with(json!({"uri": "/", "service_id": "s"}), route)),
            put(Kind::Service, "s", with(json!({"upstream": nodes(1)}), service)),
        ]);
        assert_eq!(desk.route("r").websocket, expected, "{route:?} {service:?}");
    }
}

#[test]
fn what_asks_for_bodies_is_known_while_it_stands_somewhere() {
    let mut desk = TestCompiler::new();
    let reader = || {
        let vars = json!([["post_arg_n", "==", "1"]]);
        json!({"uri": "/", "upstream": nodes(1), "vars": vars})
    };
    let mut reads = |changes: Vec<Change>| !desk.apply(changes).body_variables.is_empty();
    assert!(!reads(vec![inline_route("plain", "/p", 1)]));
    assert!(reads(vec![put(Kind::Route, "a", reader()), put(Kind::Route, "b", reader())]));
    assert!(reads(vec![delete(Kind::Route, "a")]));
    assert!(!reads(vec![inline_route("b", "/", 1)]));
    assert!(reads(vec![put(Kind::Route, "b", reader())]));
}

#[test]
fn a_snapshot_once_taken_never_changes() {
    let mut desk = TestCompiler::new();
    let old = desk.apply([
        put(Kind::Upstream, "u", nodes(1)),
        put(Kind::Route, "by-id", json!({"uri": "/by-id", "upstream_id": "u"})),
        inline_route("gone", "/gone", 2),
        inline_route("edited", "/edited", 3),
    ]);
    let new = desk.apply([
        put(Kind::Upstream, "u", nodes(11)),
        delete(Kind::Route, "gone"),
        inline_route("edited", "/moved", 13),
        inline_route("added", "/added", 14),
    ]);
    let view = |snapshot: &Snapshot| {
        let paths = ["/by-id", "/gone", "/edited", "/moved", "/added"];
        paths.map(|path| {
            let id = taken(snapshot, "h", path)?;
            let route = snapshot.router.get(&Id::new(id)).expect("a route");
            goes_to(snapshot, route).ok()
        })
    };
    assert_eq!(view(&old), [Some(1), Some(2), Some(3), None, None]);
    assert_eq!(view(&new), [Some(11), None, None, Some(13), Some(14)]);
    assert_eq!(old.revision + 1, new.revision);
}

#[test]
fn moves_bring_routes_into_the_order_of_the_document() {
    let mut desk = TestCompiler::new();
    let same = |id: &str| inline_route(id, "/same", 1);
    desk.apply([same("a"), same("b"), same("c")]);
    assert_eq!(desk.taken("h", "/same"), Some("a".into()));
    desk.apply([same("a")]);
    assert_eq!(desk.taken("h", "/same"), Some("a".into()), "an edit keeps the place");
    // The document now reads b, c, a.
    desk.apply([move_route("a")]);
    assert_eq!(desk.taken("h", "/same"), Some("b".into()));
    // A new route at the front: everything behind it moves.
    desk.apply([same("first"), move_route("b"), move_route("c"), move_route("a")]);
    assert_eq!(desk.taken("h", "/same"), Some("first".into()));
    desk.apply([delete(Kind::Route, "first")]);
    assert_eq!(desk.taken("h", "/same"), Some("b".into()));
    desk.apply([delete(Kind::Route, "b")]);
    assert_eq!(desk.taken("h", "/same"), Some("c".into()));
}

#[test]
fn a_route_that_moves_and_turns_bad_still_serves() {
    let mut desk = TestCompiler::new();
    desk.apply([inline_route("a", "/", 1)]);
    desk.apply([move_route("a"), put(Kind::Route, "a", json!({"uri": 1}))]);
    assert_eq!((desk.taken("h", "/"), desk.problems().len()), (Some("a".into()), 1));
    desk.apply([move_route("never-was")]);
    assert!(!desk.has_route("never-was"));
}

#[test]
fn editing_a_service_keeps_the_order_of_its_routes() {
    let mut desk = TestCompiler::new();
    let service = |host: &str| json!({"upstream": nodes(1), "hosts": [host]});
    let ids = ["f", "a", "e", "b", "d", "c"];
    desk.apply([put(Kind::Service, "s", service("one.example"))]);
    desk.apply(ids.map(|id| put(Kind::Route, id, json!({"uri": "/", "service_id": "s"}))));
    desk.apply([put(Kind::Service, "s", service("two.example"))]);
    for id in ids {
        assert_eq!(desk.taken("two.example", "/"), Some(id.into()));
        desk.apply([delete(Kind::Route, id)]);
    }
}
