//! The console: sign-in, its page, and its calls.

use hyper::http::request::Builder;

use tollhouse_config::{Document, Item};

use super::*;
use crate::{
    BenchFile, ConsoleSource, Cors, Encryption, KeyCheck, LiveQuery, Question, RateContents,
    RateOrder, RequestFilter, Sessions,
};

/// Process whose answers are constant.
pub(super) struct Quiet;

impl ConsoleSource for Quiet {
    fn overview(&self) -> Value {
        json!({"version": "1"})
    }

    fn problems(&self) -> Value {
        json!([
            {"path": "routes/a.b.upstream.nodes", "reason": "is empty"},
            {"path": "routes/none", "reason": "is gone"},
            {"path": "credentials/jack/credentials/c1.plugins", "reason": "is é\n", "hint": "mend it"},
        ])
    }

    fn problems_at(&self, beginning: &str) -> Vec<Value> {
        let problems = self.problems();
        let begins =
            |it: &&Value| it["path"].as_str().is_some_and(|path| path.starts_with(beginning));
        problems.as_array().into_iter().flatten().filter(begins).cloned().collect()
    }

    fn foresee(&self, document: &Document) -> Vec<Value> {
        let problem =
            |it: &Item| json!({"path": format!("{}.uri", it.path), "reason": it.id.as_str()});
        document.items.iter().map(problem).collect()
    }

    fn live(&self, since: u64) -> Value {
        json!({"since": since})
    }

    fn live_objects(&self, query: &LiveQuery<'_>) -> Value {
        let has_history = query.contents == RateContents::History;
        let is_by_failures = query.order == RateOrder::Failures;
        json!({"kind": format!("{:?}", query.kind), "by_failures": is_by_failures, "ids": query.ids, "history": has_history})
    }

    fn requests(&self, filter: &RequestFilter) -> Value {
        json!({"code": filter.code})
    }

    fn nodes(&self, search: &str) -> Value {
        json!({"search": search})
    }

    fn log_lines(&self, from: u64) -> Value {
        json!({"from": from})
    }

    fn log_level(&self) -> Value {
        json!({"level": "info"})
    }

    fn set_log_level(&self, level: &str, seconds: u64) -> Result<(), String> {
        if level == "debug" && seconds == 600 { Ok(()) } else { Err("no level".into()) }
    }

    fn findings(&self) -> Value {
        json!([])
    }

    fn reload(&self) -> Result<(), String> {
        Ok(())
    }

    fn benches(&self) -> Value {
        json!({"is_on": true})
    }

    fn start_bench(&self, question: &Value) -> Result<Value, String> {
        if question["url"].is_string() { Ok(json!({"id": "1"})) } else { Err("url".into()) }
    }

    fn bench(&self, id: &str) -> Option<Value> {
        (id == "1").then(|| json!({"id": id}))
    }

    fn bench_file(&self, id: &str, file: BenchFile) -> Option<Vec<u8>> {
        (id == "1").then(|| format!("<script>{}</script>", file == BenchFile::Page).into_bytes())
    }

    fn end_bench(&self, id: &str) -> bool {
        id == "1"
    }

    fn compare_benches(&self, before: &str, after: &str) -> Result<Value, String> {
        if before == after { Err("the same".into()) } else { Ok(json!({"text": "better"})) }
    }

    fn settings(&self) -> Value {
        json!({"rows": []})
    }

    fn manual(&self, plugin: &str) -> Option<String> {
        (plugin == "cors").then(|| "Lets pages call. More.".to_owned())
    }

    fn explain(&self, question: &Question) -> Result<Value, String> {
        if question.url.is_empty() { Err("url: is empty".into()) } else { Ok(json!({})) }
    }
}

fn with_sessions(secret: &[u8]) -> Options {
    Options { sessions: Some(Sessions::new(secret, Encryption::Off)), ..options() }
}

async fn console() -> Fixture {
    Fixture::with(with_sessions(b"secret")).await
}

fn page(method: &str, path: &str) -> Builder {
    Request::builder()
        .method(method)
        .uri(format!("http://127.0.0.1:9180{path}"))
        .header("Host", "127.0.0.1:9180")
        .header("X-Tollhouse-Console", "1")
}

