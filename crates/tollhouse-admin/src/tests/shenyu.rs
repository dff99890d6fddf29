//! ShenYu's objects below `/console/v1/shenyu`: permissions, and their changes in the list of
//! changes.

use std::sync::Mutex;

use super::*;
use crate::{ShenyuCall, ShenyuChange, ShenyuFuture, ShenyuSource};

/// Source that answers with the call itself, and has one change.
#[derive(Default)]
struct Echo(Mutex<Vec<(String, bool)>>);

static FORMS: std::sync::LazyLock<Value> = std::sync::LazyLock::new(|| json!({"kinds": {}}));

fn change() -> ShenyuChange {
    ShenyuChange {
        id: "7".to_owned(),
        revision: 3,
        at_ms: 5,
        actor: "night shift".to_owned(),
        way: "shenyu".to_owned(),
        context: "PUT /rule/1".to_owned(),
        deed: "replace".to_owned(),
        object: "rule/1".to_owned(),
    }
}

impl ShenyuSource for Echo {
    fn forms(&self) -> &'static Value {
        &FORMS
    }

    fn call(&self, call: ShenyuCall) -> ShenyuFuture<'_> {
        self.0.lock().expect("nobody panicked").push((call.operator, call.sees_secrets));
        let mut told =
            json!({"method": call.method.as_str(), "segments": call.segments, "body": call.body});
        if call.segments == ["unserved"] {
            told["warnings"] =
                json!([{"path": "shenyu/rule/1", "reason": "it is not built in", "hint": ""}]);
        }
        let status = if call.segments == ["nothing"] { 404 } else { 200 };
        Box::pin(async move { Some((status, told)) })
    }

    fn changes(&self) -> Vec<ShenyuChange> {
        vec![change()]
    }

    fn change(&self, id: &str) -> Option<(ShenyuChange, Value)> {
        let rows = json!([{"object": "rule/1", "before": {"name": "a"}, "after": {"name": "b"}}]);
        (id == "7").then(|| (change(), json!({"rows": rows, "more": 0, "is_cut": false})))
    }
}

async fn fixture() -> (Fixture, Arc<Echo>) {
    let echo = Arc::new(Echo::default());
    let store = tollhouse_store::open(&Location::Memory).expect("memory is there");
    let shenyu = Some(Arc::clone(&echo) as Arc<dyn ShenyuSource>);
    let parts = Parts { shenyu, ..parts(Arc::clone(&store), options(), None) };
    let api = AdminApi::new(parts);
    (Fixture { store, api }, echo)
}

async fn ask(fixture: &Fixture, key: &str, method: &str, path: &str, body: &str) -> Answer {
    let request = Request::builder().method(method).uri(format!("/console/v1{path}"));
    let request = request.header("Host", "127.0.0.1:9180").header("X-API-KEY", key);
    let body = Full::new(Bytes::copy_from_slice(body.as_bytes()));
    fixture.send(request.body(body).expect("it is a request")).await
}

#[tokio::test]
async fn a_viewer_reads_without_secrets_and_writes_nothing() {
    let (fixture, echo) = fixture().await;
    assert_eq!(ask(&fixture, VIEWER, "GET", "/shenyu/rule/1", "").await.status, 200);
    assert_eq!(ask(&fixture, "wrong", "GET", "/shenyu/rule/1", "").await.status, 401);
    for (method, path, status) in [
        ("PUT", "/shenyu/rule/1", 401),
        ("DELETE", "/shenyu/rule/1", 401),
        // This call writes, although its method is GET.
        ("GET", "/shenyu/appAuth/updateSk", 403),
    ] {
        assert_eq!(ask(&fixture, VIEWER, method, path, "").await.status, status, "{method} {path}");
    }
    let told = ask(&fixture, ADMIN, "PUT", "/shenyu/rule/1", r#"{"name": "x"}"#).await.json();
    let expected = json!({"method": "PUT", "segments": ["rule", "1"], "body": {"name": "x"}});
    assert_eq!(told, expected);
    let callers = echo.0.lock().expect("nobody panicked").clone();
    assert_eq!(callers, [("viewer".to_owned(), false), ("admin".to_owned(), true)]);
    assert_eq!(ask(&fixture, ADMIN, "GET", "/shenyu/nothing", "").await.status, 404);
    let unserved = ask(&fixture, ADMIN, "PUT", "/shenyu/unserved", "{}").await;
    assert_eq!(unserved.header("x-tollhouse-warning"), "it is not built in");
    assert_eq!(ask(&fixture, VIEWER, "GET", "/shenyu/forms", "").await.json(), *FORMS);
    let none = Fixture::new().await;
    let answer = ask(&none, ADMIN, "GET", "/shenyu/rule/1", "").await;
    assert!(
        answer.status == 404
            && answer.json()["error_msg"].as_str().is_some_and(|it| it.contains("listen.shenyu"))
    );
}

#[tokio::test]
async fn their_changes_stand_among_all_others() {
    let (fixture, _) = fixture().await;
    fixture.given(&[("/routes/1", route()), ("/routes/2", route())]).await;
    let rows = |answer: Answer| answer.json()["rows"].as_array().expect("rows").clone();
    let kinds = |rows: &[Value]| {
        rows.iter().filter_map(|row| row["kind"].as_str().map(str::to_owned)).collect::<Vec<_>>()
    };
    let all = rows(ask(&fixture, VIEWER, "GET", "/changes", "").await);
    assert_eq!(kinds(&all).len(), 3);
    let own =
        rows(ask(&fixture, VIEWER, "GET", "/changes?kind=shenyu&actor=night+shift", "").await);
    assert_eq!((own.len(), &own[0]["id"], &own[0]["way"]), (1, &json!("rule/1"), &json!("shenyu")));
    assert!(
        rows(ask(&fixture, VIEWER, "GET", "/changes?kind=shenyu&before=3", "").await).is_empty()
    );
    let one = ask(&fixture, VIEWER, "GET", "/changes/shenyu-7", "").await.json();
    assert_eq!(one["differences"], json!([{"pointer": "/name", "before": "a", "after": "b"}]));
    assert_eq!(ask(&fixture, ADMIN, "POST", "/changes/shenyu-7/undo", "").await.status, 409);
}
