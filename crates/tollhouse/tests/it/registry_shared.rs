//! A registry in a database that nodes share: one serves, another one takes over, and nothing that was
//! acknowledged is lost with a node or with the database.

use std::net::SocketAddr;

use serde_json::json;
use tollhouse_testkit::patience::wait_for;
use tollhouse_testkit::{Database, Gateway, GatewayBuilder, RawClient};

use crate::support::{discover, gateway, registry_request};

const SERVICE: &str = "shared";

/// A node of a registry in this database.
fn node(scheme: &str, database: &Database) -> GatewayBuilder {
    on(scheme, database, gateway().resources(&json!({})))
}

fn on(scheme: &str, database: &Database, node: GatewayBuilder) -> GatewayBuilder {
    let url = format!("{scheme}://tollhouse@{}/tollhouse", database.address());
    let key = if scheme == "mysql" { "registry.store.mysql" } else { "registry.store.postgresql" };
    node.registry().set(key, &url).set("registry.store.tls", "false")
}

/// Where a node serves the registry over HTTP, once it does: from its start, or as its log says later.
fn serving(node: &Gateway) -> Option<SocketAddr> {
    let text = node.output().text();
    let from_start = text.lines().find_map(|line| line.trim().strip_prefix("registry    http://"));
    let address = from_start.or_else(|| {
        let line = text.lines().find(|line| line.contains("keeps the registry now"))?;
        line.split_once("http=Some(")?.1.split(')').next()
    });
    address?.parse().ok()
}

fn register(address: SocketAddr, host: &str) {
    let instance = json!({
        "id": host, "service": SERVICE, "namespace": "default", "host": host, "port": 80,
    });
    let answer = RawClient::connect(address).ask(registry_request("RegisterInstance", &instance));
    assert_eq!(answer.status(), 200, "{}", answer.text());
}

fn hosts(address: SocketAddr) -> Vec<String> {
    let answer = discover(address, SERVICE);
    let instances = answer["instances"].as_array().cloned().unwrap_or_default();
    let hosts = instances.iter().filter_map(|instance| instance["host"].as_str());
    let mut hosts: Vec<String> = hosts.map(str::to_owned).collect();
    hosts.sort_unstable();
    hosts
}

/// Waits until a node serves the registry.
fn wait_serving(node: &Gateway) -> SocketAddr {
    wait_for("the node to serve the registry", || serving(node))
}

#[test]
fn a_node_that_stops_is_followed_by_one_that_stood_by() {
    for (scheme, database) in [("mysql", Database::mariadb()), ("postgresql", Database::postgres())]
    {
        let Some(database) = database else { continue };
        let first = node(scheme, &database).start();
        let address = wait_serving(&first);
        register(address, "10.0.0.1");
        let second = node(scheme, &database).start();
        assert_eq!(serving(&second), None, "{scheme}: one serves at a time");
        assert!(second.output().text().contains("stands by"), "{}", second.output().text());
        register(address, "10.0.0.2");
        first.terminate();
        let address = wait_serving(&second);
        assert_eq!(hosts(address), ["10.0.0.1", "10.0.0.2"], "{scheme}");
        register(address, "10.0.0.3");
        assert_eq!(hosts(address), ["10.0.0.1", "10.0.0.2", "10.0.0.3"], "{scheme}");
    }
}

#[test]
fn a_database_that_is_killed_costs_nothing_that_was_acknowledged() {
    let Some(mut database) = Database::mariadb() else { return };
    let first = node("mysql", &database).start();
    let address = wait_serving(&first);
    register(address, "10.0.0.1");
    database.kill();
    assert_eq!(hosts(address), ["10.0.0.1"], "Discover is answered from memory");
    let instance =
        json!({"id": "no", "service": SERVICE, "namespace": "default", "host": "no", "port": 80});
    let refused = RawClient::connect(address).ask(registry_request("RegisterInstance", &instance));
    assert!(refused.status() >= 500, "{}", refused.text());
    database.run();
    wait_for("a registration", || {
        let instance = json!({
            "id": "10.0.0.2", "service": SERVICE, "namespace": "default", "host": "10.0.0.2", "port": 80,
        });
        let request = registry_request("RegisterInstance", &instance);
        (RawClient::connect(address).ask(request).status() == 200).then_some(())
    });
    assert_eq!(hosts(address), ["10.0.0.1", "10.0.0.2"]);
    // Killed itself, it has all of it again.
    let again = on("mysql", &database, first.kill()).start();
    assert_eq!(hosts(wait_serving(&again)), ["10.0.0.1", "10.0.0.2"]);
}
