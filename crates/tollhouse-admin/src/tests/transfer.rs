//! Export and import over HTTP: plan, one commit, and undo.

use tollhouse_store::Limits;

use super::wrapper::{Wrapped, Wrapper};
use super::*;
use crate::{Encryption, Mode, Sessions};

impl Fixture {
    async fn import(&self, query: &str, document: &str) -> Answer {
        self.import_as(ADMIN, query, document, &[]).await
    }

    async fn import_as(
        &self,
        key: &str,
        query: &str,
        document: &str,
        headers: &[(&str, &str)],
    ) -> Answer {
        let uri = format!("/console/v1/import{query}");
        let mut request = Request::builder().method("POST").uri(uri).header("X-API-KEY", key);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let body = Full::new(Bytes::from(document.to_owned()));
        self.send(request.body(body).expect("it is a request")).await
    }

    async fn export(&self, key: &str, query: &str) -> Answer {
        let uri = format!("/console/v1/export{query}");
        let request = Request::builder().uri(uri).header("X-API-KEY", key);
        self.send(request.body(Full::default()).expect("it is a request")).await
    }

    /// Returns the newest revision of the store.
    async fn commits(&self) -> u64 {
        self.store.list("/apisix/").await.expect("memory is there").revision.0
    }
}

/// Objects that refer to each other, in an order in which they could not be written one by one.
const SHOP: &str = r#"
routes:
  - {id: orders, uri: /orders/*, service_id: shop}
services:
  - {id: shop, upstream_id: shop}
consumers:
  - username: jack
    plugins: {key-auth: {key: jack-secret}}
  - {id: jack/credentials/second, plugins: {basic-auth: {username: jack, password: jack-password}}}
upstreams:
  - {id: shop, nodes: {"127.0.0.1:1980": 1}}
#END
"#;

fn deeds_of(plan: &Value) -> Vec<String> {
    let changes = plan["changes"].as_array().expect("a plan has changes");
    let text = |it: &Value, name: &str| it[name].as_str().unwrap_or_default().to_owned();
    changes
        .iter()
        .map(|it| format!("{} {}/{}", text(it, "deed"), text(it, "kind"), text(it, "id")))
        .collect()
}

#[tokio::test]
async fn a_plan_tells_all_and_writes_nothing() {
    let fixture = Fixture::new().await;
    fixture.given(&[("/routes/old", route()), ("/routes/orders", route())]).await;
    let before = fixture.commits().await;
    let answer = fixture.import("?dry_run=true&prune=true", SHOP).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    let plan = answer.json();
    assert_eq!(
        deeds_of(&plan),
        [
            "create upstreams/shop",
            "create services/shop",
            "create consumers/jack",
            "create consumers/jack/credentials/second",
            "replace routes/orders",
            "delete routes/old",
        ]
    );
    assert_eq!(
        (&plan["created"], &plan["replaced"], &plan["deleted"]),
        (&4.into(), &1.into(), &1.into())
    );
    assert_eq!((&plan["valid"], &plan["can_be_undone"]), (&true.into(), &true.into()));
    assert_eq!(plan["revision"], before, "a plan names what it was made on");
    assert!(!answer.text.contains("jack-secret"), "secrets are stars: {}", answer.text);
    assert_eq!(fixture.commits().await, before, "nothing is written");
    let places: Vec<&Value> = plan["changes"][4]["differences"]
        .as_array()
        .expect("what differs")
        .iter()
        .map(|it| &it["pointer"])
        .collect();
    assert_eq!(places, ["/uri", "/upstream", "/service_id"]);
    let kept = fixture.import("?dry_run=true", SHOP).await.json();
    assert_eq!((&kept["deleted"], &kept["left"]), (&0.into(), &1.into()));
}

#[tokio::test]
async fn an_import_is_one_commit_and_one_undoable_change() {
    let fixture = Fixture::new().await;
    fixture.given(&[("/routes/orders", route())]).await;
    let former = fixture.stored("routes/orders").await;
    let plan = fixture.import("?dry_run=true", SHOP).await.json();
    let tag = format!("\"{}\"", plan["revision"]);
    let done = fixture.import_as(ADMIN, "", SHOP, &[("If-Match", &tag)]).await;
    assert_eq!(done.status, 200, "{done:?}");
    let revision = done.json()["revision"].as_u64().expect("a revision");
    assert_eq!(revision, fixture.commits().await, "one commit");
    assert!(fixture.stored("consumers/jack").await.is_some_and(|it| !it.contains("jack-secret")));
    let rows = fixture.changes("").await;
    assert_eq!(rows[0]["way"], "import");
    assert_eq!((&rows[0]["actor"], &rows[0]["kind"]), (&json!("admin"), &json!("import")));
    assert_eq!(
        fixture.changes("?kind=services&id=shop").await.len(),
        1,
        "it is in the object's history"
    );
    let one = fixture.console(VIEWER, "GET", &format!("/changes/{revision}")).await;
    assert!(!one.text.contains("jack-secret"), "{one:?}");
    assert_eq!(one.json()["before"]["routes/orders"]["uri"], "/a");
    assert_eq!(one.json()["after"]["routes/orders"]["uri"], "/orders/*");
    assert_eq!(one.json()["undo_refused"], Value::Null);

    let again = fixture.import("", SHOP).await;
    assert_eq!((again.status, &again.json()["unchanged"]), (200, &5.into()), "{again:?}");
    assert_eq!(fixture.commits().await, revision, "what changes nothing is no commit");

    let undone = fixture.undo(&rows[0]).await;
    assert_eq!(undone.status, 200, "{undone:?}");
    assert_eq!(fixture.stored("routes/orders").await, former);
    for path in
        ["upstreams/shop", "services/shop", "consumers/jack", "consumers/jack/credentials/second"]
    {
        assert_eq!(fixture.stored(path).await, None, "{path}");
    }
    // The import is a change like any other.
    let rows = fixture.changes("").await;
    assert_eq!(rows[0]["deed"], "undo");
    assert_eq!(fixture.undo(&rows[0]).await.status, 200);
    assert!(fixture.stored("services/shop").await.is_some());
}

#[tokio::test]
async fn what_was_changed_after_the_plan_is_not_written_over() {
    let fixture = Fixture::new().await;
    let plan = fixture.import("?dry_run=true", SHOP).await.json();
    fixture.given(&[("/routes/other", route())]).await;
    let tag = format!("\"{}\"", plan["revision"]);
    let refused = fixture.import_as(ADMIN, "", SHOP, &[("If-Match", &tag)]).await;
    assert_eq!(refused.status, 412, "{refused:?}");
    assert_eq!(fixture.stored("routes/orders").await, None);
    assert_eq!(fixture.import_as(ADMIN, "", SHOP, &[("If-Match", "x")]).await.status, 400);
    let done = fixture.import("", SHOP).await.json();
    fixture.call("PATCH", "/routes/orders", r#"{"desc": "mine"}"#).await;
    let undo = fixture.console(ADMIN, "POST", &format!("/changes/{}/undo", done["revision"])).await;
    assert_eq!(undo.status, 412, "{undo:?}");
    assert!(undo.error().contains("routes/orders"), "{undo:?}");
}

#[tokio::test]
async fn an_undo_keeps_what_others_have_come_to_name() {
    let fixture = Fixture::new().await;
    let done = fixture.import("", SHOP).await.json();
    fixture.given(&[("/routes/later", json!({"uri": "/later", "upstream_id": "shop"}))]).await;
    let undo = fixture.console(ADMIN, "POST", &format!("/changes/{}/undo", done["revision"])).await;
    assert_eq!(undo.status, 400, "{undo:?}");
    assert!(undo.error().contains("later"), "{undo:?}");
    assert!(fixture.stored("upstreams/shop").await.is_some());
    fixture.delete("/routes/later").await;
    let credential = json!({"plugins": {"key-auth": {"key": "later"}}});
    fixture.given(&[("/consumers/jack/credentials/later", credential)]).await;
    let undo = fixture.console(ADMIN, "POST", &format!("/changes/{}/undo", done["revision"])).await;
    assert!(undo.status == 400 && undo.error().contains("credentials/later"), "{undo:?}");
}

#[tokio::test]
async fn all_problems_are_told_with_their_places() {
    let fixture = Fixture::new().await;
    let document = r#"{
        "routes": [
            {"id": "1", "uri": "/a", "upstream_id": "none"},
            {"id": "2", "uri": "/b", "plugins": {"limit-count": {"count": "x"}}}
        ],
        "consumers": [{"id": "jill/credentials/1", "plugins": {"key-auth": {"key": "k"}}}],
        "unknown": []
    }"#;
    let answer = fixture.import("?dry_run=true", document).await;
    let plan = answer.json();
    assert_eq!((answer.status, &plan["valid"]), (200, &false.into()));
    let problems: Vec<(&str, &str)> = plan["problems"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|it| {
            (it["place"].as_str().unwrap_or_default(), it["pointer"].as_str().unwrap_or_default())
        })
        .collect();
    assert!(problems.contains(&("routes/1 (routes[0])", "/upstream_id")), "{problems:?}");
    assert!(problems.iter().any(|(place, pointer)| {
        *place == "routes/2 (routes[1])" && pointer.starts_with("/plugins/limit-count")
    }));
    assert!(problems.iter().any(|(place, _)| place.starts_with("consumers/jill/credentials/1")));
    let refused = fixture.import("", document).await;
    assert_eq!(refused.status, 400, "{refused:?}");
    assert_eq!(fixture.stored("routes/1").await, None);
}

#[tokio::test]
async fn a_document_that_is_none_is_refused_with_its_place() {
    let fixture = Fixture::new().await;
    for (document, expected) in [
        ("", "empty"),
        ("routes:\n  - [", "line"),
        ("{\"routes\": 1", "line 1"),
        ("- a", "cannot be read"),
        ("routes: 7", "routes"),
    ] {
        let answer = fixture.import("?dry_run=true", document).await;
        assert!(answer.text.contains(expected), "{document}: {answer:?}");
    }
    let literal = "routes:\n  - {id: '1', uri: '/${{HOME}}', upstream: {nodes: {'a:1': 1}}}\n";
    let plan = fixture.import("?dry_run=true", literal).await;
    assert_eq!(plan.json()["changes"][0]["after"]["uri"], "/${{HOME}}", "{plan:?}");
}

#[tokio::test]
async fn only_those_who_may_write_import() {
    let fixture = Fixture::new().await;
    for query in ["", "?dry_run=true"] {
        assert_eq!(fixture.import_as(VIEWER, query, SHOP, &[]).await.status, 401, "{query}");
    }
    assert_eq!(fixture.stored("routes/orders").await, None);
    let read_only = Options { mode: Mode::ReadOnly("objects.yaml".into()), ..options() };
    let fixture = Fixture::with(read_only).await;
    assert_eq!(fixture.import("?dry_run=true", SHOP).await.status, 200);
    let refused = fixture.import("", SHOP).await;
    assert!(refused.status == 405 && refused.error().contains("objects.yaml"), "{refused:?}");
}

#[tokio::test]
async fn no_website_imports_with_the_cookie_of_somebody_signed_in() {
    let sessions = Sessions::new(b"secret", Encryption::Off);
    let fixture = Fixture::with(Options { sessions: Some(sessions), ..options() }).await;
    let sign_in = Request::builder()
        .method("POST")
        .uri("/console/v1/login")
        .header("Host", "127.0.0.1:9180")
        .header("X-Tollhouse-Console", "1")
        .body(Full::new(json!({ "key": ADMIN }).to_string().into()))
        .expect("it is a request");
    let answer = fixture.send(sign_in).await;
    let cookie = answer.header("set-cookie").split(';').next().unwrap_or_default().to_owned();
    let forged = |site: &'static str| {
        Request::builder()
            .method("POST")
            .uri("/console/v1/import")
            .header("Host", "127.0.0.1:9180")
            .header("Cookie", cookie.clone())
            .header("Sec-Fetch-Site", site)
            .body(Full::new(SHOP.into()))
            .expect("it is a request")
    };
    for site in ["cross-site", "same-site"] {
        assert!(fixture.send(forged(site)).await.status >= 401, "{site}");
    }
    assert_eq!(fixture.stored("routes/orders").await, None);
}

#[tokio::test]
async fn an_export_is_read_again_and_shows_no_secret() {
    let fixture = Fixture::new().await;
    fixture.import("", SHOP).await;
    for key in [ADMIN, VIEWER] {
        let exported = fixture.export(key, "").await;
        assert_eq!(exported.status, 200, "{exported:?}");
        assert!(exported.text.ends_with("#END\n"));
        for secret in ["jack-secret", "jack-password"] {
            assert!(!exported.text.contains(secret), "{key}");
        }
        let plan = fixture.import("?dry_run=true&prune=true", &exported.text).await.json();
        assert_eq!((&plan["unchanged"], &plan["changes"]), (&5.into(), &json!([])));
    }
    assert_eq!(fixture.export(VIEWER, "?reveal_secrets=true").await.status, 403);
    let clear = fixture.export(ADMIN, "?reveal_secrets=true&format=json").await;
    assert!(clear.text.contains("jack-secret") && clear.json()["routes"].is_array());
}

#[tokio::test]
async fn an_export_may_be_of_a_kind_a_search_or_some() {
    let fixture = Fixture::new().await;
    fixture.import("", SHOP).await;
    fixture.given(&[("/routes/other", route())]).await;
    for (query, expected) in [
        ("?kind=routes&format=json", vec!["orders", "other"]),
        ("?kind=routes&ids=other&format=json", vec!["other"]),
        ("?kind=routes&q=order&format=json", vec!["orders"]),
    ] {
        let exported = fixture.export(ADMIN, query).await.json();
        assert_eq!(exported.as_object().map(serde_json::Map::len), Some(1), "{query}");
        let ids: Vec<&str> = exported["routes"]
            .as_array()
            .expect("routes")
            .iter()
            .filter_map(|it| it["id"].as_str())
            .collect();
        assert_eq!(ids, expected, "{query}");
    }
    let consumers = fixture.export(ADMIN, "?kind=consumers&ids=jack&format=json").await.json();
    assert_eq!(consumers["consumers"].as_array().map(Vec::len), Some(2), "with the credential");
    for query in ["?kind=cats", "?ids=1", "?format=xml", "?kind=routes&q=status:x"] {
        assert_eq!(fixture.export(ADMIN, query).await.status, 400, "{query}");
    }
}

/// Store with a low limit of operations per commit, as in etcd.
struct Small(Arc<dyn Store>);

impl Wrapper for Small {
    fn inner(&self) -> &dyn Store {
        &*self.0
    }

    fn limits(&self) -> Limits {
        Limits { operations_max: 127, ..self.0.limits() }
    }
}

#[tokio::test]
async fn every_import_can_be_taken_back_unless_its_plan_says_that_it_cannot() {
    let document = |count: u32| {
        let route = |id| json!({"id": id, "uri": format!("/{id}"), "upstream_id": "shared"});
        json!({
            "upstreams": [{"id": "shared", "nodes": {"a:1": 1}}],
            "routes": (1..=count).map(route).collect::<Vec<_>>(),
        })
        .to_string()
    };
    // Numbers of objects that are created or deleted. Too many creations in one commit cannot be
    // undone.
    for (count, prune, is_undoable) in
        [(60, "false", true), (110, "false", false), (60, "true", true), (62, "true", true)]
    {
        let memory = tollhouse_store::open(&Location::Memory).expect("memory is there");
        let store = Arc::new(Wrapped(Arc::new(Small(memory))));
        let fixture = Fixture::over(store, options()).await;
        let mut wanted = document(count);
        if prune == "true" {
            assert_eq!(fixture.import("", &wanted).await.status, 200);
            wanted = document(0);
        }
        let query = format!("?prune={prune}");
        let plan = fixture.import(&format!("{query}&dry_run=true"), &wanted).await.json();
        let case = format!("{count} routes, prune={prune}: {plan}");
        assert_eq!(plan["can_be_undone"], is_undoable, "{case}");
        assert_eq!(fixture.import(&query, &wanted).await.status, 200, "{case}");
        let rows = fixture.changes("").await;
        assert_eq!(rows[0]["is_cut"], !is_undoable, "{case}");
        let undone = fixture.undo(&rows[0]).await;
        assert_eq!(undone.status, if is_undoable { 200 } else { 409 }, "{case}: {undone:?}");
    }
}

#[tokio::test]
async fn what_is_too_much_for_one_change_is_said_before_it_is_made() {
    let fixture = Fixture::new().await;
    let long = "x".repeat(250);
    let routes = |desc: &str| -> String {
        let route = |at: usize| json!({"id": at.to_string(), "uri": format!("/{at}"), "desc": desc, "upstream": {"nodes": {"a:1": 1}}});
        json!({"routes": (0..1200).map(route).collect::<Vec<_>>()}).to_string()
    };
    let first = fixture.import("", &routes(&long)).await;
    assert_eq!(first.status, 200, "{first:?}");
    let plan = fixture.import("?dry_run=true", &routes("short")).await.json();
    assert_eq!((&plan["replaced"], &plan["can_be_undone"]), (&1200.into(), &false.into()));
    assert_eq!((plan["changes"].as_array().map(Vec::len), &plan["more"]), (Some(500), &700.into()));
    let over = "x".repeat(17 * 1024 * 1024);
    let refused = fixture.import("", &over).await;
    assert!(refused.status == 400 && refused.text.contains("16777216"), "{refused:?}");
}

#[tokio::test]
async fn an_import_tells_what_would_not_serve_and_is_carried_out() {
    let mut fixture = Fixture::new().await;
    fixture.put_console(Arc::new(super::console::Quiet)).await;
    fixture.given(&[("/routes/stored", route())]).await;
    let document = "routes:\n  - {id: a, uri: /a, upstream: {nodes: {\"127.0.0.1:1\": 1}}}\n#END\n";
    let plan = fixture.import("?dry_run=true", document).await.json();
    let expected = json!([{
        "place": "routes/a (routes[0].uri)", "pointer": "", "text": "a", "hint": "",
        "severity": "warning",
    }]);
    assert_eq!((&plan["problems"], &plan["valid"]), (&expected, &json!(true)), "{plan}");
    let done = fixture.import("", document).await;
    assert_eq!((done.status, done.header("x-tollhouse-warning")), (200, "a"), "{done:?}");
    assert_eq!(done.json()["warnings"], json!([{"path": "routes[0].uri", "reason": "a"}]));
    assert_eq!(fixture.get("/routes/a").await.status, 200);
}
