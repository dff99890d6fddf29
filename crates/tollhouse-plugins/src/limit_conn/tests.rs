//! Requests that are under way at once, those that wait, and those that leave.

use std::sync::Arc;

use tollhouse_plugin::testing::{FakeExchange, Harness};
use tollhouse_plugin::{Services, Transfer};

use super::*;
use tollhouse_testkit::{ClosedPort, RedisServer};

const GET: &str = "GET / HTTP/1.1\n\n";

fn conf(extra: &Value) -> Value {
    let mut conf = json!({"conn": 1, "burst": 1, "default_conn_delay": 0.1, "key": "remote_addr"});
    conf.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
    conf
}

/// Starts a request; tells its status, or `+` with the milliseconds it waited.
fn start(harness: &mut Harness, text: &str) -> (FakeExchange, String) {
    let mut exchange = FakeExchange::parse(text, harness.now_ms);
    let outcome = harness.run(&mut exchange);
    let shown = match outcome.status() {
        0 => format!("+{}", outcome.slept.as_millis()),
        status => status.to_string(),
    };
    (exchange, shown)
}

#[test]
fn so_many_are_under_way_some_wait_the_rest_is_turned_away() {
    let mut harness = Harness::new::<LimitConn>(&conf(&json!({})));
    let (mut first, shown) = start(&mut harness, GET);
    assert_eq!(shown, "+0");
    let (second, shown) = start(&mut harness, GET);
    assert_eq!(shown, "+100");
    let (_third, shown) = start(&mut harness, GET);
    assert_eq!(shown, "503");
    harness.log(&mut first, Transfer::default());
    // A request whose client disappears leaves too.
    drop(second);
    assert_eq!(start(&mut harness, GET).1, "+0");
}

#[test]
fn the_time_that_requests_take_is_learned() {
    for (extra, expected) in
        [(json!({}), "+300"), (json!({"only_use_default_delay": true}), "+100")]
    {
        let mut harness = Harness::new::<LimitConn>(&conf(&extra));
        let (mut first, _) = start(&mut harness, GET);
        let transfer =
            Transfer { is_upstream_answer: true, upstream_ms: Some(500), ..Transfer::default() };
        harness.log(&mut first, transfer);
        let (_under_way, _) = start(&mut harness, GET);
        assert_eq!(start(&mut harness, GET).1, expected, "{extra}");
    }
}

#[test]
fn waits_grow_with_the_number_under_way() {
    let mut harness = Harness::new::<LimitConn>(&conf(&json!({"conn": 2, "burst": 4})));
    let started: Vec<_> = (0..7).map(|_| start(&mut harness, GET)).collect();
    let shown: Vec<_> = started.iter().map(|(_, shown)| shown.as_str()).collect();
    assert_eq!(shown, ["+0", "+0", "+100", "+100", "+200", "+200", "503"]);
}

#[test]
fn limits_may_come_with_the_request() {
    let conf = conf(&json!({"conn": "${http_x_conn ?? 1}", "burst": "$http_x_burst",
        "rejected_msg": "full"}));
    let mut harness = Harness::new::<LimitConn>(&conf);
    let request = "GET / HTTP/1.1\nX-Conn: 2\nX-Burst: 0\n\n";
    let started: Vec<_> = (0..3).map(|_| start(&mut harness, request)).collect();
    let shown: Vec<_> = started.iter().map(|(_, shown)| shown.as_str()).collect();
    assert_eq!(shown, ["+0", "+0", "503"]);
    assert_eq!(harness.request(request).body(), "{\"error_msg\":\"full\"}\n");
    assert_eq!(harness.request(GET).status(), 500);
}

#[test]
fn every_rule_that_applies_is_counted() {
    let conf = json!({"default_conn_delay": 0.1, "rules": [
        {"conn": 2, "burst": 0, "key": "${http_x_user}"},
        {"conn": 1, "burst": 0, "key": "${http_x_project}"},
    ]});
    let mut harness = Harness::new::<LimitConn>(&conf);
    let both = "GET / HTTP/1.1\nX-User: a\nX-Project: b\n\n";
    let (first, shown) = start(&mut harness, both);
    assert_eq!(shown, "+0");
    let (refused, shown) = start(&mut harness, both);
    assert_eq!(shown, "503");
    // What it had entered before it was turned away, it leaves when it ends.
    assert_eq!(start(&mut harness, "GET / HTTP/1.1\nX-User: a\n\n").1, "503");
    drop(refused);
    assert_eq!(start(&mut harness, "GET / HTTP/1.1\nX-User: a\n\n").1, "+0");
    drop(first);
    assert_eq!(harness.request(GET).status(), 500);
}

