//! A registry that moves: out of the database of a Polaris, through a file, into one that runs and one that does not,
//! and back from its backup.

use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};
use tollhouse_testkit::program::{Ran, run, run_well};
use tollhouse_testkit::{Database, Gateway, RawClient};

use crate::support::{discover, gateway, registry_request};

pub(crate) const POLARIS: &str = include_str!("cases/polaris/schema.sql");

/// A command about the data of a folder.
pub(crate) fn command(folder: &Path, words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tollhouse"));
    command.args(words).env_remove("TOLLHOUSE_ADMIN_KEY");
    command.arg("--set").arg(format!("data_dir={}", folder.display()));
    command
}

/// The same about a registry in a database.
fn shared(folder: &Path, scheme: &str, database: &Database, words: &[&str]) -> Command {
    let mut command = command(folder, words);
    let url = format!("{scheme}://tollhouse@{}/tollhouse", database.address());
    command.args(["--set", &format!("registry.store.{scheme}={url}")]);
    command.args(["--set", "registry.store.tls=false"]);
    command
}

pub(crate) fn folder() -> tempfile::TempDir {
    tempfile::tempdir().expect("a temporary folder")
}

/// What a registry exports: keys and values.
pub(crate) fn exported(command: &mut Command) -> Vec<Value> {
    let text = run_well(command);
    let lines = text.lines().map(|line| serde_json::from_str(line).expect("each line is JSON"));
    lines.filter(|line: &Value| line.get("key").is_some()).collect()
}

/// Where a gateway serves its registry over HTTP.
pub(crate) fn registry(gateway: &Gateway) -> SocketAddr {
    let text = gateway.output().text();
    let line = text.lines().find_map(|line| line.trim().strip_prefix("registry    http://"));
    line.unwrap_or_else(|| panic!("it serves no registry: {text}")).parse().expect("an address")
}

pub(crate) fn with_registry(folder: &Path) -> Gateway {
    let gateway = gateway().without_resources().registry().set("registry.console_auth", "false");
    gateway.set("data_dir", &folder.display().to_string()).start()
}

fn import_polaris(folder: &Path, polaris: &Database, more: &[&str]) -> Ran {
    let url = format!("mysql://tollhouse@{}/polaris_server", polaris.address());
    let words = ["import", "polaris", "--database", &url];
    run(&mut command(folder, &[&words[..], more].concat()))
}

#[test]
fn a_polaris_is_taken_over_once_and_what_cannot_be_is_named() {
    let Some(polaris) = Database::mariadb() else { return };
    polaris.run_sql(POLARIS);
    let folder = folder();
    let planned = import_polaris(folder.path(), &polaris, &["--dry-run"]);
    assert!(planned.text.contains("instance: 801 new, 0 changed"), "{}", planned.text);
    assert!(planned.text.contains("nothing was written: --dry-run"), "{}", planned.text);
    let taken = import_polaris(folder.path(), &polaris, &["--yes"]);
    assert_eq!(taken.status.code(), Some(1), "some were left out: {}", taken.text);
    for expected in [
        "namespace: 1 new, 1 changed, 0 there already",
        "service: 1 new, 0 changed",
        "alias: 1 new, 0 changed",
        "instance: 801 new, 0 changed",
        "routing: 1 new",
        "rate-limit: 1 new",
        "services 00000000000000000000000000000004: it belongs to Polaris' own servers",
        "aliases 00000000000000000000000000000003: its service is not there",
        "instances orphan: its service is not there",
        "routing rules r2: its config cannot be read",
        "807 objects written to",
    ] {
        assert!(taken.text.contains(expected), "{expected}: {}", taken.text);
    }
    let again = import_polaris(folder.path(), &polaris, &["--yes"]);
    assert!(again.text.contains("instance: 0 new, 0 changed, 801 there already"), "{}", again.text);
    assert!(!again.text.contains("objects written"), "{}", again.text);

    let gateway = with_registry(folder.path());
    let answer = RawClient::connect(registry(&gateway)).ask(registry_request(
        "Discover",
        &json!({"type": "INSTANCE", "service": {"name": "bestellungen", "namespace": "prod"}}),
    ));
    let answer: Value = serde_json::from_slice(&answer.body).expect("it is JSON");
    let instances = answer["instances"].as_array().expect("it has some");
    assert_eq!((instances.len(), &answer["aliasFor"]["name"]), (801, &json!("orders")));
    let of = |id: &str| instances.iter().find(|it| it["id"] == id).expect("it is there").clone();
    let (first, silent) = (of("i0401"), of("silent"));
    assert_eq!((&first["metadata"]["number"], &first["weight"]), (&json!("0401"), &json!(1)));
    assert_eq!(first["location"]["zone"], "zone-a");
    assert_eq!((&silent["healthy"], &silent["isolate"]), (&json!(false), &json!(true)));
    assert_eq!(silent["healthCheck"]["heartbeat"]["ttl"], 5);
}

