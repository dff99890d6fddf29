//! Tests of stream routes: every field, and the problems of invalid ones.

use serde_json::json;

use super::*;
use crate::upstream::Scheme;

fn parse(value: &Value) -> (Option<StreamRoute>, String) {
    let (route, problems) = StreamRoute::parse(Id::new("1"), value, "stream_routes[0]");
    (route, problems.to_string())
}

fn good(value: &Value) -> StreamRoute {
    let (route, problems) = parse(value);
    assert_eq!(problems, "");
    route.expect("no problem was found")
}

#[test]
fn a_stream_route_is_read_whole() {
    let route = good(&json!({
        "id": 1,
        "remote_addr": "10.1.2.3/8",
        "server_addr": "::1",
        "server_port": 9100.0,
        "sni": "*.A.com",
        "upstream": {"nodes": {"127.0.0.1:1995": 1}, "scheme": "tls"},
        "upstream_id": "u",
        "service_id": 2,
        "plugins": {"mqtt-proxy": {}},
        "protocol": {
            "name": "redis", "superior_id": "3", "conf": {"faults": []},
            "logger": [{"name": "syslog", "filter": [["rpc_time", ">=", 1]], "conf": {}}],
        },
        "name": "n", "desc": "d", "labels": {"a": "b"}, "create_time": 1,
    }));
    assert_eq!(route.remote_addr.map(|network| network.to_string()).as_deref(), Some("10.0.0.0/8"));
    assert_eq!(route.server_addr.map(|network| network.to_string()).as_deref(), Some("::1/128"));
    assert_eq!(route.server_port, Some(9100));
    assert_eq!(route.sni.as_deref(), Some("*.a.com"));
    let upstream = route.upstream.expect("it was given");
    assert_eq!((upstream.scheme, upstream.nodes.len()), (Scheme::Tls, 1));
    assert_eq!((route.upstream_id, route.service_id), (Some(Id::new("u")), Some(Id::new("2"))));
    let protocol = route.protocol.expect("it was given");
    assert_eq!((protocol.name.as_str(), protocol.superior_id), ("redis", Some(Id::new("3"))));
    assert_eq!(protocol.loggers[0].name.as_deref(), Some("syslog"));
}

#[test]
fn a_stream_route_may_say_nothing_and_speaks_tcp() {
    assert_eq!(good(&json!({})).upstream, None);
    let route = good(&json!({"upstream": {"nodes": {"127.0.0.1:1995": 1}}}));
    assert_eq!(route.upstream.expect("it was given").scheme, Scheme::Tcp);
}

#[test]
fn a_scheme_of_http_is_ignored_as_in_apisix() {
    for (scheme, warning) in [("http", ""), ("grpc", ""), ("kafka", ""), ("https", "has no effect")]
    {
        let upstream = json!({
            "nodes": {"127.0.0.1:1995": 1}, "scheme": scheme, "type": "roundrobin", "hash_on": "vars",
            "pass_host": "pass",
        });
        let (route, problems) = parse(&json!({"upstream": upstream}));
        let route = route.unwrap_or_else(|| panic!("{scheme}: {problems}"));
        assert_eq!(route.upstream.expect("it was given").scheme, Scheme::Tcp, "{scheme}");
        assert_eq!(problems.is_empty(), warning.is_empty(), "{scheme}: {problems}");
        assert!(problems.contains(warning), "{scheme}: {problems}");
    }
}

#[test]
fn what_is_wrong_is_said() {
    let table = [
        (json!({"remote_addr": "x"}), "object matches none of the required"),
        (json!({"remote_addr": ["::1"]}), "expected string, got array"),
        (json!({"server_addr": "1.2.3"}), "object matches none of the required"),
        (json!({"server_port": 0}), "expected 0 to be at least 1"),
        (json!({"server_port": 65536}), "expected 65536 to be at most 65535"),
        (json!({"sni": "a b"}), "failed to match pattern"),
        (json!({"upstream": {}}), "value should match only one schema, but matches none"),
        (json!({"upstream": {"nodes": {}, "scheme": "ftp"}}), "matches none of the enum values"),
        (json!({"upstream": {"nodes": {}, "scheme": 1}}), "expected string, got number"),
        (json!({"upstream": {"nodes": {}, "schema": "tcp"}}), "did you mean \"scheme\"?"),
        (json!({"upstream": 1}), "expected object, got number"),
        (json!({"service_id": ""}), "string too short"),
        (json!({"protocol": {}}), "property \"name\" is required"),
        (json!({"protocol": {"name": "redis", "superior_id": 0}}), "at least 1"),
        (json!({"protocol": {"name": "redis", "conf": [1]}}), "expected object, got array"),
        (json!({"protocol": {"name": "r", "logger": {"a": 1}}}), "expected array, got object"),
        (
            json!({"protocol": {"name": "r", "logger": [{"name": "syslog"}]}}),
            "stream_routes[0].protocol.logger[0]: property \"conf\" is required when \"name\" is set",
        ),
        (json!({"protocol": {"name": "r", "logger": [{"x": 1}]}}), "unknown field \"x\""),
        (json!({"uri": "/"}), "unknown field \"uri\""),
        (json!([1]), "expected object, got array"),
    ];
    for (value, expected) in table {
        let (route, problems) = parse(&value);
        assert!(route.is_none(), "{value}");
        assert!(problems.contains(expected), "{value}: {problems}");
    }
}