fn with_body(builder: Builder, body: &Value) -> Request<Full<Bytes>> {
    builder.body(Full::new(body.to_string().into())).expect("it is a request")
}

fn empty(builder: Builder) -> Request<Full<Bytes>> {
    builder.body(Full::default()).expect("it is a request")
}

async fn sign_in(fixture: &Fixture, key: &str) -> Answer {
    fixture.send(with_body(page("POST", "/console/v1/login"), &json!({"key": key}))).await
}

/// Result of a successful sign-in: the cookie that browsers send back, and the proof that the page sends.
#[derive(Clone)]
struct Session {
    cookie: String,
    proof: String,
}

async fn session(fixture: &Fixture, key: &str) -> Session {
    let answer = sign_in(fixture, key).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    let cookie = answer.header("set-cookie").split(';').next().expect("a cookie").to_owned();
    let proof = answer.json()["proof"].as_str().expect("a proof").to_owned();
    Session { cookie, proof }
}

/// Adds the headers with which the page of a signed-in browser sends a request.
fn signed(mut builder: Builder, session: &Session) -> Builder {
    let headers = builder.headers_mut().expect("it is a request");
    headers.insert("Cookie", session.cookie.parse().expect("it is a value"));
    headers.insert("X-Tollhouse-Console", session.proof.parse().expect("it is a value"));
    builder
}

#[tokio::test]
async fn a_key_is_exchanged_for_a_cookie_that_scripts_cannot_read() {
    let fixture = console().await;
    let answer = sign_in(&fixture, ADMIN).await;
    let line = answer.header("set-cookie");
    for part in ["HttpOnly", "SameSite=Strict", "Path=/", "Max-Age=43200"] {
        assert!(line.contains(part), "{part} in {line}");
    }
    assert!(!line.contains(ADMIN) && !answer.text.contains(ADMIN));
    let session = session(&fixture, ADMIN).await;
    let answer = fixture.send(empty(signed(page("GET", "/console/v1/login"), &session))).await;
    let who = answer.json();
    assert_eq!((&who["name"], &who["role"]), (&json!("admin"), &json!("admin")));
    let answer = fixture.send(empty(page("DELETE", "/console/v1/login"))).await;
    assert!(answer.header("set-cookie").contains("Max-Age=0"));
}

#[tokio::test]
async fn a_cookie_counts_for_the_consoles_own_page_only() {
    let fixture = console().await;
    let session = session(&fixture, ADMIN).await;
    let route = route().to_string();
    let own = || signed(page("PUT", "/apisix/admin/routes/1"), &session);
    let table = [
        (own(), 201),
        (own().header("Sec-Fetch-Site", "same-origin"), 200),
        (own().header("Origin", "http://127.0.0.1:9180"), 200),
        (own().header("Sec-Fetch-Site", "cross-site"), 401),
        (own().header("Sec-Fetch-Site", "same-site"), 401),
        (own().header("Origin", "http://evil.example"), 401),
        (own().header("Origin", "null"), 401),
    ];
    for (builder, expected) in table {
        let request = builder.body(Full::new(route.clone().into())).expect("it is a request");
        let text = format!("{:?}", request.headers());
        assert_eq!(fixture.send(request).await.status, expected, "{text}");
    }
    let mut plain = own().body(Full::new(route.into())).expect("it is a request");
    plain.headers_mut().remove("X-Tollhouse-Console");
    assert_eq!(fixture.send(plain).await.status, 401, "a form of another website has no header");
}

#[tokio::test]
async fn a_copy_of_a_cookie_opens_nothing_once_its_owner_has_signed_out() {
    let fixture = console().await;
    let (ended, other) = (session(&fixture, ADMIN).await, session(&fixture, ADMIN).await);
    let call = |method, path, session: &Session| empty(signed(page(method, path), session));
    let status = async |session: &Session| {
        fixture.send(call("GET", "/apisix/admin/routes", session)).await.status
    };
    assert_eq!((status(&ended).await, status(&other).await), (200, 200));
    assert_eq!(fixture.send(call("DELETE", "/console/v1/login", &ended)).await.status, 200);
    assert_eq!((status(&ended).await, status(&other).await), (401, 200));
    // Another gateway of the same store, or this one after a restart.
    let store = Arc::clone(&fixture.store);
    let restarted = Fixture::over(store, with_sessions(b"secret")).await;
    let asked =
        async |session| restarted.send(call("GET", "/apisix/admin/routes", session)).await.status;
    assert_eq!((asked(&ended).await, asked(&other).await), (401, 200));
    assert_eq!(restarted.send(call("DELETE", "/console/v1/login", &other)).await.status, 200);
    assert_eq!(status(&other).await, 401, "a gateway that was running");
}

