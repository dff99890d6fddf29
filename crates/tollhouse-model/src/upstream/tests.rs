//! Tests of upstream parsing: node forms, defaults and every rule.

use serde_json::{Value, json};

use super::*;
use crate::Problems;

fn parse(value: &Value) -> (Option<Upstream>, Problems) {
    Upstream::parse(None, value, "upstreams[0]")
}

fn good(value: &Value) -> Upstream {
    let (upstream, problems) = parse(value);
    assert_eq!(problems.to_string(), "");
    upstream.expect("no problem was found")
}

/// Returns the problems of an upstream that is valid without the fields `extra`.
fn problems_with(extra: Value) -> String {
    let mut value = json!({"nodes": {"a:80": 1}});
    let fields = value.as_object_mut().expect("it is written as an object");
    for (name, field) in extra.as_object().expect("it is written as an object") {
        fields.insert(name.clone(), field.clone());
    }
    let (upstream, problems) = parse(&value);
    assert_eq!(upstream.is_none(), problems.has_errors());
    problems.to_string()
}

fn node(host: &str, port: u16, weight: u32, priority: i32) -> Node {
    Node { host: host.to_owned(), port, socket: None, weight, priority }
}

#[test]
fn nodes_come_in_several_forms() {
    let table = [
        (json!({}), vec![]),
        (json!([]), vec![]),
        (json!({"a:8080": 1}), vec![node("a", 8080, 1, 0)]),
        (json!({"a": 0, "10.0.0.1": 2.0}), vec![node("a", 443, 0, 0), node("10.0.0.1", 443, 2, 0)]),
        (
            json!({"[::1]:80": 1, "[fe80::2]": 1}),
            vec![node("::1", 80, 1, 0), node("fe80::2", 443, 1, 0)],
        ),
        (
            json!([
                {"host": "a", "weight": 1},
                {"host": "[::1]", "port": 1, "weight": 2, "priority": -1},
            ]),
            vec![node("a", 443, 1, 0), node("::1", 1, 2, -1)],
        ),
        (json!([{"host": "::1", "weight": 1, "metadata": {"a": 1}}]), vec![node("::1", 443, 1, 0)]),
        // The host contains a port.
        (
            json!([
                {"host": "10.0.0.1:81", "weight": 1},
                {"host": "a:81", "port": 82, "weight": 1},
                {"host": "[::1]:81", "weight": 1},
                {"host": "a:x", "weight": 1},
            ]),
            vec![
                node("10.0.0.1", 81, 1, 0),
                node("a", 81, 1, 0),
                node("::1", 81, 1, 0),
                node("a:x", 443, 1, 0),
            ],
        ),
    ];
    for (nodes, expected) in table {
        assert_eq!(good(&json!({"scheme": "https", "nodes": nodes})).nodes, expected);
    }
}

#[test]
fn wrong_nodes_are_refused() {
    let table = [
        (json!(1), "nodes: wrong type: expected one of object, array, got number"),
        (json!({"a:65536": 1}), "nodes[\"a:65536\"]: invalid port 65536"),
        (json!({"a:0": 1}), "invalid port 0"),
        (json!({"a:+1": 1}), "invalid port +1"),
        (json!({"a:": 1}), "invalid port ;"),
        (json!({":80": 1}), "invalid host \"\""),
        (json!({"a b:80": 1}), "invalid host \"a b\""),
        (json!({"::1": 1}), "IPv6 address must be enclosed with '[' and ']'"),
        (json!({"[::1": 1}), "IPv6 address must be enclosed with '[' and ']'"),
        (json!({"[::1]x": 1}), "unexpected text after ']'"),
        (json!({"[a]:80": 1}), "invalid IPv6 address"),
        (json!({"a:80": -1}), "expected -1 to be at least 0"),
        (json!({"a:80": "1"}), "wrong type: expected integer, got string"),
        (json!({"a:80": 4294967296u64}), "to be at most 4294967295"),
        (json!([{"host": "a"}]), "nodes[0]: property \"weight\" is required"),
        (json!([{"host": "a", "port": 0, "weight": 1}]), "expected 0 to be at least 1"),
        (json!([{"host": "a", "port": 65536, "weight": 1}]), "expected 65536 to be at most 65535"),
        (json!([{"host": "a b", "weight": 1}]), "failed to match pattern"),
    ];
    for (nodes, expected) in table {
        let found = problems_with(json!({"nodes": nodes}));
        assert!(found.contains(expected), "{found}");
        assert_eq!(found.lines().count(), 1, "{found}");
    }
}

