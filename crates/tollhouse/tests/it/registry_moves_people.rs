//! Configuration files, users and policies that move out of the database of a Polaris.

use serde_json::{Value, json};
use tollhouse_testkit::program::run;
use tollhouse_testkit::{Database, Gateway, RawClient};

use crate::registry_moves::{POLARIS, command, folder, registry, with_registry};
use crate::registry_moves_back::check;
use crate::support::{gateway, json_request};

const FILES_AND_PEOPLE: &str = include_str!("cases/polaris/files_and_people.sql");

/// Calls the registry over HTTP with a token, and returns the answer.
fn call(gateway: &Gateway, token: &str, head: &str) -> Value {
    let request = format!("{head} HTTP/1.1\r\nHost: registry\r\nX-Polaris-Token: {token}\r\n\r\n");
    let answer = RawClient::connect(registry(gateway)).ask(request);
    serde_json::from_slice(&answer.body).expect("it is JSON")
}

#[test]
fn files_users_and_policies_of_a_polaris_are_taken_over_and_serve() {
    let Some(polaris) = Database::mariadb() else { return };
    polaris.run_sql(POLARIS);
    polaris.run_sql(FILES_AND_PEOPLE);
    let folder = folder();
    let url = format!("mysql://tollhouse@{}/polaris_server", polaris.address());
    let import = || {
        run(&mut command(folder.path(), &["import", "polaris", "--database", &url, "--yes"])).text
    };
    let taken = import();
    for expected in [
        "configuration group: 1 new",
        "configuration file: 2 new",
        "configuration release: 3 new",
        "configuration history entry: 1 new",
        "configuration template: 1 new",
        "user: 3 new",
        "policy: 1 new",
        "3 of table user: passwords of users",
        "policies p2: its res_type cannot be read",
    ] {
        assert!(taken.contains(expected), "{expected}: {taken}");
    }
    let again = import();
    assert!(again.contains("configuration release: 0 new, 0 changed, 3 there already"), "{again}");

    let gateway = gateway().without_resources().registry();
    let gateway = gateway.set("registry.client_auth", "true");
    let gateway = gateway.set("data_dir", &folder.path().display().to_string()).start();
    let file = "/config/v1/configfiles?namespace=prod&group=shop&name=app.yaml";
    for (token, code) in [("tokenofbob", 200_000), ("tokenofeve", 401_003), ("other", 401_001)] {
        let answer = call(&gateway, token, &format!("GET {file}"));
        assert_eq!(answer["code"], code, "{token}: {answer}");
    }
    let answer = call(&gateway, "tokenofbob", &format!("GET {file}"));
    let expected = json!({"content": "pool: 9", "tags": [{"key": "stage", "value": "live"}]});
    for name in ["content", "tags"] {
        assert_eq!(answer["configFile"][name], expected[name]);
    }
    let released = call(
        &gateway,
        "tokenofbob",
        "GET /config/v1/GetConfigFile?namespace=prod&group=shop&fileName=app.yaml",
    );
    assert_eq!(released["configFile"]["content"], "pool: 7", "the full release in force");
    // The hash of a password is not taken, and no password takes its place.
    for password in ["", "hash"] {
        let login = json!({"owner": "mary", "name": "mary", "password": password});
        let request = json_request("/core/v1/user/login", &login);
        let answer = RawClient::connect(registry(&gateway)).ask(request);
        let answer: Value = serde_json::from_slice(&answer.body).expect("it is JSON");
        assert_eq!(answer["code"], 401_001, "{answer}");
    }
}

#[test]
fn files_users_and_policies_go_back_into_a_polaris() {
    let Some(polaris) = Database::mariadb() else { return };
    polaris.run_sql(POLARIS);
    polaris.run_sql(FILES_AND_PEOPLE);
    // A policy that the registry cannot read stays as it is, and is not of interest here.
    polaris.run_sql("USE polaris_server; UPDATE auth_strategy SET flag = 1 WHERE id = 'p2'");
    let folder = folder();
    let url = format!("mysql://tollhouse@{}/polaris_server", polaris.address());
    let moved = |words: [&str; 2], more: &[&str]| {
        let words = [&words[..], &["--database", url.as_str()][..], more].concat();
        run(&mut command(folder.path(), &words))
    };
    moved(["import", "polaris"], &["--yes"]);
    let untouched = moved(["export", "polaris"], &["--dry-run"]);
    assert_eq!(untouched.status.code(), Some(0), "{}", untouched.text);
    for line in untouched.text.lines().filter(|line| line.contains(" new, ")) {
        assert!(line.contains(" 0 new, 0 changed, "), "{}", untouched.text);
    }

    let gateway = with_registry(folder.path());
    for (path, body) in [
        (
            "/config/v1/configfiles/releases/stopbeta",
            json!([{"namespace": "prod", "group": "shop", "fileName": "app.yaml"}]),
        ),
        (
            "/config/v1/configfiles/release",
            json!({"namespace": "prod", "group": "shop", "fileName": "app.yaml", "name": "third"}),
        ),
        (
            "/config/v1/configfiles/createandpub",
            json!({"namespace": "prod", "group": "fresh", "file_name": "new.json", "content": "{}",
                "format": "json", "release_name": "one", "tags": [{"key": "k", "value": "v"}]}),
        ),
    ] {
        let answer = RawClient::connect(registry(&gateway)).ask(json_request(path, &body));
        let answer: Value = serde_json::from_slice(&answer.body).expect("it is JSON");
        assert_eq!(answer["code"], 200_000, "{path}: {answer}");
    }
    drop(gateway);
    let written = moved(["export", "polaris"], &["--yes"]);
    assert_eq!(written.status.code(), Some(0), "{}", written.text);
    for condition in [
        "(SELECT GROUP_CONCAT(name) = 'third' FROM config_file_release WHERE active = 1 AND file_name = 'app.yaml')",
        "(SELECT content = 'pool: 9' AND version = 4 FROM config_file_release WHERE name = 'third')",
        "(SELECT COUNT(*) = 0 FROM gray_resource WHERE flag = 0)",
        "(SELECT COUNT(*) = 1 FROM config_file_tag WHERE file_name = 'new.json' AND `key` = 'k')",
        "(SELECT COUNT(*) >= 3 FROM config_file_release_history WHERE status = 'success')",
        "(SELECT COUNT(*) = 3 FROM user WHERE password = 'hash' AND flag = 0)",
    ] {
        check(&polaris, condition);
    }
    let again = moved(["export", "polaris"], &["--yes"]);
    assert_eq!(again.status.code(), Some(0), "{}", again.text);
    for line in again.text.lines().filter(|line| line.contains(" new, ")) {
        assert!(line.contains(" 0 new, 0 changed, "), "{}", again.text);
    }
}
