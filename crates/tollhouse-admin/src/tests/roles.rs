//! Rights of the role operator: objects, but no secrets. Sealed values are accepted only in the
//! object and field in which they are stored, and writes cause audit events.

use std::sync::Mutex;

use crate::{AuditEvent, AuditSink};

use super::*;

const SEALED: &str = "tollhouse-sealed:";

/// Fixture whose sealed values carry a mark.
async fn fixture() -> Fixture {
    let mut fixture = Fixture::new().await;
    let keyring = Arc::new(Keyring::generate().expect("there are random numbers"));
    let parts = Parts { keyring, ..parts(Arc::clone(&fixture.store), options(), None) };
    fixture.api = AdminApi::new(parts);
    fixture
}

async fn operate(fixture: &Fixture, method: &str, path: &str, value: &Value) -> Answer {
    let mut call = request(method, path, value.to_string());
    call.headers_mut().insert("X-API-KEY", OPERATOR.parse().expect("it is a value"));
    fixture.send(call).await
}

/// Reads an object without its timestamps, as a client sends it back.
async fn read(fixture: &Fixture, path: &str) -> Value {
    let mut value = operate(fixture, "GET", path, &Value::Null).await.json()["value"].clone();
    for time in ["create_time", "update_time"] {
        value.as_object_mut().and_then(|fields| fields.shift_remove(time));
    }
    value
}

fn vault(uri: &str) -> Value {
    json!({"uri": uri, "prefix": "kv", "token": "open-sesame"})
}

fn logged(uri: &str) -> Value {
    let mut value = route();
    value["plugins"] = json!({"http-logger": {"uri": uri, "auth_header": "open-sesame"}});
    value
}

#[tokio::test]
async fn answers_to_writes_show_an_operator_no_secret() {
    let fixture = fixture().await;
    fixture.given(&[("/secrets/vault/1", vault("http://127.0.0.1:8200"))]).await;
    for (method, path, value) in [
        ("PATCH", "/secrets/vault/1", json!({})),
        ("PUT", "/secrets/vault/1", read(&fixture, "/secrets/vault/1").await),
        ("PUT", "/secrets/vault/2", vault("http://127.0.0.1:8200")),
    ] {
        let answer = operate(&fixture, method, path, &value).await;
        assert!(matches!(answer.status, 200 | 201), "{method} {path}: {answer:?}");
        assert!(answer.text.contains(SEALED), "{method} {path}: {answer:?}");
        assert!(!answer.text.contains("open-sesame"), "{method} {path}: {answer:?}");
    }
    let own = fixture.call("PATCH", "/secrets/vault/1", "{}").await;
    assert!(own.text.contains("open-sesame"), "an administrator reads it anyway");
}

#[tokio::test]
async fn a_hidden_value_counts_in_its_own_object_and_field_only() {
    let fixture = fixture().await;
    fixture
        .given(&[
            ("/secrets/vault/1", vault("http://127.0.0.1:8200")),
            ("/routes/1", logged("http://127.0.0.1:1")),
        ])
        .await;
    let keeper = read(&fixture, "/secrets/vault/1").await;
    let route = read(&fixture, "/routes/1").await;
    let mut other_keeper = keeper.clone();
    other_keeper["id"] = "vault/2".into();
    let mut other_route = route.clone();
    other_route["id"] = "2".into();
    let mut posted = route.clone();
    posted.as_object_mut().and_then(|fields| fields.shift_remove("id"));
    let import = json!({"routes": [other_route]});
    for (method, path, value) in [
        ("PUT", "/secrets/vault/2", &other_keeper),
        ("PUT", "/routes/2", &other_route),
        ("POST", "/routes", &posted),
        ("POST", "/../../console/v1/validate/routes/2", &other_route),
        ("POST", "/../../console/v1/import", &import),
    ] {
        let answer = operate(&fixture, method, path, value).await;
        assert_eq!(answer.status, 400, "{method} {path}: {answer:?}");
        assert!(answer.text.contains("write the secret again"), "{method} {path}: {answer:?}");
    }
    for (path, value) in [("/secrets/vault/1", &keeper), ("/routes/1", &route)] {
        let answer = operate(&fixture, "PUT", path, value).await;
        assert_eq!(answer.status, 200, "{path}: {answer:?}");
    }
}

