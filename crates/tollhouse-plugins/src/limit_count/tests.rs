//! Counting in this process: windows, keys, rules, groups, headers, refusals.

use std::sync::Arc;

use serde_json::{Value, json};
use tollhouse_plugin::testing::{FakeExchange, Harness, Outcome, Reply, configure};
use tollhouse_plugin::{Catalogue, PluginType, Services};

use super::*;

const GET: &str = "GET /hello HTTP/1.1\n\n";

fn harness(conf: Value) -> Harness {
    Harness::new::<LimitCount>(&conf)
}

/// Sends a request, and an answer if it passes; tells the status and the quota headers.
fn pass(harness: &mut Harness, text: &str) -> (Outcome, Option<Reply>) {
    let mut exchange = FakeExchange::parse(text, harness.now_ms);
    let outcome = harness.run(&mut exchange);
    let reply = outcome.passes().then(|| harness.respond(&mut exchange, "200", &["ok"]));
    (outcome, reply)
}

/// `limit/remaining/reset`, and the status where the request is turned away.
fn quota(harness: &mut Harness, text: &str) -> String {
    let (outcome, reply) = pass(harness, text);
    let header = |name: &str| match &reply {
        Some(reply) => reply.header(name).unwrap_or("-").to_owned(),
        None => outcome.header(name).unwrap_or("-").to_owned(),
    };
    let names = ["X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset"];
    let [limit, remaining, reset] = names.map(header);
    match outcome.status() {
        0 => format!("{limit}/{remaining}/{reset}"),
        status => format!("{status} {limit}/{remaining}/{reset}"),
    }
}

#[test]
fn so_many_pass_in_a_window_that_begins_with_the_first() {
    let mut harness = harness(json!({"count": 2, "time_window": 60}));
    assert_eq!(quota(&mut harness, GET), "2/1/60");
    harness.now_ms += 15;
    assert_eq!(quota(&mut harness, GET), "2/0/59.98");
    harness.now_ms += 985;
    assert_eq!(quota(&mut harness, GET), "503 2/0/59");
    harness.now_ms += 58_999;
    assert_eq!(quota(&mut harness, GET), "503 2/0/0");
    harness.now_ms += 1;
    assert_eq!(quota(&mut harness, GET), "2/1/60");
}

#[test]
fn requests_turned_away_are_told_what_the_conf_says() {
    let cases = [
        (json!({}), 503, ""),
        (json!({"rejected_code": 429}), 429, ""),
        (json!({"rejected_msg": "too many"}), 503, "{\"error_msg\":\"too many\"}\n"),
    ];
    for (extra, status, body) in cases {
        let mut conf = json!({"count": 1, "time_window": 9});
        conf.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
        let mut harness = harness(conf);
        assert!(harness.request(GET).passes());
        let outcome = harness.request(GET);
        assert_eq!((outcome.status(), outcome.body()), (status, body));
    }
}

#[test]
fn quotas_are_not_shown_where_the_conf_forbids_it() {
    let conf = json!({"count": 1, "time_window": 9, "show_limit_quota_header": false});
    let mut harness = harness(conf);
    assert_eq!(quota(&mut harness, GET), "-/-/-");
    assert_eq!(quota(&mut harness, GET), "503 -/-/-");
}

#[test]
fn each_key_has_a_count_of_its_own() {
    let a = "GET / HTTP/1.1\nX-A: a\n\n";
    let b = "GET / HTTP/1.1\nX-A: b\nX-B: 1\n\n";
    let cases = [
        (json!({"key": "http_x_a"}), "passes"),
        (json!({"key": "http_x_none"}), "503"),
        (json!({"key": "$http_x_a $http_x_b", "key_type": "var_combination"}), "passes"),
        (json!({"key": "$http_x_none", "key_type": "var_combination"}), "503"),
        (json!({"key": "http_x_a", "key_type": "constant"}), "503"),
        (json!({}), "503"),
    ];
    for (extra, expected) in cases {
        let mut conf = json!({"count": 1, "time_window": 9});
        conf.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
        let mut harness = harness(conf);
        assert!(harness.request(a).passes());
        let outcome = harness.request(b);
        let got = if outcome.passes() { "passes".into() } else { outcome.status().to_string() };
        assert_eq!(got, expected, "{extra}");
        assert_eq!(harness.request(a).status(), 503, "{extra}");
    }
}

