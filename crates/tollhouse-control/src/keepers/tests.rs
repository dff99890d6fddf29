//! What is kept of keepers, in virtual time and without any.

use serde_json::json;
use tollhouse_model::secret::{EnvironmentSource, SecretText};

use super::*;

fn keepers() -> Keepers {
    let lookup = |name: &str| (name == "TOKEN").then(|| "of the environment".to_owned());
    Keepers::new(Box::new(EnvironmentSource::new(lookup)))
}

fn upsert(kind: Kind, id: &str, value: Value) -> Change {
    Change::Upsert { kind, id: Id::new(id), value: Ok(value), path: format!("{kind}/{id}") }
}

fn vault(token: &str) -> Change {
    let value = json!({"uri": "http://127.0.0.1:8200", "prefix": "kv", "token": token});
    upsert(Kind::Secret, "vault/1", value)
}

fn consumer() -> Change {
    let key = "$secret://vault/1/people/jack/key";
    let plugins = json!({"key-auth": {"key": key}});
    upsert(Kind::Consumer, "jack", json!({"username": "jack", "plugins": plugins}))
}

fn fetched(keepers: &Keepers, text: &str) -> Option<String> {
    keepers.fetch(&SecretRef::parse(text)?)
}

fn value_of(keepers: &Keepers) -> Option<String> {
    fetched(keepers, "$secret://vault/1/people/jack/key")
}

fn fields(key: &str) -> Result<Fields, NoFields> {
    Ok([("key".to_owned(), SecretText::new(key))].into())
}

/// Answers the one question that is due.
fn answer(keepers: &Keepers, answer: Result<Fields, NoFields>) {
    let (place, vault) = keepers.next_due().expect("something is due");
    assert_eq!((place.1.as_str(), place.2.as_str()), ("1", "people/jack"));
    assert!(vault.is_some() && keepers.next_due().is_err(), "asked once");
    keepers.take(place, answer);
}

/// What is to be compiled once more.
fn changes(keepers: &Keepers) -> String {
    let told = |change: &Change| match change {
        Change::Delete { id, .. } => format!("-{id}"),
        Change::Upsert { id, .. } => format!("+{id}"),
        _ => unreachable!("no other changes come of it"),
    };
    keepers.take_changes().iter().map(told).collect()
}

fn failed() -> Result<Fields, NoFields> {
    Err(NoFields::Unknown("status 503".to_owned()))
}

#[tokio::test(start_paused = true)]
async fn a_reference_has_a_value_once_its_keeper_has_said_so() {
    let keepers = keepers();
    keepers.note(&vault("t"));
    keepers.note(&consumer());
    assert_eq!(value_of(&keepers), None, "nobody waits for it");
    answer(&keepers, fields("k"));
    assert_eq!(value_of(&keepers).as_deref(), Some("k"));
    assert_eq!(fetched(&keepers, "$secret://vault/1/people/jack/other"), None);
    assert_eq!(changes(&keepers), "+jack");
    assert_eq!(changes(&keepers), "");
    // It is asked again when it is old, and what is the same changes nothing.
    assert_eq!(keepers.next_due().err(), Some(REFRESH_TIME));
    tokio::time::advance(REFRESH_TIME).await;
    answer(&keepers, fields("k"));
    assert_eq!(changes(&keepers), "");
    // Or when its keeper is another.
    keepers.note(&vault("u"));
    answer(&keepers, fields("l"));
    assert_eq!((changes(&keepers).as_str(), value_of(&keepers).as_deref()), ("+jack", Some("l")));
}

