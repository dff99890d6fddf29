//! What proxy-cache keeps, for whom and how long, in memory and on the disk.

use tollhouse_plugin::testing::{FakeExchange, Harness, Outcome, Reply, configure};
use tollhouse_plugin::{Carrier, Identity, PluginType, Services};

use bytes::Bytes;

use super::*;
use crate::key_auth::KeyAuth;

mod revalidation;

fn harness(conf: Value) -> Harness {
    let mut conf = conf;
    if conf.get("cache_strategy").is_none() {
        conf["cache_strategy"] = json!("memory");
        conf["cache_zone"] = json!("memory_cache");
    }
    let handler = |services: &Arc<Services>| {
        configure::<ProxyCache>(&conf, services).expect("the conf is good")
    };
    let services = Arc::new(Services::new("APISIX/3.18.0"));
    Harness::with(handler(&services), services)
        .consumer::<KeyAuth>("jack", &json!({"key": "one"}))
        .consumer::<KeyAuth>("rose", &json!({"key": "two"}))
}

/// One exchange: what the client gets, and whether it came from the cache.
fn exchange(harness: &mut Harness, request: &str, head: &str, body: &str) -> Reply {
    exchange_as(harness, request, head, body, None)
}

fn exchange_as(
    harness: &mut Harness,
    request: &str,
    head: &str,
    body: &str,
    consumer: Option<&str>,
) -> Reply {
    let mut request = FakeExchange::parse(request, harness.now_ms);
    let outcome: Outcome = harness.run_as(&mut request, consumer);
    match outcome.answer {
        Some(answer) => answer,
        None => harness.respond(&mut request, head, &[body]),
    }
}

/// The cache's verdicts on a row of requests for one path, `-` where there is none.
fn verdicts(harness: &mut Harness, requests: &[&str], head: &str) -> String {
    let verdict = |request: &&str| {
        let reply = exchange(harness, request, head, "body");
        reply.header(STATUS_HEADER).unwrap_or("-").to_owned()
    };
    requests.iter().map(verdict).collect::<Vec<_>>().join(" ")
}

const GET: &str = "GET /a?x=1 HTTP/1.1\n\n";

#[test]
fn a_body_that_a_plugin_has_written_bypasses_the_cache() {
    let mut harness = harness(json!({}));
    assert_eq!(verdicts(&mut harness, &[GET, GET], "200"), "MISS HIT");
    let mut request = FakeExchange::parse(GET, harness.now_ms);
    request.edits.body = Some(b"query".to_vec());
    assert!(harness.run(&mut request).passes());
    let reply = harness.respond(&mut request, "200", &["body"]);
    assert_eq!(reply.header(STATUS_HEADER), Some("BYPASS"));
}

#[test]
fn a_second_request_gets_what_the_first_brought() {
    let mut harness = harness(json!({}));
    let head = "200\nContent-Type: text/html\nX-A: 1\nX-A: 2\nContent-Length: 5\nConnection: close\nX-RateLimit-Remaining: 7";
    let first = exchange(&mut harness, GET, head, "hello");
    assert_eq!(first.header(STATUS_HEADER), Some("MISS"));
    harness.now_ms += 2_500;
    let second = exchange(&mut harness, GET, "200", "other");
    assert_eq!((second.status, second.body.as_str()), (200, "hello"));
    let lines: Vec<String> =
        second.headers.iter().map(|(name, value)| format!("{name}: {value}")).collect();
    let expected = [
        "Content-Type: text/html",
        "X-A: 1",
        "X-A: 2",
        "Date: Tue, 14 Nov 2023 22:13:20 GMT",
        "Age: 2",
        "Apisix-Cache-Status: HIT",
    ];
    assert_eq!(lines, expected);
    let other = exchange(&mut harness, "GET /a?x=2 HTTP/1.1\n\n", "200", "other");
    assert_eq!(other.header(STATUS_HEADER), Some("MISS"));
}