#[test]
fn keys_may_be_of_the_body() {
    let mut harness = harness(json!({"count": 1, "time_window": 9, "key": "post_arg_user"}));
    let statuses = ["user=a", "user=b", "user=a"]
        .map(|body| harness.request(&format!("POST / HTTP/1.1\n\n{body}")).status());
    assert_eq!(statuses, [0, 0, 503]);
}

#[test]
fn limits_may_come_with_the_request() {
    let conf = json!({"count": "${http_x_count ?? 1}", "time_window": "$http_x_window"});
    let mut harness = harness(conf.clone());
    let request = "GET / HTTP/1.1\nX-Count: 3\nX-Window: 7\n\n";
    assert_eq!(quota(&mut harness, request), "3/2/7");
    assert_eq!(quota(&mut harness, request), "3/1/7");
    assert_eq!(quota(&mut harness, "GET / HTTP/1.1\nX-Window: 7\n\n"), "503 1/0/7");
    for bad in ["", "X-Window: 0\n", "X-Window: many\n", "X-Window: 1.5\n", "X-Window: -1\n"] {
        let outcome = harness.request(&format!("GET / HTTP/1.1\n{bad}\n"));
        assert_eq!((outcome.status(), outcome.body()), (500, ""), "{bad}");
    }
    let mut conf = conf;
    conf["allow_degradation"] = json!(true);
    assert!(Harness::new::<LimitCount>(&conf).request(GET).passes());
}

#[test]
fn every_rule_that_applies_is_counted_and_shown() {
    let conf = json!({"rejected_code": 429, "rules": [
        {"count": 3, "time_window": 60, "key": "${http_x_user}"},
        {"count": "${http_x_count ?? 1}", "time_window": 10, "key": "${http_x_project}",
         "header_prefix": "Project"},
    ]});
    let mut harness = harness(conf);
    let both = "GET / HTTP/1.1\nX-User: jack\nX-Project: a\n\n";
    let (_, reply) = pass(&mut harness, both);
    let reply = reply.expect("it passes");
    assert_eq!(reply.header("X-1-RateLimit-Remaining"), Some("2"));
    assert_eq!(reply.header("X-Project-RateLimit-Limit"), Some("1"));
    assert_eq!(reply.header("X-Project-RateLimit-Reset"), Some("10"));
    assert_eq!(reply.header("X-RateLimit-Limit"), None);
    let (outcome, _) = pass(&mut harness, both);
    assert_eq!(outcome.status(), 429);
    assert_eq!(outcome.header("X-1-RateLimit-Remaining"), Some("1"));
    assert_eq!(outcome.header("X-Project-RateLimit-Remaining"), Some("0"));
    let (_, reply) = pass(&mut harness, "GET / HTTP/1.1\nX-User: jack\n\n");
    assert_eq!(reply.expect("it passes").header("X-1-RateLimit-Remaining"), Some("0"));
    // No rule applies.
    assert_eq!(harness.request(GET).status(), 500);
}

#[test]
fn a_rule_without_a_limit_for_the_request_is_skipped() {
    let mut harness = harness(json!({"rules": [
        {"count": "$http_x_count", "time_window": "$http_x_window", "key": "${remote_addr}"},
        {"count": 2, "time_window": 10, "key": "${http_x_user}"},
    ]}));
    let user = "GET / HTTP/1.1\nX-User: jack\n\n";
    let (_, reply) = pass(&mut harness, user);
    let reply = reply.expect("the other rule applies");
    assert_eq!(reply.header("X-1-RateLimit-Limit"), None);
    assert_eq!(reply.header("X-2-RateLimit-Remaining"), Some("1"));
    for lines in ["X-Count: 0\nX-Window: 9\n", "X-Count: 5\n", "X-Count: many\nX-Window: 9\n"] {
        assert_eq!(harness.request(&format!("GET / HTTP/1.1\n{lines}\n")).status(), 500, "{lines}");
    }
    assert!(harness.request("GET / HTTP/1.1\nX-Count: 5\nX-Window: 9\n\n").passes());
    assert_eq!([0; 2].map(|_| harness.request(user).status()), [0, 503]);
}

