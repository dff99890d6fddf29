//! Gateways that share an etcd: what is written through one serves on all, and nothing that becomes of
//! the store reaches a request.

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};
use tollhouse_testkit::load::{Load, Reuse};
use tollhouse_testkit::patience::wait_for;
use tollhouse_testkit::program::{Ran, run};
use tollhouse_testkit::{
    ClosedPort, Etcd, EtcdCertificates, Gateway, GatewayBuilder, Origin, RawClient,
};

use crate::support::{gateway, listener_named, upstream};
use crate::tls_support::Authority;

pub(crate) const KEYRING: &str = "0123456789abcdef";

/// A gateway on an etcd, to be started.
pub(crate) fn sharing(etcd: &Etcd) -> GatewayBuilder {
    on(etcd, gateway())
}

pub(crate) fn on(etcd: &Etcd, gateway: GatewayBuilder) -> GatewayBuilder {
    gateway
        .without_resources()
        .set("store.etcd.endpoints", &etcd.url())
        // A first handshake on a machine that builds beside takes its time.
        .set("store.etcd.timeout", "5s")
        .set("encryption.keyring", KEYRING)
}

pub(crate) fn route(origin: &Origin) -> Value {
    json!({"uri": "/*", "upstream": upstream([origin.address()])})
}

pub(crate) fn wait_status(gateway: &Gateway, status: u16) {
    wait_for("the change to serve", || {
        (gateway.client().get("/").status() == status).then_some(())
    });
}

/// The beginning of an answer, if there is one.
fn try_ask(address: SocketAddr, request: &str) -> Option<String> {
    let mut stream = TcpStream::connect(address).ok()?;
    stream.write_all(request.as_bytes()).ok()?;
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line).ok()?;
    Some(line)
}

pub(crate) fn put(gateway: &Gateway, path: &str, value: &Value) {
    let answer = gateway.admin("PUT", path, value);
    assert!(matches!(answer.status(), 200 | 201), "{}", answer.text());
}

#[test]
fn what_is_written_through_one_gateway_serves_on_all_and_at_once_on_that_one() {
    let Some(etcd) = Etcd::start() else { return };
    let origin = Origin::named("a");
    let (one, other) = (sharing(&etcd).start(), sharing(&etcd).start());
    assert_eq!(one.client().get("/demo").status(), 404, "many gateways have no demonstration");
    for id in 0..20 {
        let mut route = route(&origin);
        route["uri"] = json!(format!("/{id}"));
        put(&one, &format!("/routes/{id}"), &route);
        assert_eq!(
            one.client().get(&format!("/{id}")).status(),
            200,
            "it is answered once it serves"
        );
    }
    put(&other, "/routes/all", &route(&origin));
    wait_status(&one, 200);
    let list = one.admin("GET", "/routes", &Value::Null);
    let list: Value = serde_json::from_str(&list.text()).expect("JSON");
    assert_eq!(list["total"], 21);
    assert_eq!(one.admin("DELETE", "/routes/all", &Value::Null).status(), 200);
    wait_status(&other, 404);
}

#[test]
fn an_etcd_that_is_killed_costs_no_request_and_is_found_again() {
    let Some(mut etcd) = Etcd::start() else { return };
    let origin = Origin::named("a");
    let (one, other) = (sharing(&etcd).start(), sharing(&etcd).start());
    put(&one, "/routes/1", &route(&origin));
    wait_status(&other, 200);
    let load = Load::start(other.address(), 4, Reuse::KeepAlive, "/");
    etcd.kill();
    let answer = one.admin("PUT", "/routes/2", &route(&origin));
    assert_eq!(answer.status(), 503, "{}", answer.text());
    assert!(answer.text().contains("etcd at http://127.0.0.1"), "{}", answer.text());
    wait_for("the outage", || (other.metric("tollhouse_store_down") > 0.0).then_some(()));
    etcd.run();
    wait_for("a write", || {
        (one.admin("PUT", "/routes/2", &route(&origin)).status() < 300).then_some(())
    });
    let report = load.stop();
    assert!(report.lost.is_empty() && report.refused == 0, "{report:?}");
    assert_eq!(report.answers.keys().collect::<Vec<_>>(), ["200 a"]);
    assert_eq!(one.admin("DELETE", "/routes/1", &Value::Null).status(), 200);
    assert_eq!(one.admin("DELETE", "/routes/2", &Value::Null).status(), 200);
    put(&one, "/routes/3", &json!({"uri": "/3", "upstream": upstream([origin.address()])}));
    wait_for("what came after", || (other.client().get("/3").status() == 200).then_some(()));
    wait_for("the end", || (other.metric("tollhouse_store_down") < 1.0).then_some(()));
}