#[tokio::test(start_paused = true)]
async fn what_a_silent_keeper_has_said_goes_on_for_a_while() {
    let keepers = keepers();
    keepers.note(&vault("t"));
    keepers.note(&consumer());
    value_of(&keepers);
    answer(&keepers, failed());
    assert_eq!((value_of(&keepers), changes(&keepers).as_str()), (None, ""), "never seen");
    tokio::time::advance(RETRY_TIME).await;
    answer(&keepers, fields("k"));
    assert_eq!((changes(&keepers).as_str(), keepers.problems().len()), ("+jack", 0));
    tokio::time::advance(LAST_GOOD_TIME - RETRY_TIME).await;
    answer(&keepers, failed());
    assert_eq!((changes(&keepers).as_str(), value_of(&keepers).as_deref()), ("", Some("k")));
    let problems = keepers.problems();
    assert_eq!(problems[0].reason, "people/jack cannot be fetched: status 503");
    assert_eq!(problems[0].path, "secrets/vault/1");
    assert!(problems[0].hint.contains("stays in use"), "{}", problems[0].hint);
    tokio::time::advance(2 * RETRY_TIME).await;
    answer(&keepers, failed());
    assert_eq!((changes(&keepers).as_str(), value_of(&keepers)), ("-jack+jack", None));
}

#[tokio::test(start_paused = true)]
async fn what_a_keeper_has_no_more_is_gone_at_once() {
    for is_deleted in [false, true] {
        let keepers = keepers();
        keepers.note(&vault("t"));
        keepers.note(&consumer());
        value_of(&keepers);
        answer(&keepers, fields("k"));
        assert_eq!(changes(&keepers), "+jack");
        if is_deleted {
            let id = Id::new("vault/1");
            keepers.note(&Change::Delete { kind: Kind::Secret, id });
            let (place, vault) = keepers.next_due().expect("something is due");
            assert!(vault.is_none());
            keepers.take(place, Err(NoFields::Gone));
        } else {
            tokio::time::advance(REFRESH_TIME).await;
            answer(&keepers, Err(NoFields::Gone));
        }
        assert_eq!((changes(&keepers).as_str(), value_of(&keepers)), ("-jack+jack", None));
    }
}

#[tokio::test(start_paused = true)]
async fn what_nobody_refers_to_is_let_go_of_and_the_rest_is_bounded() {
    let keepers = keepers();
    keepers.note(&vault("t"));
    keepers.note(&consumer());
    value_of(&keepers);
    answer(&keepers, fields("k"));
    keepers.note(&Change::Delete { kind: Kind::Consumer, id: Id::new("jack") });
    tokio::time::advance(REFRESH_TIME).await;
    assert!(keepers.next_due().is_err());
    assert!(keepers.state().kept.is_empty() && keepers.state().bytes == 0);
    // Nor is a path kept that somebody only asked about, while the keeper is silent.
    assert_eq!(fetched(&keepers, "$secret://vault/1/people/rose/key"), None);
    let (place, _) = keepers.next_due().expect("something is due");
    keepers.take(place, failed());
    tokio::time::advance(RETRY_TIME).await;
    assert!(keepers.next_due().is_err() && keepers.state().kept.is_empty());
    for number in 0..PATHS_MAX + 10 {
        assert_eq!(fetched(&keepers, &format!("$secret://vault/1/p{number}/key")), None);
    }
    assert_eq!(keepers.state().kept.len(), PATHS_MAX);
    let (place, _) = keepers.next_due().expect("something is due");
    keepers.take(place.clone(), fields(&"k".repeat(BYTES_MAX)));
    let text = format!("$secret://vault/1/{}/key", place.2);
    assert_eq!((fetched(&keepers, &text), keepers.state().bytes), (None, 0));
}

#[tokio::test]
async fn a_token_may_stand_in_the_environment_and_other_keepers_are_not_asked() {
    let keepers = keepers();
    let token = |text: &str| {
        let Change::Upsert { id, value: Ok(value), path, .. } = vault(text) else { return None };
        let secret = Secret::parse(id, &value, &path).0?;
        let SecretManager::Vault(vault) = secret.keeper else { return None };
        Some(keepers.token(&Some(vault)))
    };
    assert_eq!(token("t").as_deref(), Some("t"));
    assert_eq!(token("$env://TOKEN").as_deref(), Some("of the environment"));
    assert_eq!(token("$ENV://NOT_SET").as_deref(), Some(""), "the text of a reference is no token");
    assert_eq!(fetched(&keepers, "$env://TOKEN").as_deref(), Some("of the environment"));
    assert_eq!(fetched(&keepers, "$secret://aws/1/a/b"), None);
    assert_eq!(fetched(&keepers, "$secret://vault/1/path-without-a-field"), None);
    assert!(keepers.state().kept.is_empty());
}