#[test]
fn a_sliding_window_weighs_the_one_before() {
    let mut harness = harness(json!({"count": 4, "time_window": 10, "window_type": "sliding"}));
    // Windows are aligned to the clock; this one is about to end.
    harness.now_ms = 1_700_000_005_000;
    assert_eq!(quota(&mut harness, GET), "4/3/5");
    assert_eq!(quota(&mut harness, GET), "4/2/5");
    assert_eq!(quota(&mut harness, GET), "4/1/5");
    assert_eq!(quota(&mut harness, GET), "4/0/5");
    assert_eq!(quota(&mut harness, GET), "503 4/0/5");
    // A quarter into the next one, three quarters of four still count.
    harness.now_ms = 1_700_000_012_500;
    assert_eq!(quota(&mut harness, GET), "4/0/7.5");
    assert_eq!(quota(&mut harness, GET), "503 4/0/0");
    harness.now_ms = 1_700_000_030_000;
    assert_eq!(quota(&mut harness, GET), "4/3/10");
}

/// Configures `conf` in `owner`, in a process that others share.
fn configured(
    services: &Arc<Services>,
    owner: &str,
    conf: &Value,
) -> Result<tollhouse_plugin::handler::SharedHandler, tollhouse_plugin::ConfError> {
    let catalogue = Catalogue::empty();
    let scope =
        Scope { owner, conf, metadata: None, protos: None, catalogue: &catalogue, services };
    PluginType::new::<LimitCount>().compile(conf, &scope)
}

#[test]
fn a_count_belongs_to_the_object_and_its_conf() {
    let services = Arc::new(Services::new("test"));
    let conf = json!({"count": 1, "time_window": 60});
    let remaining = |owner: &str, conf: &Value| {
        let handler = configured(&services, owner, conf).expect("the conf is good");
        Harness::with(handler, Arc::clone(&services)).request(GET).status()
    };
    let _first = configured(&services, "routes/1", &conf);
    assert_eq!(remaining("routes/1", &conf), 0);
    // The same conf again, as after an edit of another field.
    assert_eq!(remaining("routes/1", &conf), 503);
    assert_eq!(remaining("routes/2", &conf), 0);
    assert_eq!(remaining("routes/1", &json!({"count": 1, "time_window": 61})), 0);
}

#[test]
fn a_group_counts_together_and_says_the_same() {
    let services = Arc::new(Services::new("test"));
    let conf = json!({"count": 1, "time_window": 60, "group": "g"});
    let first = configured(&services, "routes/1", &conf).expect("it begins the group");
    let second = configured(&services, "routes/2", &conf).expect("it joins the group");
    let mut first = Harness::with(first, Arc::clone(&services));
    let mut second = Harness::with(second, Arc::clone(&services));
    assert!(first.request(GET).passes());
    assert_eq!(second.request(GET).status(), 503);
    let mut other = conf.clone();
    other["count"] = json!(2);
    let refusal = configured(&services, "routes/3", &other).err();
    assert_eq!(refusal, Some("group conf mismatched".into()));
    // What has just been judged is not in use yet, and counts all the same.
    drop((first, second));
    let refusal = configured(&services, "routes/3", &other).err();
    assert_eq!(refusal, Some("group conf mismatched".into()));
    // Some time after its last member a group is forgotten.
    super::group::forget_recent();
    assert!(configured(&services, "routes/3", &other).is_ok());
}

#[test]
fn metadata_names_the_headers() {
    let services = Arc::new(Services::new("test"));
    let metadata = json!({"limit_header": "Limit", "reset_header": "Again"});
    let handler = tollhouse_plugin::testing::configure_among::<LimitCount>(
        &json!({"count": 2, "time_window": 60}),
        &services,
        &Catalogue::empty(),
        Some(&metadata),
    );
    let mut harness = Harness::with(handler.expect("the conf is good"), services);
    let (_, reply) = pass(&mut harness, GET);
    let reply = reply.expect("it passes");
    assert_eq!(reply.header("Limit"), Some("2"));
    assert_eq!(reply.header("X-RateLimit-Remaining"), Some("1"));
    assert_eq!(reply.header("Again"), Some("60"));
}