#[test]
fn a_rule_that_the_request_makes_no_limit_of_is_skipped() {
    let rules = |conn: &str, burst: &str| {
        json!({"default_conn_delay": 0.1, "rules": [
            {"conn": conn, "burst": burst, "key": "${http_x_user}"},
            {"conn": 1, "burst": 0, "key": "${http_x_project}"},
        ]})
    };
    let both = "X-User: a\nX-Project: b\n";
    for (conf, head, expected) in [
        // The first rule is about users, and the request does not say how many may be under way.
        (rules("${http_x_conn}", "0"), both, ["+0", "503"]),
        (rules("1", "${http_x_burst}"), both, ["+0", "503"]),
        (rules("${http_x_conn}", "0"), "X-User: a\nX-Conn: many\nX-Project: b\n", ["+0", "503"]),
        (rules("${http_x_conn}", "0"), "X-User: a\nX-Conn: 0\nX-Project: b\n", ["+0", "503"]),
        // It does, and allows more than the second rule.
        (rules("${http_x_conn}", "0"), "X-User: a\nX-Conn: 9\nX-Project: b\n", ["+0", "503"]),
        (rules("${http_x_conn}", "0"), "X-User: a\nX-Conn: 9\n", ["+0", "+0"]),
        // No rule is left: there is nothing to count by, and the request does not pass unseen.
        (rules("${http_x_conn}", "0"), "X-User: a\n", ["500", "500"]),
    ] {
        let mut harness = Harness::new::<LimitConn>(&conf);
        let request = format!("GET / HTTP/1.1\n{head}\n");
        let started: Vec<_> = (0..2).map(|_| start(&mut harness, &request)).collect();
        let shown: Vec<_> = started.iter().map(|(_, shown)| shown.as_str()).collect();
        assert_eq!(shown, expected, "{conf} {head}");
    }
    let mut conf = rules("${http_x_conn}", "0");
    conf["allow_degradation"] = json!(true);
    let request = "GET / HTTP/1.1\nX-User: a\n\n";
    assert!(Harness::new::<LimitConn>(&conf).request(request).passes());
}

#[test]
fn a_rule_is_skipped_where_its_limit_would_stand_in_the_body_too() {
    let conf = json!({"default_conn_delay": 0.1, "rules": [
        {"conn": "${post_arg_conn}", "burst": 0, "key": "${http_x_user}"},
        {"conn": 1, "burst": 0, "key": "${http_x_project}"},
    ]});
    for (body, expected) in
        [("", ["+0", "503"]), ("conn=x", ["+0", "503"]), ("conn=9", ["+0", "503"])]
    {
        let mut harness = Harness::new::<LimitConn>(&conf);
        let request = format!("POST / HTTP/1.1\nX-User: a\nX-Project: b\n\n{body}");
        let started: Vec<_> = (0..2).map(|_| start(&mut harness, &request)).collect();
        let shown: Vec<_> = started.iter().map(|(_, shown)| shown.as_str()).collect();
        assert_eq!(shown, expected, "{body}");
    }
}

#[test]
fn the_count_outlives_the_conf_that_began_it() {
    let services = Arc::new(Services::new("test"));
    let conf = conf(&json!({"burst": 0}));
    let configured = || {
        let handler = tollhouse_plugin::testing::configure::<LimitConn>(&conf, &services);
        Harness::with(handler.expect("the conf is good"), Arc::clone(&services))
    };
    let (_under_way, _) = start(&mut configured(), GET);
    assert_eq!(start(&mut configured(), GET).1, "503");
}

#[test]
fn redis_counts_what_is_under_way_at_all_gateways() {
    let Some(server) = RedisServer::start(&[]) else { return };
    let conf = conf(&json!({"policy": "redis", "redis_host": "127.0.0.1",
        "redis_port": server.port, "burst": 0, "key_ttl": 7}));
    let mut harness = Harness::new::<LimitConn>(&conf);
    let mut first = FakeExchange::parse(GET, harness.now_ms);
    assert!(harness.run(&mut first).passes());
    assert_eq!(Harness::new::<LimitConn>(&conf).request(GET).status(), 503);
    let keys = server.ask(&["keys", "*"]);
    assert!(keys.starts_with("plugin-limit-conn:routes/1:"), "{keys}");
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build_local(Default::default())
        .expect("a runtime");
    runtime.block_on(async {
        drop(first);
        while server.ask(&["dbsize"]).trim() != "0" {
            tokio::task::yield_now().await;
        }
    });
    // A connection whose runtime rests would never answer.
    drop(runtime);
    assert!(Harness::new::<LimitConn>(&conf).request(GET).passes());
}

#[test]
fn when_redis_is_down_the_conf_decides() {
    let closed = ClosedPort::new();
    let port = closed.address().port();
    let down = json!({"policy": "redis", "redis_host": "127.0.0.1", "redis_port": port});
    let mut conf = conf(&down);
    assert_eq!(Harness::new::<LimitConn>(&conf).request(GET).status(), 500);
    conf["allow_degradation"] = json!(true);
    assert!(Harness::new::<LimitConn>(&conf).request(GET).passes());
}

#[test]
fn bad_confs_are_refused() {
    let none = "value should match only one schema, but matches none";
    let rule = json!({"conn": 1, "burst": 0, "key": "$remote_addr"});
    let cases = [
        (json!({"conn": 1, "burst": 0, "key": "remote_addr"}), none.to_owned()),
        (json!({"default_conn_delay": 1}), none.to_owned()),
        (conf(&json!({"conn": 0})), format!("property \"conn\" validation failed: {none}")),
        (conf(&json!({"burst": -1})), format!("property \"burst\" validation failed: {none}")),
        (
            conf(&json!({"default_conn_delay": 0})),
            "property \"default_conn_delay\" validation failed: expected 0 to be greater than 0"
                .to_owned(),
        ),
        (
            conf(&json!({"rules": [rule]})),
            "value should match only one schema, but matches both schemas 1 and 2".to_owned(),
        ),
        (conf(&json!({"policy": "redis"})), "then clause did not match".to_owned()),
    ];
    for (conf, expected) in cases {
        assert_eq!(Harness::refusal::<LimitConn>(&conf), expected, "{conf}");
    }
}
