//! The Admin API of a running gateway: what is written is durable, and serves. What each call answers
//! is tested beside it.

use serde_json::{Value, json};
use tollhouse_testkit::load::{Load, Reuse};
use tollhouse_testkit::patience::wait_for;
use tollhouse_testkit::{Gateway, Origin, RawClient};

use crate::support::{gateway, upstream};

fn store() -> Gateway {
    gateway().without_resources().start()
}

fn route(origin: &Origin) -> Value {
    json!({"uri": "/*", "upstream": upstream([origin.address()])})
}

/// Waits until requests are answered so.
fn wait_status(gateway: &Gateway, status: u16) {
    wait_for("the change to serve", || {
        (gateway.client().get("/").status() == status).then_some(())
    });
}

#[test]
fn what_is_written_serves_and_outlives_a_crash() {
    let origin = Origin::named("a");
    let gateway = store();
    assert_eq!(gateway.client().get("/").status(), 404);
    let answer = gateway.admin("PUT", "/routes/1", &route(&origin));
    assert_eq!(answer.status(), 201, "{}", answer.text());
    wait_status(&gateway, 200);
    // The demonstration has made way.
    assert_eq!(gateway.client().get("/demo").text(), "a");

    let gateway = gateway.kill().start();
    assert_eq!(gateway.client().get("/").status(), 200);
    let answer = gateway.admin("GET", "/routes", &Value::Null);
    let list: Value = serde_json::from_str(&answer.text()).expect("JSON");
    assert_eq!(list["total"], 1);
    assert_eq!(gateway.admin("DELETE", "/routes/1", &Value::Null).status(), 200);
    wait_status(&gateway, 404);
}

#[test]
fn the_request_after_a_write_meets_it() {
    let origin = Origin::named("a");
    let gateway = store();
    for number in 0..20 {
        let uri = format!("/{number}");
        let route = json!({"uri": uri, "upstream": upstream([origin.address()])});
        let written = gateway.admin("PUT", &format!("/routes/{number}"), &route);
        assert_eq!(written.status(), 201, "{}", written.text());
        meets_write(&gateway, &uri);
    }
}

/// What was just written is there, but on a machine that lets nobody else run: there the write is answered before, and
/// the log says so.
fn meets_write(gateway: &Gateway, uri: &str) {
    let status = gateway.client().get(uri).status();
    assert!(
        status == 200 || gateway.output().text().contains("before it serves"),
        "{uri}: {status}"
    );
}

#[test]
fn secrets_are_encrypted_at_rest_and_work_after_a_restart() {
    let origin = Origin::named("a");
    let gateway = store();
    let mut route = route(&origin);
    route["plugins"] = json!({"key-auth": {}});
    assert_eq!(gateway.admin("PUT", "/routes/1", &route).status(), 201);
    let jack = json!({"username": "jack", "plugins": {"key-auth": {"key": "very-secret-key"}}});
    assert_eq!(gateway.admin("PUT", "/consumers", &jack).status(), 201);
    let ask = |gateway: &Gateway| {
        let request = "GET / HTTP/1.1\r\nHost: a\r\napikey: very-secret-key\r\n\r\n";
        gateway.client().ask(request).status()
    };
    wait_for("the consumer to serve", || (ask(&gateway) == 200).then_some(()));
    let folder = gateway.folder().to_owned();
    let gateway = gateway.kill().start();
    assert_eq!(ask(&gateway), 200);
    for name in ["store.db", "store.db-wal"] {
        let bytes = std::fs::read(folder.join(name)).unwrap_or_default();
        let shown = String::from_utf8_lossy(&bytes);
        assert!(!shown.contains("very-secret-key"), "{name} shows a secret");
    }
}

#[test]
fn every_start_names_the_file_of_the_key_and_never_prints_the_key() {
    let names_file = |line: &str| line.contains("admin.key").then_some(());
    let gateway = store();
    let key = gateway.admin_key();
    gateway.output().wait_line("the key's file", names_file);
    assert!(!gateway.output().text().contains(&key));
    let gateway = gateway.kill().start();
    gateway.output().wait_line("the key's file", names_file);
    assert!(!gateway.output().text().contains(&key));
    assert_eq!(gateway.admin_key(), key);
    let answer = RawClient::connect(gateway.admin_address()).get("/apisix/admin/routes");
    assert_eq!(answer.status(), 401);
}

#[test]
fn a_second_gateway_on_the_same_store_is_refused() {
    let first = store();
    let second =
        gateway().without_resources().set("data_dir", first.folder().to_str().expect("text"));
    let failure = second.fail();
    assert_eq!(failure.code, Some(1));
    assert!(failure.text.contains("in use"), "{}", failure.text);
}

#[test]
fn a_successor_takes_the_store_over_without_a_lost_request() {
    let origin = Origin::named("a");
    let mut first = store();
    assert_eq!(first.admin("PUT", "/routes/1", &route(&origin)).status(), 201);
    wait_status(&first, 200);
    let load = Load::start(first.address(), 4, Reuse::KeepAlive, "/");
    load.wait_answers(50);
    let second = first.successor().flag("--upgrade").start();
    load.wait_answers(50);
    assert!(first.wait_exit().success());
    let report = load.stop();
    assert_eq!(report.lost, [""; 0]);
    let answer = second.admin("PUT", "/routes/2", &route(&origin));
    assert_eq!(answer.status(), 201, "{}", answer.text());
}

#[test]
fn whole_documents_serve_in_standalone_mode() {
    let origin = Origin::named("a");
    let gateway = gateway()
        .without_resources()
        .set("admin.standalone", "true")
        .variable("TOLLHOUSE_TEST_PATH", "/read-from-the-environment")
        .start();
    for number in 0..4 {
        let uri = format!("/{number}");
        let mut route = route(&origin);
        route["id"] = json!("r");
        route["uri"] = json!(uri);
        // Who may write documents reads no environment by them.
        route["desc"] = json!("${{TOLLHOUSE_TEST_PATH}}");
        let document = json!({"routes": [route]}).to_string();
        let request = format!(
            "PUT /apisix/admin/configs HTTP/1.1\r\nHost: a\r\nX-API-KEY: {}\r\nX-Digest: d{number}\r\n\
             Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{document}",
            gateway.admin_key(),
            document.len()
        );
        let answer = RawClient::connect(gateway.admin_address()).ask(request);
        assert_eq!(answer.status(), 202, "{}", answer.text());
        meets_write(&gateway, &uri);
    }
    let request = format!(
        "GET /apisix/admin/configs HTTP/1.1\r\nHost: a\r\nX-API-KEY: {}\r\n\r\n",
        gateway.admin_key()
    );
    let kept = RawClient::connect(gateway.admin_address()).ask(request).text();
    assert!(kept.contains("${{TOLLHOUSE_TEST_PATH}}"), "{kept}");
}
