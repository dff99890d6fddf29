//! The commands about the store, beside a gateway that runs and without one. What each of them does
//! to objects is tested beside it.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};
use tollhouse_testkit::patience::wait_for;
use tollhouse_testkit::program::{Ran, run, run_well};
use tollhouse_testkit::{Gateway, Origin};

use crate::support::{gateway, upstream};

fn tollhouse(words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tollhouse"));
    command.args(words).env_remove("TOLLHOUSE_ADMIN_KEY").env("NO_COLOR", "1");
    command
}

/// A command with the data directory of a gateway.
fn in_folder(folder: &Path, words: &[&str]) -> Command {
    let mut command = tollhouse(words);
    command.arg("--set").arg(format!("data_dir={}", folder.display()));
    command
}

/// A gateway with a route and a consumer in its store.
fn filled(origin: &Origin) -> Gateway {
    let gateway = gateway().without_resources().start();
    let route = json!({"uri": "/*", "upstream": upstream([origin.address()])});
    assert_eq!(gateway.admin("PUT", "/routes/1", &route).status(), 201);
    let jack = json!({"username": "jack", "plugins": {"key-auth": {"key": "very-secret"}}});
    assert_eq!(gateway.admin("PUT", "/consumers", &jack).status(), 201);
    gateway
}

fn imported(folder: &Path, file: &Path, more: &[&str]) -> Ran {
    run(in_folder(folder, &["import", "--yes"]).args(more).arg(file))
}

#[test]
fn a_backup_has_the_registry_of_a_gateway_whose_configuration_is_a_file() {
    let gateway = gateway().resources(&json!({})).registry().start();
    let place = tempfile::tempdir().expect("a temporary folder");
    let file = place.path().join("monday");
    let resources = format!("resources={}", gateway.resources().display());
    let mut backup = in_folder(gateway.folder(), &["backup", "--set", &resources]);
    let said = run_well(backup.arg(&file));
    assert!(said.contains("which is not copied"), "{said}");
    assert!(!file.exists() && place.path().join("monday.registry").exists(), "{said}");
}

#[test]
fn a_backup_of_a_running_gateway_serves_elsewhere() {
    let origin = Origin::named("a");
    let gateway = filled(&origin);
    let place = tempfile::tempdir().expect("a temporary folder");
    let file = place.path().join("store.db");
    let said = run_well(in_folder(gateway.folder(), &["backup"]).arg(&file));
    assert!(said.contains("keyring"), "{said}");
    let again = run(in_folder(gateway.folder(), &["backup"]).arg(&file));
    assert_eq!(again.status.code(), Some(1));
    assert!(again.text.contains("never overwritten"), "{}", again.text);
    fs::copy(gateway.folder().join("keyring"), place.path().join("keyring")).expect("it is kept");
    let words = ["export", "--reveal-secrets", "--format", "json"];
    let document = run_well(&mut in_folder(place.path(), &words));
    let document: Value = serde_json::from_str(&document).expect("it is JSON");
    assert_eq!(document["routes"][0]["id"], "1");
    assert_eq!(document["consumers"][0]["plugins"]["key-auth"]["key"], "very-secret");
}

#[test]
fn a_backup_under_a_bare_name_goes_to_the_current_folder_with_its_keyring() {
    let origin = Origin::named("a");
    let gateway = filled(&origin);
    let place = tempfile::tempdir().expect("a temporary folder");
    let mut backup = in_folder(gateway.folder(), &["backup", "--with-keyring", "b.db"]);
    run_well(backup.current_dir(place.path()));
    for name in ["b.db", "b.db.keyring"] {
        assert!(place.path().join(name).exists(), "{name}");
    }
}

#[test]
fn a_gateway_whose_store_is_gone_does_not_begin_with_an_empty_one() {
    let origin = Origin::named("a");
    let gateway = filled(&origin);
    let folder = gateway.folder().to_owned();
    let next = gateway.kill();
    for name in ["store.db", "store.db-wal", "store.db-shm"] {
        let _ = fs::remove_file(folder.join(name));
    }
    let failure = next.fail();
    assert_eq!(failure.code, Some(1), "{}", failure.text);
    assert!(failure.text.contains("store.db is missing"), "{}", failure.text);
    assert!(failure.text.contains("--set store.allow_missing=true"), "{}", failure.text);
    assert!(!folder.join("store.db").exists(), "nothing is made");
    let gateway = next.set("store.allow_missing", "true").start();
    assert_eq!(gateway.client().get("/demo").status(), 200);
}

#[test]
fn a_backup_takes_the_keyring_along_where_that_is_asked_for() {
    let origin = Origin::named("a");
    let gateway = filled(&origin);
    let place = tempfile::tempdir().expect("a temporary folder");
    let (file, keys) = (place.path().join("store.db"), place.path().join("store.db.keyring"));
    let words = ["backup", "--with-keyring"];
    let said = run_well(in_folder(gateway.folder(), &words).arg(&file));
    assert!(said.contains("store.db.keyring: the keys of"), "{said}");
    let read = |path: &Path| fs::read_to_string(path).expect("it is kept");
    assert_eq!(read(&keys).trim(), read(&gateway.folder().join("keyring")).trim());
    let mode = fs::metadata(&keys).expect("it is there").permissions().mode();
    assert_eq!(mode & 0o777, 0o600, "whoever has both reads every secret");
    // A file that is there is never replaced, and nothing is copied beside it either.
    fs::write(place.path().join("other.db.keyring"), "somebody's").expect("a file of ours");
    let other = place.path().join("other.db");
    let ran = run(in_folder(gateway.folder(), &words).arg(&other));
    assert_eq!(ran.status.code(), Some(1), "{}", ran.text);
    assert!(ran.text.contains("is there already"), "{}", ran.text);
    assert_eq!(read(&place.path().join("other.db.keyring")), "somebody's");
    assert!(!other.exists(), "a copy that cannot be read would be worse than none");
    // Both of them are all that is needed elsewhere.
    fs::rename(&keys, place.path().join("keyring")).expect("both are in one folder");
    let words = ["export", "--reveal-secrets", "--format", "json"];
    assert!(run_well(&mut in_folder(place.path(), &words)).contains("very-secret"));
}