#[tokio::test]
async fn only_an_administrator_changes_where_a_hidden_value_is_sent() {
    let fixture = fixture().await;
    let broker = |host: &str| {
        json!({"host": host, "port": 9092, "sasl_config":
        {"user": "u", "password": "open-sesame"}})
    };
    let mut kafka = route();
    kafka["plugins"] = json!({"kafka-logger":
        {"brokers": [broker("a.example"), broker("b.example")], "kafka_topic": "t"}});
    let mut counted = route();
    counted["plugins"] = json!({"limit-count": {"count": 1, "time_window": 60, "policy": "redis",
        "redis_host": "redis.example", "redis_password": "open-sesame"}});
    fixture
        .given(&[
            ("/secrets/vault/1", vault("http://127.0.0.1:8200")),
            ("/routes/1", logged("http://127.0.0.1:1")),
            ("/routes/2", kafka),
            ("/routes/3", counted),
        ])
        .await;
    let cases = [
        ("/secrets/vault/1", "/uri", json!("http://evil.example")),
        ("/routes/1", "/plugins/http-logger/uri", json!("http://evil.example")),
        ("/routes/2", "/plugins/kafka-logger/brokers/1/host", json!("evil.example")),
        ("/routes/3", "/plugins/limit-count/redis_host", json!("evil.example")),
    ];
    for (path, pointer, elsewhere) in &cases {
        let mut value = read(&fixture, path).await;
        *value.pointer_mut(pointer).expect(path) = elsewhere.clone();
        let refused = operate(&fixture, "PUT", path, &value).await;
        assert_eq!(refused.status, 400, "{path}: {refused:?}");
        assert!(refused.error().contains("write the secret again"), "{path}: {refused:?}");
        let text = value.to_string();
        assert!(text.contains(SEALED), "{path}: {text}");
        let allowed = fixture.put(path, &value).await;
        assert_eq!(allowed.status, 200, "{path}: {allowed:?}");
    }
    let moved = operate(&fixture, "PATCH", "/secrets/vault/1", &json!({"uri": "http://b"})).await;
    assert_eq!(moved.status, 400, "{moved:?}");
    let renewed = json!({"uri": "http://b", "token": "another"});
    assert_eq!(operate(&fixture, "PATCH", "/secrets/vault/1", &renewed).await.status, 200);
    let harmless = operate(&fixture, "PATCH", "/routes/3", &json!({"desc": "other"})).await;
    assert_eq!(harmless.status, 200, "{harmless:?}");
}

#[tokio::test]
async fn a_viewer_cannot_guess_keys_by_asking_whether_an_object_is_valid() {
    let fixture = fixture().await;
    let jack = json!({"username": "jack", "plugins": {"key-auth": {"key": "open-sesame"}}});
    fixture.given(&[("/consumers/jack", jack)]).await;
    let guess = json!({"username": "x", "plugins": {"key-auth": {"key": "open-sesame"}}});
    let mut call = request("POST", "/../../console/v1/validate/consumers/x", guess.to_string());
    call.headers_mut().insert("X-API-KEY", VIEWER.parse().expect("it is a value"));
    let answer = fixture.send(call).await;
    assert_eq!(answer.status, 401, "{answer:?}");
    assert!(!answer.text.contains("jack"), "{answer:?}");
}

/// Sink that stores the audit events.
#[derive(Default)]
struct Remembered(Mutex<Vec<AuditEvent>>);

impl AuditSink for Remembered {
    fn keep(&self, event: &AuditEvent) {
        self.0.lock().expect("one test").push(event.clone());
    }
}

