//! Reach of objects on the machine: those of an operator, of a file, of a client of the registry.

use std::fs;
use std::net::SocketAddr;

use serde_json::{Value, json};
use tollhouse_testkit::patience::wait_for;
use tollhouse_testkit::{Gateway, Message, Origin, RawClient};

use crate::cases::Bench;
use crate::support::{everything_with, gateway, upstream};

const OPERATOR: &str = "an-operators-own-key";

/// Asks the Admin API as an operator.
fn operate(gateway: &Gateway, method: &str, path: &str, body: &Value) -> Message {
    let body = if body.is_null() { String::new() } else { body.to_string() };
    let request = format!(
        "{method} /apisix/admin{path} HTTP/1.1\r\nHost: localhost\r\nX-API-KEY: {OPERATOR}\r\n\
         Content-Length: {}\r\n\r\n{body}",
        body.len()
    );
    RawClient::connect(gateway.admin_address()).ask(request)
}

fn keys() -> String {
    json!([{"name": "night shift", "key": OPERATOR, "role": "operator"}]).to_string()
}

#[test]
fn objects_read_listed_variables_of_the_environment_and_no_others() {
    let origin = Origin::named("a");
    let gateway = gateway()
        .without_resources()
        .set("admin.keys", &keys())
        .set("secrets.env", "SHOP_*")
        .variable("SHOP_TOKEN", "listed-value")
        .variable("OTHER_TOKEN", "unlisted-value")
        .variable("TOLLHOUSE_ADMIN_VIEWER_KEY", "the-viewers-own-key")
        .start();
    let shown = |name: &str| {
        let headers = json!({"set": {"X-Shown": format!("$env://{name}")}});
        json!({"uri": format!("/{name}"), "plugins": {"response-rewrite": {"headers": headers}},
            "upstream": upstream([origin.address()])})
    };
    let names = ["SHOP_TOKEN", "OTHER_TOKEN", "HOME", "TOLLHOUSE_ADMIN_VIEWER_KEY"];
    for name in names {
        let answer = operate(&gateway, "PUT", &format!("/routes/{name}"), &shown(name));
        assert_eq!(answer.status(), 201, "{name}: {}", answer.text());
    }
    let ask = |name: &str| {
        let answer = gateway.client().get(&format!("/{name}"));
        answer.field("x-shown").map(str::to_owned)
    };
    wait_for("the last route", || ask(names[3]).is_some().then_some(()));
    assert_eq!(ask("SHOP_TOKEN").as_deref(), Some("listed-value"));
    for name in &names[1..] {
        // The reference as it is, in which `$env` is an unset variable.
        assert_eq!(ask(name), Some(format!("://{name}")));
    }
    let problems = gateway.configuration()["problems"].to_string();
    assert!(problems.contains("secrets.env"), "{problems}");
}

#[test]
fn plugins_write_below_their_folder_only() {
    let bench = Bench::with_gateway(gateway().set("admin.keys", &keys()));
    let folder = bench.gateway.folder().to_owned();
    let keyring = fs::read(folder.join("keyring")).expect("it is there");
    let whole = folder.join("keyring");
    for path in ["../keyring", whole.to_str().expect("a text"), "/tmp/x.log", "a/../../keyring"] {
        let route = bench.route("l.test", json!({"file-logger": {"path": path}}));
        let refused = operate(&bench.gateway, "PUT", "/routes/l", &route);
        assert_eq!(refused.status(), 400, "{path}: {}", refused.text());
        assert!(refused.text().contains("log_files.folder"), "{path}: {}", refused.text());
    }
    let route = bench.route("l.test", json!({"file-logger": {"path": "deep/own.log"}}));
    assert_eq!(operate(&bench.gateway, "PUT", "/routes/l", &route).status(), 201);
    bench.wait_until_served();
    let request = "GET / HTTP/1.1\r\nHost: l.test\r\n\r\n";
    assert_eq!(bench.gateway.client().ask(request).status(), 200);
    wait_for("the line", || {
        fs::read_to_string(folder.join("logs/deep/own.log")).ok().filter(|text| !text.is_empty())
    });
    assert_eq!(fs::read(folder.join("keyring")).expect("it is there"), keyring);
}

#[test]
fn an_instance_of_the_registry_never_leads_to_a_listener_for_operators() {
    let service = json!({"type": "roundrobin", "discovery_type": "registry",
        "service_name": "production/files"});
    let gateway = gateway().registry().resources(&everything_with(service, json!({}))).start();
    let (_, registry) = gateway.registry_addresses();
    let register = |host: &str, port: u16| {
        let body = json!({"service": "files", "namespace": "production", "host": host,
            "port": port})
        .to_string();
        let answer = RawClient::connect(registry).ask(format!(
            "POST /v1/RegisterInstance HTTP/1.1\r\nHost: registry\r\n\
             Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        ));
        answer.status()
    };
    let control: SocketAddr = gateway.control_address();
    for host in ["127.0.0.1", "127.0.0.9", "0.0.0.0", "localhost", "::ffff:127.0.0.1"] {
        assert_eq!(register(host, control.port()), 200, "{host}");
    }
    assert_eq!(register("a\r\nforged", 80), 400, "no line breaks");
    let state = wait_for("the look", || {
        let told = gateway.control("/v1/discovery/registry");
        let upstream = told["upstreams"][0].clone();
        (upstream["instances"]["forbidden"] == 5).then_some(upstream)
    });
    assert_eq!(state["state"], "empty", "{state}");
    assert_eq!(gateway.client().get("/v1/routes").status(), 503);
    let origin = Origin::named("own");
    assert_eq!(register("127.0.0.1", origin.address().port()), 200);
    wait_for("the other one", || (gateway.client().get("/").text() == "own").then_some(()));
}

#[test]
fn deeds_are_in_the_audit_and_secrets_that_open_two_doors_refuse_the_start() {
    let gateway = gateway().without_resources().set("admin.keys", &keys()).start();
    let route = json!({"uri": "/a", "upstream": {"nodes": {"127.0.0.1:1": 1}}});
    assert_eq!(operate(&gateway, "PUT", "/routes/1", &route).status(), 201);
    let wrong = "GET /apisix/admin/routes HTTP/1.1\r\nHost: localhost\r\nX-API-KEY: wrong\r\n\r\n";
    assert_eq!(RawClient::connect(gateway.admin_address()).ask(wrong).status(), 401);
    let read = |name: &str| fs::read_to_string(gateway.folder().join(name)).expect("it is there");
    let deeds = read("audit.log");
    let deed: Value = serde_json::from_str(deeds.trim()).expect("one line");
    assert_eq!((&deed["deed"], &deed["actor"]), (&json!("write"), &json!("night shift")));
    assert_eq!((&deed["path"], &deed["status"]), (&json!("/apisix/admin/routes/1"), &json!(201)));
    assert!(read("audit-refused-keys.log").contains("refused_key"));
    let builder = gateway.kill().set("admin.keys", &keys()).set("registry.password", OPERATOR);
    let failure = builder.fail();
    assert!(failure.text.contains("the same secret as registry.password"), "{}", failure.text);
}
