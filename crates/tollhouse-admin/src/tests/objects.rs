//! What every resource does: the verbs, their statuses, and the shape of answers.

use super::*;

#[tokio::test]
async fn an_object_lives_from_put_to_delete() {
    let fixture = Fixture::new().await;
    let missing = json!({"message": "Key not found"});
    let answer = fixture.get("/routes/1").await;
    assert_eq!((answer.status, answer.json()), (404, missing.clone()));

    let answer = fixture.put("/routes/1", &route()).await;
    assert_eq!(answer.status, 201);
    assert!(answer.text.ends_with("}\n") && !answer.text.ends_with("\n\n"));
    assert_eq!(answer.header("content-type"), "application/json");
    assert_eq!(answer.header("x-api-version"), "v3");
    assert_eq!(answer.header("server"), "APISIX/3.18.0");
    let body = answer.json();
    assert_eq!(body["key"], "/apisix/routes/1");
    assert_eq!(body["value"]["id"], "1");
    assert!(body["value"]["create_time"].is_i64());
    assert_eq!(body["value"]["create_time"], body["value"]["update_time"]);
    assert_eq!(body.as_object().map(|fields| fields.len()), Some(2), "no revisions in {body}");

    let answer = fixture.put("/routes/1", &route()).await;
    assert_eq!(answer.status, 200);
    let answer = fixture.get("/routes/1").await;
    assert_eq!(answer.status, 200);
    let stored = answer.json();
    assert_eq!(stored["createdIndex"], 1);
    assert_eq!(stored["modifiedIndex"], 2);
    let mut bare = stored["value"].clone();
    let fields = bare.as_object_mut().expect("it is an object");
    for added in ["id", "create_time", "update_time"] {
        fields.remove(added);
    }
    assert_eq!(bare, route(), "no defaults are stored");

    let answer = fixture.delete("/routes/1").await;
    assert_eq!(answer.status, 200);
    assert_eq!(answer.json(), json!({"deleted": "1", "key": "/apisix/routes/1"}));
    let answer = fixture.delete("/routes/1").await;
    assert_eq!((answer.status, answer.json()), (404, missing));
}
