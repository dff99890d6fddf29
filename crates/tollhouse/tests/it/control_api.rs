//! The control API, the status pages, pages that plugins put on routes, and secrets out of the
//! environment. What single answers look like is tested beside them.

use std::net::SocketAddr;

use serde_json::{Value, json};
use tollhouse_testkit::patience::wait_for;
use tollhouse_testkit::{Gateway, Message, Origin, RawClient};

use crate::support::{everything_to, gateway, routes, upstream};

/// Asks a side listener.
fn ask(address: SocketAddr, method: &str, path: &str, accept: &str) -> Message {
    RawClient::connect(address).ask(format!(
        "{method} {path} HTTP/1.1\r\nHost: a\r\nAccept: {accept}\r\nContent-Length: 0\r\n\
         Connection: close\r\n\r\n"
    ))
}

/// The status and the JSON that the control API answers a GET with.
fn control(gateway: &Gateway, path: &str) -> (u16, Value) {
    let answer = ask(gateway.control_address(), "GET", path, "*/*");
    assert_eq!(answer.field("content-type"), Some("application/json"), "{path}");
    (answer.status(), serde_json::from_str(&answer.text()).expect("JSON"))
}

#[test]
fn objects_in_service_are_shown_out_of_the_store() {
    let gateway = gateway().without_resources().start();
    for (path, body) in [
        ("/upstreams/1", json!({"nodes": {"127.0.0.1:1980": 1}, "type": "roundrobin"})),
        ("/services/5", json!({"upstream_id": "1"})),
        ("/routes/1", json!({"uri": "/hello", "service_id": "5"})),
        ("/plugin_metadata/http-logger", json!({"log_format": {"host": "$host"}})),
    ] {
        let answer = gateway.admin("PUT", path, &body);
        assert_eq!(answer.status(), 201, "{path}: {}", answer.text());
    }
    let stored: Value =
        serde_json::from_str(&gateway.admin("GET", "/routes/1", &Value::Null).text())
            .expect("JSON");
    let (status, route) = control(&gateway, "/v1/route/1");
    assert_eq!((status, &route["key"]), (200, &json!("/apisix/routes/1")));
    for name in ["createdIndex", "modifiedIndex"] {
        assert_eq!(route[name], stored[name], "{name}");
    }
    assert_eq!(route["value"]["uri"], "/hello");
    let (_, all) = control(&gateway, "/v1/routes");
    assert_eq!(all, json!([route]));
    let (_, upstream) = control(&gateway, "/v1/upstream/1");
    let nodes = json!([{"host": "127.0.0.1", "port": 1980, "weight": 1}]);
    assert_eq!(upstream["value"]["nodes"], nodes);
    assert_eq!(control(&gateway, "/v1/services").1[0]["value"]["id"], "5");
    assert_eq!(control(&gateway, "/v1/plugin_metadatas").1[0]["id"], "http-logger");
    for (path, text) in [
        ("/v1/route/9", "route[9] not found"),
        ("/v1/service/9", "service[9] not found"),
        ("/v1/upstream/9", "upstream[9] not found"),
        ("/v1/plugin_metadata/x", "plugin metadata[x] not found"),
        ("/v1/healthcheck/routes", "missing src id for src type routes"),
        ("/v1/healthcheck/routes/9", "routes[9] not found"),
        ("/v1/healthcheck/routes/1", "no checker for routes[1]"),
    ] {
        assert_eq!(control(&gateway, path), (404, json!({"error_msg": text})), "{path}");
    }
}

#[test]
fn objects_in_service_are_shown_out_of_the_file() {
    let origin = Origin::named("a");
    let gateway = gateway().resources(&everything_to(origin.address())).start();
    let index = || control(&gateway, "/v1/route/all").1["modifiedIndex"].clone();
    assert_eq!(index(), 1);
    let other = Origin::named("b");
    gateway.reload(&everything_to(other.address()));
    assert_eq!(index(), 2);
    let nodes = control(&gateway, "/v1/routes").1[0]["value"]["upstream"]["nodes"].clone();
    assert_eq!(nodes[0]["port"], other.address().port());
}

#[test]
fn no_website_reads_what_is_for_this_machine() {
    let gateway = gateway()
        .set("listen.status", "127.0.0.1:0")
        .set("listen.shenyu", "127.0.0.1:0")
        .set("listen.hosts", "gw.example.org")
        .registry()
        .without_resources()
        .start();
    let status = status_address(&gateway);
    let shenyu = crate::support::listener_named(&gateway, "shenyu");
    let (_, registry) = gateway.registry_addresses();
    let ask = |address, method: &str, path: &str, lines: &str| {
        let request = format!(
            "{method} {path} HTTP/1.1\r\n{lines}Content-Length: 0\r\nConnection: close\r\n\r\n"
        );
        RawClient::connect(address).ask(request).status()
    };
    for (address, method, path) in [
        (gateway.control_address(), "GET", "/v1/routes"),
        (gateway.control_address(), "POST", "/v1/gc"),
        (crate::support::listener_named(&gateway, "metrics"), "GET", "/metrics"),
        (status, "GET", "/status"),
        (registry, "GET", "/"),
        (gateway.admin_address(), "GET", "/ui/"),
        (shenyu, "GET", "/platform/login?userName=admin&password=123456"),
    ] {
        for (lines, expected) in [
            ("Host: 127.0.0.1\r\n", 200),
            ("Host: localhost:9090\r\nOrigin: http://localhost:9090\r\n", 200),
            ("Host: gw.example.org\r\n", 200),
            ("Host: evil.example\r\n", 403),
            ("Host: evil.example\r\nOrigin: http://evil.example\r\n", 403),
            ("Host: 127.0.0.1\r\nOrigin: https://evil.example\r\n", 403),
            ("Host: localhost\r\nOrigin: null\r\n", 403),
        ] {
            assert_eq!(ask(address, method, path, lines), expected, "{method} {path} {lines}");
        }
    }
}

