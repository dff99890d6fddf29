//! Tests that the schemas of objects are complete and documented, and that refusals have the
//! expected texts.

use serde_json::{Value, json};

use super::*;

fn verdict(name: &str, value: Value) -> String {
    check_core(name, &value).map_or_else(String::from, |()| "ok".to_owned())
}

#[test]
fn every_document_compiles_and_stands_alone() {
    for name in core_names() {
        let core = core(name).expect("every name has a schema");
        assert_eq!(core.name(), name);
        let text = core.document().to_string();
        assert!(!text.contains("shared.json"), "{name}: {text}");
        // The document must also compile in the form in which it is published.
        let served: Value = serde_json::from_str(&text).expect("it was written as JSON");
        assert!(Schema::compile(&served).is_ok());
    }
    assert!(core("nothing").is_none());
    assert_eq!(verdict("nothing", json!({})), "not found schema: nothing");
}

#[test]
fn every_field_is_described_and_every_default_is_good() {
    for name in core_names() {
        let core = core(name).expect("every name has a schema");
        check_fields(core.document(), name);
    }
}

fn check_fields(schema: &Value, path: &str) {
    for (name, field) in schema["properties"].as_object().into_iter().flatten() {
        let path = format!("{path}.{name}");
        if schema.get("type").is_some() {
            assert!(field["description"].is_string(), "{path} is not described");
        }
        if let Some(default) = field.get("default") {
            let verdict = Schema::compile(field).expect("it compiles").validate(default);
            assert_eq!(verdict, Ok(()), "the default of {path}");
        }
        check_fields(field, &path);
    }
    for name in ["items", "anyOf", "oneOf"] {
        match &schema[name] {
            Value::Array(branches) => branches.iter().for_each(|branch| check_fields(branch, path)),
            Value::Object(_) => check_fields(&schema[name], path),
            _ => {}
        }
    }
}

fn check_all(table: impl IntoIterator<Item = (&'static str, Value, &'static str)>) {
    for (name, value, expected) in table {
        let shown = format!("{name} {value}");
        assert_eq!(verdict(name, value), expected, "{shown}");
    }
}

