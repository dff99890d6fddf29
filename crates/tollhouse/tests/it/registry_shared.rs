//! A registry in a database that nodes share: all of them serve, nothing that was acknowledged is lost with a node or
//! with the database, and what a database that is away or full keeps from being done is done once it is not.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use serde_json::json;
use tollhouse_testkit::patience::wait_for;
use tollhouse_testkit::{Database, Gateway, GatewayBuilder, RawClient};

use crate::support::{discover, gateway, registry_request};

const SERVICE: &str = "shared";

/// The interval of their heartbeats.
const TTL: Duration = Duration::from_secs(1);

/// A node of a registry in this database.
pub(crate) fn node(scheme: &str, database: &Database) -> GatewayBuilder {
    on(scheme, database, gateway().resources(&json!({})))
}

pub(crate) fn on(scheme: &str, database: &Database, node: GatewayBuilder) -> GatewayBuilder {
    let url = format!("{scheme}://tollhouse@{}/tollhouse", database.address());
    let key = if scheme == "mysql" { "registry.store.mysql" } else { "registry.store.postgresql" };
    node.registry().set(key, &url).set("registry.store.tls", "false")
}

/// Where a node serves the registry over HTTP.
pub(crate) fn address(node: &Gateway) -> SocketAddr {
    let text = node.output().text();
    let line = text.lines().find_map(|line| line.trim().strip_prefix("registry    http://"));
    line.unwrap_or_else(|| panic!("it serves no registry: {text}")).parse().expect("an address")
}

/// Asks for something to be done to an instance; the status.
fn ask(address: SocketAddr, call: &str, host: &str) -> u16 {
    let instance = json!({
        "id": host, "service": SERVICE, "namespace": "default", "host": host, "port": 80,
        "enable_health_check": true, "health_check": {"type": 1, "heartbeat": {"ttl": 1}},
    });
    RawClient::connect(address).ask(registry_request(call, &instance)).status()
}

fn register(address: SocketAddr, host: &str) {
    assert_eq!(ask(address, "RegisterInstance", host), 200);
}

/// The instances that a node knows of, with their health.
fn instances(address: SocketAddr) -> Vec<(String, bool)> {
    let answer = discover(address, SERVICE);
    let instances = answer["instances"].as_array().cloned().unwrap_or_default();
    let mut instances: Vec<_> = instances
        .iter()
        .filter_map(|it| Some((it["host"].as_str()?.to_owned(), it["healthy"].as_bool()?)))
        .collect();
    instances.sort_unstable();
    instances
}

fn hosts(address: SocketAddr) -> Vec<String> {
    instances(address).into_iter().map(|(host, _)| host).collect()
}

fn wait_for_hosts(address: SocketAddr, expected: &[&str]) {
    wait_for("the instances", || (hosts(address) == expected).then_some(()));
}

fn revision(address: SocketAddr) -> String {
    discover(address, SERVICE)["service"]["revision"].as_str().expect("it has one").to_owned()
}

#[test]
fn all_nodes_serve_what_any_of_them_has_answered_at_the_same_revision() {
    for (scheme, database) in [("mysql", Database::mariadb()), ("postgresql", Database::postgres())]
    {
        let Some(database) = database else { continue };
        let [first, second] = [node(scheme, &database).start(), node(scheme, &database).start()];
        let [one, other] = [address(&first), address(&second)];
        register(one, "10.0.0.1");
        wait_for_hosts(other, &["10.0.0.1"]);
        register(other, "10.0.0.2");
        wait_for_hosts(one, &["10.0.0.1", "10.0.0.2"]);
        assert_eq!(revision(one), revision(other), "{scheme}");
        assert_eq!(ask(other, "DeregisterInstance", "10.0.0.1"), 200);
        wait_for_hosts(one, &["10.0.0.2"]);
        first.terminate();
        register(other, "10.0.0.3");
        assert_eq!(hosts(other), ["10.0.0.2", "10.0.0.3"], "{scheme}");
    }
}