#[tokio::test]
async fn a_cookie_that_another_port_of_the_host_has_seen_opens_nothing() {
    let fixture = console().await;
    let (own, other) = (session(&fixture, ADMIN).await, session(&fixture, ADMIN).await);
    for proof in ["1", "", &other.proof, &"0".repeat(64)] {
        let stolen = Session { proof: proof.to_owned(), ..own.clone() };
        let write = signed(page("PUT", "/apisix/admin/routes/1"), &stolen);
        let answer = fixture.send(with_body(write, &route())).await;
        assert_eq!(answer.status, 401, "{proof:?}: {answer:?}");
    }
    let code = own.cookie.rsplit('.').next().expect("a code");
    assert_ne!(code, own.proof, "the cookie does not hold the proof");
}

#[tokio::test]
async fn gateways_on_one_host_have_cookies_of_different_names() {
    let fixture = console().await;
    let name = async |host: &str| {
        let mut call = with_body(page("POST", "/console/v1/login"), &json!({"key": ADMIN}));
        call.headers_mut().insert("Host", host.parse().expect("it is a value"));
        let answer = fixture.send(call).await;
        answer.header("set-cookie").split('=').next().expect("a name").to_owned()
    };
    assert_eq!(name("127.0.0.1:9180").await, "tollhouse_console_9180");
    assert_eq!(name("localhost:9181").await, "tollhouse_console_9181");
    assert_eq!(name("[::1]:9181").await, "tollhouse_console_9181");
    assert_eq!(name("gateway").await, "tollhouse_console");
}

#[tokio::test]
async fn forged_and_outlived_cookies_are_refused() {
    let fixture = console().await;
    let session = session(&fixture, ADMIN).await;
    let good = session.cookie.clone();
    let end: u64 = good.split(['=', '.']).nth(1).and_then(|end| end.parse().ok()).expect("a time");
    let code = good.rsplit('.').next().expect("a code");
    let number = good.split('.').nth(1).expect("a number");
    let forged = [
        format!("tollhouse_console_9180={}.{number}.{code}", end + 1),
        format!("tollhouse_console_9180=1.{number}.{code}"),
        format!("tollhouse_console_9180={end}.{number}.{}", "0".repeat(64)),
        format!("tollhouse_console_9180={end}.{}.{code}", "0".repeat(number.len())),
        format!("tollhouse_console_9180={end}..{code}"),
        format!("tollhouse_console_9180={end}.{code}"),
        format!("tollhouse_console_9180={end}.{number}."),
        "tollhouse_console_9180=".to_owned(),
        "tollhouse_console_9180=x.y".to_owned(),
    ];
    for line in forged {
        let forged = Session { cookie: line.clone(), ..session.clone() };
        let request = signed(page("GET", "/console/v1/overview"), &forged);
        assert_eq!(fixture.send(empty(request)).await.status, 401, "{line}");
    }
    // Sessions are invalid with another secret, as in another gateway, and with another key, as
    // after a change of the key.
    let other = Fixture::with(with_sessions(b"other")).await;
    let mut changed = with_sessions(b"secret");
    changed.keys.retain(|key| key.key != ADMIN);
    let changed = Fixture::with(changed).await;
    for fixture in [other, changed] {
        let request = signed(page("GET", "/console/v1/overview"), &session);
        assert_eq!(fixture.send(empty(request)).await.status, 401);
    }
}

