//! What is accepted is served, or the answer to the write says what is not.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use serde_json::{Value, json};
use tollhouse_testkit::{ClosedPort, Gateway, Message, Origin, RawClient};

use crate::stream_routes::stream_addresses;
use crate::support::{gateway, upstream, with};
use crate::tls_support::{Authority, ssl};

/// Plugins that mark answers with a header.
fn marking(name: &str) -> Value {
    json!({ "response-rewrite": { "headers": { "set": { name: "1" } } } })
}

/// A document in which every object carries revisions, as ADC and APISIX's ingress controller write it.
fn revised_document(origin: &Origin) -> Value {
    let node = upstream([origin.address()]);
    let authority = Authority::new("servers");
    let proto = "syntax = \"proto3\"; package a; message M { string t = 1; }";
    let mut document = json!({
        "upstreams": [with(node, json!({ "id": "s", "name": "s" }))],
        "services": [{ "id": "s", "name": "s", "upstream_id": "s", "labels": { "a": "b" } }],
        "plugin_configs": [{ "id": "p", "plugins": marking("X-Echo") }],
        "routes": [
            { "id": "open", "name": "open", "uris": ["/open"], "service_id": "s", "status": 1,
              "plugin_config_id": "p" },
            { "id": "keyed", "uris": ["/keyed"], "service_id": "s", "plugins": { "key-auth": {} } },
        ],
        "consumer_groups": [{ "id": "g", "plugins": marking("X-Group") }],
        "consumers": [
            { "username": "jack", "group_id": "g" },
            { "id": "jack/credentials/c", "name": "c", "plugins": { "key-auth": { "key": "letmein" } } },
        ],
        "global_rules": [{ "id": "request-id", "plugins": { "request-id": {} } }],
        "plugin_metadata": [{ "id": "http-logger", "log_format": { "host": "$host" } }],
        "ssls": [ssl("t", &["a.test"], &authority.server(&["a.test"]))],
        "stream_routes": [{ "id": "st", "name": "st", "service_id": "s" }],
        "secrets": [{ "id": "vault/1", "uri": "http://127.0.0.1:1", "prefix": "kv", "token": "t" }],
        "protos": [{ "id": "pr", "content": proto }],
    });
    for (_, list) in document.as_object_mut().expect("an object") {
        for item in list.as_array_mut().expect("a list") {
            item["modifiedIndex"] = json!(1_764_000_000_000_u64);
            item["createdIndex"] = json!(7);
        }
    }
    document
}

/// Requests through every object of the document, and no problem with any.
fn check_served(gateway: &Gateway) {
    let problems = gateway.configuration()["problems"].clone();
    assert_eq!(problems, json!([]));
    let answer = gateway.client().get("/open");
    assert_eq!((answer.status(), answer.field("x-echo")), (200, Some("1")), "{}", answer.text());
    assert!(answer.field("x-request-id").is_some(), "the global rule runs");
    assert_eq!(gateway.client().get("/keyed").status(), 401);
    let request = "GET /keyed HTTP/1.1\r\nHost: a\r\napikey: letmein\r\n\r\n";
    let answer = gateway.client().ask(request);
    assert_eq!((answer.status(), answer.field("x-group")), (200, Some("1")));
    let address = stream_addresses(gateway)[0];
    assert_eq!(RawClient::connect(address).get("/").text(), "origin");
}