#[test]
fn a_small_upstream_has_the_documented_defaults() {
    let upstream = good(&json!({"nodes": {}}));
    assert_eq!(upstream.balance, Balance::from(Policy::RoundRobin));
    assert_eq!(upstream.scheme, Scheme::Http);
    assert_eq!(upstream.retries, None);
    assert_eq!(upstream.retry_timeout, None);
    assert_eq!(upstream.timeout, None);
    assert_eq!(upstream.pass_host, PassHost::Pass);
    assert_eq!(upstream.keepalive_pool, None);
    assert_eq!(upstream.checks, None);
}

#[test]
fn hashing_reads_its_key_by_its_source() {
    let hash = |hash_on: HashOn| Balance { policy: Policy::ConsistentHash, hash_on: Some(hash_on) };
    let table = [
        (json!({"key": "arg_user-id"}), hash(HashOn::Variable("arg_user-id".into()))),
        (json!({"hash_on": "vars", "key": "uri"}), hash(HashOn::Variable("uri".into()))),
        (json!({"hash_on": "header", "key": "X_User"}), hash(HashOn::Header("x-user".into()))),
        (json!({"hash_on": "cookie", "key": "Sid"}), hash(HashOn::Cookie("Sid".into()))),
        (json!({"hash_on": "consumer"}), hash(HashOn::Consumer)),
        (
            json!({"hash_on": "vars_combinations", "key": "$host$uri"}),
            hash(HashOn::Combination("$host$uri".into())),
        ),
        (json!({"hash_on": "vars_combinations"}), hash(HashOn::Variable("remote_addr".into()))),
    ];
    for (mut value, expected) in table {
        value["type"] = json!("chash");
        value["nodes"] = json!({});
        assert_eq!(good(&value).balance, expected);
    }
}

#[test]
fn nodes_are_verified_where_that_is_asked_for_and_authorities_ask_for_it() {
    let ca = crate::certificate::tests::usual().cert;
    let with_tls = |scheme: &str, tls: serde_json::Value| {
        let value = json!({ "nodes": {}, "scheme": scheme, "tls": tls });
        let (upstream, problems) = Upstream::parse(None, &value, "upstream");
        (upstream.map(|upstream| upstream.node_trust), problems.to_string())
    };
    let named = NodeTrust::Authorities(ca.clone());
    for (scheme, tls, expected, said) in [
        ("https", json!({}), NodeTrust::Anybody, ""),
        ("https", json!({ "verify": false }), NodeTrust::Anybody, ""),
        ("grpcs", json!({ "verify": true }), NodeTrust::System, ""),
        ("tls", json!({ "verify": true, "ca": ca }), named.clone(), ""),
        ("https", json!({ "ca": ca }), named, ""),
        ("https", json!({ "ca": ca, "verify": false }), NodeTrust::Anybody, "verify is false"),
        ("http", json!({ "verify": true }), NodeTrust::System, "no effect"),
    ] {
        let (found, problems) = with_tls(scheme, tls.clone());
        assert_eq!(found, Some(expected), "{scheme} {tls} {problems}");
        assert_eq!(problems.is_empty(), said.is_empty(), "{problems}");
        assert!(problems.contains(said), "{problems}");
    }
    for tls in [json!({ "ca": "x".repeat(200) }), json!({ "ca": 1 }), json!({ "verify": "yes" })] {
        assert_eq!(with_tls("https", tls.clone()).0, None, "{tls}");
    }
}