#[tokio::test]
async fn who_guesses_keys_waits() {
    let fixture = console().await;
    for _ in 0..5 {
        assert_eq!(sign_in(&fixture, "wrong").await.status, 401);
    }
    assert_eq!(sign_in(&fixture, "wrong").await.status, 429);
    assert_eq!(sign_in(&fixture, ADMIN).await.status, 200, "a right key is let in");
    let mut elsewhere = with_body(page("POST", "/console/v1/login"), &json!({"key": ADMIN}));
    elsewhere.headers_mut().remove("X-Tollhouse-Console");
    assert_eq!(fixture.send(elsewhere).await.status, 403, "other websites sign nobody in");
}

#[tokio::test]
async fn a_viewer_reads_and_explains_and_writes_nothing() {
    let fixture = console().await;
    let session = session(&fixture, VIEWER).await;
    let question = json!({"url": "http://a/"});
    let explain = signed(page("POST", "/console/v1/explain"), &session);
    // This fixture has no process.
    assert_eq!(fixture.send(with_body(explain, &question)).await.status, 503);
    let write = signed(page("PUT", "/apisix/admin/routes/1"), &session);
    assert_eq!(fixture.send(with_body(write, &route())).await.status, 401);
    let read = signed(page("GET", "/apisix/admin/routes"), &session);
    assert_eq!(fixture.send(empty(read)).await.status, 200);
}

#[tokio::test]
async fn the_process_is_asked_and_the_store_counted() {
    let mut fixture = console().await;
    fixture.given(&[("/routes/1", route())]).await;
    fixture.put_console(Arc::new(Quiet)).await;
    let overview = fixture.send(request("GET", "/../../console/v1/overview", "")).await.json();
    assert_eq!((&overview["version"], &overview["objects"]["routes"]), (&json!("1"), &json!(1)));
    for (path, expected) in [
        ("/console/v1/live?since=7", json!({"since": 7})),
        (
            "/console/v1/live/routes?sort=failures",
            json!({"kind": "Routes", "by_failures": true, "ids": null, "history": false}),
        ),
        (
            "/console/v1/live/consumers?ids=a,b",
            json!({"kind": "Consumers", "by_failures": false, "ids": "a,b", "history": false}),
        ),
        ("/console/v1/requests?code=no_nodes", json!({"code": "no_nodes"})),
        ("/console/v1/nodes?q=x", json!({"search": "x"})),
    ] {
        let answer = fixture.send(empty(page("GET", path).header("X-API-KEY", VIEWER))).await;
        assert_eq!((answer.status, answer.json()), (200, expected), "{path}");
        assert_eq!(answer.header("cache-control"), "no-store");
        assert_eq!(fixture.send(empty(page("GET", path))).await.status, 401, "{path}");
        let written = empty(page("PUT", path).header("X-API-KEY", ADMIN));
        assert_eq!(fixture.send(written).await.status, 405, "{path}");
    }
    let explain = |body: Value| {
        with_body(page("POST", "/console/v1/explain").header("X-API-KEY", ADMIN), &body)
    };
    for (body, expected) in [
        (json!({"url": "http://a/"}), 200),
        (json!({"url": ""}), 400),
        (json!({"uri": "http://a/"}), 400),
        (json!({}), 400),
    ] {
        assert_eq!(fixture.send(explain(body.clone())).await.status, expected, "{body}");
    }
}

#[tokio::test]
async fn objects_are_found_by_what_people_remember() {
    let fixture = console().await;
    let nodes = json!({"nodes": {"127.0.0.1:1980": 1}});
    fixture
        .given(&[
            ("/upstreams/u", nodes.clone()),
            ("/routes/a1", json!({"name": "Orders", "uri": "/o", "upstream": nodes})),
            ("/routes/b2", json!({"uri": "/x", "host": "shop.test", "status": 0, "upstream": nodes})),
            ("/routes/c3", json!({"uri": "/y", "labels": {"team": "x"}, "plugins": {"cors": {}}, "upstream_id": "u"})),
        ])
        .await;
    for (query, expected) in [
        ("", "a1 b2 c3"),
        ("q=ORDERS", "a1"),
        ("q=shop.T", "b2"),
        ("q=/y", "c3"),
        ("q=team", "c3"),
        ("q=b2", "b2"),
        ("q=host:shop", "b2"),
        ("q=label:TEAM", "c3"),
        ("q=plugin:cors", "c3"),
        ("q=uses:upstreams/u", "c3"),
        ("q=status:off", "b2"),
        ("q=status:on+orders", "a1"),
        ("q=nothing", ""),
        ("page=2&page_size=2", "c3"),
        ("page=9&page_size=2", ""),
    ] {
        let path = format!("/console/v1/objects/routes?{query}");
        let answer = fixture.send(empty(page("GET", &path).header("X-API-KEY", ADMIN))).await;
        let found = answer.json();
        let rows = found["rows"].as_array().expect("rows");
        let ids: Vec<&str> = rows.iter().filter_map(|row| row["id"].as_str()).collect();
        assert_eq!(ids.join(" "), expected, "{query}");
    }
    let wrong = page("GET", "/console/v1/objects/nothing").header("X-API-KEY", ADMIN);
    assert_eq!(fixture.send(empty(wrong)).await.status, 400);
}