fn with_stream() -> tollhouse_testkit::GatewayBuilder {
    gateway().set("listen.stream", r#"[{"address":"127.0.0.1:0"}]"#)
}

#[test]
fn a_document_with_revisions_in_every_object_is_served() {
    let origin = Origin::named("origin");
    let document = revised_document(&origin);
    let gateway = with_stream().without_resources().set("admin.standalone", "true").start();
    let text = document.to_string();
    let answer = RawClient::connect(gateway.admin_address()).ask(format!(
        "PUT /apisix/admin/configs HTTP/1.1\r\nHost: a\r\nX-API-KEY: {}\r\nX-Digest: d\r\n\
         Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{text}",
        gateway.admin_key(),
        text.len()
    ));
    assert_eq!((answer.status(), answer.field("x-tollhouse-warning")), (202, None));
    check_served(&gateway);
    drop(gateway);
    check_served(&with_stream().resources(&document).start());
}

#[test]
fn objects_with_revisions_are_served_one_by_one() {
    let origin = Origin::named("origin");
    let document = revised_document(&origin);
    let gateway = with_stream().without_resources().start();
    for (list, items) in document.as_object().expect("an object") {
        for item in items.as_array().expect("a list") {
            let mut value = item.clone();
            let id = item.get("id").or_else(|| item.get("username")).expect("a name");
            let id = id.as_str().expect("text");
            if id.contains('/') || list == "plugin_metadata" {
                value.as_object_mut().expect("an object").shift_remove("id");
            }
            let answer = gateway.admin("PUT", &format!("/{list}/{id}"), &value);
            assert_eq!(answer.status(), 201, "{list}/{id}: {}", answer.text());
            assert_eq!(answer.field("x-tollhouse-warning"), None, "{list}/{id}");
        }
    }
    check_served(&gateway);
}

#[test]
fn stream_routes_with_the_stored_default_of_http_upstreams_are_served() {
    let origin = Origin::named("origin");
    // What APISIX up to 3.13 stores of {"nodes": …}.
    let stored = with(
        upstream([origin.address()]),
        json!({ "scheme": "http", "hash_on": "vars", "pass_host": "pass" }),
    );
    let route = json!({ "id": "1", "upstream": stored });
    let in_file = with_stream().resources(&json!({ "stream_routes": [route] })).start();
    let in_store = with_stream().without_resources().start();
    let answer = in_store.admin("PUT", "/stream_routes/1", &route);
    assert_eq!((answer.status(), answer.field("x-tollhouse-warning")), (201, None));
    for gateway in [&in_file, &in_store] {
        let address = stream_addresses(gateway)[0];
        assert_eq!(RawClient::connect(address).get("/").text(), "origin");
    }
}

/// A client of the Admin API that keeps its connection.
struct Writer {
    client: RawClient,
    key: String,
}

impl Writer {
    fn new(gateway: &Gateway) -> Self {
        Self { client: RawClient::connect(gateway.admin_address()), key: gateway.admin_key() }
    }

    fn ask(&mut self, method: &str, path: &str, body: &str) -> Message {
        self.client.ask(format!(
            "{method} /apisix/admin{path} HTTP/1.1\r\nHost: admin\r\nX-API-KEY: {}\r\nContent-Length: {}\r\n\r\n{body}",
            self.key,
            body.len()
        ))
    }
}

/// The JSON of an answer.
fn json_of(answer: &Message) -> Value {
    serde_json::from_str(&answer.text()).unwrap_or_default()
}

/// Reasons of problems in a list, with their places.
fn reasons(list: &Value) -> BTreeSet<String> {
    let problems = list.as_array().into_iter().flatten();
    problems.map(|problem| format!("{}: {}", problem["path"], problem["reason"])).collect()
}

#[test]
fn a_write_without_its_effect_is_refused_or_says_so() {
    let gateway = gateway().without_resources().start();
    let node = || json!({ "127.0.0.1:1": 1 });
    let discovered = |kind: &str| json!({ "service_name": "a", "discovery_type": kind });
    let checked = json!({ "active": { "http_method": "POTATO" } });
    let acl =
        json!({ "allow_labels": { "a": ["b"] }, "external_user_label_field": "$..([invalid" });
    let table = [
        ("/upstreams/1", discovered("zookeeper"), Some("does not exist here")),
        ("/upstreams/1", discovered("tars"), Some("does not exist here")),
        ("/upstreams/1", json!({ "nodes": node(), "scheme": "kafka" }), Some("is not served yet")),
        ("/upstreams/1", json!({ "nodes": node(), "checks": checked }), None),
        (
            "/secrets/aws/1",
            json!({ "access_key_id": "a", "secret_access_key": "s" }),
            Some("not fetched"),
        ),
        (
            "/stream_routes/1",
            json!({ "protocol": { "name": "redis" } }),
            Some("no protocol is taken apart"),
        ),
        ("/routes/1", json!({ "uri": "/", "plugins": { "acl": acl } }), None),
        (
            "/routes/1",
            json!({ "uri": "/", "vars": [["arg_a", "==", true]], "upstream": { "nodes": node() } }),
            Some("nothing equals this"),
        ),
    ];
    for (path, value, expected) in table {
        let answer = gateway.admin("PUT", path, &value);
        let warning = answer.field("x-tollhouse-warning").unwrap_or_default();
        match expected {
            Some(expected) => {
                assert!(answer.status() < 300, "{path} {value}: {}", answer.text());
                assert!(warning.contains(expected), "{path} {value}: {warning}");
                let body = json_of(&answer);
                assert!(body["warnings"].to_string().contains(expected), "{body}");
            }
            None => assert_eq!(answer.status(), 400, "{path} {value}: {}", answer.text()),
        }
    }
}

/// Values that a careless or foreign program may write into any field.
fn odd_values() -> [Value; 5] {
    [json!(-1), json!("$x("), json!([]), json!({ "a": 1 }), json!(true)]
}

/// The example of each plugin's manual page.
fn examples() -> Vec<(String, Value)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/plugins");
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).expect("the pages are there") {
        let path = entry.expect("an entry").path();
        let page = fs::read_to_string(&path).expect("a page");
        let name = path.file_stem().expect("a name").to_string_lossy().into_owned();
        let example = page.split_once("```json\n").and_then(|(_, rest)| rest.split_once("```"));
        let (example, _) = example.expect("every page has an example");
        found.push((name, serde_json::from_str(example).expect("JSON")));
    }
    found
}

