//! Configuration files, users and policies that move out of the database of a Polaris.

use serde_json::{Value, json};
use tollhouse_testkit::program::run;
use tollhouse_testkit::{Database, Gateway, RawClient};

use crate::registry_moves::{POLARIS, command, folder, registry};
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
