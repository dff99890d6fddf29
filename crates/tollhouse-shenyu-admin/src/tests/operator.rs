//! Tests of calls from the gateway's own console, and of the records of changes and their authors.

use axum::http::Method;
use serde_json::{Value, json};

use super::Fixture;
use crate::operator::{ChangeRecord, Operator, OperatorRequest};

/// Returns the newest record with the details of its changes.
fn newest(fixture: &Fixture) -> (ChangeRecord, Value) {
    let id = fixture.admin.change_records().remove(0).id;
    fixture.admin.change_record_in_full(&id).expect("it is kept")
}

async fn ask(
    fixture: &Fixture,
    sees_secrets: bool,
    (method, path): (Method, &str),
    body: Value,
) -> (u16, Value) {
    let operator = Operator { name: "night shift".to_owned(), sees_secrets };
    let segments: Vec<&str> = path.split('/').collect();
    let request = OperatorRequest { method, segments: &segments, arguments: Vec::new(), body };
    fixture.admin.call_as(&operator, request).await
}

fn selector(handle: &str) -> Value {
    json!({"name": "orders", "pluginId": "5", "type": 1, "matchMode": 0, "handle": handle,
        "selectorConditions": [{"paramType": "uri", "operator": "startsWith", "paramName": "/", "paramValue": "/a"}]})
}

#[tokio::test]
async fn the_console_writes_what_shenyus_own_would_and_users_stay_out_of_reach() {
    let fixture = Fixture::new().await;
    let (status, made) = ask(&fixture, true, (Method::POST, "selector"), selector("[]")).await;
    let id = made["data"].as_str().expect("an id").to_owned();
    assert_eq!(status, 200, "{made}");
    let path = format!("selector/{id}");
    let (_, found) = ask(&fixture, true, (Method::GET, &path), Value::Null).await;
    assert_eq!(
        (&found["data"]["name"], &found["data"]["pluginName"]),
        (&json!("orders"), &json!("divide"))
    );
    let (status, refused) =
        ask(&fixture, true, (Method::POST, "selector"), json!({"name": "x"})).await;
    assert!(
        status == 400 && refused["error_msg"].as_str().is_some_and(|it| it.contains("pluginId")),
        "{refused}"
    );
    for (method, path) in [
        (Method::GET, "dashboardUser"),
        (Method::GET, "role"),
        (Method::POST, "configs/import"),
        (Method::POST, "namespace/insertOrUpdate"),
        (Method::GET, "configs/export"),
        (Method::GET, ""),
    ] {
        assert_eq!(ask(&fixture, true, (method, path), json!({})).await.0, 404, "{path}");
    }
}

#[tokio::test]
async fn a_change_is_noted_with_what_it_was_and_without_secrets() {
    let fixture = Fixture::new().await;
    let (_, made) = ask(&fixture, true, (Method::POST, "selector"), selector("[]")).await;
    let id = made["data"].as_str().expect("an id").to_owned();
    let secret = r#"{"keyName":"apiKey","key":"hush"}"#;
    ask(
        &fixture,
        true,
        (Method::PUT, &format!("selector/{id}")),
        json!({"name": "renamed", "handle": secret}),
    )
    .await;
    let (record, changes) = newest(&fixture);
    let row = &changes["rows"][0];
    assert_eq!((&*record.operator, &*record.way), ("night shift", "console"));
    assert_eq!((record.deed.as_str(), record.object), ("replace", format!("selector/{id}")));
    assert_eq!(
        (&row["deed"], &row["object"]),
        (&json!("replace"), &json!(format!("selector/{id}")))
    );
    assert_eq!(
        (&row["before"]["name"], &row["after"]["name"]),
        (&json!("orders"), &json!("renamed"))
    );
    assert!(row["after"]["handle"].as_str().is_some_and(|it| it.contains("apiKey")), "{row}");
    assert!(!changes.to_string().contains("hush"));
    // A changed secret looks the same when masked, but is recorded all the same.
    let other = r#"{"keyName":"apiKey","key":"hush hush"}"#;
    ask(&fixture, true, (Method::PUT, &format!("selector/{id}")), json!({"handle": other})).await;
    let (_, changes) = newest(&fixture);
    assert_eq!(changes["rows"][0]["after"]["handle"], r#"{"keyName":"apiKey","key":"******"}"#);
    // ShenYu's own console has users instead of keys. A change and its record are in one commit.
    fixture.expect("DELETE", "/selector/batch", &json!([id]), "delete success").await;
    let (record, _) = newest(&fixture);
    assert_eq!((&*record.operator, &*record.way, &*record.deed), ("admin", "shenyu", "delete"));
    let list =
        fixture.expect("GET", "/operation-record/log/list", &Value::Null, "query success").await;
    assert!(list[0]["before"].as_str().is_some_and(|it| it.contains("renamed")), "{list}");
}

#[tokio::test]
async fn who_sees_no_secrets_writes_back_what_was_hidden_from_him() {
    let fixture = Fixture::new().await;
    let handle = json!([{"upstreamUrl": "10.0.0.1:80", "password": "hush"}]).to_string();
    let (_, made) = ask(&fixture, true, (Method::POST, "selector"), selector(&handle)).await;
    let path = format!("selector/{}", made["data"].as_str().expect("an id"));
    let (_, shown) = ask(&fixture, false, (Method::GET, &path), Value::Null).await;
    assert!(!shown.to_string().contains("hush"), "{shown}");
    let mut body = shown["data"].clone();
    body["name"] = "renamed".into();
    assert_eq!(ask(&fixture, false, (Method::PUT, &path), body).await.0, 200);
    let (_, kept) = ask(&fixture, true, (Method::GET, &path), Value::Null).await;
    assert_eq!(
        (&kept["data"]["name"], &kept["data"]["handle"]),
        (&json!("renamed"), &json!(handle))
    );
}

#[tokio::test]
async fn a_great_change_is_told_in_short() {
    let fixture = Fixture::new().await;
    let (_, made) = ask(&fixture, true, (Method::POST, "selector"), selector("[]")).await;
    let selector = made["data"].as_str().expect("an id").to_owned();
    let note = "x".repeat(2_000);
    for number in 0..30 {
        let rule = json!({"name": format!("rule {number}"), "selectorId": selector, "handle": json!({"note": note}).to_string()});
        assert_eq!(ask(&fixture, true, (Method::POST, "rule"), rule).await.0, 200);
    }
    ask(&fixture, true, (Method::DELETE, "selector/batch"), json!({"ids": [selector]})).await;
    let (_, changes) = newest(&fixture);
    assert_eq!((&changes["more"], &changes["is_cut"]), (&json!(11), &json!(true)));
    assert!(changes.to_string().len() < 40_000);
}
