//! PATCH: merges, replacements of one place, and refusals.

use super::*;
use tollhouse_store::Transaction;

#[tokio::test]
async fn a_patch_merges_deep() {
    let fixture = Fixture::new().await;
    let nodes = json!({"127.0.0.1:1980": 1, "127.0.0.1:1981": 1});
    fixture.given(&[("/routes/1", json!({"uri": "/a", "upstream": {"nodes": nodes}}))]).await;
    let table = [
        (json!({"methods": ["GET"]}), "/methods", json!(["GET"])),
        (json!({"methods": ["POST", "PUT"]}), "/methods", json!(["POST", "PUT"])),
        (json!({"methods": null}), "/methods", json!(null)),
        (
            json!({"upstream": {"nodes": {"127.0.0.1:1980": null}}}),
            "/upstream/nodes",
            json!({"127.0.0.1:1981": 1}),
        ),
        // A list replaces a map, and a map a list.
        (
            json!({"upstream": {"nodes": [{"host": "127.0.0.1", "port": 1980, "weight": 2}]}}),
            "/upstream/nodes",
            json!([{"host": "127.0.0.1", "port": 1980, "weight": 2}]),
        ),
        (
            json!({"upstream": {"nodes": {"127.0.0.1:1982": 1, "127.0.0.1:1983": 1}}}),
            "/upstream/nodes",
            json!({"127.0.0.1:1982": 1, "127.0.0.1:1983": 1}),
        ),
        (json!({"uri": "/b"}), "/uri", json!("/b")),
        (json!({"create_time": 5}), "/create_time", json!(5)),
        (json!({"update_time": 6}), "/update_time", json!(6)),
    ];
    for (patch, place, expected) in table {
        let answer = fixture.call("PATCH", "/routes/1", patch.to_string()).await;
        assert_eq!(answer.status, 200, "{patch}: {answer:?}");
        let body = answer.json();
        assert!(body.get("modifiedIndex").is_none());
        let found = body["value"].pointer(place).cloned().unwrap_or_default();
        assert_eq!(found, expected, "{patch}");
        let stored = fixture.get("/routes/1").await.json();
        assert_eq!(stored["value"], body["value"], "{patch}");
    }
}

#[tokio::test]
async fn a_patch_of_a_place_replaces_it() {
    let fixture = Fixture::new().await;
    fixture.given(&[("/routes/1", route())]).await;
    let table = [
        ("/upstream/nodes", json!({"127.0.0.1:1": 2}), 200),
        ("/methods", json!(["GET"]), 200),
        ("/labels/env", json!("test"), 200),
        ("/uri", json!("/c"), 200),
        ("/uri/deep", json!(1), 400),
        ("/methods/deep/er", json!(1), 400),
        ("/methods", json!(["NONE"]), 400),
    ];
    for (place, value, status) in table {
        let path = format!("/routes/1{place}");
        let answer = fixture.call("PATCH", &path, value.to_string()).await;
        assert_eq!(answer.status, status, "{place}: {answer:?}");
        if status == 200 {
            assert_eq!(answer.json()["value"].pointer(place), Some(&value), "{place}");
        }
    }
    let answer = fixture.call("PATCH", "/routes/1/uri/deep", "1").await;
    assert_eq!(answer.error(), "invalid sub-path: /uri");
}

#[tokio::test]
async fn what_cannot_be_patched_is_refused() {
    let fixture = Fixture::new().await;
    fixture.given(&[("/routes/1", route())]).await;
    let table = [
        ("/routes", "{}", 400, "missing route id"),
        ("/consumer_groups", "{}", 400, "missing consumer group id"),
        ("/routes/1", "", 400, "missing new configuration"),
        ("/routes/1", "7", 400, "invalid configuration"),
        ("/routes/1", r#""a""#, 400, "invalid configuration"),
        ("/routes/1", r#"{"id":"2"}"#, 400, "wrong route id"),
        (
            "/routes/1",
            r#"{"uri":7}"#,
            400,
            "invalid configuration: property \"uri\" validation failed: wrong type: expected \
             string, got number",
        ),
        (
            "/routes/1",
            r#"{"upstream_id":"9"}"#,
            400,
            "failed to fetch upstream info by upstream id [9], response code: 404",
        ),
    ];
    for (path, body, status, expected) in table {
        let answer = fixture.call("PATCH", path, body).await;
        assert_eq!((answer.status, answer.error().as_str()), (status, expected), "{path} {body}");
    }
    let answer = fixture.call("PATCH", "/routes/9", "{}").await;
    assert_eq!((answer.status, answer.json()), (404, json!({"message": "Key not found"})));
    let deep = "/a".repeat(10_000);
    let answer = fixture.call("PATCH", &format!("/routes/1/labels{deep}"), "1").await;
    assert_eq!(answer.status, 400);
    let nested = format!("{}1{}", "[".repeat(120), "]".repeat(120));
    let answer = fixture.call("PATCH", "/routes/1/plugins/cors/x", nested).await;
    assert_eq!(answer.status, 400);
}

#[tokio::test]
async fn the_faster_of_two_patches_wins() {
    let fixture = Fixture::new().await;
    fixture.given(&[("/routes/1", route())]).await;
    // The second attempt reads the object again, so that only a write between check and commit is
    // refused.
    let key = "/apisix/routes/1";
    let before = fixture.store.get(key).await.expect("it can be read").expect("it is there");
    fixture.given(&[("/routes/1", route())]).await;
    let late = Transaction::new().when_modified_at(key, before.mod_revision).put(key, "{}");
    assert!(fixture.store.commit(late).await.is_err());
    assert_eq!(fixture.call("PATCH", "/routes/1", "{}").await.status, 200);
}
