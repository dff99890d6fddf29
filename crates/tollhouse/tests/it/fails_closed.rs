//! What protects and cannot work refuses: plugins that cannot run, keyrings that are not there.

use std::os::unix::fs::PermissionsExt;

use serde_json::{Value, json};
use tollhouse_testkit::patience::wait_for;
use tollhouse_testkit::{Gateway, Origin};

use crate::support::{gateway, upstream};

fn status(gateway: &Gateway, target: &str, lines: &str) -> u16 {
    gateway.client().ask(format!("GET {target} HTTP/1.1\r\nHost: a\r\n{lines}\r\n")).status()
}

/// Routes that a misspelt plugin protects from every place, and one that nothing protects.
fn resources(origin: &Origin) -> Value {
    let upstream = || upstream([origin.address()]);
    let misspelt = || json!({"key-auht": {}});
    json!({
        "routes": [
            {"id": "own", "uri": "/own", "plugins": misspelt(), "upstream": upstream()},
            {"id": "service", "uri": "/service", "service_id": "s"},
            {"id": "config", "uri": "/config", "plugin_config_id": "c", "upstream": upstream()},
            {"id": "group", "uri": "/group", "plugins": {"key-auth": {}}, "upstream": upstream()},
            {"id": "meta", "uri": "/meta", "plugins": {"ip-restriction": {"_meta": {"off": true}}},
                "upstream": upstream()},
            {"id": "conf", "uri": "/conf", "plugins": {"ip-restriction": {"whitelist": ["here"]}},
                "upstream": upstream()},
            {"id": "secret", "uri": "/secret", "plugins": {"csrf": {"key": "$env://NOT_SET"}},
                "upstream": upstream()},
            {"id": "mocked", "uri": "/mocked",
                "plugins": {"openid-connect": {}, "mocking": {"response_example": "x"}}},
            {"id": "off", "uri": "/off", "service_id": "s",
                "plugins": {"key-auht": {"_meta": {"disable": true}}}},
            {"id": "all", "uri": "/*", "upstream": upstream()},
        ],
        "services": [{"id": "s", "plugins": misspelt(), "upstream": upstream()}],
        "plugin_configs": [{"id": "c", "plugins": misspelt()}],
        "consumer_groups": [{"id": "g", "plugins": {"consumer-restricton": {}}}],
        "consumers": [
            {"username": "jack", "group_id": "g", "plugins": {"key-auth": {"key": "jacks"}}},
            {"username": "jill", "plugins": {"key-auth": {"key": "jills"}, "acll": {}}},
            {"username": "joe", "plugins": {"key-auth": {"key": "$env://NOT_SET"}}},
            {"username": "jim", "plugins": {"key-auth": {"key": "jims"}, "inspect": {}}},
        ],
    })
}

#[test]
fn a_protection_that_cannot_run_is_never_left_out() {
    let origin = Origin::named("a");
    let gateway = gateway().resources(&resources(&origin)).start();
    for target in ["/own", "/service", "/config", "/meta", "/conf", "/secret", "/mocked"] {
        assert_eq!(status(&gateway, target, ""), 503, "{target}");
    }
    assert_eq!(status(&gateway, "/group", "apikey: jacks\r\n"), 503);
    for key in ["jills", "$env://NOT_SET"] {
        assert_eq!(status(&gateway, "/group", &format!("apikey: {key}\r\n")), 401, "{key}");
    }
    assert_eq!(origin.requests().len(), 0);
    gateway.wait_failures("plugin_unavailable", 8);
    assert_eq!(status(&gateway, "/group", "apikey: jims\r\n"), 200);
    assert_eq!(status(&gateway, "/off", ""), 200);
    assert_eq!(status(&gateway, "/else", ""), 200);
    let told = gateway.configuration()["problems"].to_string();
    assert!(told.contains("did you mean \\\"key-auth\\\"?"), "{told}");
}

#[test]
fn a_global_rule_that_cannot_run_stops_what_it_was_to_see() {
    let origin = Origin::named("a");
    let rule = |plugins: Value| {
        json!({
            "routes": [{"id": "all", "uri": "/*", "upstream": upstream([origin.address()])}],
            "global_rules": [{"id": "1", "plugins": plugins}],
        })
    };
    let gateway = gateway().resources(&rule(json!({"ip-restricton": {}}))).start();
    assert_eq!(status(&gateway, "/", ""), 503);
    gateway.reload(&rule(json!({"inspect": {}})));
    assert_eq!(status(&gateway, "/", ""), 200);
    // What is in service already was good.
    gateway.reload(&rule(json!({"ip-restricton": {}})));
    assert_eq!(status(&gateway, "/", ""), 200);
}

