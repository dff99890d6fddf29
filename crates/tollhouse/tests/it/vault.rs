//! Secrets that stand in HashiCorp Vault: fetched ahead of requests, and closed where they are not known.

use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use tollhouse_testkit::origin::answer;
use tollhouse_testkit::patience::wait_for;
use tollhouse_testkit::{Gateway, Origin};

use crate::support::{gateway, upstream};

/// A Vault that answers each path as it was told, and others with 404.
#[derive(Clone, Default)]
struct Answers(Arc<Mutex<Vec<(String, u16, String)>>>);

impl Answers {
    fn set(&self, path: &str, status: u16, body: Value) {
        let mut answers = self.0.lock().expect("no test has panicked with it");
        answers.retain(|(of, ..)| of != path);
        answers.push((path.to_owned(), status, body.to_string()));
    }

    fn serve(&self) -> Origin {
        let answers = self.0.clone();
        Origin::script(move |connection| {
            while let Some(request) = connection.request() {
                let answers = answers.lock().expect("no test has panicked with it").clone();
                let found = answers.iter().find(|(path, ..)| request.target() == path);
                let (status, body) =
                    found.map_or((404, "{\"errors\":[]}"), |(_, status, body)| (*status, body));
                connection.send(answer(status, body));
            }
        })
    }
}

fn resources(vault: &Origin, origin: &Origin, prefix: &str) -> Value {
    let key = "$secret://vault/1/jack/key";
    json!({
        "secrets": [{
            "id": "vault/1", "uri": format!("http://{}", vault.address()), "prefix": prefix,
            "token": "the-token", "namespace": "team",
        }],
        "consumers": [{"username": "jack", "plugins": {"key-auth": {"key": key}}}],
        "routes": [{
            "id": "r", "uri": "/*", "plugins": {"key-auth": {}},
            "upstream": upstream([origin.address()]),
        }],
    })
}

fn status(gateway: &Gateway, key: &str) -> u16 {
    let request = format!("GET / HTTP/1.1\r\nHost: a\r\napikey: {key}\r\n\r\n");
    gateway.client().ask(request).status()
}

#[test]
fn a_key_that_stands_in_vault_lets_in_from_the_first_request() {
    let answers = Answers::default();
    answers.set("/v1/kv/apisix/jack", 200, json!({"data": {"key": "first"}}));
    let versioned = json!({"data": {"data": {"key": "second"}, "metadata": {"version": 1}}});
    answers.set("/v1/secret/data/jack", 200, versioned);
    let (vault, origin) = (answers.serve(), Origin::named("a"));
    let gateway = gateway().resources(&resources(&vault, &origin, "kv/apisix")).start();
    assert_eq!(status(&gateway, "first"), 200);
    assert_eq!(status(&gateway, "$secret://vault/1/jack/key"), 401);
    let asked = vault.last_request();
    assert_eq!(asked.field("x-vault-token"), Some("the-token"));
    assert_eq!(asked.field("x-vault-namespace"), Some("team"));
    // Another place of it is asked at once.
    gateway.reload(&resources(&vault, &origin, "secret/data"));
    wait_for("the second key", || (status(&gateway, "second") == 200).then_some(()));
    assert_eq!(status(&gateway, "first"), 401);
    // What is not there any more lets nobody in.
    gateway.reload(&resources(&vault, &origin, "elsewhere"));
    wait_for("no key at all", || (status(&gateway, "second") == 401).then_some(()));
    // A key that was there before is dropped at once; the reason follows with the answer.
    wait_for("the reason", || {
        let problems = gateway.configuration()["problems"].to_string();
        problems.contains("jack cannot be fetched: there is nothing at this path").then_some(())
    });
}

#[test]
fn a_key_that_vault_does_not_tell_lets_nobody_in_until_it_does() {
    let answers = Answers::default();
    answers.set("/v1/kv/jack", 403, json!({"errors": ["permission denied"]}));
    let (vault, origin) = (answers.serve(), Origin::named("a"));
    let gateway = gateway().resources(&resources(&vault, &origin, "kv")).start();
    for key in ["k", "$secret://vault/1/jack/key", ""] {
        assert_eq!(status(&gateway, key), 401, "{key}");
    }
    // The gateway starts without Vault's answer if that takes too long; the reason follows with it.
    wait_for("the reason", || {
        let problems = gateway.configuration()["problems"].to_string();
        problems.contains("jack cannot be fetched: status 403").then_some(())
    });
    assert_eq!(origin.requests().len(), 0);
    answers.set("/v1/kv/jack", 200, json!({"data": {"key": "k"}}));
    // Whoever mends the token writes the keeper anew, which has it asked at once.
    let mut mended = resources(&vault, &origin, "kv");
    mended["secrets"][0]["token"] = "another".into();
    gateway.reload(&mended);
    wait_for("the key", || (status(&gateway, "k") == 200).then_some(()));
}