#[test]
fn a_backup_takes_what_is_registered_along() {
    let gateway = gateway().without_resources().registry().start();
    let place = tempfile::tempdir().expect("a temporary folder");
    let file = place.path().join("copy.db");
    let said = run_well(in_folder(gateway.folder(), &["backup"]).arg(&file));
    assert!(said.contains("copy.db.registry"), "{said}");
    assert!(place.path().join("copy.db.registry").exists());
}

#[test]
fn what_is_exported_can_be_served_from_a_file_and_imported_again() {
    let origin = Origin::named("a");
    let running = filled(&origin);
    let place = tempfile::tempdir().expect("a temporary folder");
    let file = place.path().join("document.yaml");
    run_well(in_folder(running.folder(), &["export"]).arg(&file));
    let text = fs::read_to_string(&file).expect("it was written");
    assert!(text.ends_with("#END\n") && !text.contains("very-secret"), "{text}");
    assert!(!text.contains("create_time"), "{text}");
    let served = gateway().yaml(&text).start();
    assert_eq!(served.client().get("/").status(), 200);

    let mut running = running;
    let folder = running.folder().to_owned();
    running.terminate();
    assert_eq!(running.wait_exit().code(), Some(0));
    let ran = imported(&folder, &file, &["--prune"]);
    assert_eq!(ran.status.code(), Some(0), "{}", ran.text);
    assert!(ran.text.contains("0 to add, 0 to change, 0 to delete, 2 unchanged"), "{}", ran.text);
}

#[test]
fn a_store_in_use_is_imported_into_through_its_gateway() {
    let origin = Origin::named("a");
    let gateway = filled(&origin);
    let place = tempfile::tempdir().expect("a temporary folder");
    let file = place.path().join("document.json");
    let nodes = upstream([origin.address()]);
    let document = json!({
        "routes": [{"id": "2", "uri": "/only", "upstream_id": "u"}],
        "upstreams": [crate::support::with(nodes, json!({"id": "u"}))],
        "consumers": [
            {"username": "jack", "plugins": {"key-auth": {"key": "another-secret"}}},
            {"id": "jack/credentials/c", "plugins": {"basic-auth": {"username": "j", "password": "p"}}},
        ],
    });
    fs::write(&file, document.to_string()).expect("the folder can be written");
    let refused = imported(gateway.folder(), &file, &[]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(refused.text.contains("--admin"), "{}", refused.text);
    let url = format!("http://{}", gateway.admin_address());
    let ran = imported(gateway.folder(), &file, &["--prune", "--admin", &url]);
    assert_eq!(ran.status.code(), Some(0), "{}", ran.text);
    assert!(ran.text.contains("3 to add, 1 to change, 1 to delete"), "{}", ran.text);
    assert!(ran.text.contains("plugins.key-auth.key: \"***\" → \"***\""), "{}", ran.text);
    wait_for("the import to serve", || (gateway.client().get("/").status() == 404).then_some(()));
    assert_eq!(gateway.client().get("/only").status(), 200);
    let again = imported(gateway.folder(), &file, &["--prune", "--admin", &url]);
    assert!(
        again.text.contains("0 to add, 0 to change, 0 to delete, 4 unchanged"),
        "{}",
        again.text
    );
}

#[test]
fn nobody_is_asked_who_is_not_there() {
    let place = tempfile::tempdir().expect("a temporary folder");
    let file = place.path().join("document.yaml");
    fs::write(&file, "services: [{id: s}]\n#END\n").expect("the folder can be written");
    let ran = run(in_folder(&place.path().join("data"), &["import"]).arg(&file));
    assert_eq!(ran.status.code(), Some(1));
    assert!(ran.text.contains("--yes"), "{}", ran.text);
    assert!(ran.text.contains("+ services/s"), "{}", ran.text);
    let missing = run(in_folder(place.path(), &["import"]).arg(place.path().join("missing.yaml")));
    assert_eq!(missing.status.code(), Some(2));
    let nothing = run(&mut in_folder(place.path(), &["export"]));
    assert_eq!(nothing.status.code(), Some(1));
    assert!(nothing.text.contains("no gateway has kept objects there"), "{}", nothing.text);
}

#[test]
fn plugins_are_listed_and_explained() {
    let list = run_well(&mut tollhouse(&["plugins"]));
    let is_served = |line: &str| line.starts_with("key-auth ") && line.contains("served");
    assert!(list.lines().any(is_served), "{list}");
    let page = run_well(&mut tollhouse(&["plugins", "key-auth"]));
    assert!(page.contains("FIELDS") && page.contains("hide_credentials"), "{page}");
    let unknown = run(&mut tollhouse(&["plugins", "key-aut"]));
    assert_eq!(unknown.status.code(), Some(2));
    assert!(unknown.text.contains("did you mean \"key-auth\"?"), "{}", unknown.text);
}
