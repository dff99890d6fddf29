//! Agreement of `check_core` with the parsers of routes, services and upstreams: a table of
//! objects, and a list of the exceptions with their reasons.

use serde_json::{Value, json};

use super::check_core;
use crate::{Id, Route, Service, Upstream};

fn route_is_read(value: &Value) -> bool {
    Route::parse(Id::new("1"), value, "routes/1").0.is_some()
}

fn service_is_read(value: &Value) -> bool {
    Service::parse(Id::new("1"), value, "services/1").0.is_some()
}

fn upstream_is_read(value: &Value) -> bool {
    Upstream::parse(Some(Id::new("1")), value, "upstreams/1").0.is_some()
}

/// Returns `base` with the fields of `extra`; a null removes a field.
fn with(base: &Value, extra: &Value) -> Value {
    let mut fields = base.as_object().expect("it is written as an object").clone();
    for (name, field) in extra.as_object().expect("it is written as an object") {
        match field {
            Value::Null => fields.shift_remove(name),
            _ => fields.insert(name.clone(), field.clone()),
        };
    }
    Value::Object(fields)
}

fn with_each(base: &Value, extras: &[Value]) -> Vec<Value> {
    extras.iter().map(|extra| with(base, extra)).collect()
}

/// Objects with valid and invalid values of the fields that all kinds share.
fn common() -> Vec<Value> {
    vec![
        json!({"id": "1"}),
        json!({"id": 1}),
        json!({"id": "a b"}),
        json!({"id": true}),
        json!({"name": "n"}),
        json!({"name": ""}),
        json!({"name": "é".repeat(256)}),
        json!({"name": "é".repeat(257)}),
        json!({"desc": ""}),
        json!({"desc": "d".repeat(257)}),
        json!({"labels": {"a": "b"}}),
        json!({"labels": {"a": ""}}),
        json!({"labels": {"a": "b c"}}),
        json!({"labels": {"a": 1}}),
        json!({"labels": "a"}),
        json!({"labels": []}),
        json!({"create_time": 1, "update_time": 2.0}),
        json!({"create_time": -1}),
        json!({"update_time": "1"}),
        json!({"unheard_of": 1}),
    ]
}