#[test]
fn a_cached_body_is_sent_from_where_it_lies() {
    let mut harness = harness(json!({}));
    let long = "x".repeat(100_000);
    exchange(&mut harness, GET, "200", &long);
    let clients: Vec<Bytes> = (0..3)
        .map(|_| exchange(&mut harness, GET, "200", "").shared.expect("the zone lends it"))
        .collect();
    assert!(clients.iter().all(|body| body.len() == long.len()));
    assert!(clients.iter().all(|body| body.as_ptr() == clients[0].as_ptr()));
    // The budget counts the body once, and for as long as a client is still being sent it.
    let held = harness.services.memory.held();
    assert!((100_000..110_000).contains(&held), "{held}");
    exchange(&mut harness, "PURGE /a?x=1 HTTP/1.1\n\n", "200", "");
    assert_eq!(harness.services.memory.held(), held);
    drop(clients);
    assert_eq!(harness.services.memory.held(), 0);
}

#[test]
fn answers_live_for_their_time() {
    let mut harness = harness(json!({"cache_ttl": 2}));
    assert_eq!(verdicts(&mut harness, &[GET, GET], "200"), "MISS HIT");
    harness.now_ms += 2_001;
    assert_eq!(verdicts(&mut harness, &[GET, GET], "200"), "EXPIRED HIT");
}

#[test]
fn what_is_kept_depends_on_method_status_and_head() {
    for (conf, request, head, expected) in [
        (json!({}), GET, "500", "MISS MISS"),
        (json!({"cache_http_status": [500]}), GET, "500", "MISS HIT"),
        (json!({}), "POST /a HTTP/1.1\n\n", "200", "MISS MISS"),
        (json!({"cache_method": ["POST"]}), "POST /a HTTP/1.1\n\n", "200", "MISS HIT"),
        (json!({}), "HEAD /a HTTP/1.1\n\n", "200", "MISS HIT"),
        (json!({}), GET, "200\nSet-Cookie: a=b", "MISS MISS"),
        (json!({"cache_set_cookie": true}), GET, "200\nSet-Cookie: a=b", "MISS HIT"),
        (json!({}), GET, "200\nCache-Control: private", "MISS MISS"),
        (json!({}), GET, "200\nCache-Control: max-age=60\nCache-Control: private", "MISS MISS"),
        (json!({}), GET, "200\nCache-Control: max-age=60\nCache-Control: no-store", "MISS MISS"),
        (json!({}), "GET /a HTTP/1.1\nContent-Length: 1\n\nx", "200", "BYPASS BYPASS"),
        (json!({}), "GET /a HTTP/1.1\nTransfer-Encoding: chunked\n\nx", "200", "BYPASS BYPASS"),
        (json!({}), GET, "200\nCache-Control: max-age=0", "MISS MISS"),
        (json!({}), GET, "200\nCache-Control: max-age=1", "MISS HIT"),
        (json!({"cache_control": true}), GET, "200\nCache-Control: max-age=0", "MISS MISS"),
        (json!({"cache_control": true}), GET, "200\nCache-Control: max-age=9", "MISS HIT"),
        (json!({"cache_control": true}), GET, "200", "MISS MISS"),
        (
            json!({"cache_control": true}),
            GET,
            "200\nExpires: Sun, 06 Nov 2094 08:49:37 GMT",
            "MISS HIT",
        ),
        (json!({}), GET, "200\nVary: Accept, *", "MISS MISS"),
        (json!({"max_resp_body_size": 3}), GET, "200", "MISS MISS"),
        (json!({}), GET, "200\nContent-Length: 9", "MISS MISS"),
        (json!({"cache_bypass": ["$arg_x"]}), GET, "200", "BYPASS BYPASS"),
        (json!({"cache_bypass": ["$arg_y"]}), GET, "200", "MISS HIT"),
        (json!({"no_cache": ["$arg_x"]}), GET, "200", "MISS MISS"),
    ] {
        let found = verdicts(&mut harness(conf.clone()), &[request, request], head);
        assert_eq!(found, expected, "{conf} {request} {head}");
    }
}