/// Objects of every kind that has fields of its own, each with one field replaced by an odd value.
fn odd_objects(writer: &mut Writer) -> Vec<(String, Value)> {
    let node = json!({ "nodes": { "127.0.0.1:1": 1 } });
    let pair = ssl("1", &["a.test"], &Authority::new("servers").server(&["a.test"]));
    let bases = [
        ("routes/1", "route", json!({ "uri": "/odd", "upstream": node })),
        ("services/1", "service", json!({ "upstream": node })),
        ("upstreams/1", "upstream", node.clone()),
        ("stream_routes/1", "stream_route", json!({ "upstream": node })),
        ("consumers/jack", "consumer", json!({ "username": "jack" })),
        (
            "consumers/jack/credentials/1",
            "credential",
            json!({ "plugins": { "key-auth": { "key": "k" } } }),
        ),
        ("consumer_groups/1", "consumer_group", json!({ "plugins": {} })),
        ("plugin_configs/1", "plugin_config", json!({ "plugins": {} })),
        ("global_rules/1", "global_rule", json!({ "plugins": {} })),
        ("protos/1", "proto", json!({ "content": "syntax = \"proto3\"; message M {}" })),
        ("ssls/1", "ssl", pair),
        (
            "secrets/vault/1",
            "secret_vault",
            json!({ "uri": "http://127.0.0.1:1", "prefix": "p", "token": "t" }),
        ),
    ];
    let mut objects = Vec::new();
    for (path, schema, base) in bases {
        objects.push((path.to_owned(), base.clone()));
        let schema = json_of(&writer.ask("GET", &format!("/schema/{schema}"), ""));
        let names = schema["properties"].as_object().into_iter().flatten().map(|(name, _)| name);
        for name in names.filter(|name| *name != "id" && *name != "username") {
            for value in odd_values() {
                objects.push((path.to_owned(), with(base.clone(), json!({ name: value }))));
            }
        }
    }
    objects
}

/// Routes with the example of each plugin, and with one of its fields replaced by an odd value.
fn odd_confs() -> Vec<(String, Value)> {
    let mut objects = Vec::new();
    for (plugin, example) in examples() {
        let route = |conf: Value| {
            let upstream = json!({ "nodes": { "127.0.0.1:1": 1 } });
            json!({ "uri": "/odd", "upstream": upstream, "plugins": { &plugin: conf } })
        };
        let names: Vec<&String> =
            example.as_object().into_iter().flatten().map(|it| it.0).collect();
        for name in names {
            for value in odd_values() {
                let conf = with(example.clone(), json!({ name: value }));
                objects.push(("routes/1".to_owned(), route(conf)));
            }
        }
        objects.push(("routes/1".to_owned(), route(example)));
    }
    objects
}

#[test]
fn every_accepted_object_serves_or_its_answer_names_the_problem() {
    let gateway = with_stream().without_resources().start();
    let mut writer = Writer::new(&gateway);
    let objects: Vec<_> = odd_objects(&mut writer).into_iter().chain(odd_confs()).collect();
    let mut accepted = 0;
    for (path, value) in objects {
        let answer = writer.ask("PUT", &format!("/{path}"), &value.to_string());
        if answer.status() >= 300 {
            assert_eq!(answer.status(), 400, "{path} {value}: {}", answer.text());
            continue;
        }
        accepted += 1;
        let told = reasons(&json_of(&answer)["warnings"]);
        let problems = reasons(&gateway.configuration()["problems"]);
        let place = path.replacen("consumers/jack/credentials", "credentials/jack/credentials", 1);
        let own: BTreeSet<String> =
            problems.into_iter().filter(|it| it.starts_with(&format!("\"{place}"))).collect();
        assert_eq!(told, own, "{path} {value}");
        assert_eq!(
            answer.field("x-tollhouse-warning").is_none(),
            told.is_empty(),
            "{path} {value}"
        );
    }
    assert!(accepted > 100, "{accepted} of the objects were accepted");
}

#[test]
fn a_warning_goes_once_its_reason_has_gone() {
    let gateway = gateway().without_resources().start();
    let address = ClosedPort::new().address();
    let broken = json!({ "service_name": "a", "discovery_type": "zookeeper" });
    assert!(gateway.admin("PUT", "/upstreams/1", &broken).field("x-tollhouse-warning").is_some());
    let answer = gateway.admin("PUT", "/upstreams/1", &upstream([address]));
    assert_eq!((answer.status(), answer.field("x-tollhouse-warning")), (200, None));
    assert!(json_of(&answer).get("warnings").is_none(), "{}", answer.text());
}