#[test]
fn what_a_polaris_has_deleted_since_is_named_and_goes_when_asked_for() {
    let Some(polaris) = Database::mariadb() else { return };
    polaris.run_sql(POLARIS);
    let folder = folder();
    import_polaris(folder.path(), &polaris, &["--yes"]);
    polaris.run_sql(
        "USE polaris_server; UPDATE instance SET flag = 1 WHERE id = 'i0001'; \
         DELETE FROM instance WHERE id = 'i0002'; DELETE FROM ratelimit_config; \
         UPDATE service SET flag = 1 WHERE name = 'bestellungen';",
    );
    let kept = import_polaris(folder.path(), &polaris, &["--yes", "--prune"]);
    let reason = "only in the registry, and kept because something else is left out:";
    assert!(kept.text.contains(reason), "{}", kept.text);
    polaris.run_sql(
        "USE polaris_server; DELETE FROM instance WHERE id = 'orphan'; \
         DELETE FROM service WHERE name = 'lost'; DELETE FROM routing_config_v2 WHERE id = 'r2';",
    );
    let named = import_polaris(folder.path(), &polaris, &["--yes"]);
    assert_eq!(named.status.code(), Some(0), "{}", named.text);
    for expected in [
        "only in the registry; --prune removes them:",
        "(i0001)",
        "(i0002)",
        "rate-limit ",
        "alias prod/bestellungen",
    ] {
        assert!(named.text.contains(expected), "{expected}: {}", named.text);
    }
    let pruned = import_polaris(folder.path(), &polaris, &["--yes", "--prune"]);
    assert!(pruned.text.contains("4 objects removed from"), "{}", pruned.text);
    let left = exported(&mut command(folder.path(), &["export", "registry"]));
    assert_eq!(
        left.iter().filter(|line| line["key"].to_string().contains("instances")).count(),
        799
    );
    let again = import_polaris(folder.path(), &polaris, &["--yes", "--prune"]);
    assert!(!again.text.contains("only in the registry"), "{}", again.text);
}

#[test]
fn what_is_no_polaris_is_refused_by_what_it_lacks() {
    let Some(database) = Database::mariadb() else { return };
    database.run_sql("CREATE DATABASE polaris_server");
    let folder = folder();
    let refused = import_polaris(folder.path(), &database, &["--yes"]);
    assert!(refused.text.contains("is not a database of Polaris"), "{}", refused.text);
    assert!(refused.text.contains("namespace.name"), "{}", refused.text);
    assert_eq!(refused.status.code(), Some(1));
    assert!(!folder.path().join("registry").exists(), "nothing was made");
}

/// Registers two instances of a service through the registry's own listener.
fn fill(gateway: &Gateway) {
    let address = registry(gateway);
    for host in ["10.0.0.1", "10.0.0.2"] {
        let instance =
            json!({"service": "orders", "namespace": "default", "host": host, "port": 80});
        let request = registry_request("RegisterInstance", &instance);
        assert_eq!(RawClient::connect(address).ask(request).status(), 200);
    }
}