#[test]
fn a_body_for_head_is_never_missing_from_a_get() {
    let mut harness = harness(json!({}));
    let head = "HEAD /a?x=1 HTTP/1.1\n\n";
    assert_eq!(verdicts(&mut harness, &[head, head, GET, GET], "200"), "MISS HIT MISS HIT");
    assert_eq!(exchange(&mut harness, GET, "200", "").body, "body");
}

#[test]
fn head_is_told_the_length_that_the_node_told() {
    for (request, told, expected) in [
        ("HEAD", "\nContent-Length: 1234", Some("1234")),
        ("HEAD", "", None),
        ("GET", "\nContent-Length: 4", Some("4")),
    ] {
        let (mut harness, _disk) = on_disk(json!({}));
        let ask = |harness: &mut Harness, method: &str| {
            let request = format!("{method} /a HTTP/1.1\n\n");
            exchange(harness, &request, &format!("200{told}"), "body")
        };
        ask(&mut harness, request);
        let hit = ask(&mut harness, "HEAD");
        assert_eq!(hit.header(STATUS_HEADER), Some("HIT"), "{request}{told}");
        let length = hit.header("content-length").map(str::to_owned);
        let length = length.or((!hit.bytes.is_empty()).then(|| hit.bytes.len().to_string()));
        assert_eq!(length.as_deref(), expected, "{request}{told}");
    }
}

#[test]
fn answers_to_credentials_are_kept_only_where_they_may_be_shared() {
    let request = "GET /a HTTP/1.1\nAuthorization: Basic eDp5\n\n";
    for (conf, head, expected) in [
        (json!({}), "200", "MISS MISS"),
        (json!({}), "200\nCache-Control: max-age=60", "MISS MISS"),
        (json!({}), "200\nCache-Control: max-age=60, public", "MISS HIT"),
        (json!({}), "200\nCache-Control: max-age=60\nCache-Control: public", "MISS HIT"),
        (json!({}), "200\nCache-Control: s-maxage=60", "MISS HIT"),
        (json!({}), "200\nCache-Control: must-revalidate", "MISS HIT"),
        (json!({"cache_key": ["$uri", "$http_authorization"]}), "200", "MISS HIT"),
    ] {
        let found = verdicts(&mut harness(conf.clone()), &[request, request], head);
        assert_eq!(found, expected, "{conf} {head}");
    }
    // A consumer explains the credentials that it was found by, and no others.
    for (explains, expected) in [(true, ["MISS", "HIT"]), (false, ["MISS", "MISS"])] {
        let mut harness = harness(json!({}));
        for expected in expected {
            let mut exchange = FakeExchange::parse(request, harness.now_ms);
            if explains {
                exchange.edits.identities.explain(Carrier::Authorization);
            }
            let reply = finish(&mut harness, &mut exchange, "x", Some("jack"));
            assert_eq!(reply.header(STATUS_HEADER), Some(expected));
        }
    }
}

/// Runs a prepared request and returns the answer, from the cache or with `body` from the node.
fn finish(
    harness: &mut Harness,
    request: &mut FakeExchange,
    body: &str,
    consumer: Option<&str>,
) -> Reply {
    match harness.run_as(request, consumer).answer {
        Some(answer) => answer,
        None => harness.respond(request, "200", &[body]),
    }
}

/// Page that a user gets whom a plugin has found by this name and these rights.
fn page_of(harness: &mut Harness, (name, grant): (&str, &str), body: &str) -> String {
    let mut request = FakeExchange::parse(GET, harness.now_ms);
    let (name, grant) = (name.as_bytes(), grant.as_bytes());
    request.edits.identities.note(Identity { by: "openid-connect", name, grant });
    finish(harness, &mut request, body, None).body
}