#[test]
fn a_certificate_by_id_stands_for_itself_alone() {
    let parse = |tls: serde_json::Value| {
        let value = json!({ "nodes": { "a:443": 1 }, "tls": tls });
        Upstream::parse(None, &value, "upstream")
    };
    let (upstream, problems) = parse(json!({ "client_cert_id": "1" }));
    assert!(problems.is_empty(), "{problems}");
    let tls = upstream.and_then(|upstream| upstream.tls);
    assert_eq!(tls, Some(UpstreamTls::Object(crate::Id::new("1"))));
    let (upstream, problems) =
        parse(json!({ "client_cert_id": "1", "client_key": "-----BEGIN".repeat(8) }));
    assert!(upstream.is_none());
    assert!(problems.to_string().contains("cannot be combined"), "{problems}");
}

#[test]
fn each_field_is_checked() {
    let none = "matches none of the enum values";
    let table = [
        (json!({"type": "random"}), "type: has no effect: nodes take turns"),
        (json!({"type": 1}), "wrong type: expected string, got number"),
        (json!({"type": "chash"}), "missing key"),
        (json!({"type": "chash", "hash_on": "header"}), "missing key"),
        (json!({"type": "chash", "hash_on": "x", "key": "uri"}), none),
        (json!({"type": "chash", "key": "http_x"}), "failed to match pattern \"^((uri|server_name"),
        (json!({"type": "chash", "hash_on": "header", "key": "a b"}), "failed to match pattern"),
        (json!({"scheme": "kafka"}), "scheme \"kafka\" is not served yet"),
        (json!({"http_version": "3"}), none),
        (json!({"scheme": "grpc", "http_version": "2"}), "has no effect"),
        (json!({"scheme": "ftp"}), none),
        (json!({"service_name": "a", "discovery_type": "dns"}), "matches both schemas 1 and 2"),
        (json!({"retries": -1}), "expected -1 to be at least 0"),
        (json!({"retry_timeout": -1}), "expected -1 to be at least 0"),
        (json!({"timeout": {}}), "property \"connect\" is required"),
        (json!({"pass_host": "x"}), none),
        (
            json!({"pass_host": "rewrite"}),
            "`upstream_host` can't be empty when `pass_host` is `rewrite`",
        ),
        (
            json!({"pass_host": "rewrite", "upstream_host": ""}),
            "upstream_host: failed to match pattern",
        ),
        (json!({"keepalive_pool": {"size": 0}}), "expected 0 to be at least 1"),
        (json!({"keepalive_pool": {"requests": 0}}), "expected 0 to be at least 1"),
        (
            json!({"tls": {"client_key": "x".repeat(64)}}),
            "property \"client_cert\" is required when \"client_key\" is set",
        ),
        (
            json!({"checks": {}}),
            "object matches none of the required: [\"active\"] or [\"active\",\"passive\"]",
        ),
        (json!({"checks": {"active": {}, "pasive": {}}}), "did you mean \"passive\"?"),
        (json!({"checks": {"active": {"type": "udp"}}}), none),
        (json!({"checks": {"active": {"timeout": 0}}}), "to be greater than 0"),
        (json!({"checks": {"active": {"port": 65536}}}), "to be at most 65535"),
        (json!({"checks": {"active": {"http_path": "/a b"}}}), "control character"),
        (json!({"checks": {"active": {"req_headers": ["a: b\r\nc: d"]}}}), "invalid header line"),
        (json!({"checks": {"active": {"req_headers": ["a"]}}}), "invalid header line"),
        (
            json!({"checks": {"active": {"healthy": {"interval": 0}}}}),
            "expected 0 to be at least 1",
        ),
        (
            json!({"checks": {"active": {"healthy": {"successes": 0}}}}),
            "expected 0 to be at least 1",
        ),
        (
            json!({"checks": {"active": {"unhealthy": {"timeouts": 255}}}}),
            "expected 255 to be at most 254",
        ),
        (
            json!({"checks": {"active": {"unhealthy": {"http_statuses": [199]}}}}),
            "expected 199 to be at least 200",
        ),
        (
            json!({"checks": {"active": {}, "passive": {"healthy": {"successes": -1}}}}),
            "expected -1 to be at least 0",
        ),
        (json!({"nods": {}}), "did you mean \"nodes\"?"),
    ];
    for (extra, expected) in table {
        let found = problems_with(extra);
        assert!(found.contains(expected), "{found}");
    }
}

