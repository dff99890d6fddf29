//! List of changes: the rows about writes, their visibility, and undo.

use tollhouse_model::change_row::FOLDER;

use super::*;

impl Fixture {
    pub(super) async fn console(&self, key: &str, method: &str, path: &str) -> Answer {
        let request = Request::builder().method(method).uri(format!("/console/v1{path}"));
        let request = request.header("Host", "127.0.0.1:9180").header("X-API-KEY", key);
        self.send(request.body(Full::default()).expect("it is a request")).await
    }

    pub(super) async fn changes(&self, query: &str) -> Vec<Value> {
        let answer = self.console(VIEWER, "GET", &format!("/changes{query}")).await;
        assert_eq!(answer.status, 200, "{answer:?}");
        answer.json()["rows"].as_array().expect("there are rows").clone()
    }

    pub(super) async fn stored(&self, path: &str) -> Option<String> {
        let entry = self.store.get(&format!("/apisix/{path}")).await.expect("memory is there");
        entry.map(|entry| String::from_utf8(entry.value.to_vec()).expect("it is text"))
    }

    pub(super) async fn undo(&self, row: &Value) -> Answer {
        let name = row["name"].as_str().expect("a name");
        self.console(ADMIN, "POST", &format!("/changes/{name}/undo")).await
    }
}

fn deeds(rows: &[Value]) -> Vec<&str> {
    rows.iter().filter_map(|row| row["deed"].as_str()).collect()
}