#[test]
fn users_that_plugins_have_found_see_their_own_unless_the_conf_says_otherwise() {
    for (isolation, expected) in
        [(true, ["alice", "alice's app", "bob"]), (false, ["alice", "alice", "alice"])]
    {
        let mut harness = harness(json!({"consumer_isolation": isolation}));
        let users = [("alice", "all"), ("alice", "read"), ("bob", "all")];
        let bodies = ["alice", "alice's app", "bob"];
        for (user, (body, expected)) in users.into_iter().zip(bodies.into_iter().zip(expected)) {
            assert_eq!(page_of(&mut harness, user, body), expected);
            assert_eq!(page_of(&mut harness, user, "newer"), expected);
        }
        // Who is not known sees none of theirs, where they are kept apart.
        let stranger = exchange(&mut harness, GET, "200", "stranger");
        assert_eq!(stranger.body, if isolation { "stranger" } else { "alice" });
    }
}

#[test]
fn answers_to_cookies_are_kept_only_where_they_may_be_shared() {
    let alice = "GET /a HTTP/1.1\nCookie: sid=alice\n\n";
    let bob = "GET /a HTTP/1.1\nCookie: sid=bob\n\n";
    for (conf, head, expected) in [
        (json!({}), "200", "MISS MISS MISS"),
        (json!({}), "200\nCache-Control: max-age=60, must-revalidate", "MISS MISS MISS"),
        (json!({}), "200\nCache-Control: public", "MISS HIT HIT"),
        (json!({}), "200\nCache-Control: s-maxage=60", "MISS HIT HIT"),
        (json!({}), "200\nVary: Accept, Cookie", "MISS MISS HIT"),
        (json!({"cache_key": ["$uri", "$http_cookie"]}), "200", "MISS MISS HIT"),
        (json!({"cache_key": ["$uri", "$cookie_sid"]}), "200", "MISS MISS HIT"),
        (json!({"consumer_isolation": false}), "200", "MISS HIT HIT"),
    ] {
        let found = verdicts(&mut harness(conf.clone()), &[alice, bob, alice], head);
        assert_eq!(found, expected, "{conf} {head}");
    }
    // What was kept of a request without cookies is for all.
    let found = verdicts(&mut harness(json!({})), &["GET /a HTTP/1.1\n\n", alice], "200");
    assert_eq!(found, "MISS HIT");
}

#[test]
fn nothing_is_kept_of_users_who_have_no_name_or_are_found_too_late() {
    for (isolation, expected) in [(true, "second"), (false, "first")] {
        let mut harness = harness(json!({"consumer_isolation": isolation}));
        for body in ["first", "second"] {
            let mut request = FakeExchange::parse(GET, harness.now_ms);
            request.edits.identities.note_nameless();
            let reply = finish(&mut harness, &mut request, body, None);
            assert_eq!(reply.body, if body == "first" { body } else { expected });
        }
    }
    let mut harness = harness(json!({}));
    let mut request = FakeExchange::parse(GET, harness.now_ms);
    assert!(harness.run(&mut request).passes());
    request.edits.identities.note(Identity { by: "late", name: b"alice", grant: b"" });
    harness.respond(&mut request, "200", &["alice"]);
    assert_eq!(exchange(&mut harness, GET, "200", "anybody").body, "anybody");
}

#[test]
fn hosts_with_other_ports_are_other_hosts() {
    let mut harness = harness(json!({}));
    let to = |host: &str| format!("GET /a HTTP/1.1\nHost: {host}\n\n");
    let (plain, port, address) = (to("a.com"), to("a.com:1337"), to("[::1]"));
    let requests = [&plain, &port, &plain, &port, &address, &address].map(String::as_str);
    assert_eq!(verdicts(&mut harness, &requests, "200"), "MISS MISS HIT HIT MISS HIT");
}

#[test]
fn every_line_of_a_header_that_answers_vary_by_counts() {
    let mut harness = harness(json!({}));
    let one = "GET /a HTTP/1.1\nAccept: a\nAccept: b\n\n";
    let other = "GET /a HTTP/1.1\nAccept: a\nAccept: c\n\n";
    let found = verdicts(&mut harness, &[one, other, one, other], "200\nVary: Accept");
    assert_eq!(found, "MISS MISS HIT HIT");
}