#[test]
fn exactly_so_many_pass_however_many_ask_at_once() {
    let services = Arc::new(Services::new("test"));
    let conf = json!({"count": 1000, "time_window": 60});
    let handler = configure::<LimitCount>(&conf, &services).expect("the conf is good");
    let passed: usize = std::thread::scope(|threads| {
        let counting = (0..4).map(|_| {
            let mut harness = Harness::with(Arc::clone(&handler), Arc::clone(&services));
            threads.spawn(move || (0..500).filter(|_| harness.request(GET).passes()).count())
        });
        let counting: Vec<_> = counting.collect();
        counting.into_iter().map(|thread| thread.join().expect("it counts")).sum()
    });
    assert_eq!(passed, 1000);
}

#[test]
fn bad_confs_are_refused() {
    let one = |extra: Value| {
        let mut conf = json!({"count": 2, "time_window": 60});
        conf.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
        conf
    };
    let rule = json!({"count": 1, "time_window": 1, "key": "k"});
    let none = "value should match only one schema, but matches none";
    let cases = [
        (json!({}), none.to_owned()),
        (json!({"count": 2}), none.to_owned()),
        (json!({"time_window": 2}), none.to_owned()),
        (one(json!({"count": 0})), format!("property \"count\" validation failed: {none}")),
        (one(json!({"count": 1.5})), format!("property \"count\" validation failed: {none}")),
        (one(json!({"rules": [rule]})), BOTH_KINDS.to_owned()),
        (json!({"count": 1, "rules": [rule]}), BOTH_KINDS.to_owned()),
        (
            json!({"group": "g", "rules": [rule]}),
            "group and rules cannot be specified at the same time".to_owned(),
        ),
        (json!({"rules": [rule, rule]}), "duplicate key 'k' in rules".to_owned()),
        (
            one(json!({"policy": "other"})),
            "property \"policy\" validation failed: matches none of the enum values".to_owned(),
        ),
        (one(json!({"policy": "redis"})), "then clause did not match".to_owned()),
        (
            one(json!({"policy": "redis-cluster", "redis_cluster_nodes": ["a:1"]})),
            "else clause did not match".to_owned(),
        ),
        (one(json!({"policy": "redis-sentinel"})), "else clause did not match".to_owned()),
        (
            one(json!({"policy": "redis", "redis_host": "127.0.0.1", "sync_interval": 0.09})),
            "sync_interval should not be smaller than 0.1".to_owned(),
        ),
        (
            one(json!({"policy": "redis", "redis_host": "127.0.0.1", "sync_interval": 60})),
            "sync_interval should be smaller than time_window".to_owned(),
        ),
        (
            one(json!({"rejected_code": 199})),
            "property \"rejected_code\" validation failed: expected 199 to be at least 200"
                .to_owned(),
        ),
        (
            one(json!({"rejected_msg": ""})),
            "property \"rejected_msg\" validation failed: string too short, expected at least 1, \
             got 0"
                .to_owned(),
        ),
    ];
    for (conf, expected) in cases {
        assert_eq!(Harness::refusal::<LimitCount>(&conf), expected, "{conf}");
    }
}

#[test]
fn good_confs_are_accepted() {
    let cases = [
        json!({"count": 2.0, "time_window": 60}),
        json!({"count": "2", "time_window": "$x", "unknown": 1, "_meta": {"disable": false}}),
        json!({"rules": []}),
        json!({"count": 2, "time_window": 60, "policy": "redis", "redis_host": "127.0.0.1",
            "redis_ssl": true, "sync_interval": 0.5}),
        json!({"count": 2, "time_window": 60, "policy": "redis-cluster",
            "redis_cluster_nodes": ["127.0.0.1:5000", "[::1]:5001"], "redis_cluster_name": "c"}),
        json!({"count": 2, "time_window": 60, "policy": "redis-sentinel",
            "redis_sentinels": [{"host": "127.0.0.1", "port": 26379}], "redis_master_name": "m"}),
    ];
    for conf in cases {
        assert_eq!(Harness::refusal::<LimitCount>(&conf), "", "{conf}");
    }
}