#[tokio::test]
async fn credentials_are_listed_below_their_consumer_without_what_they_hold() {
    let fixture = console().await;
    let key = |key: &str| json!({"plugins": {"key-auth": {"key": key}}});
    fixture
        .given(&[
            ("/consumers/jack", json!({"username": "jack"})),
            ("/consumers/jill", json!({"username": "jill"})),
            ("/consumers/jack/credentials/first", key("hush-first")),
            ("/consumers/jack/credentials/second", key("hush-second")),
            ("/consumers/jill/credentials/other", key("hush-other")),
        ])
        .await;
    let get = async |path: &str| {
        let asked = page("GET", &format!("/console/v1/objects/{path}")).header("X-API-KEY", ADMIN);
        fixture.send(empty(asked)).await
    };
    let answer = get("consumers/jack/credentials?q=plugin:key-auth").await;
    assert!(!answer.text.contains("hush"), "{answer:?}");
    let found = answer.json();
    let ids: Vec<&Value> =
        found["rows"].as_array().expect("rows").iter().map(|row| &row["id"]).collect();
    assert_eq!((&found["total"], ids), (&json!(2), vec![&json!("first"), &json!("second")]));
    assert_eq!(found["rows"][0]["plugins"], json!(["key-auth"]));
    assert_eq!(get("consumers/nobody/credentials").await.json()["total"], 0);
    assert_eq!(get("routes/jack/credentials").await.status, 404, "routes have none");
}

#[tokio::test]
async fn the_page_is_served_without_a_key_and_with_a_strict_policy() {
    let fixture = console().await;
    let root = fixture.send(empty(page("GET", "/"))).await;
    assert_eq!((root.status, root.header("location")), (302, "/ui/"));
    let mut nonces = std::collections::BTreeSet::new();
    for path in ["/ui/", "/ui/routes/1", "/ui"] {
        let answer = fixture.send(empty(page("GET", path))).await;
        let policy = answer.header("content-security-policy").to_owned();
        assert_eq!(answer.status, 200, "{path}");
        for part in ["default-src 'none'", "script-src 'self';", "frame-ancestors 'none'"] {
            assert!(policy.contains(part), "{part} in {policy}");
        }
        assert!(!policy.contains("unsafe"), "{policy}");
        assert_eq!(answer.header("cache-control"), "no-store");
        assert!(!answer.headers.contains_key("access-control-allow-origin"));
        nonces.insert(policy);
    }
    assert_eq!(nonces.len(), 3, "each answer has a nonce of its own");
    for (method, path) in [("POST", "/ui/"), ("GET", "/ui/a/old/main.js"), ("DELETE", "/")] {
        assert_eq!(fixture.send(empty(page(method, path))).await.status, 404, "{method} {path}");
    }
}

#[tokio::test]
async fn without_key_check_other_websites_reach_nothing() {
    let open = Options { key_check: KeyCheck::Off, cors: Cors::On, ..with_sessions(b"secret") };
    let fixture = Fixture::with(open).await;
    for (host, origin, expected) in [
        ("127.0.0.1:9180", None, 200),
        ("127.0.0.1:9180", Some("http://127.0.0.1:9180"), 200),
        ("evil.example", None, 403),
        ("127.0.0.1:9180", Some("http://evil.example"), 403),
    ] {
        let mut builder = Request::builder().uri("/console/v1/login").header("Host", host);
        if let Some(origin) = origin {
            builder = builder.header("Origin", origin);
        }
        let answer = fixture.send(empty(builder)).await;
        assert_eq!(answer.status, expected, "{host} {origin:?}");
    }
}