#[test]
fn a_second_line_of_cache_control_of_a_client_counts_too() {
    let mut harness = harness(json!({"cache_control": true}));
    let head = "200\nCache-Control: max-age=60";
    let request = "GET /a?x=1 HTTP/1.1\nCache-Control: max-age=60\nCache-Control: no-cache\n\n";
    assert_eq!(verdicts(&mut harness, &[GET, GET, request], head), "MISS HIT BYPASS");
}

#[test]
fn what_finds_no_memory_is_passed_on_and_not_kept() {
    let conf = json!({"cache_strategy": "memory", "cache_zone": "memory_cache"});
    let mut services = Services::new("APISIX/3.18.0");
    services.memory = tollhouse_stdx::MemoryBudget::new(1_000);
    let services = Arc::new(services);
    let handler = configure::<ProxyCache>(&conf, &services).expect("the conf is good");
    let mut harness = Harness::with(handler, Arc::clone(&services));
    let long = "x".repeat(2_000);
    for _ in 0..2 {
        let reply = exchange(&mut harness, GET, "200", &long);
        assert_eq!((reply.header(STATUS_HEADER), reply.body.len()), (Some("MISS"), 2_000));
    }
    assert_eq!(services.memory.held(), 0);
    assert_eq!(verdicts(&mut harness, &[GET, GET], "200"), "MISS HIT");
    assert!(services.memory.held() > 0);
    assert_eq!(exchange(&mut harness, "PURGE /a?x=1 HTTP/1.1\n\n", "200", "").status, 200);
    assert_eq!(services.memory.held(), 0);
}

#[test]
fn clients_control_what_they_get_where_the_conf_lets_them() {
    let mut harness = harness(json!({"cache_control": true}));
    let head = "200\nCache-Control: max-age=60";
    let with = |directive: &str| format!("GET /a?x=1 HTTP/1.1\nCache-Control: {directive}\n\n");
    let reply = exchange(&mut harness, &with("only-if-cached"), head, "");
    assert_eq!((reply.status, reply.body.as_str()), (504, ""));
    assert_eq!(verdicts(&mut harness, &[GET], head), "MISS");
    harness.now_ms += 10_000;
    for (directive, expected) in [
        ("no-store", "BYPASS"),
        ("no-cache", "BYPASS"),
        ("only-if-cached", "HIT"),
        ("max-age=10", "HIT"),
        ("min-fresh=50", "HIT"),
        ("min-fresh=51", "STALE"),
    ] {
        assert_eq!(verdicts(&mut harness, &[&with(directive)], head), expected, "{directive}");
    }
    harness.now_ms += 10_000;
    assert_eq!(verdicts(&mut harness, &[&with("max-age=5")], head), "STALE");
}

#[test]
fn a_client_that_wants_something_younger_is_told_that_there_is_only_a_stale_answer() {
    let control = json!({"cache_control": true});
    let on_disk_conf = json!({"cache_strategy": "disk", "cache_control": true});
    for (conf, age_ms, directives, expected) in [
        (&control, 0, "max-age=0", "HIT"),
        (&control, 1, "max-age=0", "STALE"),
        (&control, 5_000, "max-age=5", "HIT"),
        (&control, 5_001, "max-age=5", "STALE"),
        (&control, 5_001, "Max-Age=\"5\"", "STALE"),
        (&control, 5_001, "min-fresh=1, max-age=5", "STALE"),
        (&control, 5_001, "x\nCache-Control: max-age=5", "STALE"),
        // What is no number of seconds says nothing.
        (&control, 5_001, "max-age=-1", "HIT"),
        (&control, 5_001, "max-age", "HIT"),
        // The answer's own time is over first.
        (&control, 60_001, "max-age=90", "EXPIRED"),
        (&control, 60_001, "max-age=5", "EXPIRED"),
        // Clients have no say unless the conf gives it to them.
        (&json!({}), 5_001, "max-age=5", "HIT"),
        (&json!({"cache_strategy": "disk"}), 5_001, "max-age=5", "HIT"),
        (&on_disk_conf, 5_001, "max-age=5", "STALE"),
    ] {
        let (mut harness, _disk) = on_disk(conf.clone());
        let head = "200\nCache-Control: max-age=60";
        assert_eq!(verdicts(&mut harness, &[GET], head), "MISS");
        harness.now_ms += age_ms;
        let request = format!("GET /a?x=1 HTTP/1.1\nCache-Control: {directives}\n\n");
        let found = verdicts(&mut harness, &[&request], head);
        assert_eq!(found, expected, "{conf} {age_ms} {directives}");
    }
}