#[test]
fn one_mistake_is_one_problem() {
    for extra in [
        json!({"checks": {"active": {"healthy": {"interval": 0}}}}),
        json!({"checks": {"active": {"healthy": 3}}}),
        json!({"checks": {}}),
        json!({"pass_host": "rewrite", "upstream_host": ""}),
        json!({"type": "chash"}),
    ] {
        let found = problems_with(extra);
        assert_eq!(found.lines().count(), 1, "{found}");
    }
}

#[test]
fn discovery_stands_in_for_nodes() {
    let upstream = good(&json!({"service_name": "a.b:8080", "discovery_type": "dns"}));
    let dns = Discovery::new(DiscoverySource::Dns, "", "a.b:8080");
    assert_eq!(upstream.discovery, Some(dns));
    let (upstream, problems) = parse(&json!({"service_name": "a", "discovery_type": "zookeeper"}));
    let upstream = upstream.expect("it is there, without nodes");
    assert!(upstream.nodes.is_empty() && upstream.discovery.is_none(), "{upstream:?}");
    assert_eq!(
        problems.to_string(),
        "upstreams[0].discovery_type: discovery type \"zookeeper\" does not exist here (got \
         \"zookeeper\"); requests are answered 503; the kinds are dns, registry (also spelt polaris), \
         consul, consul_kv, nacos, eureka and kubernetes"
    );
    for (kind, expected) in [
        ("zookeeper", "the arguments belong to a known discovery_type"),
        ("dns", "discovery by dns takes no arguments"),
    ] {
        let arguments = json!({"namespace_id": "prod"});
        let upstream = json!({
            "service_name": "a.b:80", "discovery_type": kind, "discovery_args": arguments,
        });
        let problems = parse(&upstream).1.to_string();
        assert!(problems.contains(expected), "{problems}");
    }
    let (_, problems) = parse(&json!({"service_name": "a"}));
    assert!(problems.to_string().contains("but matches none"), "{problems}");
}

/// Returns the problems of an upstream whose nodes come from the registry, with the fields `extra`.
fn registry_problems(extra: &Value) -> String {
    let mut value = json!({"discovery_type": "registry", "service_name": "prod/orders"});
    let fields = value.as_object_mut().expect("it is written as an object");
    for (name, field) in extra.as_object().expect("it is written as an object") {
        fields.insert(name.clone(), field.clone());
    }
    parse(&value).1.to_string()
}

#[test]
fn a_service_of_the_registry_is_named_with_or_without_its_namespace() {
    let named = |namespace: &str, service: &str| (namespace.to_owned(), service.to_owned());
    for (value, expected) in [
        (json!({"service_name": "prod/orders"}), named("prod", "orders")),
        (json!({"service_name": "orders"}), named("default", "orders")),
        (json!({"service_name": "Orders.v1:a_b-c"}), named("default", "Orders.v1:a_b-c")),
        (
            json!({"service_name": "orders", "discovery_args": {"namespace_id": "prod"}}),
            named("prod", "orders"),
        ),
        (
            json!({"service_name": "a/b/c", "discovery_args": {"namespace_id": "x/y"}}),
            named("x/y", "a/b/c"),
        ),
    ] {
        for kind in ["registry", "polaris"] {
            let mut value = value.clone();
            value["discovery_type"] = json!(kind);
            let found = good(&value).discovery.expect("it is of the registry");
            assert_eq!(found.source, DiscoverySource::Registry);
            assert_eq!((found.namespace, found.service), expected, "{value}");
        }
    }
}