/// Fields of upstreams; the base is `{"nodes": {"a:80": 1}}`.
fn upstream_extras() -> Vec<Value> {
    let mut extras = vec![
        json!({}),
        json!({"nodes": null}),
        json!({"nodes": {}}),
        json!({"nodes": []}),
        json!({"nodes": 1}),
        json!({"nodes": {"a": 0, "[::1]:80": 1}}),
        json!({"nodes": {"a:65536": 1}}),
        json!({"nodes": {"a:0": 1}}),
        json!({"nodes": {"a:x": 1}}),
        json!({"nodes": {"::1": 1}}),
        json!({"nodes": {"[::1": 1}}),
        json!({"nodes": {"a:80": -1}}),
        json!({"nodes": {"a:80": "1"}}),
        json!({"nodes": {"a:80": 1.5}}),
        json!({"nodes": {"a:80": 2.0}}),
        json!({"nodes": [{"host": "a", "weight": 1}]}),
        json!({"nodes": [{"host": "a", "port": 80, "weight": 1, "priority": -1, "metadata": {}}]}),
        json!({"nodes": [{"host": "a"}]}),
        json!({"nodes": [{"weight": 1}]}),
        json!({"nodes": [{"host": "a b", "weight": 1}]}),
        json!({"nodes": [{"host": "a", "port": 0, "weight": 1}]}),
        json!({"nodes": [{"host": "a", "port": 65536, "weight": 1}]}),
        json!({"nodes": [{"host": "a", "weight": 1, "zone": "x"}]}),
        json!({"nodes": null, "service_name": "a", "discovery_type": "dns"}),
        json!({"nodes": null, "service_name": "a", "discovery_type": "zookeeper"}),
        json!({"nodes": null, "service_name": "a"}),
        json!({"nodes": null, "service_name": "", "discovery_type": "dns"}),
        json!({"service_name": "a", "discovery_type": "dns"}),
        json!({"type": "roundrobin"}),
        json!({"type": "least_conn", "hash_on": "header"}),
        json!({"type": "random"}),
        json!({"type": "chash"}),
        json!({"type": "chash", "key": "uri"}),
        json!({"type": "chash", "key": "arg_a"}),
        json!({"type": "chash", "key": "http_a"}),
        json!({"type": "chash", "hash_on": "header", "key": "X-A"}),
        json!({"type": "chash", "hash_on": "header", "key": "X A"}),
        json!({"type": "chash", "hash_on": "cookie"}),
        json!({"type": "chash", "hash_on": "consumer"}),
        json!({"type": "chash", "hash_on": "vars_combinations"}),
        json!({"type": "chash", "hash_on": "x", "key": "uri"}),
        json!({"retries": 0}),
        json!({"retries": -1}),
        json!({"retry_timeout": 0.5}),
        json!({"retry_timeout": -0.5}),
        json!({"timeout": {"connect": 1, "send": 0.5, "read": 2}}),
        json!({"timeout": {"connect": 1, "send": 0, "read": 2}}),
        json!({"timeout": {"connect": 1, "send": 1}}),
        json!({"pass_host": "node"}),
        json!({"pass_host": "rewrite"}),
        json!({"pass_host": "rewrite", "upstream_host": "a.com"}),
        json!({"pass_host": "rewrite", "upstream_host": ""}),
        json!({"pass_host": "x"}),
        json!({"upstream_host": "a b"}),
        json!({"keepalive_pool": {"size": 1, "idle_timeout": 0, "requests": 1, "x": 1}}),
        json!({"keepalive_pool": {"size": 0}}),
        json!({"keepalive_pool": {"requests": 0}}),
        json!({"keepalive_pool": {"idle_timeout": -1}}),
        json!({"tls": {}}),
        json!({"tls": {"verify": false}}),
        json!({"tls": {"client_key": "x".repeat(64)}}),
        json!({"tls": {"client_cert": "x", "client_key": "x"}}),
    ];
    extras.extend(protocol_extras());
    extras.extend(warm_up_extras());
    extras.extend(registry_extras());
    extras.extend(check_extras());
    extras
}

fn protocol_extras() -> Vec<Value> {
    vec![
        json!({"scheme": "https"}),
        json!({"scheme": "grpc"}),
        json!({"scheme": "grpcs"}),
        json!({"http_version": "2"}),
        json!({"http_version": "1.1"}),
        json!({"http_version": 2}),
        json!({"http_version": "1.0"}),
        json!({"proxy_protocol": "v1"}),
        json!({"proxy_protocol": "v2"}),
        json!({"proxy_protocol": "v3"}),
        json!({"proxy_protocol": true}),
        json!({"scheme": "ftp"}),
    ]
}

fn warm_up_extras() -> Vec<Value> {
    vec![
        json!({"warmup": 30}),
        json!({"warmup": "30s"}),
        json!({"warmup": 0}),
        json!({"warmup": true}),
        json!({"warmup": {"duration": "1m"}}),
        json!({"warmup": {"duration": "soon"}}),
        json!({"warmup": {}}),
        json!({"warmup": 30, "type": "ewma"}),
        json!({"warm_up_conf": {"slow_start_time_seconds": 10, "min_weight_percent": 1}}),
        json!({"warm_up_conf": {"slow_start_time_seconds": 10}}),
        json!({"warm_up_conf": {"slow_start_time_seconds": 1.5, "min_weight_percent": 1}}),
        json!({"warm_up_conf": {
            "slow_start_time_seconds": 10, "min_weight_percent": 1, "interval": 11,
        }}),
        json!({"warm_up_conf": {
            "slow_start_time_seconds": 10, "min_weight_percent": 1, "aggression": 0,
        }}),
        json!({"warmup": 1, "warm_up_conf": {
            "slow_start_time_seconds": 10, "min_weight_percent": 1,
        }}),
    ]
}