#[test]
fn answers_that_vary_stand_side_by_side() {
    let stores = [json!({}), json!({"cache_strategy": "disk"})];
    for conf in stores {
        let (mut harness, _dir) = on_disk(conf);
        let (one, two) = ("GET /v HTTP/1.1\nAccept: 1\n\n", "GET /v HTTP/1.1\nAccept: 2\n\n");
        let head = "200\nVary: Accept\nCache-Control: max-age=60";
        assert_eq!(exchange(&mut harness, one, head, "one").header(STATUS_HEADER), Some("MISS"));
        assert_eq!(exchange(&mut harness, two, head, "two").header(STATUS_HEADER), Some("MISS"));
        assert_eq!(exchange(&mut harness, one, head, "x").body, "one");
        assert_eq!(exchange(&mut harness, two, head, "x").body, "two");
        assert_eq!(exchange(&mut harness, "PURGE /v HTTP/1.1\n\n", "200", "").status, 200);
        assert_eq!(verdicts(&mut harness, &[one, two, one, two], head), "MISS MISS HIT HIT");
    }
}

#[test]
fn what_is_purged_is_gone() {
    for conf in [json!({}), json!({"cache_strategy": "disk"})] {
        let (mut harness, _dir) = on_disk(conf);
        let purge = "PURGE /a?x=1 HTTP/1.1\n\n";
        assert_eq!(exchange(&mut harness, purge, "200", "").status, 404);
        assert_eq!(verdicts(&mut harness, &[GET, GET], "200"), "MISS HIT");
        assert_eq!(exchange(&mut harness, purge, "200", "").status, 200);
        assert_eq!(exchange(&mut harness, purge, "200", "").status, 404);
        assert_eq!(verdicts(&mut harness, &[GET], "200"), "MISS");
    }
}

#[test]
fn consumers_see_their_own_unless_the_conf_says_otherwise() {
    for (isolation, expected) in [(true, "jack"), (false, "anybody")] {
        let mut harness = harness(json!({"consumer_isolation": isolation}));
        for (consumer, body) in [(None, "anybody"), (Some("jack"), "jack"), (Some("rose"), "rose")]
        {
            exchange_as(&mut harness, GET, "200", body, consumer);
        }
        assert_eq!(exchange_as(&mut harness, GET, "200", "x", Some("jack")).body, expected);
        assert_eq!(exchange_as(&mut harness, GET, "200", "x", None).body, "anybody");
    }
}

#[test]
fn cache_headers_are_hidden_where_the_conf_says_so() {
    let mut harness = harness(json!({"hide_cache_headers": true}));
    let head = "200\nCache-Control: max-age=60\nExpires: x\nX-A: 1";
    for verdict in ["MISS", "HIT"] {
        let reply = exchange(&mut harness, GET, head, "");
        assert_eq!(reply.header(STATUS_HEADER), Some(verdict));
        assert_eq!((reply.header("cache-control"), reply.header("expires")), (None, None));
        assert_eq!(reply.header("x-a"), Some("1"));
    }
}

/// What a zone on the disk needs; its threads end with the test.
struct Disk {
    _folder: tempfile::TempDir,
    _runtime: tokio::runtime::Runtime,
}