#[tokio::test]
async fn every_write_has_its_row_in_the_same_commit() {
    let fixture = Fixture::new().await;
    fixture.given(&[("/routes/1", route())]).await;
    fixture.call("PATCH", "/routes/1", r#"{"desc": "x"}"#).await;
    let mut other = route();
    other["uri"] = "/b".into();
    fixture.given(&[("/routes/1", other)]).await;
    let posted = fixture.call("POST", "/routes", route().to_string()).await;
    assert_eq!(posted.status, 201);
    let read = fixture.get("/routes/1").await.json()["modifiedIndex"].clone();
    fixture.delete("/routes/1").await;
    let rows = fixture.changes("?kind=routes").await;
    assert_eq!(deeds(&rows), ["delete", "create", "replace", "patch", "create"]);
    assert_eq!(rows[2]["revision"], read, "a row has the revision of what it tells of");
    let places: Vec<&Value> = rows[2]["differences"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|it| &it["pointer"])
        .collect();
    assert_eq!(places, ["/uri", "/desc"]);
    assert_eq!((&rows[0]["actor"], &rows[0]["way"]), (&json!("admin"), &json!("api")));
    assert_eq!(fixture.changes("?id=1").await.len(), 4);
    assert_eq!(fixture.changes("?actor=nobody").await.len(), 0);
    assert_eq!(fixture.changes(&format!("?before={read}")).await.len(), 2);
}

#[tokio::test]
async fn what_is_refused_or_changes_nothing_has_no_row() {
    let fixture = Fixture::new().await;
    assert_eq!(fixture.put("/routes/1", &json!({"uri": 1})).await.status, 400);
    assert_eq!(fixture.delete("/routes/1").await.status, 404);
    assert_eq!(fixture.call_as(VIEWER, "PUT", "/routes/1").await.status, 401);
    assert_eq!(fixture.changes("").await.len(), 0);
    let refused = fixture.console(ADMIN, "GET", "/changes").await.json()["refused"].clone();
    let told = refused.as_array().expect("a list");
    let told: Vec<(&Value, &Value)> = told.iter().map(|it| (&it["actor"], &it["status"])).collect();
    assert_eq!(told, [(&json!("viewer"), &json!(401)), (&json!("admin"), &json!(400))]);
    let seen = fixture.console(VIEWER, "GET", "/changes").await.json()["refused"][1].clone();
    assert_eq!(seen["reason"], Value::Null, "reasons may name what was written");
}

#[tokio::test]
async fn a_change_that_is_taken_back_leaves_the_bytes_that_were_there() {
    let fixture = Fixture::new().await;
    fixture.given(&[("/routes/1", route())]).await;
    let first = fixture.stored("routes/1").await;
    let mut other = route();
    other["uri"] = "/b".into();
    fixture.given(&[("/routes/1", other)]).await;
    let second = fixture.stored("routes/1").await;
    let rows = fixture.changes("").await;
    assert_eq!(fixture.undo(&rows[0]).await.status, 200);
    assert_eq!(fixture.stored("routes/1").await, first);
    // The undo is a change like any other.
    let rows = fixture.changes("").await;
    assert_eq!(deeds(&rows), ["undo", "replace", "create"]);
    assert_eq!(rows[0]["undoes"], rows[1]["name"]);
    assert_eq!(fixture.undo(&rows[0]).await.status, 200);
    assert_eq!(fixture.stored("routes/1").await, second);
    fixture.delete("/routes/1").await;
    let deleted = fixture.changes("").await[0].clone();
    assert_eq!(fixture.undo(&deleted).await.status, 200);
    assert_eq!(fixture.stored("routes/1").await, second);
    let back = fixture.changes("").await[0].clone();
    assert_eq!(fixture.undo(&back).await.status, 200, "what was not there goes again");
    assert_eq!(fixture.stored("routes/1").await, None);
}

#[tokio::test]
async fn what_others_have_changed_since_is_not_taken_back_unseen() {
    let fixture = Fixture::new().await;
    let at = |uri: &str| json!({"uri": uri, "plugins": {}});
    fixture
        .given(&[("/routes/1", at("/a")), ("/routes/1", at("/b")), ("/routes/1", at("/c"))])
        .await;
    let rows = fixture.changes("").await;
    let refused = fixture.undo(&rows[1]).await;
    assert_eq!(refused.status, 412, "{refused:?}");
    assert_eq!(refused.json()["current"]["value"]["uri"], "/c");
    let tag = refused.header("etag").to_owned();
    let path = format!("/console/v1/changes/{}/undo", rows[1]["revision"]);
    let with = |query: &str| {
        let request = Request::builder().method("POST").uri(format!("{path}{query}"));
        let request = request.header("Host", "127.0.0.1:9180").header("X-API-KEY", ADMIN);
        let request = request.header("If-Match", &tag);
        request.body(Full::default()).expect("it is a request")
    };
    assert_eq!(fixture.send(with("?dry_run=true")).await.json(), json!({"valid": true}));
    assert_eq!(fixture.get("/routes/1").await.json()["value"]["uri"], "/c");
    assert_eq!(fixture.send(with("")).await.status, 200);
    assert_eq!(fixture.get("/routes/1").await.json()["value"]["uri"], "/a");
    assert_eq!(fixture.send(with("")).await.status, 412, "seen is not seen for ever");
}

#[tokio::test]
async fn taking_back_is_checked_as_any_write_is() {
    let fixture = Fixture::new().await;
    let nodes = json!({"nodes": {"127.0.0.1:1": 1}});
    fixture.given(&[("/upstreams/u", nodes)]).await;
    fixture.given(&[("/routes/1", json!({"uri": "/a", "upstream_id": "u"}))]).await;
    let rows = fixture.changes("").await;
    let refused = fixture.undo(&rows[1]).await;
    assert_eq!(refused.status, 400, "somebody uses it: {refused:?}");
    assert!(refused.error().contains("route [1]"), "{refused:?}");
    fixture.delete("/routes/1").await;
    let deleted = fixture.changes("").await[0].clone();
    fixture.delete("/upstreams/u").await;
    let refused = fixture.undo(&deleted).await;
    assert!(refused.error().contains("upstream id [u]"), "what it names has gone: {refused:?}");
    let viewer = format!("/changes/{}/undo", deleted["revision"]);
    assert_eq!(fixture.console(VIEWER, "POST", &viewer).await.status, 401);
    assert_eq!(fixture.console(ADMIN, "POST", "/changes/99999/undo").await.status, 404);
}

#[tokio::test]
async fn what_went_with_a_deleted_object_comes_back_with_it() {
    let fixture = Fixture::new().await;
    fixture.given(&[("/consumers/jack", json!({"username": "jack"}))]).await;
    let credential = json!({"plugins": {"key-auth": {"key": "partner-key"}}});
    fixture.given(&[("/consumers/jack/credentials/1", credential)]).await;
    let before = fixture.stored("consumers/jack/credentials/1").await;
    assert!(before.is_some());
    fixture.delete("/consumers/jack").await;
    assert_eq!(fixture.stored("consumers/jack/credentials/1").await, None);
    let deleted = fixture.changes("?kind=consumers").await[0].clone();
    assert_eq!(fixture.undo(&deleted).await.status, 200);
    assert_eq!(fixture.stored("consumers/jack/credentials/1").await, before);
}

#[tokio::test]
async fn no_secret_is_in_what_is_told_of_a_change() {
    let fixture = Fixture::new().await;
    let jack = |key: &str| json!({"username": "jack", "plugins": {"key-auth": {"key": key}}});
    fixture.given(&[("/consumers/jack", jack("first-of-jack"))]).await;
    fixture.given(&[("/consumers/jack", jack("second-of-jack"))]).await;
    for key in [ADMIN, VIEWER] {
        let list = fixture.console(key, "GET", "/changes").await;
        let one = fixture
            .console(
                key,
                "GET",
                &format!("/changes/{}", list.json()["rows"][0]["name"].as_str().expect("a name")),
            )
            .await;
        let object = fixture.console(key, "GET", "/objects/consumers/jack").await;
        for answer in [&list, &one, &object] {
            assert_eq!(answer.status, 200, "{answer:?}");
            assert!(!answer.text.contains("-of-jack"), "{answer:?}");
        }
        assert_eq!(object.json()["last_change"]["deed"], "replace");
    }
    for entry in fixture.store.list("/apisix/").await.expect("memory is there").entries {
        let text = String::from_utf8_lossy(&entry.value);
        assert!(!text.contains("-of-jack"), "{} lies open: {text}", entry.key);
    }
}

#[tokio::test]
async fn what_was_to_end_by_itself_is_not_brought_back_for_ever() {
    let fixture = Fixture::new().await;
    assert_eq!(fixture.call("PUT", "/routes/1?ttl=600", route().to_string()).await.status, 201);
    fixture.delete("/routes/1").await;
    let deleted = fixture.changes("").await[0].clone();
    assert_eq!(fixture.undo(&deleted).await.status, 409);
}

#[tokio::test]
async fn many_who_write_one_object_at_once_all_succeed() {
    let fixture = Arc::new(Fixture::new().await);
    let mut tasks = tokio::task::JoinSet::new();
    for number in 0..40 {
        let fixture = Arc::clone(&fixture);
        tasks.spawn(async move {
            let value = json!({"uri": format!("/{number}"), "plugins": {}});
            fixture.put("/routes/1", &value).await.status
        });
    }
    let statuses = tasks.join_all().await;
    assert!(statuses.iter().all(|status| matches!(status, 200 | 201)), "{statuses:?}");
    let rows = fixture.changes("").await;
    assert_eq!((rows.len(), deeds(&rows).last()), (40, Some(&"create")));
    // The object before each change is the object after the previous change.
    let one = |row: &Value| format!("/changes/{}", row["name"].as_str().expect("a name"));
    let mut later: Option<Value> = None;
    for row in &rows {
        let whole = fixture.console(ADMIN, "GET", &one(row)).await.json();
        if let Some(later) = later {
            assert_eq!(later["before"], whole["after"]);
        }
        later = Some(whole);
    }
}

#[tokio::test]
async fn an_operator_writes_and_reads_no_secret_in_the_clear() {
    let mut options = options();
    let key = "0123456789abcdef";
    options.keys.push(AdminKey { name: "night".into(), key: key.into(), role: Role::Operator });
    let fixture = Fixture::with(options).await;
    let jack = json!({"username": "jack", "plugins": {"key-auth": {"key": "key-of-jack"}}});
    let mut write = request("PUT", "/consumers/jack", jack.to_string());
    write.headers_mut().insert("X-API-KEY", key.parse().expect("it is a value"));
    assert_eq!(fixture.send(write).await.status, 201);
    let read = fixture.call_as(key, "GET", "/consumers/jack").await;
    assert!(read.status == 200 && !read.text.contains("key-of-jack"), "{read:?}");
    // An object that was read can be written back, and its secrets stay sealed.
    let mut value = read.json()["value"].clone();
    for time in ["create_time", "update_time"] {
        value.as_object_mut().expect("an object").remove(time);
    }
    let mut again = request("PUT", "/consumers/jack", value.to_string());
    again.headers_mut().insert("X-API-KEY", key.parse().expect("it is a value"));
    assert_eq!(fixture.send(again).await.status, 200);
    let read = fixture.get("/consumers/jack").await.json();
    assert_eq!(read["value"]["plugins"]["key-auth"]["key"], "key-of-jack");
    assert_eq!(fixture.changes("").await[0]["actor"], "night");
}

#[tokio::test]
async fn rows_are_no_objects() {
    let fixture = Fixture::new().await;
    fixture.given(&[("/routes/1", route())]).await;
    let keys = fixture.store.list("/apisix/").await.expect("memory is there").entries;
    assert!(keys.iter().any(|entry| entry.key.contains(FOLDER)), "{keys:?}");
    assert_eq!(fixture.get("/routes").await.json()["total"], 1);
    assert_eq!(fixture.get("/tollhouse/changes").await.status, 404);
}

#[tokio::test]
async fn a_row_believes_no_header_about_the_way_of_a_change() {
    let fixture = Fixture::new().await;
    for (header, expected) in [
        (("x-tollhouse-way", "import"), "api"),
        (("x-tollhouse-console", "1"), "api"),
        (("x-tollhouse-way", "anything"), "api"),
    ] {
        let mut write = request("PUT", "/routes/1", route().to_string());
        write.headers_mut().insert(header.0, header.1.parse().expect("it is a value"));
        assert!(matches!(fixture.send(write).await.status, 200 | 201));
        assert_eq!(fixture.changes("").await[0]["way"], expected);
    }
}