#[test]
fn the_process_tells_about_itself() {
    let gateway = gateway().without_resources().start();
    let (_, schema) = control(&gateway, "/v1/schema");
    assert_eq!(schema["main"]["route"]["type"], "object");
    assert_eq!(schema["plugins"]["key-auth"]["priority"], 2500);
    assert_eq!(schema["plugins"]["key-auth"]["type"], "auth");
    assert!(schema["stream_plugins"]["ip-restriction"].is_object());
    let (_, info) = control(&gateway, "/v1/server_info");
    assert_eq!(info["version"], "3.18.0");
    assert_eq!(info["etcd_version"], "embedded store");
    assert!(info["boot_time"].as_u64() > Some(1_700_000_000));
    let address = gateway.control_address();
    assert_eq!(ask(address, "POST", "/v1/gc", "*/*").status(), 200);
    let answer = ask(address, "PUT", "/v1/plugins/reload", "*/*");
    assert_eq!((answer.status(), answer.text().as_str()), (200, "done"));
    for (method, path) in [
        ("GET", "/v1/gc"),
        ("GET", "/v1/plugins/reload"),
        ("GET", "/v1/nothing"),
        ("GET", "/v1/discovery/dns/dump"),
        ("GET", "/"),
    ] {
        let answer = ask(address, method, path, "*/*");
        assert_eq!(answer.status(), 404, "{method} {path}");
        assert!(answer.text().contains("404 Not Found"), "{method} {path}");
    }
    // The id outlives the process.
    let gateway = gateway.kill().start();
    assert_eq!(control(&gateway, "/v1/server_info").1["id"], info["id"]);
}

#[test]
fn checked_nodes_are_shown_to_programs_and_to_people() {
    let origin = Origin::named("a");
    let mut checked = upstream([origin.address()]);
    checked["checks"] = json!({"active": {"http_path": "/", "healthy": {"interval": 1}}});
    let gateway = gateway()
        .resources(&routes([json!({"id": "1", "uri": "/*", "upstream": checked})]))
        .start();
    gateway.client().get("/");
    let all = wait_for("the checker", || {
        let (_, all) = control(&gateway, "/v1/healthcheck");
        (all.as_array().map(Vec::len) == Some(1)).then_some(all)
    });
    assert_eq!((&all[0]["name"], &all[0]["type"]), (&json!("/apisix/routes/1"), &json!("http")));
    assert_eq!(all[0]["nodes"][0]["port"], origin.address().port());
    let browser = "text/html,application/xhtml+xml";
    for path in ["/v1/healthcheck", "/v1/healthcheck/routes/1"] {
        let page = ask(gateway.control_address(), "GET", path, browser);
        assert!(page.field("content-type").is_some_and(|value| value.starts_with("text/html")));
        assert!(page.text().contains("<td>/apisix/routes/1</td>"), "{}", page.text());
    }
}

/// The address of the status pages, as the gateway prints it.
fn status_address(gateway: &Gateway) -> SocketAddr {
    gateway.output().wait_line("the status pages", |line| {
        let rest = line.trim_start().strip_prefix("status")?.trim_start();
        rest.strip_prefix("http://")?.split('/').next()?.parse().ok()
    })
}

#[test]
fn status_pages_tell_whether_there_is_something_to_serve() {
    let origin = Origin::named("a");
    let builder = gateway().resources(&everything_to(origin.address()));
    let served = builder.set("listen.status", "127.0.0.1:0").start();
    let ready = |address| ask(address, "GET", "/status/ready", "*/*");
    let ok = "{\"status\":\"ok\"}\n";
    let address = status_address(&served);
    for answer in [ask(address, "GET", "/status", "*/*"), ready(address)] {
        assert_eq!((answer.status(), answer.text().as_str()), (200, ok));
    }
    let empty = gateway()
        .without_resources()
        .set("admin.standalone", "true")
        .set("listen.status", "127.0.0.1:0")
        .start();
    let address = status_address(&empty);
    assert_eq!(ask(address, "GET", "/status", "*/*").status(), 200);
    assert_eq!(ready(address).status(), 503);
    let put = format!(
        "PUT /apisix/admin/configs HTTP/1.1\r\nHost: a\r\nX-API-KEY: {}\r\nX-Digest: d1\r\n\
         Content-Length: 2\r\n\r\n{{}}",
        empty.admin_key()
    );
    assert_eq!(RawClient::connect(empty.admin_address()).ask(put).status(), 202);
    wait_for("the first document", || (ready(address).status() == 200).then_some(()));
}

