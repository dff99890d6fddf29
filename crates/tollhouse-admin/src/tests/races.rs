//! Writes between the check of another write and its commit.

use std::collections::VecDeque;
use std::sync::Mutex;

use tollhouse_store::BoxFuture;

use super::wrapper::{Wrapped, Wrapper};
use super::*;

/// Store that makes another call of the Admin API before a commit.
struct Interrupted {
    inner: Arc<dyn Store>,
    others: Fixture,
    calls: Mutex<VecDeque<(&'static str, String, Value)>>,
}

impl Wrapper for Interrupted {
    fn inner(&self) -> &dyn Store {
        &*self.inner
    }

    fn before_commit(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {
            let next = self.calls.lock().expect("nobody panicked").pop_front();
            let Some((method, path, body)) = next else { return };
            let answer = self.others.call(method, &path, body.to_string()).await;
            assert!(answer.status < 300, "{method} {path}: {answer:?}");
        })
    }
}

/// Two Admin APIs over one store. Calls of `others` are made between check and commit of calls to
/// the returned API.
async fn interrupted() -> (Fixture, Arc<Interrupted>) {
    let others = Fixture::new().await;
    let inner = Arc::clone(&others.store);
    let store = Arc::new(Interrupted { inner, others, calls: Mutex::default() });
    let fixture = Fixture::over(Arc::new(Wrapped(Arc::clone(&store))), options()).await;
    (fixture, store)
}

impl Interrupted {
    fn before_next(&self, method: &'static str, path: &str, body: Value) {
        let call = (method, path.to_owned(), body);
        self.calls.lock().expect("nobody panicked").push_back(call);
    }

    fn is_done(&self) -> bool {
        self.calls.lock().expect("nobody panicked").is_empty()
    }
}

fn nodes() -> Value {
    json!({"nodes": {"127.0.0.1:1": 1}})
}

/// Objects that can be referred to, each with an object that refers to it.
fn named() -> Vec<(&'static str, Value, &'static str, Value, &'static str)> {
    let naming = |field: &str| json!({"uri": "/a", field: "1"});
    vec![
        ("/upstreams/1", nodes(), "/routes/1", naming("upstream_id"), "upstream"),
        ("/services/1", json!({}), "/routes/1", naming("service_id"), "service"),
        ("/upstreams/1", nodes(), "/services/1", json!({"upstream_id": "1"}), "upstream"),
        ("/services/1", json!({}), "/stream_routes/1", json!({"service_id": "1"}), "service"),
        (
            "/plugin_configs/1",
            json!({"plugins": {}}),
            "/routes/1",
            json!({"uri": "/a", "plugin_config_id": "1", "plugins": {}}),
            "plugin config",
        ),
        (
            "/consumer_groups/1",
            json!({"plugins": {}}),
            "/consumers/jack",
            json!({"username": "jack", "group_id": "1"}),
            "consumer group",
        ),
    ]
}

#[tokio::test]
async fn what_is_deleted_before_the_commit_cannot_be_named() {
    for (target, value, path, naming, noun) in named() {
        let (fixture, store) = interrupted().await;
        fixture.given(&[(target, value)]).await;
        store.before_next("DELETE", target, Value::Null);
        let answer = fixture.put(path, &naming).await;
        let expected = format!("failed to fetch {noun} info by {noun} id [1], response code: 404");
        assert_eq!((answer.status, answer.error()), (400, expected), "{path}");
        assert_eq!(fixture.get(path).await.status, 404, "{path}");
    }
}

#[tokio::test]
async fn what_is_named_before_the_commit_stays() {
    for (target, value, path, naming, _) in named() {
        let (fixture, store) = interrupted().await;
        fixture.given(&[(target, value)]).await;
        store.before_next("PUT", path, naming);
        let answer = fixture.delete(target).await;
        assert_eq!(answer.status, 400, "{target}: {answer:?}");
        assert!(answer.error().ends_with("is still using it now"), "{answer:?}");
        assert_eq!(fixture.get(target).await.status, 200, "{target}");
    }
}