#[test]
fn wrong_names_of_services_are_refused_with_a_remedy() {
    for (name, expected) in [
        (json!("a/b/c"), "more than one slash (got \"a/b/c\"); write namespace/service; if"),
        (json!("/orders"), "the namespace and the service must not be empty (got \"\"); write"),
        (json!("prod/"), "the namespace and the service must not be empty"),
        (json!("a b"), "failed to match pattern \"^[0-9A-Za-z-./:_]+$\" with \"a b\""),
        (json!("größe"), "failed to match pattern"),
        (json!("n".repeat(65) + "/a"), "expected at most 64, got 65"),
        (json!("s".repeat(129)), "expected at most 128, got 129"),
        (json!(7), "wrong type: expected string, got number"),
    ] {
        let found = registry_problems(&json!({ "service_name": name }));
        assert!(found.contains(expected), "{found}");
        assert_eq!(found.lines().count(), 1, "{found}");
    }
}

#[test]
fn instances_are_asked_for_by_metadata_and_version() {
    let value = json!({"discovery_type": "registry", "service_name": "orders", "discovery_args": {
        "metadata": {"zone": "a", "canary": ""}, "version": "2.1",
    }});
    let found = good(&value).discovery.expect("it is of the registry");
    let pairs: Vec<(&str, &str)> =
        found.metadata.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
    assert_eq!(pairs, [("canary", ""), ("zone", "a")]);
    assert_eq!(
        (found.version.as_deref(), found.to_string().as_str()),
        (Some("2.1"), "default/orders")
    );
    for (arguments, expected) in [
        (json!({"metdata": {}}), "did you mean \"metadata\"?"),
        (json!({"metadata": {"a": 1}}), "discovery_args.metadata.a: wrong type: expected string"),
        (json!({"metadata": {"a": "v".repeat(4097)}}), "expected at most 4096"),
        (json!({"metadata": {("k".repeat(129)): "v"}}), "keys have at most 128 characters"),
        (json!({"metadata": "a"}), "wrong type: expected object"),
        (json!({"version": ""}), "string too short"),
        (json!({"version": 2}), "expected string, got number"),
        (json!({"namespace_id": "a b"}), "discovery_args.namespace_id: failed to match pattern"),
        (json!({"group_name": "g"}), "has no effect"),
        (json!([1]), "wrong type: expected object, got array"),
    ] {
        let found = registry_problems(&json!({ "discovery_args": arguments }));
        assert!(found.contains(expected), "{found}");
        assert_eq!(found.lines().count(), 1, "{found}");
    }
    let many: serde_json::Map<String, Value> =
        (0..65).map(|index| (format!("k{index}"), json!("v"))).collect();
    let found = registry_problems(&json!({"discovery_args": {"metadata": many}}));
    assert!(found.contains("no instance has more than 64 pairs"), "{found}");
}

#[test]
fn slow_start_has_two_spellings() {
    let plain = WarmUp {
        window: Duration::from_secs(30),
        minimum_weight_percent: 10,
        aggression: 1.0,
        interval: Duration::from_millis(600),
        startup_grace: Duration::ZERO,
    };
    let conf = WarmUp { interval: Duration::from_secs(1), ..plain };
    for (extra, expected) in [
        (json!({"warmup": 30}), plain),
        (json!({"warmup": "30s"}), plain),
        (json!({"warmup": {"duration": "30s"}}), plain),
        (
            json!({"warmup": {"duration": 30, "minimum_weight_percent": 5, "aggression": 2}}),
            WarmUp { minimum_weight_percent: 5, aggression: 2.0, ..plain },
        ),
        (json!({"discovery_args": {"warmup": "30s"}}), plain),
        (json!({"warm_up_conf": {"slow_start_time_seconds": 30, "min_weight_percent": 10}}), conf),
        (
            json!({"type": "least_conn", "warm_up_conf": {
                "slow_start_time_seconds": 30, "min_weight_percent": 10, "interval": 5,
                "aggression": 0.5, "startup_grace_period_seconds": 60,
            }}),
            WarmUp {
                aggression: 0.5,
                interval: Duration::from_secs(5),
                startup_grace: Duration::from_secs(60),
                ..plain
            },
        ),
    ] {
        let mut value = json!({"discovery_type": "registry", "service_name": "orders"});
        value.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
        assert_eq!(good(&value).warm_up, Some(expected), "{value}");
    }
    let steps = |window: Value| {
        good(&json!({"nodes": {}, "warmup": window})).warm_up.map(|warm_up| warm_up.interval)
    };
    assert_eq!(steps(json!(1)), Some(Duration::from_millis(100)));
    assert_eq!(steps(json!("1h")), Some(Duration::from_secs(1)));
    assert_eq!(good(&json!({"nodes": {}})).warm_up, None);
}

