//! The configuration changes while the gateway serves: whole revisions, nothing lost, bad objects
//! kept out.

use serde_json::{Value, json};
use tollhouse_testkit::load::Reuse;
use tollhouse_testkit::origin::answer;
use tollhouse_testkit::{Gateway, Load, Origin};

use crate::support::{everything_to, gateway, routes, upstream};

/// Reloads under load; each takes a few milliseconds.
const RELOADS: u64 = 1_000;

/// What a gateway may hold in addition after all of them: snapshots not yet given up, and the
/// allocator's slack.
const MEMORY_BYTES_MAX: u64 = 16 << 20;

fn yaml_to(origin: &Origin, end: &str) -> String {
    format!("{}\n{end}\n", everything_to(origin.address()))
}

#[test]
fn an_edited_file_serves_without_being_asked() {
    let origins = [Origin::named("old"), Origin::named("new")];
    let gateway = gateway().yaml(&yaml_to(&origins[0], "#END")).start();
    let mut client = gateway.client();
    assert_eq!(client.get("/").text(), "old");
    gateway.write_resources(&yaml_to(&origins[1], "#END"));
    gateway.wait_configuration("the new file", |now| now["revision"] == json!(2));
    assert_eq!(client.get("/").text(), "new");
}

#[test]
fn a_file_may_be_edited_in_place() {
    let origins = [Origin::named("old"), Origin::named("new")];
    let gateway = gateway().yaml(&yaml_to(&origins[0], "#END")).start();
    std::fs::write(gateway.resources(), yaml_to(&origins[1], "#END")).expect("a writable file");
    gateway.wait_configuration("the new file", |now| now["revision"] == json!(2));
    assert_eq!(gateway.client().get("/").text(), "new");
}

#[test]
fn a_file_that_is_still_being_written_changes_nothing() {
    let origins = [Origin::named("old"), Origin::named("new")];
    let gateway = gateway().yaml(&yaml_to(&origins[0], "#END")).start();
    for broken in [yaml_to(&origins[1], ""), yaml_to(&origins[1], "#EN"), "routes: [\n#END".into()]
    {
        gateway.write_resources(&broken);
        gateway.hang_up();
        gateway
            .output()
            .wait_line("a refusal", |line| line.contains("resources not changed").then_some(()));
        assert_eq!(gateway.revision(), 1, "{broken:?}");
        assert_eq!(gateway.client().get("/").text(), "old", "{broken:?}");
    }
    gateway.write_resources(&yaml_to(&origins[1], "#END"));
    gateway.wait_configuration("the whole file", |now| now["revision"] == json!(2));
    assert_eq!(gateway.client().get("/").text(), "new");
}

#[test]
fn a_file_that_says_the_same_is_no_revision() {
    let origin = Origin::named("a");
    let gateway = gateway().resources(&everything_to(origin.address())).start();
    let mut padded = everything_to(origin.address()).to_string();
    padded.push_str("  \n");
    gateway.write_resources(&padded);
    gateway.hang_up();
    let other = Origin::named("b");
    assert_eq!(gateway.reload(&everything_to(other.address())), 2);
}

#[test]
fn a_bad_object_refuses_what_is_its_own_and_the_others_serve() {
    let origin = Origin::named("a");
    let to = |id: &str, uri: &str| json!({ "id": id, "uri": uri, "upstream": upstream([origin.address()]) });
    let bad =
        json!({ "id": "bad", "uri": "/bad", "priority": "high", "upstream": { "nodes": {} } });
    let gateway = gateway().resources(&routes([to("one", "/one"), bad])).start();
    let mut client = gateway.client();
    assert_eq!(client.get("/one").status(), 200);
    assert_eq!(client.get("/bad").status(), 503);
    let problems = gateway.configuration()["problems"].clone();
    assert!(problems.to_string().contains("routes[1]"), "{problems}");
    // A good version heals, and goes on serving when a bad one follows.
    gateway.reload(&routes([to("one", "/one"), to("bad", "/bad")]));
    assert_eq!(gateway.configuration()["problems"], json!([]));
    assert_eq!(client.get("/bad").status(), 200);
    let worse = json!({ "id": "bad", "uri": 17 });
    gateway.reload(&routes([to("one", "/other"), worse]));
    assert_eq!(client.get("/bad").status(), 200, "the last good version");
    assert_eq!(client.get("/one").status(), 404);
    assert_eq!(client.get("/other").status(), 200);
    assert_ne!(gateway.configuration()["problems"], json!([]));
    gateway.reload(&routes([to("one", "/other")]));
    assert_eq!(client.get("/bad").status(), 404, "taken out of the file");
}

