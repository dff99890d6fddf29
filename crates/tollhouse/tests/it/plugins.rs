//! Plugins in a running gateway: who runs, in which order, and what becomes of their answers. What
//! each plugin does is tested beside it.

use serde_json::{Value, json};
use tollhouse_testkit::{Message, Origin};

use crate::support::{gateway, upstream};

/// Resources of one route with these plugins, and of further lists.
fn resources(origin: &Origin, plugins: Value, more: Value) -> Value {
    let route = json!({"id": "r", "uri": "/*", "plugins": plugins, "upstream": upstream([origin.address()])});
    let mut all = json!({"routes": [route]});
    let (Value::Object(fields), Value::Object(more)) = (&mut all, more) else {
        panic!("both are objects");
    };
    fields.extend(more);
    all
}

fn jack() -> Value {
    json!({"consumers": [{
        "username": "jack",
        "plugins": {"key-auth": {"key": "k1"}},
        "labels": {"custom_id": "c-7"},
    }, {
        "id": "jack/credentials/second",
        "plugins": {"key-auth": {"key": "k2"}},
    }]})
}

fn ask(gateway: &tollhouse_testkit::Gateway, target: &str, lines: &str) -> Message {
    gateway.client().ask(format!("GET {target} HTTP/1.1\r\nHost: a\r\n{lines}\r\n"))
}

#[test]
fn a_consumer_is_let_in_and_the_node_is_told_who_it_is() {
    let origin = Origin::named("a");
    let gateway = gateway().resources(&resources(&origin, json!({"key-auth": {}}), jack())).start();
    let answer = ask(&gateway, "/", "");
    assert_eq!(answer.status(), 401);
    assert_eq!(answer.text(), "{\"message\":\"Missing API key in request\"}\n");
    assert_eq!(answer.field("content-type"), Some("text/plain; charset=utf-8"));
    assert_eq!(answer.field("www-authenticate"), Some("apikey realm=\"key\""));
    assert_eq!(answer.field("server"), Some("tollhouse"));
    assert_eq!(origin.requests().len(), 0);

    assert_eq!(ask(&gateway, "/", "apikey: k1\r\nX-Consumer-Username: root\r\n").status(), 200);
    let request = origin.last_request();
    assert_eq!(request.all("x-consumer-username"), ["jack"]);
    assert_eq!(request.all("x-consumer-custom-id"), ["c-7"]);
    assert_eq!(request.field("x-credential-identifier"), None);
    assert_eq!(ask(&gateway, "/?apikey=k2", "").status(), 200);
    assert_eq!(origin.last_request().field("x-credential-identifier"), Some("second"));
}

#[test]
fn a_new_consumer_counts_with_the_next_request() {
    let origin = Origin::named("a");
    let plugins = || json!({"key-auth": {}});
    let gateway = gateway().resources(&resources(&origin, plugins(), json!({}))).start();
    assert_eq!(ask(&gateway, "/", "apikey: k1\r\n").status(), 401);
    gateway.reload(&resources(&origin, plugins(), jack()));
    assert_eq!(ask(&gateway, "/", "apikey: k1\r\n").status(), 200);
    gateway.reload(&resources(&origin, plugins(), json!({})));
    assert_eq!(ask(&gateway, "/", "apikey: k1\r\n").status(), 401);
}

#[test]
fn global_rules_act_on_requests_that_no_route_takes() {
    let rules = json!({"global_rules": [{"id": "1", "plugins": {
        "ip-restriction": {"blacklist": ["10.0.0.0/8"], "message": "not you"},
    }}]});
    let gateway = gateway().resources(&rules).start();
    assert_eq!(ask(&gateway, "/none", "").status(), 404);
    let answer = ask(&gateway, "/none", "X-Real-IP: 10.1.1.1\r\n");
    assert_eq!(answer.status(), 403);
    assert_eq!(answer.text(), "{\"message\":\"not you\"}\n");
}

#[test]
fn meta_filters_and_rewords() {
    let origin = Origin::named("a");
    let plugins = json!({"key-auth": {"_meta": {
        "filter": [["arg_free", "~=", "yes"]],
        "error_response": {"code": 7},
    }}});
    let gateway = gateway().resources(&resources(&origin, plugins, jack())).start();
    assert_eq!(ask(&gateway, "/?free=yes", "").status(), 200);
    let answer = ask(&gateway, "/", "");
    assert_eq!((answer.status(), answer.text().as_str()), (401, "{\"code\":7}\n"));
}

#[test]
fn plugins_of_a_consumer_and_of_its_group_join_in() {
    let origin = Origin::named("a");
    let deny = |who: &str| json!({"ip-restriction": {"blacklist": ["127.0.0.1"], "message": who}});
    let consumers = json!({
        "consumers": [
            {"username": "own", "plugins": {"key-auth": {"key": "own"},
                "ip-restriction": {"blacklist": ["127.0.0.1"], "message": "own"}}, "group_id": "g"},
            {"username": "member", "plugins": {"key-auth": {"key": "member"}}, "group_id": "g"},
            {"username": "lost", "plugins": {"key-auth": {"key": "lost"}}, "group_id": "none"},
            {"username": "plain", "plugins": {"key-auth": {"key": "plain"}}},
        ],
        "consumer_groups": [{"id": "g", "plugins": deny("group")}],
    });
    let plugins = json!({"key-auth": {},
        "ip-restriction": {"blacklist": ["127.0.0.1"], "message": "route"}});
    let gateway = gateway()
        .set("real_ip.from", "")
        .resources(&resources(&origin, plugins, consumers))
        .start();
    for (key, status, text) in [
        ("own", 403, "{\"message\":\"own\"}\n"),
        ("member", 403, "{\"message\":\"group\"}\n"),
        ("plain", 403, "{\"message\":\"route\"}\n"),
    ] {
        let answer = ask(&gateway, "/", &format!("apikey: {key}\r\n"));
        assert_eq!((answer.status(), answer.text().as_str()), (status, text), "{key}");
    }
    assert_eq!(ask(&gateway, "/", "apikey: lost\r\n").status(), 503);
}

#[test]
fn a_limit_is_exact_over_all_cores() {
    const COUNT: u64 = 200;
    const CLIENTS: u64 = 8;
    let origin = Origin::named("a");
    let plugins = json!({"limit-count": {"count": COUNT, "time_window": 600}});
    let gateway =
        gateway().set("workers", "2").resources(&resources(&origin, plugins, json!({}))).start();
    let passed = std::sync::atomic::AtomicU64::new(0);
    std::thread::scope(|scope| {
        for _ in 0..CLIENTS {
            scope.spawn(|| {
                // Short connections reach both cores.
                for _ in 0..COUNT / 4 {
                    let status = gateway.client().get("/").status();
                    assert!(matches!(status, 200 | 503), "{status}");
                    passed
                        .fetch_add(u64::from(status == 200), std::sync::atomic::Ordering::Relaxed);
                }
            });
        }
    });
    assert_eq!(passed.into_inner(), COUNT);
}