#[test]
fn wrong_slow_starts_are_refused() {
    let conf = |extra: Value| {
        let mut conf = json!({"slow_start_time_seconds": 10, "min_weight_percent": 1});
        conf.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
        json!({ "warm_up_conf": conf })
    };
    for (extra, expected) in [
        (
            json!({"warm_up_conf": {"min_weight_percent": 1}}),
            "\"slow_start_time_seconds\" is required",
        ),
        (
            json!({"warm_up_conf": {"slow_start_time_seconds": 1}}),
            "\"min_weight_percent\" is required",
        ),
        (conf(json!({"slow_start_time_seconds": 0})), "expected 0 to be at least 1"),
        (conf(json!({"min_weight_percent": 0})), "expected 0 to be at least 1"),
        (conf(json!({"min_weight_percent": 101})), "expected 101 to be at most 100"),
        (conf(json!({"aggression": 0})), "expected 0 to be at least 0.01"),
        (conf(json!({"aggression": "1"})), "wrong type: expected number, got string"),
        (conf(json!({"interval": 0})), "expected 0 to be at least 1"),
        (
            conf(json!({"interval": 11})),
            "warm_up_conf.interval can't be greater than warm_up_conf.slow_start_time_seconds",
        ),
        (conf(json!({"startup_grace_period_seconds": -1})), "expected -1 to be at least 0"),
        (conf(json!({"unknown": 1})), "unknown field \"unknown\""),
        (json!({"warmup": 0}), "expected 0 to be greater than 0"),
        (json!({"warmup": "0s"}), "expected 0 to be greater than 0"),
        (json!({"warmup": "30x"}), "unknown unit \"x\""),
        (json!({"warmup": "50y"}), "unknown unit"),
        (json!({"warmup": {}}), "property \"duration\" is required"),
        (json!({"warmup": [1]}), "wrong type: expected number, got array"),
        (
            json!({"warmup": 1, "type": "chash", "key": "uri"}),
            "warmup is only supported by the roundrobin upstream type; here it works",
        ),
        (json!({"warmup": 1, "discovery_args": {"warmup": 2}}), "slow start is configured twice"),
    ] {
        let found = registry_problems(&extra);
        assert!(found.contains(expected), "{found}");
        assert_eq!(found.lines().count(), 1, "{found}");
    }
}

#[test]
fn checks_have_the_documented_defaults() {
    let checks = good(&json!({"nodes": {}, "checks": {"active": {}, "passive": {}}}))
        .checks
        .expect("checks were given");
    let active = checks.active;
    assert_eq!(active.kind, CheckKind::Http);
    assert_eq!(active.timeout, Duration::from_secs(1));
    assert_eq!(active.concurrency, 10);
    assert_eq!((active.http_method.as_str(), active.http_path.as_str()), ("GET", "/"));
    assert!(active.https_verify_certificate);
    assert_eq!(active.grpc_service, "");
    assert_eq!(active.healthy_interval, Duration::from_secs(1));
    assert_eq!(active.unhealthy_interval, Duration::from_secs(1));
    assert_eq!(active.thresholds.healthy_statuses, [200, 302]);
    assert_eq!(active.thresholds.unhealthy_statuses, [429, 404, 500, 501, 502, 503, 504, 505]);
    let counts = |t: &Thresholds| [t.successes, t.http_failures, t.tcp_failures, t.timeouts];
    assert_eq!(counts(&active.thresholds), [2, 5, 2, 3]);
    let passive = checks.passive.expect("a passive check was given");
    assert_eq!(counts(&passive.thresholds), [5, 5, 2, 7]);
    assert_eq!(passive.thresholds.unhealthy_statuses, [429, 500, 503]);
    assert_eq!(passive.thresholds.healthy_statuses.len(), 19);
}