/// Checks the verdict on a valid route to which the fields of each row are added.
fn check_routes(table: impl IntoIterator<Item = (Value, &'static str)>) {
    check_all(table.into_iter().map(|(extra, expected)| {
        let mut route = json!({"uri": "/a", "upstream_id": "1"});
        for (name, field) in extra.as_object().expect("it is written as an object") {
            route[name] = field.clone();
        }
        ("route", route, expected)
    }));
}

#[test]
fn routes_are_refused_in_the_known_words() {
    check_routes([
        (json!({}), "ok"),
        (
            json!({"uris": ["/b"]}),
            "invalid configuration: allOf 1 failed: value should match only one schema, but \
             matches both schemas 1 and 2",
        ),
        (
            json!({"uri": 1}),
            "invalid configuration: property \"uri\" validation failed: wrong type: expected \
             string, got number",
        ),
        (
            json!({"id": "a b"}),
            "invalid configuration: property \"id\" validation failed: object matches none of \
             the required",
        ),
        (
            json!({"methods": ["GET", "GET"]}),
            "invalid configuration: property \"methods\" validation failed: expected unique \
             items but items 1 and 2 are equal",
        ),
        (
            json!({"methods": ["BREW"]}),
            "invalid configuration: property \"methods\" validation failed: failed to validate \
             item 1: matches none of the enum values",
        ),
        (
            json!({"labels": {"env": ["a"]}}),
            "invalid configuration: property \"labels\" validation failed: failed to validate \
             env (matching \".*\"): wrong type: expected string, got table",
        ),
        (
            json!({"host": "a b"}),
            "invalid configuration: property \"host\" validation failed: failed to match pattern \
             \"^\\\\*$|^\\\\*?[0-9a-zA-Z-._\\\\[\\\\]:]+$\" with \"a b\"",
        ),
        (json!({"x": 1}), "invalid configuration: additional properties forbidden, found x"),
        (
            json!({"script": "return { 1, 2, 3 }", "plugins": {}}),
            "invalid configuration: value wasn't supposed to match schema",
        ),
    ]);
}

#[test]
fn rules_beyond_the_schema_have_words_of_their_own() {
    check_routes([
        (json!({"host": "a", "hosts": ["b"]}), "only one of host or hosts is allowed"),
        (
            json!({"remote_addr": "::1", "remote_addrs": ["::1"]}),
            "only one of remote_addr or remote_addrs is allowed",
        ),
        (
            json!({"vars": [["arg_a", "=", "b"]]}),
            "failed to validate the 'vars' expression: invalid operator '='",
        ),
        (
            json!({"vars": ["arg_a", "==", "b"]}),
            "failed to validate the 'vars' expression: rule should be wrapped inside brackets",
        ),
        (json!({"vars": [[]]}), "failed to validate the 'vars' expression: rule too short"),
        (json!({"upstream": {"nodes": {"a:65536": 1}}}), "invalid port 65536"),
    ]);
    check_all([("service", json!({"upstream": {"type": "chash", "nodes": {}}}), "missing key")]);
}

#[test]
fn routes_need_a_path_and_something_to_do() {
    check_all([
        (
            "route",
            json!({"uri": "/a", "plugin_config_id": 1}),
            "invalid configuration: object matches none of the required: [\"plugins\",\"uri\"] or \
             [\"upstream\",\"uri\"] or [\"upstream_id\",\"uri\"] or [\"service_id\",\"uri\"] or \
             [\"plugins\",\"uris\"] or [\"upstream\",\"uris\"] or [\"upstream_id\",\"uris\"] or \
             [\"service_id\",\"uris\"] or [\"script\",\"uri\"] or [\"script\",\"uris\"]",
        ),
        (
            "route",
            json!({"plugins": {}}),
            "invalid configuration: allOf 1 failed: value should match only one schema, but \
             matches none",
        ),
        ("route", json!("text"), "invalid configuration: wrong type: expected object, got string"),
    ]);
}

#[test]
fn upstreams_are_refused_in_the_known_words() {
    check_all([
        (
            "upstream",
            json!({}),
            "invalid configuration: value should match only one schema, but matches none",
        ),
        (
            "upstream",
            json!({"nodes": [{"host": "a"}]}),
            "invalid configuration: property \"nodes\" validation failed: object matches none of \
             the required",
        ),
        (
            "upstream",
            json!({"nodes": {}, "checks": {"passive": {}}}),
            "invalid configuration: property \"checks\" validation failed: object matches none \
             of the required: [\"active\"] or [\"active\",\"passive\"]",
        ),
        (
            "upstream",
            json!({"nodes": {}, "keepalive_pool": {"size": 0}}),
            "invalid configuration: property \"keepalive_pool\" validation failed: property \
             \"size\" validation failed: expected 0 to be at least 1",
        ),
        (
            "upstream",
            json!({"nodes": {}, "tls": {"client_cert": "x".repeat(128)}}),
            "invalid configuration: property \"tls\" validation failed: failed to validate \
             dependent schema for \"client_cert\": property \"client_key\" is required",
        ),
        (
            "upstream",
            json!({"nodes": {}, "pass_host": "rewrite"}),
            "`upstream_host` can't be empty when `pass_host` is `rewrite`",
        ),
        (
            "upstream",
            json!({"nodes": {"::1": 1}}),
            "IPv6 address must be enclosed with '[' and ']'",
        ),
        ("upstream", json!({"nodes": {}, "type": "chash"}), "missing key"),
        (
            "upstream",
            json!({"nodes": {}, "type": "chash", "key": "not_support"}),
            "invalid configuration: failed to match pattern \"^((uri|server_name|server_addr\
             |request_uri|remote_port|remote_addr|query_string|host|hostname|mqtt_client_id)\
             |arg_[0-9a-zA-z_-]+)$\" with \"not_support\"",
        ),
    ]);
}

/// Checks the verdict of the schema alone on each object.
fn check_shapes(table: impl IntoIterator<Item = (&'static str, Value, &'static str)>) {
    for (name, value, expected) in table {
        let shown = format!("{name} {value}");
        let verdict = verdict(name, value);
        let reason = verdict.strip_prefix("invalid configuration: ").unwrap_or(&verdict);
        assert_eq!(reason, expected, "{shown}");
    }
}

#[test]
fn consumers_and_what_carries_plugins_have_their_shapes() {
    check_shapes([
        ("consumer", json!({"username": "a-b_C", "plugins": {}, "group_id": 1}), "ok"),
        ("consumer", json!({}), "property \"username\" is required"),
        (
            "consumer",
            json!({"username": "a b"}),
            "property \"username\" validation failed: failed to match pattern \
             \"^[a-zA-Z0-9_\\\\-]+$\" with \"a b\"",
        ),
        ("consumer", json!({"username": "a", "x": 1}), "additional properties forbidden, found x"),
        ("credential", json!({"plugins": {"key-auth": {"key": "a"}}}), "ok"),
        ("credential", json!({}), "property \"plugins\" is required"),
        (
            "credential",
            json!({"plugins": {"a": {}, "b": {}}}),
            "property \"plugins\" validation failed: expect object to have at most 1 properties",
        ),
        ("consumer_group", json!({"plugins": {}}), "ok"),
        ("consumer_group", json!({"name": "a"}), "property \"plugins\" is required"),
        ("plugin_config", json!({"plugins": {}, "labels": {"a": "b"}}), "ok"),
        ("global_rule", json!({"plugins": {}}), "ok"),
        (
            "global_rule",
            json!({"plugins": {}, "labels": {}}),
            "additional properties forbidden, found labels",
        ),
        ("plugin_metadata", json!({"log_format": {"a": "$host"}}), "ok"),
        ("plugins", json!([{"name": "a"}, {"name": "b", "stream": true}]), "ok"),
        ("plugins", json!([{}]), "failed to validate item 1: property \"name\" is required"),
        ("proto", json!({"content": "syntax = \"proto3\";"}), "ok"),
        (
            "proto",
            json!({"content": ""}),
            "property \"content\" validation failed: string too short, expected at least 1, got 0",
        ),
    ]);
}

#[test]
fn certificates_have_their_shapes() {
    let pem = "x".repeat(128);
    check_shapes([
        ("ssl", json!({"cert": pem, "key": pem, "sni": "a.com"}), "ok"),
        ("ssl", json!({"cert": pem, "key": pem, "snis": ["*"]}), "ok"),
        ("ssl", json!({"cert": "$secret://vault/1/a", "key": "$env://K", "sni": "a"}), "ok"),
        ("ssl", json!({"cert": pem, "key": pem}), "then clause did not match"),
        ("ssl", json!({"sni": "a.com"}), "then clause did not match"),
        (
            "ssl",
            json!({"cert": pem, "key": pem, "sni": "a", "snis": ["b"]}),
            "then clause did not match",
        ),
        ("ssl", json!({"type": "client", "cert": pem}), "else clause did not match"),
        ("ssl", json!({"type": "client", "cert": pem, "key": pem}), "ok"),
        (
            "ssl",
            json!({"cert": "short", "key": pem, "sni": "a"}),
            "property \"cert\" validation failed: value should match only one schema, but \
             matches none",
        ),
        (
            "ssl",
            json!({"snis": []}),
            "property \"snis\" validation failed: expect array to have at least 1 items",
        ),
        (
            "ssl",
            json!({"cert": pem, "key": pem, "sni": "a", "ssl_protocols": ["SSLv3"]}),
            "property \"ssl_protocols\" validation failed: failed to validate item 1: matches \
             none of the enum values",
        ),
        (
            "ssl",
            json!({"cert": pem, "key": pem, "sni": "a", "client": {}}),
            "property \"client\" validation failed: property \"ca\" is required",
        ),
    ]);
}

#[test]
fn stream_routes_and_secrets_have_their_shapes() {
    check_shapes([
        ("stream_route", json!({"server_port": 9100, "upstream": {"nodes": {}}}), "ok"),
        (
            "stream_route",
            json!({"server_port": 0}),
            "property \"server_port\" validation failed: expected 0 to be at least 1",
        ),
        (
            "stream_route",
            json!({"protocol": {}}),
            "property \"protocol\" validation failed: property \"name\" is required",
        ),
        ("secret_vault", json!({"uri": "http://v:8200", "prefix": "kv", "token": "t"}), "ok"),
        (
            "secret_vault",
            json!({"uri": "127.0.0.1:8200", "prefix": "kv", "token": "t"}),
            "property \"uri\" validation failed: failed to match pattern \
             \"^[^\\\\/]+:\\\\/\\\\/([\\\\da-zA-Z.-]+|\\\\[[\\\\da-fA-F:]+\\\\])(:\\\\d+)?\" with \
             \"127.0.0.1:8200\"",
        ),
        ("secret_aws", json!({"access_key_id": "a", "secret_access_key": "b"}), "ok"),
        ("secret_aws", json!({"access_key_id": "a"}), "property \"secret_access_key\" is required"),
        ("secret_gcp", json!({"auth_file": "/a"}), "ok"),
        ("secret_gcp", json!({}), "value should match only one schema, but matches none"),
    ]);
}

#[test]
fn defaults_of_objects_are_those_of_the_readers() {
    let mut upstream = json!({"nodes": [{"host": "a", "weight": 1}], "checks": {"active": {
        "healthy": {}, "unhealthy": {},
    }}});
    core("upstream").expect("it exists").schema().apply_defaults(&mut upstream);
    assert_eq!(
        upstream,
        json!({
            "nodes": [{"host": "a", "weight": 1, "priority": 0}],
            "type": "roundrobin", "hash_on": "vars", "scheme": "http", "pass_host": "pass",
            "checks": {"active": {
                "type": "http", "timeout": 1, "concurrency": 10, "http_method": "GET",
                "http_path": "/", "http_req_body": "", "https_verify_certificate": true,
                "healthy": {"interval": 1, "http_statuses": [200, 302], "successes": 2},
                "unhealthy": {
                    "interval": 1, "http_statuses": [429, 404, 500, 501, 502, 503, 504, 505],
                    "http_failures": 5, "tcp_failures": 2, "timeouts": 3,
                },
            }},
        })
    );
    let mut route = json!({"uri": "/a", "plugins": {}});
    core("route").expect("it exists").schema().apply_defaults(&mut route);
    assert_eq!(route, json!({"uri": "/a", "plugins": {}, "priority": 0, "status": 1}));
}