#[tokio::test]
async fn patches_and_posts_are_checked_with_their_commit_too() {
    let (fixture, store) = interrupted().await;
    fixture.given(&[("/upstreams/1", nodes()), ("/routes/1", route())]).await;
    store.before_next("DELETE", "/upstreams/1", Value::Null);
    let patch = json!({"upstream_id": "1"}).to_string();
    let answer = fixture.call("PATCH", "/routes/1", patch).await;
    assert_eq!(answer.status, 400, "{answer:?}");
    assert_eq!(fixture.get("/routes/1").await.json()["value"]["upstream_id"], Value::Null);

    fixture.given(&[("/upstreams/1", nodes())]).await;
    // The first commit of a POST creates the number that becomes the id.
    store.before_next("PUT", "/routes/2", route());
    store.before_next("DELETE", "/upstreams/1", Value::Null);
    let post = json!({"uri": "/a", "upstream_id": "1"}).to_string();
    let answer = fixture.call("POST", "/routes", post).await;
    assert_eq!(answer.status, 400, "{answer:?}");
    assert!(store.is_done());
    assert_eq!(fixture.get("/routes").await.json()["total"], 2);
}

#[tokio::test]
async fn a_change_of_something_else_only_costs_another_try() {
    let (fixture, store) = interrupted().await;
    fixture.given(&[("/upstreams/1", nodes())]).await;
    store.before_next("PUT", "/upstreams/1", nodes());
    assert_eq!(fixture.delete("/upstreams/1").await.status, 200, "nobody uses it");

    fixture.given(&[("/upstreams/1", nodes())]).await;
    store.before_next("PUT", "/routes/1", json!({"uri": "/a", "upstream_id": "1"}));
    assert_eq!(fixture.delete("/upstreams/1").await.status, 400);
    assert_eq!(fixture.delete("/routes/1").await.status, 200);
    assert_eq!(fixture.delete("/upstreams/1").await.status, 200, "its user has gone");
    assert!(store.is_done());
}

#[tokio::test]
async fn a_child_needs_what_it_lies_below_until_its_commit() {
    let (fixture, store) = interrupted().await;
    fixture.given(&[("/consumers", json!({"username": "jack"}))]).await;
    store.before_next("DELETE", "/consumers/jack", Value::Null);
    let credential = json!({"plugins": {"key-auth": {"key": "k"}}});
    let answer = fixture.put("/consumers/jack/credentials/c", &credential).await;
    assert_eq!((answer.status, answer.error().as_str()), (404, "consumer not found"));
}

#[tokio::test]
async fn two_global_rules_at_once_do_not_share_a_plugin() {
    let (fixture, store) = interrupted().await;
    let rule = || json!({"plugins": {"cors": {}}});
    store.before_next("PUT", "/global_rules/1", rule());
    let answer = fixture.put("/global_rules/2", &rule()).await;
    let expected = "plugin 'cors' already exists in global rule with id '1'";
    assert_eq!((answer.status, answer.error().as_str()), (400, expected));
}

#[tokio::test]
async fn two_consumers_at_once_do_not_share_a_credential() {
    let key = |key: &str| json!({"key-auth": {"key": key}});
    let consumer = |name: &str, of: &str| json!({"username": name, "plugins": key(of)});
    let (fixture, store) = interrupted().await;
    store.before_next("PUT", "/consumers", consumer("jill", "same"));
    let answer = fixture.put("/consumers", &consumer("jack", "same")).await;
    let expected = "duplicate key of plugin key-auth found with consumer: jill";
    assert_eq!((answer.status, answer.error().as_str()), (400, expected));

    fixture.given(&[("/consumers", consumer("jack", "other"))]).await;
    store.before_next("PUT", "/consumers", consumer("joe", "third"));
    let credential = json!({"plugins": key("third")});
    let answer = fixture.put("/consumers/jack/credentials/c", &credential).await;
    let expected = "duplicate key of plugin key-auth found with consumer: joe";
    assert_eq!((answer.status, answer.error().as_str()), (400, expected));

    store.before_next("PUT", "/consumers/jill/credentials/c", json!({"plugins": key("fourth")}));
    let answer = fixture.put("/consumers", &consumer("jack", "fourth")).await;
    let expected = "duplicate key of plugin key-auth found with credential: c of consumer: jill";
    assert_eq!((answer.status, answer.error().as_str()), (400, expected));

    store.before_next("PUT", "/consumers", consumer("ann", "fifth"));
    let answer = fixture.put("/consumers", &consumer("jack", "sixth")).await;
    assert_eq!(answer.status, 200, "another credential is nobody's hindrance: {answer:?}");
    assert!(store.is_done());
}

#[tokio::test]
async fn who_is_always_overtaken_is_sent_away() {
    let (fixture, store) = interrupted().await;
    fixture.given(&[("/upstreams/1", nodes())]).await;
    for _ in 0..crate::limits::ATTEMPTS_MAX {
        store.before_next("PUT", "/upstreams/1", nodes());
    }
    let answer = fixture.delete("/upstreams/1").await;
    let expected = "what this object depends on keeps changing; try again";
    assert_eq!((answer.status, answer.error().as_str()), (503, expected));
    assert_eq!(fixture.delete("/upstreams/1").await.status, 200);
}