#[test]
fn checks_are_read_field_by_field() {
    let checks = good(&json!({"nodes": {}, "checks": {
        "active": {
            "type": "https", "timeout": 0.5, "concurrency": 2, "host": "h", "port": 81,
            "http_method": "POST", "http_path": "/live?x=1", "http_req_body": "b",
            "https_verify_certificate": false, "req_headers": ["User-Agent: probe"],
            "healthy": {"interval": 3, "successes": 4, "http_statuses": [204]},
            "unhealthy": {"interval": 5, "http_failures": 6, "tcp_failures": 7, "timeouts": 8},
        },
        "passive": {"type": "tcp", "unhealthy": {"tcp_failures": 0, "http_statuses": [500]}},
    }}))
    .checks
    .expect("checks were given");
    let active = checks.active;
    assert_eq!(active.kind, CheckKind::Https);
    assert_eq!(active.timeout, Duration::from_millis(500));
    assert_eq!((active.concurrency, active.port), (2, Some(81)));
    assert_eq!((active.host.as_deref(), active.http_path.as_str()), (Some("h"), "/live?x=1"));
    assert!(!active.https_verify_certificate);
    assert_eq!(active.request_headers, ["User-Agent: probe"]);
    assert_eq!(active.healthy_interval, Duration::from_secs(3));
    assert_eq!(active.unhealthy_interval, Duration::from_secs(5));
    assert_eq!(active.thresholds.healthy_statuses, [204]);
    assert_eq!((active.thresholds.http_failures, active.thresholds.timeouts), (6, 8));
    let passive = checks.passive.expect("a passive check was given");
    assert_eq!((passive.kind, passive.thresholds.tcp_failures), (CheckKind::Tcp, 0));
    assert_eq!(passive.thresholds.unhealthy_statuses, [500]);
}

#[test]
fn private_keys_never_reach_a_message() {
    let secret = "s3cret".repeat(20);
    for extra in [
        json!({"tls": {"client_cert": secret, "client_key": secret}}),
        json!({"tls": {"client_cert": "c", "client_key": "s3cret"}}),
        json!({"tls": {"client_key": [secret]}}),
    ] {
        let found = problems_with(extra);
        assert!(!found.is_empty());
        assert!(!found.contains("s3cret"), "{found}");
    }
    let text = format!("-----BEGIN PRIVATE KEY-----{secret}");
    let tls = json!({"client_cert": text.repeat(2), "client_key": text});
    let upstream = good(&json!({"nodes": {}, "scheme": "https", "tls": tls}));
    assert!(!format!("{upstream:?}").contains("s3cret"));
}

#[test]
fn fields_that_apisix_lets_pass_are_warnings() {
    for extra in [
        json!({"timeout": {"connect": 1, "send": 1, "read": 1, "total": 1}}),
        json!({"keepalive_pool": {"sise": 1}}),
        json!({"nodes": [{"host": "a", "weight": 1, "zone": "x"}]}),
        json!({"tls": {"verify": true}}),
    ] {
        let found = problems_with(extra);
        assert!(found.contains("no effect"), "{found}");
        assert_eq!(found.lines().count(), 1, "{found}");
    }
}

#[test]
fn a_service_of_kubernetes_has_a_namespace_and_a_port() {
    for (name, expected) in [
        ("shop/orders:http", Some(("shop", "orders:http"))),
        ("shop/orders:8080", Some(("shop", "orders:8080"))),
        ("shop/orders", None),
        ("orders:http", None),
        ("one/shop/orders:http", None),
        ("shop/orders:", None),
        ("shop/:80", None),
        ("/orders:80", None),
    ] {
        let upstream = json!({"discovery_type": "kubernetes", "service_name": name});
        let discovery = parse(&upstream).0.and_then(|upstream| upstream.discovery);
        let found = discovery.map(|it| (it.namespace, it.service));
        let expected =
            expected.map(|(namespace, service)| (namespace.to_owned(), service.to_owned()));
        assert_eq!(found, expected, "{name}");
    }
}