#[test]
fn what_is_taken_out_and_put_in_is_followed() {
    let origin = Origin::named("a");
    let gateway = gateway().resources(&json!({})).start();
    let mut client = gateway.client();
    let route = |rest: Value| crate::support::with(json!({ "id": "r", "uri": "/r" }), rest);
    let node = upstream([origin.address()]);
    let by_id = |id: &str| json!([crate::support::with(node.clone(), json!({ "id": id }))]);
    let steps = [
        (json!({ "routes": [route(json!({ "upstream_id": "u" }))] }), 502),
        (json!({ "routes": [route(json!({ "upstream_id": "u" }))], "upstreams": by_id("u") }), 200),
        (json!({ "routes": [route(json!({ "upstream_id": "v" }))], "upstreams": by_id("u") }), 502),
        (json!({ "routes": [route(json!({ "service_id": "s" }))], "upstreams": by_id("u") }), 404),
        (
            json!({
                "routes": [route(json!({ "service_id": "s" }))], "upstreams": by_id("u"),
                "services": [{ "id": "s", "upstream_id": "u" }],
            }),
            200,
        ),
        (json!({ "upstreams": by_id("u") }), 404),
    ];
    for (resources, status) in steps {
        gateway.reload(&resources);
        assert_eq!(client.get("/r").status(), status, "{resources}");
    }
}

/// Two origins, of which each revision names one, with a host that must fit it.
struct Pair {
    even: Origin,
    odd: Origin,
}

impl Pair {
    fn new() -> Self {
        let named = |name: &'static str| {
            Origin::script(move |connection| {
                while let Some(request) = connection.request_unremembered() {
                    let host = request.field("host").unwrap_or_default();
                    connection.send(answer(200, &format!("{name} {host}")));
                }
            })
        };
        Self { even: named("even"), odd: named("odd") }
    }

    /// Resources in which route, upstream and unrelated objects all change with the number.
    fn resources(&self, number: u64) -> Value {
        let (origin, name) =
            if number.is_multiple_of(2) { (&self.even, "even") } else { (&self.odd, "odd") };
        let rewritten = crate::support::with(
            upstream([origin.address()]),
            json!({ "id": "u", "pass_host": "rewrite", "upstream_host": format!("{name}.test") }),
        );
        json!({
            "routes": [
                { "id": "r", "uri": "/*", "upstream_id": "u", "desc": number.to_string() },
                { "id": format!("extra-{number}"), "uri": format!("/extra/{number}"), "upstream_id": "u" },
            ],
            "upstreams": [rewritten],
        })
    }
}

/// Writes a new file, has it read, and waits until it serves.
fn reload_at_once(gateway: &Gateway, resources: &Value, revision: u64) {
    gateway.write_resources(&resources.to_string());
    gateway.hang_up();
    let text = format!("revision={revision} ");
    gateway.output().wait_line(&text, |line| line.contains(&text).then_some(()));
}

#[test]
fn a_thousand_reloads_under_load_lose_nothing() {
    let pair = Pair::new();
    let gateway = gateway().set("log", "info").resources(&pair.resources(0)).start();
    let load = Load::start(gateway.address(), 8, Reuse::KeepAlive, "/work");
    load.wait_answers(1_000);
    let before = gateway.memory_bytes();
    for number in 1..=RELOADS {
        reload_at_once(&gateway, &pair.resources(number), number + 1);
    }
    let grown = gateway.memory_bytes().saturating_sub(before);
    let report = load.stop();
    assert_eq!((report.lost.as_slice(), report.refused), ([].as_slice(), 0));
    let kinds: Vec<_> = report.answers.keys().map(String::as_str).collect();
    assert_eq!(kinds, ["200 even even.test", "200 odd odd.test"], "one revision answers");
    assert!(grown < MEMORY_BYTES_MAX, "memory grew by {grown} bytes");
    assert!(gateway.metric("tollhouse_snapshots_live") <= 3.0, "old snapshots are given up");
}

#[test]
fn a_request_keeps_the_revision_it_began_with() {
    let origins = [Origin::named("old"), Origin::named("new")];
    let slow = Origin::script(|connection| {
        let Some(head) = connection.head() else { return };
        assert_eq!(head.target(), "/slow");
        let _ = connection.wire.take(5);
        connection.send(answer(200, "slow"));
    });
    let to = |address| json!({ "id": "r", "uri": "/*", "upstream": upstream([address]) });
    let gateway = gateway().resources(&routes([to(slow.address())])).start();
    let mut client = gateway.client();
    client.send("POST /slow HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\n");
    slow.wait_requests(1);
    gateway.reload(&routes([to(origins[0].address())]));
    gateway.reload(&routes([to(origins[1].address())]));
    assert_eq!(client.ask("hello").text(), "slow");
    assert_eq!(client.get("/").text(), "new");
}
