//! Plugins that limit requests, seen from outside: limit-count, limit-req, limit-conn, api-breaker
//! and workflow.

use std::sync::Mutex;
use std::sync::mpsc::channel;

use serde_json::json;
use tollhouse_testkit::Origin;
use tollhouse_testkit::origin::answer;

use crate::cases::{Bench, error_of};
use crate::support::upstream;

#[test]
fn requests_are_counted() {
    let bench = Bench::start();
    bench.put("/consumers", json!({"username": "jack", "plugins": {"key-auth": {"key": "k1"}}}));
    bench.put(
        "/consumers",
        json!({"username": "rose", "plugins": {"key-auth": {"key": "k2"},
        "limit-count": {"count": 1, "time_window": 60, "rejected_code": 429}}}),
    );
    bench.check(include_str!("cases/tables/limits.txt"));
}

#[test]
fn counters_belong_to_who_owns_the_plugin() {
    let bench = Bench::start();
    let limit = |count: u32| json!({"limit-count": {"count": count, "time_window": 60}});
    bench.put(
        "/services/s",
        json!({"plugins": limit(2), "upstream": upstream([bench.node.address()])}),
    );
    bench.put("/routes/s1", json!({"uri": "/*", "host": "s1.test", "service_id": "s"}));
    bench.put("/routes/s2", json!({"uri": "/*", "host": "s2.test", "service_id": "s"}));
    bench.put("/plugin_configs/p", json!({"plugins": limit(3)}));
    let with_config =
        json!({"uri": "/*", "host": "p.test", "plugin_config_id": "p", "service_id": "s"});
    bench.put("/routes/p", with_config);
    bench.put("/routes/own", bench.route("own.test", limit(1)));
    bench.wait_until_served();
    bench.say("s1.test", "> GET /\n < 200\n < X-RateLimit-Remaining: 1");
    bench.say("s2.test", "> GET /\n < 200\n < X-RateLimit-Remaining: 0");
    bench.say("s1.test", "> GET /\n < 503");
    bench.say("p.test", "> GET /\n < 200\n < X-RateLimit-Limit: 3\n < X-RateLimit-Remaining: 2");

    bench.say("own.test", "> GET /\n < 200");
    let mut own = bench.route("own.test", limit(1));
    own["desc"] = json!("another");
    bench.put("/routes/own", own);
    bench.wait_until_served();
    bench.say("own.test", "> GET /\n < 503");
    bench.put("/routes/own", bench.route("own.test", limit(2)));
    bench.wait_until_served();
    bench.say("own.test", "> GET /\n < 200\n < X-RateLimit-Remaining: 1");
    let names = json!({"limit_header": "X-L", "remaining_header": "X-R", "reset_header": "X-T"});
    bench.put("/plugin_metadata/limit-count", names);
    bench.wait_until_served();
    bench
        .say("own.test", "> GET /\n < 200\n < X-L: 2\n < X-R: 0\n < X-T: *\n < !X-RateLimit-Limit");
}

#[test]
fn requests_at_once_are_limited() {
    let bench = Bench::start();
    let (release, wait) = channel::<()>();
    let wait = Mutex::new(wait);
    let slow = Origin::script(move |connection| {
        while connection.request().is_some() {
            if wait.lock().expect("one at a time").recv().is_err() {
                break;
            }
            connection.send(answer(200, "slow"));
        }
    });
    let plugins = json!({"limit-conn": {"conn": 1, "burst": 0, "default_conn_delay": 0.1, "key": "remote_addr"}});
    let mut route = bench.route("slow.test", plugins);
    route["upstream"] = upstream([slow.address()]);
    bench.put("/routes/slow", route);
    bench.wait_until_served();
    let mut first = bench.gateway.client();
    first.send("GET / HTTP/1.1\r\nHost: slow.test\r\n\r\n");
    slow.wait_requests(1);
    bench.say("slow.test", "> GET /\n < 503\n <~ 503 Service Temporarily Unavailable\n ^ none");
    release.send(()).expect("the origin waits");
    assert_eq!(first.answer().status(), 200);
    release.send(()).expect("the origin waits");
    bench.say("slow.test", "> GET /\n < 200\n <= slow");
    drop(release);
}

#[test]
fn limits_refuse_bad_confs() {
    let bench = Bench::start();
    bench.refuse(include_str!("cases/tables/limits_refusals.txt"));
    let first = bench
        .route("g.test", json!({"limit-count": {"count": 1, "time_window": 60, "group": "g"}}));
    bench.put("/routes/g", first);
    let second = bench
        .route("h.test", json!({"limit-count": {"count": 2, "time_window": 60, "group": "g"}}));
    let refusal = bench.gateway.admin("PUT", "/routes/h", &second);
    let wanted =
        "failed to check the configuration of plugin limit-count err: group conf mismatched";
    assert_eq!((refusal.status(), error_of(&refusal).as_str()), (400, wanted));
}