/// Upstreams whose nodes come from the registry.
fn registry_extras() -> Vec<Value> {
    let with_arguments = |arguments: Value| {
        json!({"nodes": null, "service_name": "prod/orders", "discovery_type": "registry",
            "discovery_args": arguments})
    };
    let named = |name: Value, kind: &str| json!({"nodes": null, "service_name": name, "discovery_type": kind});
    vec![
        named(json!("prod/orders"), "registry"),
        named(json!("orders"), "polaris"),
        named(json!("a/b/c"), "registry"),
        named(json!("/a"), "registry"),
        named(json!("a b"), "polaris"),
        named(json!("s".repeat(129)), "registry"),
        with_arguments(json!({})),
        with_arguments(json!({"metadata": {"zone": "a"}, "version": "2", "warmup": "30s"})),
        with_arguments(json!({"metadata": {"zone": 1}})),
        with_arguments(json!({"metadata": []})),
        with_arguments(json!({"version": ""})),
        with_arguments(json!({"warmup": "x"})),
        with_arguments(json!({"namespace_id": ""})),
        with_arguments(json!({"namespace_id": "prod", "group_name": "g"})),
        with_arguments(json!({"versoin": "2"})),
        with_arguments(json!([])),
    ]
}

fn check_extras() -> Vec<Value> {
    let checks = [
        json!({}),
        json!({"active": {}}),
        json!({"active": {}, "passive": {}}),
        json!({"passive": {}}),
        json!({"active": {}, "other": 1}),
        json!({"active": {"type": "tcp", "timeout": 0.5, "concurrency": 1, "other": 1}}),
        json!({"active": {"type": "grpc", "grpc_service": "a.B"}}),
        json!({"active": {"type": "grpcs", "grpc_service": 1}}),
        json!({"active": {}, "passive": {"type": "grpc"}}),
        json!({"active": {"type": "udp"}}),
        json!({"active": {"timeout": 0}}),
        json!({"active": {"concurrency": 0}}),
        json!({"active": {"host": "a b"}}),
        json!({"active": {"port": 65536}}),
        json!({"active": {"req_headers": ["A: b"]}}),
        json!({"active": {"req_headers": ["A: b", "A: b"]}}),
        json!({"active": {"req_headers": []}}),
        json!({"active": {"healthy": {"interval": 0}}}),
        json!({"active": {"healthy": {"successes": 0}}}),
        json!({"active": {"healthy": {"http_statuses": []}}}),
        json!({"active": {"unhealthy": {"http_statuses": [199]}}}),
        json!({"active": {"unhealthy": {"timeouts": 255}}}),
        json!({"active": {"https_verify_certificate": 1}}),
        json!({"active": {}, "passive": {"healthy": {"successes": 0}}}),
        json!({"active": {}, "passive": {"unhealthy": {"tcp_failures": -1}}}),
        json!({"active": {}, "passive": {"type": "tcp", "unhealthy": {"http_statuses": [500]}}}),
    ];
    checks.into_iter().map(|checks| json!({"checks": checks})).collect()
}

/// Conditions of a route on the request line and the host.
fn route_match_extras() -> Vec<Value> {
    vec![
        json!({}),
        json!({"uri": null}),
        json!({"uri": 1}),
        json!({"uri": ""}),
        json!({"uri": "a"}),
        json!({"uri": "/".repeat(4096)}),
        json!({"uri": "/".repeat(4097)}),
        json!({"uris": ["/b"]}),
        json!({"uri": null, "uris": ["/a", "/b"]}),
        json!({"uri": null, "uris": ["/a", "/a"]}),
        json!({"uri": null, "uris": []}),
        json!({"uri": null, "uris": [""]}),
        json!({"priority": -1}),
        json!({"priority": 1.5}),
        json!({"priority": "1"}),
        json!({"methods": ["GET", "PURGE"]}),
        json!({"methods": []}),
        json!({"methods": ["GET", "GET"]}),
        json!({"methods": ["get"]}),
        json!({"methods": "GET"}),
        json!({"host": "*"}),
        json!({"host": "*.a.com"}),
        json!({"host": "a.*.com"}),
        json!({"host": ""}),
        json!({"hosts": ["a", "b"]}),
        json!({"hosts": []}),
        json!({"hosts": ["a", "a"]}),
        json!({"host": "a", "hosts": ["b"]}),
    ]
}