#[test]
fn a_registry_goes_through_a_file_into_one_that_does_not_run_and_one_that_does() {
    let (from, at_rest, running) = (folder(), folder(), folder());
    let gateway = with_registry(from.path());
    fill(&gateway);
    let file = from.path().join("registry.jsonl");
    let path = file.display().to_string();
    run_well(&mut command(from.path(), &["export", "registry", &path]));
    let objects = exported(&mut command(from.path(), &["export", "registry"]));
    assert_eq!(objects.len(), 3, "a service and two instances: {objects:?}");

    let import = ["import", "registry", &path, "--yes"];
    let taken = run_well(&mut command(at_rest.path(), &import));
    assert!(taken.contains("3 objects written"), "{taken}");
    assert_eq!(exported(&mut command(at_rest.path(), &["export", "registry"])), objects);
    let again = run_well(&mut command(at_rest.path(), &import));
    assert!(again.contains("instance: 0 new, 0 changed, 2 there already"), "{again}");

    let target = with_registry(running.path());
    let refused = run(&mut command(running.path(), &import));
    assert!(refused.text.contains("write through it with --admin"), "{}", refused.text);
    let admin = format!("http://{}", target.admin_address());
    let through = [&import[..], &["--admin", &admin]].concat();
    let taken = run_well(&mut command(running.path(), &through));
    assert!(taken.contains("instance: 2 new") && taken.contains("3 objects written"), "{taken}");
    let instances = discover(registry(&target), "orders");
    assert_eq!(instances["instances"].as_array().map(Vec::len), Some(2));
    let again = run_well(&mut command(running.path(), &through));
    assert!(again.contains("instance: 0 new, 0 changed, 2 there already"), "{again}");
    assert_eq!(exported(&mut command(running.path(), &["export", "registry"])), objects);

    let newer = std::fs::read_to_string(&file).expect("it was written");
    std::fs::write(&file, newer.replace("registry\":1", "registry\":2")).expect("it is ours");
    let refused = run(&mut command(at_rest.path(), &import));
    assert!(refused.text.contains("has format 2, of a newer version"), "{}", refused.text);
}

#[test]
fn a_shared_registry_comes_back_from_its_backup_into_an_empty_database_alone() {
    for (scheme, database) in [("mysql", Database::mariadb()), ("postgresql", Database::postgres())]
    {
        let Some(database) = database else { continue };
        let node = |folder: &Path| {
            let url = format!("{scheme}://tollhouse@{}/tollhouse", database.address());
            gateway()
                .without_resources()
                .registry()
                .set("data_dir", &folder.display().to_string())
                .set(&format!("registry.store.{scheme}"), &url)
                .set("registry.store.tls", "false")
        };
        let folder = folder();
        let running = node(folder.path()).start();
        fill(&running);
        let copy = folder.path().join("copy");
        let path = copy.display().to_string();
        let backed_up = run_well(&mut shared(folder.path(), scheme, &database, &["backup", &path]));
        assert!(backed_up.contains("entries of the registry in"), "{backed_up}");
        let objects = |tables: &str| {
            let mut command = shared(folder.path(), scheme, &database, &["export", "registry"]);
            exported(command.args(["--set", &format!("registry.store.tables={tables}")]))
        };
        let there = objects("tollhouse_registry_");
        assert_eq!(
            there.iter().filter(|it| it["value"]["host"].is_string()).count(),
            2,
            "{there:?}"
        );
        running.terminate();

        let restore = ["restore", &format!("{path}.registry")];
        let refused = run(&mut shared(folder.path(), scheme, &database, &restore));
        assert!(refused.text.contains("is not empty"), "{scheme}: {}", refused.text);
        let mut command = shared(folder.path(), scheme, &database, &restore);
        let restored = run_well(command.args(["--set", "registry.store.tables=restored_"]));
        assert!(restored.contains("entries restored to"), "{scheme}: {restored}");
        assert_eq!(objects("restored_"), there, "{scheme}");

        // The node knows it again: it is of the cluster that its folder remembers.
        let again = node(folder.path()).set("registry.store.tables", "restored_").start();
        let found = discover(registry(&again), "orders");
        assert_eq!(found["instances"].as_array().map(Vec::len), Some(2), "{scheme}: {found}");
    }
}