#[tokio::test]
async fn deeds_are_told_with_their_actor_and_without_values() {
    let mut fixture = fixture().await;
    let audit = Arc::new(Remembered::default());
    let sessions = Some(crate::Sessions::new(b"secret", crate::Encryption::Off));
    let options = Options { sessions, ..options() };
    let store = Arc::clone(&fixture.store);
    let sink = Some(Arc::clone(&audit) as Arc<dyn AuditSink>);
    let parts = Parts { audit: sink, ..parts(store, options, None) };
    fixture.api = AdminApi::new(parts);
    let sign_in = async |key: &str| {
        let mut call = request("POST", "/../../console/v1/login", json!({"key": key}).to_string());
        call.headers_mut().remove("X-API-KEY");
        call.headers_mut().insert("X-Tollhouse-Console", "1".parse().expect("it is a value"));
        fixture.send(call).await
    };
    operate(&fixture, "PUT", "/routes/1?x=open-sesame", &route()).await;
    operate(&fixture, "GET", "/routes/1", &Value::Null).await;
    operate(&fixture, "PUT", "/routes/2", &json!({"uri": 1})).await;
    fixture.call_as("a wrong key", "GET", "/routes").await;
    sign_in(OPERATOR).await;
    sign_in("a wrong key").await;
    fixture.get("/../../console/v1/export?reveal_secrets=true").await;
    let seen: Vec<String> = audit
        .0
        .lock()
        .expect("one test")
        .iter()
        .map(|it| {
            let actor = it.actor.as_deref().unwrap_or("-");
            let AuditEvent { method, path, status, .. } = it;
            assert_eq!(it.revision.is_some(), path.ends_with("/routes/1"), "{it:?}");
            format!("{} {actor} {method} {path} {status}", it.deed.name())
        })
        .collect();
    assert_eq!(
        seen,
        [
            "write operator PUT /apisix/admin/routes/1 201",
            "write operator PUT /apisix/admin/routes/2 400",
            "refused_key - GET /apisix/admin/routes 401",
            "sign_in operator POST /console/v1/login 200",
            "refused_key - POST /console/v1/login 401",
            "reveal admin GET /console/v1/export 200",
        ]
    );
}

#[tokio::test]
async fn reasons_of_refusals_are_for_administrators_and_the_caller() {
    let fixture = fixture().await;
    fixture.put("/routes/1", &json!({"uri": 1})).await;
    operate(&fixture, "PUT", "/routes/2", &json!({"uri": 1})).await;
    for (key, told) in [(ADMIN, 2), (OPERATOR, 1), (VIEWER, 0)] {
        let list = fixture.call_as(key, "GET", "/../../console/v1/changes").await.json();
        let refused = list["refused"].as_array().expect("a list");
        assert_eq!(refused.len(), 2);
        let reasons = refused.iter().filter(|it| it["reason"].is_string()).count();
        assert_eq!(reasons, told, "{list}");
    }
}

#[tokio::test]
async fn wrong_keys_are_slowed_down_and_right_ones_are_not() {
    let fixture = fixture().await;
    let mut statuses = Vec::new();
    for _ in 0..62 {
        statuses.push(fixture.call_as("a wrong key", "GET", "/routes").await.status);
    }
    assert_eq!((statuses[0], statuses[59], statuses[60]), (401, 401, 429));
    assert_eq!(fixture.get("/routes").await.status, 200);
}

#[tokio::test]
async fn an_operator_cannot_restore_a_script_that_an_administrator_removed() {
    let fixture = Fixture::new().await;
    let mut scripted = route();
    scripted["labels"] = json!({ "script": "return" });
    fixture.given(&[("/routes/1", scripted)]).await;
    fixture.delete("/routes/1").await;
    let rows = fixture.changes("?id=1").await;
    let path = format!("/changes/{}/undo", rows[0]["name"].as_str().expect("a name"));
    let refused = fixture.console(OPERATOR, "POST", &path).await;
    assert_eq!(refused.status, 403, "{refused:?}");
    assert_eq!(fixture.stored("routes/1").await, None);
    assert_eq!(fixture.undo(&rows[0]).await.status, 200);
}
