//! `If-Match`: writes that happen only while the object is the one that was read.

use super::*;

impl Fixture {
    async fn call_if(&self, tag: &str, method: &str, path: &str, value: &Value) -> Answer {
        let mut request = request(method, path, value.to_string());
        request.headers_mut().insert("If-Match", tag.parse().expect("it is a value"));
        self.send(request).await
    }
}

fn route_at(uri: &str) -> Value {
    json!({"uri": uri, "plugins": {}})
}

#[tokio::test]
async fn answers_carry_the_tag_of_the_object() {
    let fixture = Fixture::new().await;
    let created = fixture.put("/routes/1", &route()).await;
    let read = fixture.get("/routes/1").await;
    let tag = format!("\"{}\"", read.json()["modifiedIndex"]);
    assert_eq!((created.header("etag"), read.header("etag")), (&*tag, &*tag));
    let patched = fixture.call("PATCH", "/routes/1", r#"{"desc":"x"}"#).await;
    assert_eq!(patched.header("etag"), fixture.get("/routes/1").await.header("etag"));
    let posted = fixture.call("POST", "/routes", route().to_string()).await;
    let id = posted.json()["value"]["id"].as_str().map(str::to_owned).expect("it has an id");
    let read = fixture.get(&format!("/routes/{id}")).await;
    assert_eq!(posted.header("etag"), read.header("etag"));
}

#[tokio::test]
async fn the_second_of_two_editors_gets_the_newer_object() {
    let fixture = Fixture::new().await;
    for (method, body) in
        [("PUT", route_at("/mine")), ("PATCH", route_at("/mine")), ("DELETE", json!(null))]
    {
        fixture.given(&[("/routes/1", route())]).await;
        let read = fixture.get("/routes/1").await.header("etag").to_owned();
        let theirs = route_at("/theirs");
        assert_eq!(fixture.call_if(&read, "PUT", "/routes/1", &theirs).await.status, 200);
        let refused = fixture.call_if(&read, method, "/routes/1", &body).await;
        assert_eq!(refused.status, 412, "{method}: {refused:?}");
        let present = fixture.get("/routes/1").await;
        assert_eq!(refused.json()["current"], present.json(), "{method}");
        assert_eq!(present.json()["value"]["uri"], "/theirs", "{method}");
        let tag = refused.header("etag").to_owned();
        let answer = fixture.call_if(&tag, method, "/routes/1", &body).await;
        assert_eq!(answer.status, 200, "{method} after a look at the present one: {answer:?}");
    }
}

#[tokio::test]
async fn what_is_not_there_satisfies_no_precondition() {
    let fixture = Fixture::new().await;
    for tag in ["*", "\"1\""] {
        for method in ["PUT", "DELETE"] {
            let answer = fixture.call_if(tag, method, "/routes/1", &route()).await;
            assert_eq!(answer.status, 412, "{method} {tag}");
            assert!(answer.json().get("current").is_none(), "{answer:?}");
        }
        assert_eq!(fixture.call_if(tag, "PATCH", "/routes/1", &route()).await.status, 404);
    }
    assert_eq!(fixture.get("/routes/1").await.status, 404);
}

#[tokio::test]
async fn a_precondition_that_cannot_be_read_lets_nothing_be_written() {
    let fixture = Fixture::new().await;
    fixture.given(&[("/routes/1", route())]).await;
    let before = fixture.get("/routes/1").await.text;
    for (method, path, tag) in [
        ("PUT", "/routes/1", "1"),
        ("PATCH", "/routes/1", "1"),
        ("DELETE", "/routes/1", "1"),
        ("POST", "/routes", "\"1\""),
        ("POST", "/routes", "*"),
    ] {
        let answer = fixture.call_if(tag, method, path, &route_at("/b")).await;
        assert_eq!(answer.status, 400, "{method} {tag}");
        assert!(answer.error().contains("If-Match"), "{answer:?}");
    }
    assert_eq!(fixture.get("/routes/1").await.text, before);
    assert_eq!(fixture.get("/routes").await.json()["total"], 1);
}

#[tokio::test]
async fn what_is_new_replaces_nothing() {
    let fixture = Fixture::new().await;
    let call = async |header: (&'static str, &str), method: &str, path: &str, value: &Value| {
        let mut request = request(method, path, value.to_string());
        request.headers_mut().insert(header.0, header.1.parse().expect("it is a value"));
        fixture.send(request).await
    };
    let any = ("if-none-match", "*");
    let jack = json!({"username": "jack"});
    for (path, value) in [("/routes/1", route()), ("/consumers", jack)] {
        assert_eq!(call(any, "PUT", path, &value).await.status, 201, "{path}");
        let refused = call(any, "PUT", path, &value).await;
        assert_eq!(refused.status, 412, "{refused:?}");
        assert!(refused.error().starts_with("this id is taken by another"), "{refused:?}");
    }
    assert_eq!(call(any, "POST", "/routes", &route()).await.status, 201, "its id is new");
    let patch = json!({"desc": "x"});
    assert_eq!(call(any, "PATCH", "/routes/1", &patch).await.status, 412);
    for tag in ["\"1\"", "\"1\", *", ""] {
        let answer = call(("if-none-match", tag), "PUT", "/routes/2", &route()).await;
        assert_eq!(answer.status, 400, "{tag}: {answer:?}");
    }
    assert_eq!(fixture.get("/routes/2").await.status, 404);
}
