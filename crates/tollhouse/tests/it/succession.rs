//! Successors that do not start, and strangers who ask for the sockets: the gateway goes on, and takes
//! back what it had let go of.

use std::fs::File;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::os::unix::net::UnixStream;

use serde_json::json;
use tollhouse_testkit::load::{Load, Reuse};
use tollhouse_testkit::patience::wait_for;
use tollhouse_testkit::{Gateway, Origin, RawClient};

use crate::support::{gateway, upstream};

/// What a successor says first.
const GREETING: &str = "tollhouse2";

fn with_store(origin: &Origin) -> Gateway {
    let gateway =
        gateway().without_resources().registry().set("listen.status", "127.0.0.1:0").start();
    put(&gateway, "/1", origin);
    gateway
}

/// Puts a route and waits until it serves.
fn put(gateway: &Gateway, path: &str, origin: &Origin) {
    let route = json!({ "uri": path, "upstream": upstream([origin.address()]) });
    let answer = gateway.admin("PUT", &format!("/routes{path}"), &route);
    assert!(answer.status() < 300, "{}", answer.text());
    wait_for("the route", || (gateway.client().get(path).text() == "a").then_some(()));
}

fn ask_for_sockets(gateway: &Gateway, greeting: &str) -> UnixStream {
    let stream = UnixStream::connect(gateway.folder().join("handover.sock"));
    let mut stream = stream.expect("the gateway awaits a successor");
    stream.write_all(greeting.as_bytes()).expect("it reads");
    stream
}

fn down(gateway: &Gateway) -> Vec<String> {
    let configuration = gateway.configuration();
    let down = configuration["down"].as_array().expect("a list");
    down.iter().filter_map(|it| it["part"].as_str().map(str::to_owned)).collect()
}

#[test]
fn a_stranger_at_the_hand_over_gets_nothing_and_takes_nothing_away() {
    let origin = Origin::named("a");
    let gateway = with_store(&origin);
    for greeting in ["", "tollhouse0", "GET / HTTP/1.1\r\n\r\n"] {
        let mut stream = ask_for_sockets(&gateway, greeting);
        let _ = stream.shutdown(std::net::Shutdown::Write);
        let mut answer = Vec::new();
        // It may end in a reset, where the greeting was longer than what was read.
        let _ = stream.read_to_end(&mut answer);
        assert_eq!(answer, b"", "{greeting:?}");
        let (grpc, http) = gateway.registry_addresses();
        assert!([grpc, http].iter().all(|it| std::net::TcpStream::connect(it).is_ok()));
    }
    put(&gateway, "/2", &origin);
}

#[test]
fn after_a_successor_that_cannot_start_everything_is_taken_back() {
    let origin = Origin::named("a");
    let gateway = with_store(&origin);
    let occupied = TcpListener::bind("127.0.0.1:0").expect("loopback can be bound");
    let taken = occupied.local_addr().expect("bound").to_string();
    let broken = gateway.successor().flag("--upgrade").set("listen.admin", &taken);
    let failure = broken.fail();
    assert_eq!(failure.code, Some(1), "{}", failure.text);
    drop(occupied);
    assert_eq!(gateway.client().get("/1").text(), "a");
    wait_for("the Admin API", || {
        std::net::TcpStream::connect(gateway.admin_address()).is_ok().then_some(())
    });
    put(&gateway, "/2", &origin);
}

#[test]
fn what_a_dead_successor_still_holds_is_asked_for_until_it_is_free() {
    let origin = Origin::named("a");
    let gateway = with_store(&origin);
    let (grpc, _) = gateway.registry_addresses();
    let mut successor = ask_for_sockets(&gateway, GREETING);
    let mut accepted = [0];
    successor.read_exact(&mut accepted).expect("all has been let go of");
    let lock = |path: &str| {
        let lock = File::open(gateway.folder().join(path)).expect("a store");
        lock.lock().expect("the store is free");
        lock
    };
    let locks = [lock("store.lock"), lock("registry/store.lock")];
    drop(successor);
    wait_for("the troubles", || (down(&gateway) == ["store", "registry"]).then_some(()));
    assert_eq!(gateway.client().get("/1").text(), "a", "what is in service serves");
    assert_eq!(gateway.metric("tollhouse_registry_down"), 1.0);
    drop(locks);
    wait_for("the end of troubles", || down(&gateway).is_empty().then_some(()));
    assert_eq!(gateway.metric("tollhouse_registry_down"), 0.0);
    wait_for("the Admin API", || {
        std::net::TcpStream::connect(gateway.admin_address()).is_ok().then_some(())
    });
    put(&gateway, "/2", &origin);
    assert!(std::net::TcpStream::connect(grpc).is_ok());
}

#[test]
fn a_client_of_the_registry_that_connects_during_a_hand_over_is_answered_after_it() {
    let origin = Origin::named("a");
    let gateway = with_store(&origin);
    let (_, http) = gateway.registry_addresses();
    let mut successor = ask_for_sockets(&gateway, GREETING);
    let mut accepted = [0];
    successor.read_exact(&mut accepted).expect("all has been let go of");
    let mut clients: Vec<_> = (0..10).map(|_| RawClient::connect(http)).collect();
    drop(successor);
    for client in &mut clients {
        assert_eq!(client.get("/naming/v1/namespaces").status(), 401, "it asks for a log-in");
    }
}

#[test]
fn an_upgrade_refuses_no_client_of_the_registry() {
    let origin = Origin::named("a");
    let gateway = with_store(&origin);
    let (grpc, http) = gateway.registry_addresses();
    let load = Load::start(http, 2, Reuse::Never, "/naming/v1/namespaces");
    let successor = gateway.successor().flag("--upgrade");
    let successor = successor.set("listen.registry_grpc", &grpc.to_string());
    let successor = successor.set("listen.registry_http", &http.to_string()).start();
    wait_for("the successor", || {
        let down = successor.configuration()["down"].clone();
        (down == json!([])).then_some(())
    });
    assert_eq!(successor.registry_addresses(), (grpc, http));
    let report = load.stop();
    assert!(report.lost.is_empty() && report.refused == 0, "{report:?}");
    assert!(std::net::TcpStream::connect(grpc).is_ok());
}

#[test]
fn a_successor_numbers_configurations_from_where_it_takes_over() {
    let origin = Origin::named("a");
    let gateway = with_store(&origin);
    put(&gateway, "/2", &origin);
    let revision = |of: &Gateway| of.configuration()["revision"].as_u64().expect("a number");
    let before = revision(&gateway);
    assert!(before >= 2, "{before}");
    let successor = gateway.successor().flag("--upgrade").start();
    let taken_over = revision(&successor);
    assert!(taken_over > before, "{before}, then {taken_over}");
    assert!(successor.metric("tollhouse_config_revision") > before as f64);
}

#[test]
fn a_registry_that_is_asked_for_and_cannot_start_is_named() {
    let taken = TcpListener::bind("127.0.0.1:0").expect("loopback can be bound");
    let address = taken.local_addr().expect("bound").to_string();
    let gateway = gateway().registry().set("listen.registry_grpc", &address);
    let failure = gateway.resources(&json!({})).fail();
    assert_eq!(failure.code, Some(1));
    assert!(failure.text.contains("listen.registry_grpc"), "{}", failure.text);
}