#[test]
fn an_etcd_that_was_restored_from_a_copy_is_taken_as_it_is_and_takes_writes() {
    let Some(mut etcd) = Etcd::start() else { return };
    let origin = Origin::named("a");
    let (one, other) = (sharing(&etcd).start(), sharing(&etcd).start());
    put(&one, "/routes/1", &route(&origin));
    wait_status(&other, 200);
    etcd.kill();
    etcd.copy();
    etcd.run();
    // Revisions that the restored store reaches only much later, and a route that it never had.
    let later =
        |id: u32| json!({"uri": format!("/later/{id}"), "upstream": upstream([origin.address()])});
    for id in 2..12 {
        wait_for("a write", || {
            let answer = one.admin("PUT", &format!("/routes/{id}"), &later(id));
            (answer.status() < 300).then_some(())
        });
    }
    etcd.kill();
    etcd.put_back();
    etcd.run();
    let total = |gateway: &Gateway| {
        let list = gateway.admin("GET", "/routes", &Value::Null);
        let list: Value = serde_json::from_str(&list.text()).ok()?;
        list["total"].as_u64()
    };
    for gateway in [&one, &other] {
        wait_for("the copy to serve", || (total(gateway) == Some(1)).then_some(()));
        assert_eq!(gateway.client().get("/").status(), 200, "what the copy has serves on");
        wait_for("the report", || {
            let text = gateway.output().text();
            let mut errors = text.lines().filter(|line| line.contains("ERROR"));
            errors.any(|line| line.contains("gone back from revision")).then_some(())
        });
        assert_eq!(gateway.metric("tollhouse_store_rewinds_total"), 1.0);
        assert_eq!(gateway.metric("tollhouse_store_doubtful"), 1.0);
    }
    for (gateway, id) in [(&one, 20), (&other, 21)] {
        let answer = gateway.admin("PUT", &format!("/routes/{id}"), &later(id));
        assert_eq!(answer.status(), 201, "{}", answer.text());
        assert!(total(gateway).is_some_and(|total| total >= 2), "it is seen at once");
    }
    wait_for("both to be seen", || (total(&one) == Some(3)).then_some(()));
    let answer = one.admin("DELETE", "/routes/20", &Value::Null);
    assert_eq!(answer.status(), 200, "{}", answer.text());
}

#[test]
fn a_gateway_that_starts_without_its_etcd_serves_what_was_copied() {
    let Some(mut etcd) = Etcd::start() else { return };
    let origin = Origin::named("a");
    // There before the gateway: a copy is made at its start, and then seldom.
    let route_text = route(&origin).to_string();
    let Some(()) = etcd.control(&["put", "/apisix/routes/1", &route_text]) else { return };
    let first = sharing(&etcd).start();
    let copy = first.folder().join("store-copy");
    wait_for("the copy", || {
        let text = std::fs::read_to_string(&copy).ok()?;
        text.contains("/apisix/routes/1").then_some(())
    });
    etcd.kill();
    let again = on(&etcd, first.kill()).start();
    assert_eq!(again.client().get("/").status(), 200);
    assert!(again.metric("tollhouse_store_copy_in_service") > 0.0);
    assert_eq!(again.admin("GET", "/routes/1", &Value::Null).status(), 200);
    let answer = again.admin("PUT", "/routes/2", &route(&origin));
    assert_eq!(answer.status(), 503);
    assert!(answer.text().contains("writes are taken once it does"), "{}", answer.text());
    etcd.run();
    wait_for("etcd to serve", || {
        (again.metric("tollhouse_store_copy_in_service") < 1.0).then_some(())
    });
    // The Admin API is another one then, at the same address.
    let request = format!(
        "DELETE /apisix/admin/routes/1 HTTP/1.1\r\nHost: a\r\nX-API-KEY: {}\r\n\r\n",
        again.admin_key()
    );
    wait_for("a write", || {
        try_ask(again.admin_address(), &request)?.starts_with("HTTP/1.1 200").then_some(())
    });
    wait_status(&again, 404);
}