#[tokio::test]
async fn everything_that_is_wrong_is_said_at_its_place_and_nothing_is_written() {
    let fixture = console().await;
    let whole = json!({"uri": "/a", "upstream": {"nodes": {"127.0.0.1:80": 1}}});
    let cases = [
        (whole.clone(), json!([])),
        (
            json!({
                "uri": 5,
                "priority": "high",
                "plugins": {
                    "limit-count": {"count": 0, "time_window": 60, "rejected_code": 1},
                    "no-such": {},
                },
            }),
            json!([
                "/uri",
                "/priority",
                "/plugins/limit-count/count",
                "/plugins/limit-count/rejected_code",
                "/plugins/no-such",
            ]),
        ),
        (json!({"uri": "/a", "service_id": "none"}), json!(["/service_id"])),
    ];
    for (value, places) in cases {
        for path in ["/console/v1/validate/routes", "/console/v1/validate/routes/new"] {
            let request = Request::builder().method("POST").uri(path).header("X-API-KEY", OPERATOR);
            let answer = fixture.send(with_body(request, &value)).await.json();
            let problems = answer["problems"].as_array().expect("a list");
            let found: Value = problems.iter().map(|it| it["pointer"].clone()).collect();
            assert_eq!(found, places, "{answer}");
            assert_eq!(answer["valid"], problems.is_empty(), "{answer}");
        }
    }
    assert_eq!(fixture.get("/routes/new").await.status, 404);
    let request = Request::builder().method("POST").uri("/console/v1/validate/routes");
    let answer = fixture.send(with_body(request.header("X-API-KEY", ADMIN), &json!([1]))).await;
    assert_eq!(answer.status, 400);
}

#[tokio::test]
async fn what_concerns_the_process_takes_the_role_admin_to_change() {
    let mut fixture = console().await;
    fixture.put_console(Arc::new(Quiet)).await;
    let level = json!({"level": "debug"});
    let question = json!({"url": "http://127.0.0.1/"});
    for (method, path, body, admin, viewer) in [
        ("GET", "/console/v1/log", &Value::Null, 200, 200),
        ("PUT", "/console/v1/log", &level, 200, 401),
        ("PUT", "/console/v1/log", &json!({"level": "loud"}), 400, 401),
        ("GET", "/console/v1/log/lines?from=3", &Value::Null, 200, 401),
        ("GET", "/console/v1/doctor", &Value::Null, 200, 200),
        ("POST", "/console/v1/reload", &Value::Null, 200, 401),
        ("GET", "/console/v1/bench", &Value::Null, 200, 200),
        ("POST", "/console/v1/bench/runs", &question, 200, 401),
        ("POST", "/console/v1/bench/runs", &json!({}), 400, 401),
        ("GET", "/console/v1/bench/runs/1", &Value::Null, 200, 200),
        ("GET", "/console/v1/bench/runs/2", &Value::Null, 404, 404),
        ("DELETE", "/console/v1/bench/runs/1", &Value::Null, 200, 401),
        ("GET", "/console/v1/bench/compare?before=1&after=2", &Value::Null, 200, 200),
        ("GET", "/console/v1/bench/compare?before=1&after=1", &Value::Null, 400, 400),
        ("DELETE", "/console/v1/log", &Value::Null, 404, 404),
    ] {
        for (key, expected) in [(ADMIN, admin), (VIEWER, viewer)] {
            let request = page(method, path).header("X-API-KEY", key);
            let answer = fixture.send(with_body(request, body)).await;
            assert_eq!(answer.status, expected, "{method} {path} by {key}: {answer:?}");
        }
        assert_eq!(fixture.send(empty(page(method, path))).await.status, 401, "{method} {path}");
    }
    let request = page("GET", "/console/v1/bench/runs/1/page").header("X-API-KEY", VIEWER);
    let answer = fixture.send(empty(request)).await;
    let kept = (answer.header("content-type"), answer.header("content-disposition"));
    assert_eq!(
        kept,
        ("application/octet-stream", "attachment"),
        "a report's script never runs here"
    );
}