#[test]
fn who_beats_at_one_node_is_healthy_on_all_and_who_does_not_is_on_none() {
    let Some(database) = Database::mariadb() else { return };
    let [first, second] = [node("mysql", &database).start(), node("mysql", &database).start()];
    let [one, other] = [address(&first), address(&second)];
    register(one, "10.0.0.1");
    register(other, "10.0.0.2");
    wait_for("the silent one to expire on both", || {
        assert_eq!(ask(other, "Heartbeat", "10.0.0.1"), 200);
        let expected = [("10.0.0.1".to_owned(), true), ("10.0.0.2".to_owned(), false)];
        [one, other].iter().all(|address| instances(*address) == expected).then_some(())
    });
    assert_eq!(revision(one), revision(other));
}

#[test]
fn a_database_or_a_node_that_is_killed_costs_nothing_that_was_acknowledged() {
    let Some(mut database) = Database::mariadb() else { return };
    let [first, second] = [node("mysql", &database).start(), node("mysql", &database).start()];
    let [one, other] = [address(&first), address(&second)];
    register(one, "10.0.0.1");
    wait_for_hosts(other, &["10.0.0.1"]);
    database.kill();
    for address in [one, other] {
        assert_eq!(hosts(address), ["10.0.0.1"], "Discover is answered from memory");
        assert_eq!(ask(address, "Heartbeat", "10.0.0.1"), 200);
        assert!(ask(address, "RegisterInstance", "10.0.0.9") >= 500);
    }
    database.run();
    wait_for("a registration", || (ask(one, "RegisterInstance", "10.0.0.2") == 200).then_some(()));
    wait_for_hosts(other, &["10.0.0.1", "10.0.0.2"]);
    let killed = first.kill();
    register(other, "10.0.0.3");
    let again = on("mysql", &database, killed).start();
    assert_eq!(hosts(address(&again)), ["10.0.0.1", "10.0.0.2", "10.0.0.3"]);
}

/// Registrations that a full database takes at most, in pages that were free.
const LAST_REGISTRATIONS_MAX: usize = 5_000;

#[test]
fn a_database_without_room_refuses_what_adds_and_costs_nobody_their_health() {
    let Some(database) = Database::cramped_mariadb() else { return };
    let [first, second] = [node("mysql", &database).start(), node("mysql", &database).start()];
    let [one, other] = [address(&first), address(&second)];
    register(one, "10.0.0.1");
    wait_for_hosts(other, &["10.0.0.1"]);
    // How long it was silent at most, by a clock that says at least as much.
    let (mut heard, mut longest) = (Instant::now(), Duration::ZERO);
    let mut beat = |address| {
        let asked = Instant::now();
        assert_eq!(ask(address, "Heartbeat", "10.0.0.1"), 200);
        longest = longest.max(heard.elapsed());
        heard = asked;
        longest
    };
    database.fill();
    let refused = (0..LAST_REGISTRATIONS_MAX).find_map(|number| {
        beat(other);
        let instance = json!({
            "id": format!("filling-{number}"), "service": "filling", "namespace": "default",
            "host": format!("10.1.{}.{}", number / 250, number % 250), "port": 80,
            "metadata": {"words": "x".repeat(900)},
        });
        let answer = RawClient::connect(one).ask(registry_request("RegisterInstance", &instance));
        (answer.status() >= 500).then(|| answer.text())
    });
    let refused = refused.expect("it is full");
    assert!(refused.contains("500001"), "{refused}");
    // It comes by a way of its own, and may come later than the answer.
    let remedy = "make room on the disk of the database";
    wait_for("the remedy in the log", || first.output().text().contains(remedy).then_some(()));
    // Longer than an instance lives that nobody hears of.
    let began = Instant::now();
    while began.elapsed() < 5 * TTL {
        for address in [one, other] {
            let was_silent = beat(address) >= 3 * TTL;
            let [(_, healthy)] = &instances(address)[..] else { panic!("it is discovered") };
            assert!(*healthy || was_silent, "it beats, and nobody may change its health");
        }
    }
    database.make_room();
    wait_for("a registration", || (ask(one, "RegisterInstance", "10.0.0.2") == 200).then_some(()));
    wait_for("it on both, and the silent to expire", || {
        beat(other);
        let expected = [("10.0.0.1".to_owned(), true), ("10.0.0.2".to_owned(), false)];
        [one, other].iter().all(|address| instances(*address) == expected).then_some(())
    });
    assert_eq!(ask(other, "DeregisterInstance", "10.0.0.2"), 200);
}