#[test]
fn what_was_acknowledged_serves_though_etcd_and_gateway_are_killed_at_once() {
    let Some(mut etcd) = Etcd::start() else { return };
    let origin = Origin::named("a");
    let (one, other) = (sharing(&etcd).start(), sharing(&etcd).start());
    for id in 0..20 {
        let route = json!({"uri": format!("/{id}"), "upstream": upstream([origin.address()])});
        put(&one, &format!("/routes/{id}"), &route);
    }
    assert_eq!(one.admin("DELETE", "/routes/7", &Value::Null).status(), 200);
    wait_for("the last change", || (other.client().get("/7").status() == 404).then_some(()));
    etcd.kill();
    let killed = [one.kill(), other.kill()];
    for gateway in killed {
        let again = on(&etcd, gateway).start();
        assert!(again.metric("tollhouse_store_copy_in_service") > 0.0);
        for id in 0..20 {
            let expected = if id == 7 { 404 } else { 200 };
            assert_eq!(again.client().get(&format!("/{id}")).status(), expected, "{id}");
        }
    }
}

#[test]
fn a_gateway_without_etcd_and_copy_waits_alive_and_unready() {
    let Some(mut etcd) = Etcd::start() else { return };
    let origin = Origin::named("a");
    etcd.kill();
    let gateway = sharing(&etcd).set("listen.status", "127.0.0.1:0").start();
    assert_eq!(gateway.client().get("/").status(), 404);
    let status = listener_named(&gateway, "status");
    let ready = || RawClient::connect(status).get("/status/ready").status();
    assert_eq!(ready(), 503);
    etcd.run();
    wait_for("a configuration", || (ready() == 200).then_some(()));
    let request = format!(
        "GET /apisix/admin/routes HTTP/1.1\r\nHost: a\r\nX-API-KEY: {}\r\n\r\n",
        gateway.admin_key()
    );
    wait_for("the Admin API", || {
        try_ask(gateway.admin_address(), &request)?.starts_with("HTTP/1.1 200").then_some(())
    });
    put(&gateway, "/routes/1", &route(&origin));
    wait_status(&gateway, 200);
}

#[test]
fn a_gateway_with_another_keyring_is_refused_by_name() {
    let Some(etcd) = Etcd::start() else { return };
    let _first = sharing(&etcd).start();
    let failure = sharing(&etcd).set("encryption.keyring", "fedcba9876543210").fail();
    assert_eq!(failure.code, Some(1), "{}", failure.text);
    assert!(failure.text.contains("encryption.keyring has none of the keys"), "{}", failure.text);
}

#[test]
fn an_etcd_that_stands_still_keeps_nobody_waiting_for_long() {
    let Some(etcd) = Etcd::start() else { return };
    let origin = Origin::named("a");
    let gateway = sharing(&etcd).set("store.etcd.timeout", "2s").start();
    put(&gateway, "/routes/1", &route(&origin));
    etcd.pause();
    let answer = gateway.admin("PUT", "/routes/2", &route(&origin));
    assert_eq!(answer.status(), 503, "{}", answer.text());
    assert_eq!(gateway.client().get("/").status(), 200);
    wait_for("the outage", || (gateway.metric("tollhouse_store_down") > 0.0).then_some(()));
    etcd.wake();
    wait_for("a write", || {
        (gateway.admin("PUT", "/routes/2", &route(&origin)).status() < 300).then_some(())
    });
    wait_for("the end", || (gateway.metric("tollhouse_store_down") < 1.0).then_some(()));
}

/// Runs a command of the program in a folder of its own.
pub(crate) fn command(folder: &Path, line: &str) -> Ran {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tollhouse"));
    command.args(line.split_whitespace()).current_dir(folder).env("NO_COLOR", "1");
    run(&mut command)
}