#[test]
fn a_route_that_cannot_be_told_leaves_its_requests_to_no_broader_one() {
    let origin = Origin::named("a");
    let upstream = || upstream([origin.address()]);
    let own = |uri: &str, name: &str, value: Value| {
        let mut route = json!({"uri": uri, "plugins": {"key-auth": {}}, "upstream": upstream()});
        route[name] = value;
        route
    };
    let resources = json!({"routes": [
        own("/vars", "vars", json!([["arg_a", "=", "b"]])),
        own("/addresses", "remote_addrs", json!(["ten"])),
        own("/methods", "methods", json!(["BREW"])),
        own("/hosts", "hosts", json!([7])),
        own("/unset", "desc", "${{TOLLHOUSE_TEST_NOT_SET}}".into()),
        own("/unset-host", "host", "${{TOLLHOUSE_TEST_NOT_SET}}".into()),
        own("/bad-id", "id", "a/b".into()),
        own("/first", "id", "twice".into()),
        own("/second", "id", "twice".into()),
        {"id": "all", "uri": "/*", "upstream": upstream()},
    ]});
    let gateway = gateway().resources(&resources).start();
    let refused = [
        "/vars",
        "/addresses",
        "/methods",
        "/hosts",
        "/unset",
        "/unset-host",
        "/bad-id",
        "/second",
    ];
    for target in refused {
        assert_eq!(status(&gateway, target, ""), 503, "{target}");
    }
    gateway.wait_failures("route_invalid", 8);
    assert_eq!(status(&gateway, "/first", ""), 401);
    assert_eq!(status(&gateway, "/else", ""), 200);
    assert_eq!(origin.requests().len(), 1);
    let told = gateway.configuration()["problems"].to_string();
    assert!(told.contains("requests to /unset-host are refused until this is mended"), "{told}");
    // Mended, and gone.
    gateway.reload(&json!({"routes": [
        own("/vars", "vars", json!([["arg_a", "==", "b"]])),
        {"id": "all", "uri": "/*", "upstream": upstream()},
    ]}));
    assert_eq!(status(&gateway, "/vars?a=b", ""), 401);
    assert_eq!(status(&gateway, "/unset", ""), 200);
}

#[test]
fn a_plugin_that_may_not_be_used_protects_nothing_unless_it_may_be_passed_over() {
    let origin = Origin::named("a");
    let upstream = upstream([origin.address()]);
    let route = json!({"id": "r", "uri": "/*", "plugins": {"key-auth": {}}, "upstream": upstream});
    let resources = json!({"routes": [route]});
    let only = || gateway().resources(&resources).set("plugins", "cors");
    assert_eq!(status(&only().start(), "/", ""), 503);
    assert_eq!(status(&only().set("skip_plugins", "key-auth").start(), "/", ""), 200);
}

#[test]
fn a_keyring_that_is_missing_damaged_or_anothers_keeps_a_gateway_from_starting() {
    let origin = Origin::named("a");
    let gateway = gateway().without_resources().start();
    let route = json!({
        "uri": "/*", "plugins": {"key-auth": {}}, "upstream": upstream([origin.address()]),
    });
    assert_eq!(gateway.admin("PUT", "/routes/1", &route).status(), 201);
    let jack = json!({"username": "jack", "plugins": {"key-auth": {"key": "jacks-key"}}});
    let written = gateway.admin("PUT", "/consumers", &jack).text();
    assert!(written.contains("tollhouse-sealed:1:") && !written.contains("jacks-key"), "{written}");
    wait_for("the consumer to serve", || {
        (status(&gateway, "/", "apikey: jacks-key\r\n") == 200).then_some(())
    });
    let folder = gateway.folder().to_owned();
    let mode = |path: &std::path::Path| {
        std::fs::metadata(path).expect("it is there").permissions().mode() & 0o777
    };
    for name in ["keyring", "admin.key", "node.id", "handover.sock"] {
        assert_eq!(mode(&folder.join(name)), 0o600, "{name}");
    }
    let keyring = folder.join("keyring");
    let keys = std::fs::read_to_string(&keyring).expect("it is kept");
    let stopped = gateway.kill();
    let table: [(Option<&str>, &str); 4] = [
        (None, "put it back as"),
        (Some(""), "put it back as"),
        (Some("0123456789abcdef\n"), "was sealed with another keyring"),
        (Some("damaged\n"), "is damaged; put a copy of it back"),
    ];
    for (text, expected) in table {
        match text {
            Some(text) => std::fs::write(&keyring, text).expect("it can be written"),
            None => std::fs::remove_file(&keyring).expect("it is there"),
        }
        let failure = stopped.fail();
        assert_eq!(failure.code, Some(1), "{text:?}: {}", failure.text);
        assert!(failure.text.contains(expected), "{text:?}: {}", failure.text);
    }
    std::fs::write(&keyring, format!("fedcba9876543210\n{keys}")).expect("it can be written");
    let gateway = stopped.start();
    assert_eq!(status(&gateway, "/", "apikey: jacks-key\r\n"), 200);
    assert_eq!(status(&gateway, "/", "apikey: $env://HOME\r\n"), 401);
    // Everything is sealed with the newest key now.
    let stopped = gateway.kill();
    std::fs::write(&keyring, "fedcba9876543210\n").expect("it can be written");
    assert_eq!(status(&stopped.start(), "/", "apikey: jacks-key\r\n"), 200);
}