#[test]
fn pages_of_plugins_are_put_on_routes_where_the_plugin_may_be_used() {
    let page = |path: &str| json!({"id": path, "uri": path, "plugins": {"public-api": {}}});
    let paths = ["/apisix/status", "/apisix/prometheus/metrics"];
    let pages = || routes([page("status"), page("metrics")]);
    let mut resources = pages();
    for (index, path) in paths.iter().enumerate() {
        resources["routes"][index]["uri"] = json!(path);
    }
    let all = gateway().resources(&resources).start();
    let status: Value = serde_json::from_str(&all.client().get(paths[0]).text()).expect("JSON");
    assert_eq!(status["status"]["writing"], "1");
    assert!(status["id"].as_str().is_some_and(|id| !id.is_empty()));
    assert!(all.client().get(paths[1]).text().contains("\n# TYPE "));
    let few = gateway().resources(&resources).set("plugins", "public-api").start();
    for path in paths {
        assert_eq!(few.client().get(path).status(), 404, "{path}");
    }
    assert_eq!(ask(few.control_address(), "GET", "/v1/server_info", "*/*").status(), 404);
}

#[test]
fn keys_of_consumers_may_stand_in_the_environment() {
    let origin = Origin::named("a");
    let gateway = gateway()
        .without_resources()
        .set("secrets.env", "JACK_KEY, KEYS, NOT_SET")
        .variable("JACK_KEY", "out-of-the-environment")
        .variable("KEYS", r#"{"second": "out-of-an-object"}"#)
        .start();
    let key = |reference: &str| json!({"key-auth": {"key": reference}});
    let route = json!({"uri": "/*", "plugins": {"key-auth": {}},
        "upstream": upstream([origin.address()])});
    let jack = json!({"username": "jack", "plugins": key("$env://JACK_KEY")});
    for (path, body) in [
        ("/consumers/jack", jack),
        ("/consumers/jack/credentials/second", json!({"plugins": key("$ENV://KEYS/second")})),
        ("/consumers/jill", json!({"username": "jill", "plugins": key("$env://NOT_SET")})),
        ("/routes/1", route),
    ] {
        let answer = gateway.admin("PUT", path, &body);
        assert_eq!(answer.status(), 201, "{path}: {}", answer.text());
    }
    let ask = |key: &str| {
        let request = format!("GET / HTTP/1.1\r\nHost: a\r\napikey: {key}\r\n\r\n");
        gateway.client().ask(request).status()
    };
    wait_for("the route to serve", || (ask("none") == 401).then_some(()));
    for (key, status) in [
        ("out-of-the-environment", 200),
        ("out-of-an-object", 200),
        ("$env://JACK_KEY", 401),
        ("$env://NOT_SET", 401),
    ] {
        assert_eq!(ask(key), status, "{key}");
    }
    // The Admin API shows what was written, and the problem is named.
    let stored = gateway.admin("GET", "/consumers/jack", &Value::Null).text();
    assert!(stored.contains("$env://JACK_KEY"), "{stored}");
    let problems = gateway.configuration()["problems"].to_string();
    assert!(problems.contains("nothing answers for $env://NOT_SET"), "{problems}");
}

#[test]
fn what_is_kept_and_not_served_is_named_where_a_user_looks() {
    let gateway = gateway().without_resources().start();
    let secret = json!({ "access_key_id": "id", "secret_access_key": "key" });
    assert_eq!(gateway.admin("PUT", "/secrets/aws/1", &secret).status(), 201, "as APISIX");
    let problems = || gateway.configuration()["problems"].to_string();
    wait_for("the problem", || problems().contains("are not fetched").then_some(()));
    let again = gateway.kill().without_resources().start();
    again.output().wait_line("the warning of the start", |line| {
        (line.contains("WARN") && line.contains("are not fetched")).then_some(())
    });
}

#[test]
fn beside_a_file_the_admin_api_shows_its_objects_and_writes_none() {
    let origin = Origin::named("a");
    let resources = crate::support::everything_to(origin.address());
    let gateway = gateway().set("listen.admin", "127.0.0.1:0").registry();
    let gateway = gateway.resources(&resources).start();
    let shown = || gateway.admin("GET", "/routes/all", &Value::Null);
    wait_for("the route", || (shown().status() == 200).then_some(()));
    let answer = shown();
    assert!(answer.text().contains("\"uri\":\"/*\""), "{}", answer.text());
    for (method, path) in [("PUT", "/routes/1"), ("DELETE", "/routes/all"), ("POST", "/routes")] {
        let answer = gateway.admin(method, path, &json!({ "uri": "/b" }));
        assert_eq!(answer.status(), 405, "{method}");
        assert!(answer.text().contains("resources.json"), "{}", answer.text());
    }
    gateway.reload(&json!({ "routes": [{ "id": "other", "uri": "/x" }] }));
    wait_for("the change", || (shown().status() == 404).then_some(()));
}
