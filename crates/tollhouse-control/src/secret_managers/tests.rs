//! The cache, in virtual time and without any manager.

use serde_json::json;
use tollhouse_model::secret::{EnvironmentSource, SecretText};

use super::*;

fn managers() -> SecretManagers {
    let lookup = |name: &str| (name == "TOKEN").then(|| "of the environment".to_owned());
    SecretManagers::new(Box::new(EnvironmentSource::new(lookup)))
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

fn fetched(managers: &SecretManagers, text: &str) -> Option<String> {
    managers.fetch(&SecretRef::parse(text)?)
}

fn value_of(managers: &SecretManagers) -> Option<String> {
    fetched(managers, "$secret://vault/1/people/jack/key")
}

fn fields(key: &str) -> Result<Fields, NoFields> {
    Ok([("key".to_owned(), SecretText::new(key))].into())
}

/// Answers the one question that is due.
fn answer(managers: &SecretManagers, answer: Result<Fields, NoFields>) {
    let (place, vault) = managers.next_due().expect("something is due");
    assert_eq!((place.1.as_str(), place.2.as_str()), ("1", "people/jack"));
    assert!(vault.is_some() && managers.next_due().is_err(), "asked once");
    managers.take(place, answer);
}

/// Changes that make objects compile again, as text: `-` marks a deletion.
fn changes(managers: &SecretManagers) -> String {
    let told = |change: &Change| match change {
        Change::Delete { id, .. } => format!("-{id}"),
        Change::Upsert { id, .. } => format!("+{id}"),
        _ => unreachable!("no other changes come of it"),
    };
    managers.take_changes().iter().map(told).collect()
}

fn failed() -> Result<Fields, NoFields> {
    Err(NoFields::Unknown("status 503".to_owned()))
}

#[tokio::test(start_paused = true)]
async fn a_reference_has_a_value_once_its_keeper_has_said_so() {
    let managers = managers();
    managers.note(&vault("t"));
    managers.note(&consumer());
    assert_eq!(value_of(&managers), None, "nobody waits for it");
    answer(&managers, fields("k"));
    assert_eq!(value_of(&managers).as_deref(), Some("k"));
    assert_eq!(fetched(&managers, "$secret://vault/1/people/jack/other"), None);
    assert_eq!(changes(&managers), "+jack");
    assert_eq!(changes(&managers), "");
    // It is asked again when it is old, and what is the same changes nothing.
    assert_eq!(managers.next_due().err(), Some(REFRESH_TIME));
    tokio::time::advance(REFRESH_TIME).await;
    answer(&managers, fields("k"));
    assert_eq!(changes(&managers), "");
    // Or when its manager is another.
    managers.note(&vault("u"));
    answer(&managers, fields("l"));
    assert_eq!((changes(&managers).as_str(), value_of(&managers).as_deref()), ("+jack", Some("l")));
}

#[tokio::test(start_paused = true)]
async fn what_a_silent_keeper_has_said_goes_on_for_a_while() {
    let managers = managers();
    managers.note(&vault("t"));
    managers.note(&consumer());
    value_of(&managers);
    answer(&managers, failed());
    assert_eq!((value_of(&managers), changes(&managers).as_str()), (None, ""), "never seen");
    tokio::time::advance(RETRY_TIME).await;
    answer(&managers, fields("k"));
    assert_eq!((changes(&managers).as_str(), managers.problems().len()), ("+jack", 0));
    tokio::time::advance(LAST_GOOD_TIME - RETRY_TIME).await;
    answer(&managers, failed());
    assert_eq!((changes(&managers).as_str(), value_of(&managers).as_deref()), ("", Some("k")));
    let problems = managers.problems();
    assert_eq!(problems[0].reason, "people/jack cannot be fetched: status 503");
    assert_eq!(problems[0].path, "secrets/vault/1");
    assert!(problems[0].hint.contains("stays in use"), "{}", problems[0].hint);
    tokio::time::advance(2 * RETRY_TIME).await;
    answer(&managers, failed());
    assert_eq!((changes(&managers).as_str(), value_of(&managers)), ("-jack+jack", None));
}

#[tokio::test(start_paused = true)]
async fn what_a_keeper_has_no_more_is_gone_at_once() {
    for is_deleted in [false, true] {
        let managers = managers();
        managers.note(&vault("t"));
        managers.note(&consumer());
        value_of(&managers);
        answer(&managers, fields("k"));
        assert_eq!(changes(&managers), "+jack");
        if is_deleted {
            let id = Id::new("vault/1");
            managers.note(&Change::Delete { kind: Kind::Secret, id });
            let (place, vault) = managers.next_due().expect("something is due");
            assert!(vault.is_none());
            managers.take(place, Err(NoFields::Gone));
        } else {
            tokio::time::advance(REFRESH_TIME).await;
            answer(&managers, Err(NoFields::Gone));
        }
        assert_eq!((changes(&managers).as_str(), value_of(&managers)), ("-jack+jack", None));
    }
}

#[tokio::test(start_paused = true)]
async fn what_nobody_refers_to_is_let_go_of_and_the_rest_is_bounded() {
    let managers = managers();
    managers.note(&vault("t"));
    managers.note(&consumer());
    value_of(&managers);
    answer(&managers, fields("k"));
    managers.note(&Change::Delete { kind: Kind::Consumer, id: Id::new("jack") });
    tokio::time::advance(REFRESH_TIME).await;
    assert!(managers.next_due().is_err());
    assert!(managers.state().cache.is_empty() && managers.state().bytes == 0);
    // Nor does a path stay that was only asked for, while the manager is silent.
    assert_eq!(fetched(&managers, "$secret://vault/1/people/rose/key"), None);
    let (place, _) = managers.next_due().expect("something is due");
    managers.take(place, failed());
    tokio::time::advance(RETRY_TIME).await;
    assert!(managers.next_due().is_err() && managers.state().cache.is_empty());
    for number in 0..PATHS_MAX + 10 {
        assert_eq!(fetched(&managers, &format!("$secret://vault/1/p{number}/key")), None);
    }
    assert_eq!(managers.state().cache.len(), PATHS_MAX);
    let (place, _) = managers.next_due().expect("something is due");
    managers.take(place.clone(), fields(&"k".repeat(BYTES_MAX)));
    let text = format!("$secret://vault/1/{}/key", place.2);
    assert_eq!((fetched(&managers, &text), managers.state().bytes), (None, 0));
}

#[tokio::test]
async fn a_token_may_stand_in_the_environment_and_other_keepers_are_not_asked() {
    let managers = managers();
    let token = |text: &str| {
        let Change::Upsert { id, value: Ok(value), path, .. } = vault(text) else { return None };
        let secret = Secret::parse(id, &value, &path).0?;
        let SecretManager::Vault(vault) = secret.keeper else { return None };
        Some(managers.token(&Some(vault)))
    };
    assert_eq!(token("t").as_deref(), Some("t"));
    assert_eq!(token("$env://TOKEN").as_deref(), Some("of the environment"));
    assert_eq!(token("$ENV://NOT_SET").as_deref(), Some(""), "the text of a reference is no token");
    assert_eq!(fetched(&managers, "$env://TOKEN").as_deref(), Some("of the environment"));
    assert_eq!(fetched(&managers, "$secret://aws/1/a/b"), None);
    assert_eq!(fetched(&managers, "$secret://vault/1/path-without-a-field"), None);
    assert!(managers.state().cache.is_empty());
}