/// Conditions of a route on addresses and variables.
fn route_condition_extras() -> Vec<Value> {
    vec![
        json!({"remote_addr": "10.0.0.1"}),
        json!({"remote_addr": "10.0.0.0/8"}),
        json!({"remote_addr": "10.0.0.0/33"}),
        json!({"remote_addr": "::1"}),
        json!({"remote_addr": "2001:db8::/32"}),
        json!({"remote_addr": "2001:db8::/129"}),
        json!({"remote_addr": "a.com"}),
        json!({"remote_addrs": ["10.0.0.1", "::/0"]}),
        json!({"remote_addrs": []}),
        json!({"remote_addr": "::1", "remote_addrs": ["::1"]}),
        json!({"vars": []}),
        json!({"vars": [["arg_a", "==", "b"]]}),
        json!({"vars": ["OR", ["arg_a", "~~", "^x"], ["arg_b", "in", ["c"]]]}),
        json!({"vars": [["arg_a", "=", "b"]]}),
        json!({"vars": ["arg_a", "==", "b"]}),
        json!({"vars": [[]]}),
        json!({"vars": [["arg_a", "~~", "("]]}),
        json!({"vars": "arg_a"}),
    ]
}

/// Fields of a route that act on its requests.
fn route_action_extras() -> Vec<Value> {
    vec![
        json!({"filter_func": "function(vars) return true end"}),
        json!({"filter_func": "return true"}),
        json!({"script": "return { 1, 2, 3 }", "upstream_id": null}),
        json!({"script_id": "1"}),
        json!({"plugins": {"cors": {}}, "upstream_id": null}),
        json!({"plugins": {}}),
        json!({"plugins": [], "methods": {}, "vars": {}}),
        json!({"plugins": 1}),
        json!({"upstream_id": null}),
        json!({"upstream_id": null, "plugin_config_id": 1}),
        json!({"upstream_id": null, "service_id": "s"}),
        json!({"upstream_id": 0}),
        json!({"service_id": "a b"}),
        json!({"plugin_config_id": "x".repeat(65)}),
        json!({"timeout": {"connect": 1, "send": 1, "read": 1, "more": 1}}),
        json!({"timeout": {"connect": -1, "send": 1, "read": 1}}),
        json!({"enable_websocket": true}),
        json!({"enable_websocket": "true"}),
        json!({"status": 0}),
        json!({"status": 1.0}),
        json!({"status": 2}),
        json!({"status": true}),
    ]
}

fn service_extras() -> Vec<Value> {
    vec![
        json!({}),
        json!({"plugins": {"cors": {"allow_origins": "*"}}}),
        json!({"plugins": "x"}),
        json!({"upstream_id": "u"}),
        json!({"upstream_id": 1.5}),
        json!({"hosts": ["a"]}),
        json!({"hosts": []}),
        json!({"hosts": ["a b"]}),
        json!({"enable_websocket": false}),
        json!({"enable_websocket": 0}),
        json!({"script": "return { 1, 2, 3 }"}),
        json!({"script": "x"}),
        json!({"uri": "/a"}),
    ]
}

fn inline(base: &Value) -> Vec<Value> {
    let upstreams = with_each(&json!({"nodes": {"a:80": 1}}), &upstream_extras());
    upstreams.into_iter().map(|upstream| with(base, &json!({"upstream": upstream}))).collect()
}

fn check_agreement(name: &str, is_read: fn(&Value) -> bool, objects: &[Value]) {
    assert!(objects.len() >= 60, "{name}: {}", objects.len());
    for object in objects {
        let verdict = check_core(name, object);
        assert_eq!(verdict.is_ok(), is_read(object), "{name} {object}: {verdict:?}");
    }
    let good = objects.iter().filter(|object| is_read(object)).count();
    assert!(good * 5 > objects.len() && good < objects.len(), "{name}: {good} are good");
}

#[test]
fn routes_pass_where_they_can_be_read() {
    let base = json!({"uri": "/a", "upstream_id": 1});
    let mut objects = with_each(
        &base,
        &[route_match_extras(), route_condition_extras(), route_action_extras()].concat(),
    );
    objects.extend(with_each(&base, &common()));
    objects.extend(inline(&base));
    check_agreement("route", route_is_read, &objects);
}