#[test]
fn objects_move_from_an_apisix_etcd_into_a_data_directory_and_back() {
    let (Some(etcd), Some(other)) = (Etcd::start(), Etcd::start()) else { return };
    let apisix_key = "qeddd145sfvddff3";
    let origin = Origin::named("a");
    let apisix = sharing(&etcd)
        .set("encryption.keyring", apisix_key)
        .set("encryption.apisix_form", "true")
        .start();
    put(&apisix, "/routes/1", &route(&origin));
    put(
        &apisix,
        "/consumers",
        &json!({"username": "jack", "plugins": {"key-auth": {"key": "hidden"}}}),
    );
    drop(apisix);
    let folder = tempfile::tempdir().expect("a temporary folder");
    let folder = folder.path();
    let ran = command(folder, &format!("import --yes --set data_dir=data --etcd {}", etcd.url()));
    assert!(ran.status.success(), "{}", ran.text);
    assert!(ran.text.contains("+ consumers/jack\n+ routes/1\n2 to add"), "{}", ran.text);
    let ran = command(folder, "export --set data_dir=data --reveal-secrets all.yaml");
    assert!(ran.status.success(), "{}", ran.text);
    let document = std::fs::read_to_string(folder.join("all.yaml")).expect("it was written");
    assert!(document.contains("key: hidden"), "{document}");
    let there =
        format!("--set encryption.keyring={KEYRING} --set store.etcd.endpoints={}", other.url());
    let ran = command(folder, &format!("import --yes {there} all.yaml"));
    assert!(ran.status.success(), "{}", ran.text);
    assert!(ran.text.contains("written to etcd at http://127.0.0.1"), "{}", ran.text);
    let ran = command(folder, &format!("import --dry-run {there} all.yaml"));
    assert!(ran.text.contains("0 to add, 0 to change, 0 to delete, 2 unchanged"), "{}", ran.text);
    let ran = command(folder, &format!("explain {there} --url http://a/x"));
    assert!(ran.status.success(), "{}", ran.text);
    assert_eq!(sharing(&other).start().client().get("/").status(), 200);
    let ran = command(folder, &format!("backup {there} copy.db"));
    assert!(!ran.status.success() && ran.text.contains("etcdctl snapshot save"), "{}", ran.text);
    let ran = command(
        folder,
        "export --set store.etcd.timeout=200ms --set encryption.keyring=0123456789abcdef --set store.etcd.endpoints=http://127.0.0.1:1",
    );
    assert_eq!(ran.status.code(), Some(1), "{}", ran.text);
    assert!(ran.text.contains("etcd at http://127.0.0.1:1"), "{}", ran.text);
}

#[test]
fn members_that_are_gone_are_passed_over() {
    let Some(etcd) = Etcd::start() else { return };
    let origin = Origin::named("a");
    let gone = ClosedPort::new();
    let endpoints = format!("http://{},{}", gone.address(), etcd.url());
    let gateway = sharing(&etcd).set("store.etcd.endpoints", &endpoints).start();
    put(&gateway, "/routes/1", &route(&origin));
    assert_eq!(gateway.client().get("/").status(), 200);
}

#[test]
fn an_etcd_with_tls_and_users_takes_those_it_knows() {
    let authority = Authority::new("etcd's authority");
    let (server, client) = (authority.server(&["127.0.0.1"]), authority.client("gateway"));
    let certificates = EtcdCertificates {
        authority: &authority.pem,
        server: (&server.chain, &server.key),
        client: (&client.chain, &client.key),
    };
    let Some(etcd) = Etcd::start_secured(&certificates) else { return };
    for arguments in [
        "user add root:root",
        "user grant-role root root",
        "user add gateway:s3cret",
        "role add gateways",
        "role grant-permission gateways --prefix=true readwrite /apisix/",
        "user grant-role gateway gateways",
        "auth enable",
    ] {
        let arguments: Vec<&str> = arguments.split(' ').collect();
        let Some(()) = etcd.control(&arguments) else { return };
    }
    let origin = Origin::named("a");
    let file = |name: &str| etcd.file(name).display().to_string();
    let secured = |password: &str| {
        sharing(&etcd)
            .set("store.etcd.tls.ca", &file("ca.pem"))
            .set("store.etcd.tls.cert", &file("client.pem"))
            .set("store.etcd.tls.key", &file("client.key"))
            .set("store.etcd.user", "gateway")
            .set("store.etcd.password", password)
    };
    let (one, other) = (secured("s3cret").start(), secured("s3cret").start());
    put(&one, "/routes/1", &route(&origin));
    wait_status(&other, 200);
    let stranger = secured("wrong").start();
    let answer = stranger.admin("PUT", "/routes/2", &route(&origin));
    assert_eq!(answer.status(), 503, "{}", answer.text());
    assert!(answer.text().contains("look at store.etcd.user"), "{}", answer.text());
}