#[tokio::test]
async fn objects_whose_schema_is_their_keepers_or_their_plugins_are_judged_by_it() {
    let fixture = console().await;
    let vault =
        json!({"id": "vault/1", "uri": "http://127.0.0.1:8200", "prefix": "kv", "token": "t"});
    for (place, value, faults) in [
        ("secrets/vault%2F1", vault.clone(), json!([])),
        ("secrets/vault%2F1", json!({"uri": 5, "prefix": "kv"}), json!(["/uri", "/token"])),
        ("secrets/aws%2F1", vault, json!(["/access_key_id", "/secret_access_key"])),
        ("secrets/gcp%2F1", json!({"auth_config": {"client_email": 5}}), json!(null)),
        ("secrets/keychain%2F1", json!({}), json!([""])),
        ("secrets", json!({}), json!([""])),
        ("plugin_metadata/http-logger", json!({"log_format": {"host": "$host"}}), json!([])),
        ("plugin_metadata/http-logger", json!({"log_format": 5}), json!(["/log_format"])),
        ("plugin_metadata/nothing", json!({}), json!([""])),
        ("protos/1", json!({"content": "nothing"}), json!([""])),
        ("consumer_groups/1", json!({"plugins": {"csrf": {}}}), json!(["/plugins/csrf/key"])),
    ] {
        let path = format!("/console/v1/validate/{place}");
        let request = Request::builder().method("POST").uri(&path).header("X-API-KEY", OPERATOR);
        let answer = fixture.send(with_body(request, &value)).await.json();
        let problems = answer["problems"].as_array().expect("a list");
        let found: Vec<&str> = problems.iter().filter_map(|it| it["pointer"].as_str()).collect();
        match faults.as_array() {
            Some(faults) => assert_eq!(json!(found), json!(faults), "{place}: {answer}"),
            None => assert!(!found.is_empty(), "{place}: {answer}"),
        }
    }
}

#[tokio::test]
async fn an_object_tells_where_its_secrets_stand_and_who_names_it() {
    let fixture = console().await;
    let reference = "$secret://vault/1/jack/key";
    let vault = json!({"uri": "http://127.0.0.1:8200", "prefix": "kv", "token": "open-sesame"});
    let jack = json!({"username": "jack", "plugins": {
        "key-auth": {"key": reference}, "basic-auth": {"username": "jack", "password": "open-sesame"},
    }});
    fixture.given(&[("/secrets/vault/1", vault), ("/consumers", jack)]).await;
    let get = async |path: &str| {
        let asked = page("GET", &format!("/console/v1/{path}")).header("X-API-KEY", ADMIN);
        fixture.send(empty(asked)).await
    };
    let keeper = get("objects/secrets/vault%2F1").await;
    assert!(!keeper.text.contains("open-sesame"), "{keeper:?}");
    let keeper = keeper.json();
    assert_eq!(keeper["sealed"], json!(["/token"]));
    assert_eq!(keeper["used_by"], json!([{"kind": "consumers", "id": "jack"}]));
    let consumer = get("objects/consumers/jack").await.json();
    assert_eq!(consumer["sealed"], json!(["/plugins/basic-auth/password"]));
    let used = json!([{"kind": "secrets", "id": "vault/1", "exists": true}]);
    assert_eq!(consumer["uses"], used);
    assert_eq!(consumer["value"].pointer("/plugins/key-auth/key"), Some(&json!(reference)));
    let rows = get("objects/secrets?q=vault").await.json();
    assert_eq!((&rows["total"], &rows["rows"][0]["id"]), (&json!(1), &json!("vault/1")));
    assert!(!rows.to_string().contains("token"), "{rows}");
    // A secret manager can be deleted although an object refers to it.
    assert_eq!(fixture.delete("/secrets/vault/1").await.status, 200);
    let consumer = get("objects/consumers/jack").await.json();
    assert_eq!(consumer["uses"][0]["exists"], json!(false));
}

