//! The registry from a shell: the commands against a running gateway, what is left after a restart, and
//! the page of metrics.

use std::path::Path;
use std::process::Command;

use serde_json::Value;
use tollhouse_testkit::patience::wait_for;
use tollhouse_testkit::program::{Ran, Running, run, run_well};
use tollhouse_testkit::{Gateway, GatewayBuilder};

use crate::support::{gateway, routes};

/// A gateway with a registry.
fn serving() -> Gateway {
    with_registry(gateway().without_resources()).start()
}

fn with_registry(gateway: GatewayBuilder) -> GatewayBuilder {
    gateway.set("listen.registry_grpc", "127.0.0.1:0").set("listen.registry_http", "127.0.0.1:0")
}

/// A command about the registry of a gateway.
fn command(gateway: &Gateway, words: &[&str]) -> Command {
    let admin = format!("http://{}", gateway.admin_address());
    let mut command = in_folder(gateway.folder(), words);
    command.args(["--admin", &admin]);
    command
}

fn in_folder(folder: &Path, words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tollhouse"));
    command.arg("registry").args(words).env_remove("TOLLHOUSE_ADMIN_KEY");
    command.arg("--set").arg(format!("data_dir={}", folder.display()));
    command
}

fn listed(gateway: &Gateway, words: &[&str]) -> Value {
    let words: Vec<&str> = ["list", "--json"].iter().chain(words).copied().collect();
    let text = run_well(&mut command(gateway, &words));
    serde_json::from_str(&text).expect("it is JSON")
}

fn examined(gateway: &Gateway) -> Ran {
    run(&mut command(gateway, &["doctor"]))
}

#[test]
fn an_instance_is_registered_listed_kept_over_a_restart_and_removed() {
    let gateway = serving();
    let words = ["register", "prod/orders", "10.0.0.7:80", "--metadata", "zone=a", "--weight", "7"];
    run_well(&mut command(&gateway, &words));
    let table = run_well(&mut command(&gateway, &["list"]));
    assert!(table.contains("prod/orders"), "{table}");
    let gateway = with_registry(gateway.kill()).start();
    let instances = listed(&gateway, &["prod/orders"]);
    assert_eq!(instances[0]["metadata"]["zone"], "a");
    assert_eq!(instances[0]["weight"], 7);
    run_well(&mut command(&gateway, &["deregister", "prod/orders", "10.0.0.7:80"]));
    assert_eq!(listed(&gateway, &["prod/orders"]), Value::Array(Vec::new()));
    let again = run(&mut command(&gateway, &["deregister", "prod/orders", "10.0.0.7:80"]));
    assert!(again.text.contains("no instance of prod/orders listens"), "{}", again.text);
}

#[test]
fn a_watch_prints_what_a_heartbeating_registration_does() {
    let gateway = serving();
    let watch = Running::start(&mut command(&gateway, &["watch", "prod/orders"]));
    watch.output().wait_line("the beginning", |line| {
        line.contains("prod/orders does not exist yet").then_some(())
    });
    let words = ["register", "prod/orders", "10.0.0.7:80", "--heartbeat", "--ttl", "1"];
    let registered = Running::start(&mut command(&gateway, &words));
    let is = |sign: &'static str| move |line: &str| line.starts_with(sign).then_some(());
    watch.output().wait_line("its coming", is("+ 10.0.0.7:80 healthy"));
    wait_for("a heartbeat", || {
        listed(&gateway, &["prod/orders"])[0]["last_beat"]["count"].as_u64()
    });
    registered.terminate();
    watch.output().wait_line("its going", is("- 10.0.0.7:80"));
}

#[test]
fn the_doctor_finds_a_listener_and_what_was_never_beaten() {
    let gateway = serving();
    let well = examined(&gateway);
    assert!(well.status.success(), "{}", well.text);
    assert!(well.text.contains("gRPC on") && well.text.contains("HTTP on"), "{}", well.text);
    for id in ["a", "b"] {
        let words = ["register", "prod/orders", "10.0.0.7:80", "--id", id];
        run_well(&mut command(&gateway, &words));
    }
    let ill = examined(&gateway);
    assert_eq!(ill.status.code(), Some(1), "{}", ill.text);
    assert!(ill.text.contains("registered under 2 ids: a, b"), "{}", ill.text);
}

#[test]
fn the_page_of_metrics_counts_instances() {
    let gateway = serving();
    run_well(&mut command(&gateway, &["register", "prod/orders", "10.0.0.7:80"]));
    let name = "tollhouse_registry_instances{namespace=\"prod\",state=\"healthy\"}";
    assert_eq!(gateway.metric(name), 1.0);
    assert_eq!(gateway.metric("tollhouse_registry_commands_total{outcome=\"done\"}"), 1.0);
}

#[test]
fn beside_a_file_the_registry_is_reached_through_the_admin_api() {
    let gateway = gateway().set("listen.admin", "127.0.0.1:0").registry();
    let gateway = gateway.resources(&routes([])).start();
    run_well(&mut command(&gateway, &["register", "prod/orders", "10.0.0.7:80"]));
    let list = run_well(&mut command(&gateway, &["list", "prod/orders"]));
    assert!(list.contains("10.0.0.7:80"), "{list}");
    let mut off = in_folder(gateway.folder(), &["list"]);
    let ran = run(off.args(["--set", "listen.admin="]));
    assert_eq!(ran.status.code(), Some(1), "{}", ran.text);
    assert!(ran.text.contains("listen.admin is off"), "{}", ran.text);
}