#[test]
fn an_etcd_is_known_by_its_very_certificate() {
    let own = Authority::own_authority(&["127.0.0.1"]);
    let pair = (own.chain.as_str(), own.key.as_str());
    let certificates = EtcdCertificates { authority: pair.0, server: pair, client: pair };
    let Some(etcd) = Etcd::start_secured(&certificates) else { return };
    let file = |name: &str| etcd.file(name).display().to_string();
    let gateway = sharing(&etcd)
        .set("store.etcd.tls.ca", &file("ca.pem"))
        .set("store.etcd.tls.cert", &file("client.pem"))
        .set("store.etcd.tls.key", &file("client.key"))
        .start();
    let origin = Origin::named("a");
    put(&gateway, "/routes/1", &route(&origin));
    wait_status(&gateway, 200);
}

#[test]
fn half_an_object_is_set_aside_and_the_rest_serves() {
    let Some(etcd) = Etcd::start() else { return };
    let origin = Origin::named("a");
    let gateway = sharing(&etcd).start();
    put(&gateway, "/routes/1", &route(&origin));
    for (key, value) in [
        ("/apisix/routes/2", "{\"uri\": \"/2\", \"upstr"),
        ("/apisix/routes/3", "[]"),
        ("/apisix/routes/4", "\u{1}"),
        ("/apisix/routes//", "{}"),
        ("/apisix/nonsense/1", "{}"),
        ("/apisix/routes/5", "{\"uri\": \"/5\", \"upstream\": {\"nodes\": {\"127.0.0.1:1\": -1}}}"),
    ] {
        let Some(()) = etcd.control(&["put", "--", key, value]) else { return };
    }
    put(
        &gateway,
        "/routes/6",
        &json!({"uri": "/6", "plugins": {"mocking": {"response_example": "6"}}}),
    );
    assert_eq!(gateway.client().get("/6").text(), "6");
    assert_eq!(gateway.client().get("/2").text(), "a", "the route for all paths serves it");
    let again = sharing(&etcd).start();
    assert_eq!(again.client().get("/6").text(), "6");
}

/// Patches of one route through each of two gateways, all at once.
const PATCHES: usize = 4;

#[test]
fn patches_of_one_route_through_two_gateways_at_once_are_all_made() {
    let Some(etcd) = Etcd::start() else { return };
    let origin = Origin::named("a");
    let gateways = [(); 2].map(|()| sharing(&etcd).start());
    put(&gateways[0], "/routes/1", &route(&origin));
    wait_status(&gateways[1], 200);
    std::thread::scope(|scope| {
        for (place, gateway) in gateways.iter().enumerate() {
            for number in 0..PATCHES {
                scope.spawn(move || {
                    let patch = json!({"labels": {format!("{place}-{number}"): "1"}});
                    // Only a machine that has better things to do keeps one of them waiting so long that it is told
                    // to come again.
                    wait_for("the patch", || {
                        let answer = gateway.admin("PATCH", "/routes/1", &patch);
                        let text = answer.text();
                        assert!(
                            answer.status() == 200 || text.contains("value changed before"),
                            "{text}"
                        );
                        (answer.status() == 200).then_some(())
                    });
                });
            }
        }
    });
    let answer = gateways[0].admin("GET", "/routes/1", &Value::Null).text();
    let object: Value = serde_json::from_str(&answer).expect("JSON");
    let labels = object["value"]["labels"].as_object().expect("labels");
    assert_eq!(labels.len(), 2 * PATCHES, "{answer}");
}