/// Creates routes in an order that differs from that of their names.
async fn listed_routes() -> Fixture {
    let mut fixture = Fixture::new().await;
    fixture.put_console(Arc::new(Quiet)).await;
    for (id, name, uri, host) in [
        ("a.b", "Orders", "/c", "z.example.com"),
        ("2", "billing", "/b", "y.example.com"),
        ("3", "cart", "/a", "x.example.com"),
    ] {
        let route =
            json!({"name": name, "uri": uri, "host": host, "upstream": {"nodes": {"a:1": 1}}});
        fixture.given(&[(&format!("/routes/{id}"), route)]).await;
    }
    fixture
}

async fn ids(fixture: &Fixture, query: &str) -> Vec<String> {
    let answer = fixture.console(ADMIN, "GET", &format!("/objects/routes?{query}")).await;
    assert_eq!(answer.status, 200, "{query}: {answer:?}");
    let value = answer.json();
    let rows = value["rows"].as_array().expect("there are rows");
    rows.iter().filter_map(|row| row["id"].as_str()).map(str::to_owned).collect()
}

#[tokio::test]
async fn lists_come_in_the_order_that_is_asked_for() {
    let fixture = listed_routes().await;
    for (query, expected) in [
        ("", ["a.b", "2", "3"]),
        ("sort=name", ["2", "3", "a.b"]),
        ("sort=-name", ["a.b", "3", "2"]),
        ("sort=uri", ["3", "2", "a.b"]),
        ("sort=host", ["3", "2", "a.b"]),
        ("sort=-created", ["3", "2", "a.b"]),
        ("sort=id", ["2", "3", "a.b"]),
        ("sort=-changed&q=example", ["3", "2", "a.b"]),
    ] {
        assert_eq!(ids(&fixture, query).await, expected, "{query}");
    }
    assert_eq!(ids(&fixture, "sort=name&page=2&page_size=2").await, ["a.b"]);
    fixture.call("PATCH", "/routes/2", r#"{"name": "zebra"}"#).await;
    fixture.delete("/routes/3").await;
    assert_eq!(ids(&fixture, "sort=name").await, ["a.b", "2"], "it follows what is written");
    assert_eq!(ids(&fixture, "sort=-changed").await, ["2", "a.b"]);
    let refused = fixture.console(ADMIN, "GET", "/objects/routes?sort=colour").await;
    assert!(refused.status == 400 && refused.error().contains("changed"), "{refused:?}");
}

#[tokio::test]
async fn objects_with_problems_are_told_and_found() {
    let fixture = listed_routes().await;
    assert_eq!(ids(&fixture, "problem=true").await, ["a.b"]);
    assert_eq!(ids(&fixture, "problem=false&sort=name").await, ["2", "3"]);
    let answer = fixture.console(ADMIN, "GET", "/objects/routes?problem=true").await.json();
    assert_eq!(answer["rows"][0]["problem"], "upstream.nodes: is empty");
    assert_eq!(ids(&fixture, "host=x.example&status=on").await, ["3"]);
    assert_eq!(fixture.console(ADMIN, "GET", "/objects/routes?problem=1").await.status, 400);
}

#[tokio::test]
async fn a_page_in_any_order_is_found_among_many_objects() {
    let mut fixture = Fixture::new().await;
    let mut all = tollhouse_store::Transaction::new();
    for at in 0..3000 {
        let route = json!({"name": format!("r{:04}", (at * 7919) % 3000), "uri": "/"});
        all = all.put(format!("/apisix/routes/{at}"), route.to_string());
    }
    fixture.store.commit(all).await.expect("memory is there");
    fixture.put_console(Arc::new(Quiet)).await;
    let page = |query: &str| {
        let path = format!("/objects/routes?page_size=2&{query}");
        let fixture = &fixture;
        async move {
            let value = fixture.console(ADMIN, "GET", &path).await.json();
            let names = value["rows"].as_array().expect("rows").iter();
            let names = names.filter_map(|row| row["name"].as_str().map(str::to_owned));
            (value["total"].as_u64(), names.collect::<Vec<_>>())
        }
    };
    let expected = |total: u64, names: [&str; 2]| (Some(total), names.map(str::to_owned).to_vec());
    assert_eq!(page("sort=name&page=1000").await, expected(3000, ["r1998", "r1999"]));
    assert_eq!(page("sort=-name&q=r2&page=500").await, expected(1000, ["r2001", "r2000"]));
}