/// A harness whose zone on the disk, if it has one, is in a folder of its own.
fn on_disk(conf: Value) -> (Harness, Option<Disk>) {
    // Zones on the disk remove files that are over by the real time, which this one is far ahead of.
    const NOW_MS: u64 = 4_000_000_000_000;
    if conf.get("cache_strategy").is_none() {
        let mut harness = harness(conf);
        harness.now_ms = NOW_MS;
        return (harness, None);
    }
    let folder = tempfile::tempdir().expect("a folder");
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).build();
    let runtime = runtime.expect("a runtime");
    let mut services = Services::new("APISIX/3.18.0");
    services.data_dir = folder.path().into();
    services.background = Some(runtime.handle().clone());
    let services = Arc::new(services);
    let handler = configure::<ProxyCache>(&conf, &services).expect("the conf is good");
    let mut harness = Harness::with(handler, services);
    harness.now_ms = NOW_MS;
    (harness, Some(Disk { _folder: folder, _runtime: runtime }))
}

#[test]
fn on_the_disk_the_answers_own_headers_decide() {
    for (conf, request, head, expected) in [
        (json!({}), GET, "200", "MISS HIT"),
        (json!({}), GET, "500", "MISS MISS"),
        (json!({}), GET, "200\nCache-Control: max-age=0", "MISS MISS"),
        (json!({}), GET, "200\nCache-Control: no-store", "MISS MISS"),
        (json!({}), GET, "200\nX-Accel-Expires: 0\nCache-Control: max-age=60", "MISS MISS"),
        (json!({}), "POST /a HTTP/1.1\n\n", "200", "BYPASS BYPASS"),
        (json!({}), "PUT /a HTTP/1.1\n\n", "200", "- -"),
        (json!({"cache_bypass": ["$arg_x"]}), GET, "200", "BYPASS BYPASS"),
    ] {
        let mut conf = conf;
        conf["cache_strategy"] = json!("disk");
        let (mut harness, _dir) = on_disk(conf.clone());
        let found = verdicts(&mut harness, &[request, request], head);
        assert_eq!(found, expected, "{conf} {request} {head}");
    }
}

#[test]
fn on_the_disk_silent_answers_live_for_ten_seconds() {
    let (mut harness, _dir) = on_disk(json!({"cache_strategy": "disk"}));
    assert_eq!(verdicts(&mut harness, &[GET, GET], "200"), "MISS HIT");
    assert_eq!(exchange(&mut harness, GET, "200", "").header("age"), Some("0"));
    harness.now_ms += 10_001;
    assert_eq!(verdicts(&mut harness, &[GET, GET], "200"), "EXPIRED HIT");
}

#[test]
fn bad_confs_are_refused() {
    for (conf, inner) in [
        (json!({"cache_zone": "invalid"}), "cache_zone invalid not found"),
        (
            json!({"cache_strategy": "memory"}),
            "invalid or empty cache_zone for cache_strategy: memory",
        ),
        (
            json!({"cache_zone": "memory_cache"}),
            "invalid or empty cache_zone for cache_strategy: disk",
        ),
        (
            json!({"cache_key": ["$host", "$request_method"]}),
            "cache_key variable $request_method unsupported",
        ),
        (json!({"cache_key": ["$a-b"]}), r#"with "$a-b""#),
        (json!({"cache_bypass": []}), "expect array to have at least 1 items"),
        (json!({"cache_method": ["PUT"]}), "matches none of the enum values"),
        (json!({"cache_http_status": [99]}), "expected 99 to be at least 200"),
        (json!({"cache_ttl": 0}), "expected 0 to be at least 1"),
        (
            json!({"cache_method": ["GET", "GET"]}),
            "expected unique items but items 1 and 2 are equal",
        ),
    ] {
        let refusal = Harness::refusal::<ProxyCache>(&conf);
        assert!(refusal.ends_with(inner), "{refusal}");
    }
    assert_eq!(PluginType::new::<ProxyCache>().schema()["properties"]["cache_ttl"]["default"], 300);
}