#[tokio::test]
async fn a_patch_goes_into_what_was_changed_meanwhile() {
    let (fixture, store) = interrupted().await;
    fixture.given(&[("/routes/1", route())]).await;
    for number in 0..2 * crate::limits::ATTEMPTS_MAX {
        store.before_next("PATCH", "/routes/1/labels", json!({"round": number.to_string()}));
    }
    let answer = fixture.call("PATCH", "/routes/1", r#"{"name": "n"}"#).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    assert!(store.is_done());
    let value = fixture.get("/routes/1").await.json()["value"].clone();
    assert_eq!((&value["name"], &value["labels"]["round"]), (&json!("n"), &json!("9")), "{value}");

    store.before_next("DELETE", "/routes/1", Value::Null);
    assert_eq!(fixture.call("PATCH", "/routes/1", r#"{"name": "o"}"#).await.status, 404);
}

/// Store in which another program writes a route before each commit. A commit takes a quarter of
/// the time limit for such conflicts.
struct Restless {
    inner: Arc<dyn Store>,
    others: Fixture,
}

impl Wrapper for Restless {
    fn inner(&self) -> &dyn Store {
        &*self.inner
    }

    fn before_commit(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {
            self.others.given(&[("/routes/1", route())]).await;
            tokio::time::advance(crate::limits::OVERTAKEN_TIME_MAX / 4).await;
        })
    }
}

#[tokio::test(start_paused = true)]
async fn a_patch_that_is_overtaken_for_long_is_refused_as_apisix_refuses_it() {
    let others = Fixture::new().await;
    others.given(&[("/routes/1", route())]).await;
    let inner = Arc::clone(&others.store);
    let store = Arc::new(Restless { inner, others });
    let fixture = Fixture::over(Arc::new(Wrapped(Arc::clone(&store))), options()).await;
    let began = tokio::time::Instant::now();
    let answer = fixture.call("PATCH", "/routes/1", r#"{"name": "n"}"#).await;
    let expected = "value changed before overwritten";
    assert_eq!((answer.status, answer.error().as_str()), (503, expected));
    assert_eq!(began.elapsed(), crate::limits::OVERTAKEN_TIME_MAX);
}

/// Number of concurrent patches of one object at each of two Admin APIs over one store.
const PATCHES: usize = 25;

#[tokio::test]
async fn all_of_many_patches_at_once_are_made() {
    let one = Arc::new(Fixture::new().await);
    let other = Arc::new(Fixture::over(Arc::clone(&one.store), options()).await);
    one.given(&[("/routes/1", route())]).await;
    let mut calls = tokio::task::JoinSet::new();
    for (name, fixture) in [("one", &one), ("other", &other)] {
        for number in 0..PATCHES {
            let fixture = Arc::clone(fixture);
            let patch = json!({"labels": {format!("{name}{number}"): "1"}}).to_string();
            calls.spawn(async move { fixture.call("PATCH", "/routes/1", patch).await });
        }
    }
    while let Some(answer) = calls.join_next().await {
        let answer = answer.expect("no panic");
        assert_eq!(answer.status, 200, "{answer:?}");
    }
    let labels = one.get("/routes/1").await.json()["value"]["labels"].clone();
    assert_eq!(labels.as_object().map(serde_json::Map::len), Some(2 * PATCHES), "{labels}");
}

/// Store whose commits begin only after calls that arrived meanwhile have been checked.
struct Unhurried {
    inner: Arc<dyn Store>,
}

impl Wrapper for Unhurried {
    fn inner(&self) -> &dyn Store {
        &*self.inner
    }

    fn before_commit(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {
            for _ in 0..100 {
                tokio::task::yield_now().await;
            }
        })
    }
}

#[tokio::test]
async fn all_of_many_global_rules_at_once_are_made() {
    let inner = tollhouse_store::open(&Location::Memory).expect("memory is there");
    let store = Arc::new(Wrapped(Arc::new(Unhurried { inner })));
    let fixture = Arc::new(Fixture::over(store, options()).await);
    // A plugin may be in only one global rule.
    let plugins = [
        json!({"cors": {}}),
        json!({"echo": {"body": "a"}}),
        json!({"gzip": {}}),
        json!({"ip-restriction": {"whitelist": ["127.0.0.1"]}}),
        json!({"prometheus": {}}),
        json!({"proxy-rewrite": {"uri": "/a"}}),
        json!({"real-ip": {"source": "http_x_forwarded_for"}}),
        json!({"referer-restriction": {"whitelist": ["*.example.com"]}}),
        json!({"request-id": {}}),
        json!({"response-rewrite": {"headers": {"set": {"a": "1"}}}}),
        json!({"uri-blocker": {"block_rules": ["^/a"]}}),
    ];
    for (method, status) in [("PUT", 201), ("PATCH", 200)] {
        let mut calls = tokio::task::JoinSet::new();
        for (number, plugins) in plugins.iter().enumerate() {
            let (fixture, path) = (Arc::clone(&fixture), format!("/global_rules/{number}"));
            let rule = json!({"plugins": plugins}).to_string();
            calls.spawn(async move { fixture.call(method, &path, rule).await });
        }
        while let Some(answer) = calls.join_next().await {
            let answer = answer.expect("no panic");
            assert_eq!(answer.status, status, "{method}: {answer:?}");
        }
    }
    assert_eq!(fixture.get("/global_rules").await.json()["total"], plugins.len());
}

#[tokio::test]
async fn guards_are_no_objects() {
    let fixture = Fixture::new().await;
    let naming = json!({"uri": "/a", "upstream_id": "1"});
    fixture.given(&[("/upstreams/1", nodes()), ("/routes/1", naming)]).await;
    let keys = async || -> Vec<String> {
        let listing = fixture.store.list("/apisix/tollhouse/guard/").await.expect("memory lists");
        listing.entries.into_iter().map(|entry| entry.key.into()).collect()
    };
    assert_eq!(keys().await, ["/apisix/tollhouse/guard/upstreams/1"]);
    let later = Fixture::over(Arc::clone(&fixture.store), options()).await;
    for path in ["/routes", "/upstreams"] {
        assert_eq!(later.get(path).await.json()["total"], 1, "{path}");
    }
    fixture.given(&[("/routes/1", route())]).await;
    assert_eq!(fixture.delete("/upstreams/1").await.status, 200);
    assert!(keys().await.is_empty(), "a guard goes with what it guards");

    let plugins = json!({"key-auth": {"key": "open-sesame"}});
    fixture.given(&[("/consumers", json!({"username": "jack", "plugins": plugins}))]).await;
    let guards = keys().await;
    assert_eq!(guards.len(), 2, "one by each key of the ring: {guards:?}");
    for guard in guards {
        let bucket = guard.strip_prefix("/apisix/tollhouse/guard/identities/");
        assert!(bucket.is_some_and(|bucket| bucket.len() == 3), "it says nothing else: {guard}");
    }
    let later = Fixture::over(Arc::clone(&fixture.store), options()).await;
    assert_eq!(later.get("/consumers").await.json()["total"], 1);
    let another = json!({"username": "jack", "plugins": {"key-auth": {"key": "another"}}});
    assert_eq!(later.put("/consumers", &another).await.status, 200);
}

#[tokio::test]
async fn a_write_between_the_look_at_a_precondition_and_the_commit_is_noticed() {
    let (fixture, store) = interrupted().await;
    for method in ["PUT", "PATCH", "DELETE"] {
        store.others.given(&[("/routes/1", route())]).await;
        let tag = fixture.get("/routes/1").await.header("etag").to_owned();
        store.before_next("PUT", "/routes/1", json!({"uri": "/theirs", "plugins": {}}));
        let mut request = request(method, "/routes/1", r#"{"uri":"/mine","plugins":{}}"#);
        request.headers_mut().insert("If-Match", tag.parse().expect("it is a value"));
        let answer = fixture.send(request).await;
        assert_eq!(answer.status, 412, "{method}: {answer:?}");
        assert_eq!(answer.json()["current"]["value"]["uri"], "/theirs", "{method}");
        assert!(store.is_done());
    }
}

#[tokio::test]
async fn a_posted_object_does_not_take_the_place_of_another() {
    let (fixture, store) = interrupted().await;
    let revision = store.inner.revision().await.expect("memory").0;
    // Other writes come before the number is created, and before it is used.
    store.before_next("PUT", "/routes/first", route());
    let taken = format!("/routes/{:020}", revision + 2);
    store.before_next("PUT", &taken, json!({"uri": "/theirs", "upstream": nodes()}));
    let answer = fixture.call("POST", "/routes", route().to_string()).await;
    assert_eq!(answer.status, 201, "{answer:?}");
    assert!(store.is_done());
    assert_eq!(fixture.get(&taken).await.json()["value"]["uri"], "/theirs");
    assert_eq!(fixture.get("/routes").await.json()["total"], 3);
}
