//! Answers to accepted writes whose objects the data plane does not serve as written.

use super::console::Quiet;
use super::*;

#[tokio::test]
async fn a_write_is_answered_with_the_problems_of_its_object() {
    let mut fixture = Fixture::new().await;
    fixture.put_console(Arc::new(Quiet)).await;
    let warnings = |answer: &Answer| {
        let header = answer.header("x-tollhouse-warning").to_owned();
        let body = answer.json();
        let listed = body["warnings"].as_array().map_or(0, Vec::len);
        assert!(body["value"].is_object(), "{body}");
        (header, listed)
    };
    let answer = fixture.put("/routes/a.b", &route()).await;
    assert_eq!(warnings(&answer), ("is empty".to_owned(), 1));
    assert_eq!(answer.json()["warnings"][0]["path"], "routes/a.b.upstream.nodes");
    let answer = fixture.put("/routes/none", &route()).await;
    assert_eq!(warnings(&answer), ("is gone".to_owned(), 1));
    for other in ["/routes/a", "/routes/non", "/routes/1"] {
        let answer = fixture.put(other, &route()).await;
        assert_eq!(warnings(&answer), (String::new(), 0), "{other}");
        assert!(answer.json().get("warnings").is_none(), "{other}");
    }
    let answer = fixture.call("PATCH", "/routes/none", r#"{"desc":"d"}"#).await;
    assert_eq!(warnings(&answer), ("is gone".to_owned(), 1));
}

#[tokio::test]
async fn a_credential_is_found_under_its_consumer() {
    let mut fixture = Fixture::new().await;
    fixture.put_console(Arc::new(Quiet)).await;
    fixture.given(&[("/consumers/jack", json!({"username": "jack"}))]).await;
    let credential = json!({"plugins": {"key-auth": {"key": "k"}}});
    let answer = fixture.put("/consumers/jack/credentials/c1", &credential).await;
    assert_eq!(answer.status, 201);
    let listed = &answer.json()["warnings"];
    assert_eq!(listed[0]["reason"], "is é\n", "the body has it as it is");
    assert_eq!(listed.as_array().map(Vec::len), Some(1));
}

#[tokio::test]
async fn revisions_of_a_client_are_taken_and_not_stored() {
    let fixture = Fixture::new().await;
    let mut value = route();
    value["modifiedIndex"] = json!(7);
    value["createdIndex"] = json!(7);
    assert_eq!(fixture.put("/routes/1", &value).await.status, 201);
    let stored = fixture.get("/routes/1").await.json();
    assert!(stored["value"].get("modifiedIndex").is_none(), "{stored}");
    assert!(stored["value"].get("createdIndex").is_none(), "{stored}");
    let change = r#"{"modifiedIndex":9,"desc":"d"}"#;
    assert_eq!(fixture.call("PATCH", "/routes/1", change).await.status, 200);
    let stored = fixture.get("/routes/1").await.json();
    assert!(stored["value"].get("modifiedIndex").is_none(), "{stored}");
}

#[tokio::test]
async fn the_id_of_a_consumer_is_taken_and_names_nothing() {
    let fixture = Fixture::new().await;
    let value = json!({"username": "jack", "id": "7"});
    assert_eq!(fixture.put("/consumers/jack", &value).await.status, 201);
    let stored = fixture.get("/consumers/jack").await.json();
    assert!(stored["value"].get("id").is_none(), "{stored}");
}

#[tokio::test]
async fn a_good_document_is_answered_with_the_problems_that_it_would_have() {
    let mut fixture = Fixture::new().await;
    fixture.put_console(Arc::new(Quiet)).await;
    fixture.given(&[("/routes/stored", route())]).await;
    let mut good = route();
    good["id"] = json!("a");
    let document = json!({"routes": [good]}).to_string();
    let answer = fixture.call("POST", "/configs/validate", document).await;
    assert_eq!((answer.status, answer.header("x-tollhouse-warning")), (200, "a"));
    let expected = json!({"warnings": [{"path": "routes[0].uri", "reason": "a"}]});
    assert_eq!(answer.json(), expected, "stored objects are not spoken of");
    let answer = fixture.call("POST", "/configs/validate", "{}").await;
    assert_eq!((answer.status, answer.header("x-tollhouse-warning")), (200, ""));
    assert_eq!(answer.json(), json!({}));
}