#[test]
fn services_pass_where_they_can_be_read() {
    let mut objects = with_each(&json!({}), &service_extras());
    objects.extend(with_each(&json!({}), &common()));
    objects.extend(inline(&json!({})));
    check_agreement("service", service_is_read, &objects);
}

#[test]
fn upstreams_pass_where_they_can_be_read() {
    let base = json!({"nodes": {"a:80": 1}});
    let mut objects = with_each(&base, &upstream_extras());
    objects.extend(with_each(&base, &common()));
    check_agreement("upstream", upstream_is_read, &objects);
}

/// The side, schema or parser, that accepts an object which the other one refuses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LetThroughBy {
    Schema,
    Reader,
}

/// Accepted differences for upstreams, with the reason of each.
fn upstream_differences() -> Vec<(Value, LetThroughBy, &'static str)> {
    let (schema, reader) = (LetThroughBy::Schema, LetThroughBy::Reader);
    let pair = json!({"client_cert": "x".repeat(128), "client_key": "x".repeat(64)});
    vec![
        (json!({"scheme": "kafka"}), schema, "what is spoken is checked where it is served"),
        (json!({ "tls": pair }), schema, "certificates are looked at elsewhere"),
        (json!({"nodes": {"a:80": 4294967296u64}}), schema, "a limit of the balancer"),
        (json!({"retries": 4294967296u64}), schema, "a limit of the reader"),
        (json!({"retry_timeout": 1e10}), schema, "a limit of the reader"),
        (
            json!({"timeout": {"connect": 1e10, "send": 1, "read": 1}}),
            schema,
            "a limit of the reader",
        ),
        (json!({"checks": {"active": {"concurrency": 1001}}}), schema, "a limit of the prober"),
        (
            json!({"checks": {"active": {"http_path": "/a b"}}}),
            schema,
            "request lines are checked by the reader",
        ),
        (
            json!({"checks": {"active": {"req_headers": ["no header line"]}}}),
            schema,
            "header lines are checked by the reader",
        ),
        (json!({"id": "2"}), schema, "the key of an object is known to its caller"),
        (json!({"retries": "$env://N"}), schema, "secrets are known later"),
        (json!({"discovery_args": 1}), reader, "has no effect for the reader"),
        (
            json!({"nodes": null, "service_name": "a", "discovery_type": "dns",
                "discovery_args": {"version": 1}}),
            reader,
            "has no effect for the reader",
        ),
        (json!({"key": 1}), reader, "has no effect without chash"),
    ]
}

fn route_differences() -> Vec<(Value, LetThroughBy, &'static str)> {
    let (schema, reader) = (LetThroughBy::Schema, LetThroughBy::Reader);
    vec![
        (json!({"plugins": {"cors": 1}}), schema, "confs are checked with their plugins"),
        (
            json!({"plugins": {"cors": {"_meta": {"disabled": true}}}}),
            schema,
            "confs are checked with their plugins",
        ),
        (json!({"priority": "$env://P"}), schema, "secrets are known later"),
        (json!({"priority": 1e300}), schema, "a limit of the reader"),
        (json!({"remote_addr": ":/8"}), schema, "no pattern says all of IPv6"),
        (json!({"remote_addr": "::ffff:1.2.3.4/96"}), reader, "no pattern says all of IPv6"),
        (json!({"id": "2"}), schema, "the key of an object is known to its caller"),
    ]
}

fn check_differences(
    name: &str,
    base: &Value,
    is_read: fn(&Value) -> bool,
    differences: &[(Value, LetThroughBy, &str)],
) {
    for (extra, by, reason) in differences {
        let object = with(base, extra);
        let verdicts = (check_core(name, &object).is_ok(), is_read(&object));
        let expected = (*by == LetThroughBy::Schema, *by == LetThroughBy::Reader);
        assert_eq!(verdicts, expected, "{name} {object}: {reason}");
    }
}

#[test]
fn every_difference_has_a_reason() {
    let base = json!({"nodes": {"a:80": 1}});
    check_differences("upstream", &base, upstream_is_read, &upstream_differences());
    let base = json!({"uri": "/a", "upstream_id": 1});
    check_differences("route", &base, route_is_read, &route_differences());
}
