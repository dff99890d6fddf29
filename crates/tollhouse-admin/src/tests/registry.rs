//! The registry's objects: writes, reads, lists, watches, and refusals.

use hyper::body::Body as _;
use tollhouse_registry::identity::PasswordHash;
use tollhouse_registry::{
    Client, Clock, Keeper, ManualClock, NewRule, Options as RegistryOptions, Rule, RuleKind,
    ServiceKey, ServiceRef,
};

use super::*;
use crate::{
    DialectAnswer, DialectCall, DialectCaller, DialectFuture, KeyCheck, Mode, RegistryDialect,
    RegistryPart,
};

/// Dialect in which the JSON of a rule is its content.
#[derive(Debug)]
struct PlainDialect;

impl RegistryDialect for PlainDialect {
    fn instance_id(&self, service: ServiceRef<'_>, vpc_id: &str, host: &str, port: u32) -> String {
        format!("{service}#{vpc_id}#{host}:{port}")
    }

    fn show_rule(&self, rule: &Rule) -> Value {
        serde_json::from_slice(&rule.body).unwrap_or_default()
    }

    fn read_rule(&self, kind: RuleKind, value: &Value) -> Result<NewRule, String> {
        let name = value["name"].as_str().ok_or("a rule needs a name")?;
        Ok(NewRule {
            kind,
            id: value["id"].as_str().unwrap_or_default().into(),
            name: name.into(),
            namespace: "ns".into(),
            targets: vec![ServiceKey::new("ns", "svc")],
            priority: 0,
            enabled: true,
            body: value.to_string().into(),
        })
    }

    fn rule_schema(&self, kind: RuleKind) -> Value {
        json!({"type": "object", "title": kind.name()})
    }

    fn show_client(&self, client: &Client) -> Value {
        String::from_utf8_lossy(&client.body).into()
    }

    /// Answers with the call as it arrived.
    fn answer(&self, call: DialectCall) -> DialectFuture<'_> {
        let caller = match &call.caller {
            DialectCaller::Key(name) => format!("key {name}"),
            DialectCaller::Token(token) => token.to_string(),
        };
        let body = json!({
            "call": format!("{} {}", call.method, call.target),
            "caller": caller,
            "way": call.way.name(),
            "body": String::from_utf8_lossy(&call.body),
        });
        let status = hyper::StatusCode::OK;
        let body = body.to_string().into();
        Box::pin(std::future::ready(DialectAnswer { status, content_type: None, body }))
    }

    fn is_password(&self, password: &str, hash: Option<&PasswordHash>) -> bool {
        hash.is_some_and(|hash| *hash.0 == *password)
    }
}

/// Admin API with a registry.
pub(super) struct Registered {
    pub(super) fixture: Fixture,
    pub(super) registry: tollhouse_registry::Registry,
    part: RegistryPart,
}

impl Registered {
    pub(super) async fn new() -> Self {
        Self::with(options()).await
    }

    pub(super) async fn with(options: Options) -> Self {
        let memory = || tollhouse_store::open(&Location::Memory).expect("memory is there");
        let clock = Clock::Manual(ManualClock::at_ms(1_700_000_000_000));
        let settings = RegistryOptions { clock, salt: Some(7), ..RegistryOptions::default() };
        let (keeper, registry) = Keeper::open(memory(), settings).await.expect("it is empty");
        tokio::spawn(keeper.run(std::future::pending()));
        let part = RegistryPart::new(registry.clone(), Arc::new(PlainDialect));
        let options = Options { people: Some(registry.clone()), ..options };
        let fixture = Fixture::with_registry(memory(), options, Some(part.clone())).await;
        Self { fixture, registry, part }
    }

    pub(super) async fn call(&self, method: &str, path: &str, body: impl Into<Bytes>) -> Answer {
        self.fixture.send(registry_request(method, path, body)).await
    }

    pub(super) async fn register(&self, body: &Value) -> Answer {
        self.call("POST", "/instances", body.to_string()).await
    }
}

pub(super) fn registry_request(
    method: &str,
    path: &str,
    body: impl Into<Bytes>,
) -> Request<Full<Bytes>> {
    let mut request = request(method, "", body);
    let uri = format!("http://127.0.0.1:9180/registry/v1{path}");
    *request.uri_mut() = uri.parse().expect("it is a URI");
    request
}

fn instance(port: u16) -> Value {
    json!({"namespace": "ns", "service": "svc", "host": "10.0.0.1", "port": port})
}

#[tokio::test]
async fn an_instance_is_registered_changed_and_removed() {
    let registered = Registered::new().await;
    let body = json!({
        "namespace": "ns", "service": "a/b", "host": " h ", "port": 80, "ttl_seconds": 3,
        "metadata": {"zone": "a"}, "location": {"region": "r"},
    });
    let answer = registered.register(&body).await;
    assert_eq!(answer.status, 201, "{answer:?}");
    let shown = answer.json();
    assert_eq!(shown["id"], "ns/a/b## h :80");
    assert_eq!(shown["host"], "h");
    assert_eq!((&shown["weight"], &shown["ttl_seconds"]), (&json!(100), &json!(3)));
    assert_eq!(shown["location"], json!({"region": "r", "zone": "", "campus": ""}));
    assert_eq!(registered.register(&body).await.status, 200, "it replaces itself");
    let path = "/instances/ns%2Fa%2Fb%23%23%20h%20:80";
    let table = [
        (r#"{"isolated":true,"weight":5}"#, "isolated", json!(true)),
        (r#"{"ttl_seconds":null}"#, "ttl_seconds", Value::Null),
        (r#"{"metadata":{}}"#, "metadata", json!({})),
        ("{}", "weight", json!(5)),
    ];
    for (patch, field, expected) in table {
        let answer = registered.call("PATCH", path, patch).await;
        assert_eq!((answer.status, &answer.json()[field]), (200, &expected), "{patch}");
    }
    let beaten = registered.call("POST", &format!("{path}/heartbeat"), "").await;
    assert_eq!(beaten.status, 200, "{beaten:?}");
    let read = registered.call("GET", path, "").await.json();
    assert_eq!(read["last_beat"], json!({"at_ms": 1_700_000_000_000_u64, "count": 1}));
    let put = registered.call("PUT", path, read.to_string()).await;
    assert_eq!(put.status, 200, "what was read can be written: {put:?}");
    let of_service = registered.call("GET", "/services/ns/a%2Fb/instances", "").await.json();
    assert_eq!((&of_service["total"], &of_service["list"][0]["host"]), (&json!(1), &json!("h")));
    assert_eq!(registered.call("DELETE", path, "").await.status, 200);
    for (method, path) in [("DELETE", path), ("GET", path)] {
        assert_eq!(registered.call(method, path, "").await.status, 404);
    }
    assert_eq!(registered.call("POST", &format!("{path}/heartbeat"), "").await.status, 404);
}

#[tokio::test]
async fn what_cannot_be_is_refused_with_a_reason() {
    let registered = Registered::new().await;
    registered.register(&instance(1)).await;
    let table = [
        ("POST", "/instances", "", 400, "it is empty"),
        ("POST", "/instances", "{", 400, "invalid request body"),
        ("POST", "/instances", r#"{"wieght":1}"#, 400, "unknown field `wieght`"),
        ("POST", "/instances", r#"{"service":"s","host":"h"}"#, 400, "port"),
        ("POST", "/instances", r#"{"ttl_seconds":61}"#, 400, "between 1 and 60"),
        ("POST", "/services/ns/svc/instances", r#"{"service":"x"}"#, 400, "not the path's"),
        ("PUT", "/instances/a", r#"{"id":"b"}"#, 400, "not the path's"),
        ("PATCH", "/instances/ns%2Fsvc%23%2310.0.0.1:1", r#"{"port":2}"#, 400, "port cannot"),
        ("PATCH", "/instances/none", "{}", 404, "instance not found"),
        ("GET", "/instances?healthy=perhaps", "", 400, "true or false"),
        ("GET", "/instances?page_size=5001", "", 400, "page_size"),
        ("GET", "/services/ns/none/instances", "", 404, "service not found"),
        ("DELETE", "/services/ns/svc", "", 409, "instance still there"),
        ("DELETE", "/services/ns/none", "", 404, "service not found"),
        ("DELETE", "/namespaces/default", "", 400, "built-in"),
        ("POST", "/namespaces", r#"{"name":"ns"}"#, 409, "existed"),
        ("PUT", "/aliases/ns/a", r#"{}"#, 400, "target is missing"),
        ("PUT", "/rules/lane/1", r#"{}"#, 400, "needs a name"),
        ("PUT", "/rules/lane/1", r#"{"name":"a","id":"2"}"#, 400, "not the path's"),
        ("GET", "/rules/none", "", 404, "the kinds are routing-v1"),
        ("GET", "/rules/lane/none", "", 404, "lane rule not found"),
        ("POST", "/status", "", 405, "not supported `POST`"),
        ("GET", "/nothing", "", 404, "not found"),
    ];
    for (method, path, body, status, words) in table {
        let answer = registered.call(method, path, body).await;
        assert_eq!(answer.status, status, "{method} {path} {body}: {answer:?}");
        assert!(answer.error().contains(words), "{method} {path} {body}: {answer:?}");
    }
}

#[tokio::test]
async fn namespaces_services_aliases_and_rules_come_and_go() {
    let registered = Registered::new().await;
    let table = [
        ("POST", "/namespaces", r#"{"name":"ns","comment":"c"}"#, 201),
        ("PUT", "/namespaces/ns", r#"{"name":"ns","owners":"o"}"#, 200),
        ("PATCH", "/namespaces/ns", r#"{"comment":"d"}"#, 200),
        ("PUT", "/services/ns/svc", r#"{"business":"b","metadata":{"k":"v"}}"#, 201),
        ("PUT", "/services/ns/svc", r#"{"business":"b","metadata":{"k":"v"}}"#, 200),
        ("PATCH", "/services/ns/svc", r#"{"department":"d"}"#, 200),
        ("PUT", "/aliases/ns/alias", r#"{"target":{"namespace":"ns","name":"svc"}}"#, 201),
        ("PATCH", "/aliases/ns/alias", r#"{"comment":"c"}"#, 200),
        ("PUT", "/rules/lane/1", r#"{"name":"first"}"#, 201),
        ("PUT", "/rules/lane/1", r#"{"name":"second"}"#, 200),
        ("POST", "/rules/rate-limit", r#"{"name":"third"}"#, 201),
        ("PATCH", "/rules/lane/1", r#"{"enabled":false}"#, 200),
    ];
    for (method, path, body, status) in table {
        let answer = registered.call(method, path, body).await;
        assert_eq!(answer.status, status, "{method} {path}: {answer:?}");
    }
    let read = async |path: &str| registered.call("GET", path, "").await.json();
    let namespace = read("/namespaces/ns").await;
    let fields = (&namespace["owners"], &namespace["comment"], &namespace["services"]);
    assert_eq!(fields, (&json!("o"), &json!("d"), &json!(1)));
    let service = read("/services/ns/svc").await;
    assert_eq!((&service["business"], &service["department"]), (&json!("b"), &json!("d")));
    assert_eq!((&service["metadata"], &service["mass_expiry"]), (&json!({"k": "v"}), &json!(null)));
    let alias = read("/aliases/ns/alias").await;
    assert_eq!((&alias["target"]["name"], &alias["comment"]), (&json!("svc"), &json!("c")));
    let rule = read("/rules/lane/1").await;
    assert_eq!((&rule["rule"]["name"], &rule["enabled"]), (&json!("second"), &json!(false)));
    assert_eq!(read("/rules").await["total"], 2);
    assert_eq!(read("/rules?enabled=true&service=svc").await["total"], 1);
    assert_eq!(read("/rules?service=other").await["total"], 0);
    for path in ["/namespaces/ns", "/services/ns/svc", "/aliases/ns/alias", "/rules/lane/1"] {
        let object = read(path).await;
        if !path.starts_with("/rules") {
            let put = registered.call("PUT", path, object.to_string()).await;
            assert_eq!(put.status, 200, "what was read can be written: {put:?}");
        }
    }
    for path in ["/rules/lane/1", "/aliases/ns/alias", "/services/ns/svc", "/namespaces/ns"] {
        assert_eq!(registered.call("DELETE", path, "").await.status, 204, "{path}");
        assert_eq!(registered.call("DELETE", path, "").await.status, 404, "{path}");
    }
}

#[tokio::test]
async fn lists_have_pages_and_filters() {
    let registered = Registered::new().await;
    for port in 1..=25 {
        let mut body = instance(port);
        body["isolated"] = (port % 5 == 0).into();
        body["metadata"] = json!({"odd": (port % 2).to_string()});
        registered.register(&body).await;
    }
    registered.register(&json!({"service": "other", "host": "h", "port": 1})).await;
    let table = [
        ("/instances", 26, 26),
        ("/instances?page=2&page_size=20", 26, 6),
        ("/instances?page=3&page_size=20", 26, 0),
        ("/instances?namespace=ns", 25, 25),
        ("/instances?service=other", 1, 1),
        ("/instances?isolated=true", 5, 5),
        ("/instances?label=odd:1&page_size=5", 13, 5),
        ("/instances?label=even", 0, 0),
        ("/instances?host=h&port=1", 1, 1),
        ("/instances?port=x", 0, 0),
        ("/services/ns/svc/instances?healthy=false", 0, 0),
        ("/services", 2, 2),
        ("/services?namespace=default", 1, 1),
        ("/services?name=^s", 1, 1),
        ("/namespaces?name=ns", 1, 1),
        ("/clients", 0, 0),
    ];
    for (path, total, shown) in table {
        let answer = registered.call("GET", path, "").await.json();
        let count = answer["list"].as_array().map(Vec::len);
        assert_eq!((&answer["total"], count), (&json!(total), Some(shown)), "{path}");
    }
    registered.registry.report_client("sdk-1", Bytes::from_static(b"body"));
    let clients = registered.call("GET", "/clients", "").await.json();
    assert_eq!(clients["list"][0]["client"], "body");
    let status = registered.call("GET", "/status", "").await.json();
    assert_eq!(
        status["instances"],
        json!({
            "total": 26, "healthy": 21, "unchecked": 21, "unhealthy": 0, "isolated": 5,
        })
    );
    assert_eq!((&status["counted"]["commits"], &status["clients"]), (&json!(26), &json!(1)));
}

#[tokio::test]
async fn keys_roles_and_modes_are_those_of_the_admin_api() {
    let registered = Registered::new().await;
    let mut anonymous = registry_request("GET", "/services", "");
    anonymous.headers_mut().remove("X-API-KEY");
    assert_eq!(registered.fixture.send(anonymous).await.status, 401);
    for (method, expected) in [("GET", 200), ("POST", 401)] {
        let mut viewer = registry_request(method, "/instances", instance(1).to_string());
        viewer.headers_mut().insert("X-API-KEY", VIEWER.parse().expect("it is a value"));
        assert_eq!(registered.fixture.send(viewer).await.status, expected, "{method}");
    }
    let answer = registered.call("GET", "/services", "").await;
    assert_eq!(answer.header("access-control-allow-origin"), "*");

    let without = Fixture::with(Options { key_check: KeyCheck::Off, ..options() }).await;
    let answer = without.send(registry_request("GET", "/services", "")).await;
    assert_eq!(answer.status, 404);
    assert!(answer.error().contains("the registry is off"));

    #[derive(Debug)]
    struct Nowhere;
    impl crate::DocumentSink for Nowhere {
        fn accept(&self, _: &crate::Document) -> tollhouse_store::Revision {
            tollhouse_store::Revision::ZERO
        }
    }
    let mode = Mode::Standalone(Arc::new(Nowhere));
    let standalone = Registered::with(Options { mode, ..options() }).await;
    assert_eq!(standalone.register(&instance(1)).await.status, 201);
}

/// Reader of the lines of an open watch.
struct Lines {
    body: crate::reply::WireBody,
    pending: String,
}

impl Lines {
    async fn open(registered: &Registered, path: &str) -> Self {
        let peer = "127.0.0.1:40000".parse().expect("it is an address");
        let request = registry_request("GET", path, "");
        let response = registered.fixture.api.handle(request, peer).await;
        assert_eq!(response.status(), 200);
        assert_eq!(response.headers()["content-type"], "application/x-ndjson");
        Self { body: response.into_body(), pending: String::new() }
    }

    /// Returns the next line; `None` at the end.
    async fn next(&mut self) -> Option<Value> {
        loop {
            if let Some((line, rest)) = self.pending.split_once('\n') {
                let line = serde_json::from_str(line).expect("it is JSON");
                self.pending = rest.to_owned();
                return Some(line);
            }
            let frame = self.body.frame().await?.expect("it cannot fail");
            let data = frame.into_data().expect("there are no trailers");
            self.pending.push_str(std::str::from_utf8(&data).expect("it is text"));
        }
    }

    /// Reads up to the next `synced` line, and returns it.
    async fn synced(&mut self) -> Value {
        loop {
            let line = self.next().await.expect("it goes on");
            if line["type"] == "synced" {
                return line;
            }
        }
    }

    /// Returns the kinds and ports of the next lines up to `synced`, and the number of instances in
    /// it.
    async fn group(&mut self) -> (Vec<String>, u64) {
        let mut lines = Vec::new();
        loop {
            let line = self.next().await.expect("it goes on");
            match line["type"].as_str().expect("a kind") {
                "synced" => {
                    lines.sort();
                    return (lines, line["total"].as_u64().expect("a number"));
                }
                "alive" => {}
                kind => lines.push(format!("{kind} {}", line["instance"]["port"])),
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_watch_tells_what_there_is_and_then_what_changes() {
    let registered = Registered::new().await;
    let path = "/services/ns/svc/instances?watch=true";
    let mut lines = Lines::open(&registered, path).await;
    let synced = lines.synced().await;
    assert_eq!((&synced["type"], &synced["exists"]), (&json!("synced"), &json!(false)));
    registered.register(&instance(1)).await;
    assert_eq!(lines.group().await, (vec!["added 1".to_owned()], 1));
    registered.register(&instance(2)).await;
    assert_eq!(lines.group().await, (vec!["added 2".to_owned()], 2));
    assert_eq!(lines.next().await.expect("it goes on")["type"], "alive");
    let id = "/instances/ns%2Fsvc%23%2310.0.0.1:1";
    registered.call("PATCH", id, r#"{"weight":1}"#).await;
    assert_eq!(lines.group().await, (vec!["changed 1".to_owned()], 2));
    registered.call("DELETE", id, "").await;
    assert_eq!(lines.group().await, (vec!["removed 1".to_owned()], 1));
    registered.call("DELETE", "/instances/ns%2Fsvc%23%2310.0.0.1:2", "").await;
    assert_eq!(lines.group().await, (vec!["removed 2".to_owned()], 0));
    registered.call("DELETE", "/services/ns/svc", "").await;
    assert_eq!(lines.synced().await["exists"], false);
    let mut second = Lines::open(&registered, path).await;
    assert_eq!(registered.part.watches_open(), 2);
    drop(lines);
    registered.part.end_watches();
    while second.next().await.is_some() {}
    tokio::task::yield_now().await;
    assert_eq!(registered.part.watches_open(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_nobody_reads_waits_and_then_tells_the_newest() {
    let registered = Registered::new().await;
    let mut lines = Lines::open(&registered, "/services/ns/svc/instances?watch=true").await;
    for port in 1..=2_000 {
        registered.register(&instance(port)).await;
    }
    let mut known = std::collections::BTreeSet::new();
    loop {
        let line = lines.next().await.expect("it goes on");
        match line["type"].as_str() {
            Some("added") => drop(known.insert(line["instance"]["port"].to_string())),
            Some("synced") if line["total"] == 2_000 => break,
            _ => {}
        }
    }
    assert_eq!(known.len(), 2_000);
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_nobody_reads_for_long_gives_its_place_back() {
    let registered = Registered::new().await;
    let path = "/services/ns/svc/instances?watch=true";
    for port in 1..=2_000 {
        registered.register(&instance(port)).await;
    }
    let stalled = Lines::open(&registered, path).await;
    let mut quiet = Lines::open(&registered, "/services/ns/other/instances?watch=true").await;
    assert_eq!(registered.part.watches_open(), 2);
    quiet.synced().await;
    for _ in 0..6 {
        assert_eq!(quiet.next().await.expect("it goes on")["type"], "alive");
    }
    assert_eq!(registered.part.watches_open(), 1, "only the one that is read is left");
    drop(stalled);
}

#[tokio::test]
async fn watches_are_bounded() {
    let registered = Registered::new().await;
    let path = "/services/ns/svc/instances?watch=true";
    let mut open = Vec::new();
    for _ in 0..crate::limits::WATCHES_MAX {
        open.push(Lines::open(&registered, path).await);
    }
    assert_eq!(registered.call("GET", path, "").await.status, 503);
    assert!(!open[0].body.is_end_stream());
}

#[test]
fn the_document_has_every_call_and_every_field() {
    let document = crate::openapi_document();
    let schema = |name: &str| &document["components"]["schemas"][name]["properties"];
    for path in ["/registry/v1/status", "/registry/v1/services/{namespace}/{name}/instances"] {
        assert!(document["paths"][path]["get"].is_object(), "{path}");
    }
    assert!(schema("instance")["ttl_seconds"].is_object());
}

#[tokio::test]
async fn answers_have_the_fields_of_their_schemas() {
    let registered = Registered::new().await;
    registered.register(&instance(1)).await;
    let target = json!({"target": {"namespace": "ns", "name": "svc"}}).to_string();
    registered.call("PUT", "/aliases/ns/alias", target).await;
    registered.call("PUT", "/rules/lane/1", r#"{"name":"a"}"#).await;
    let document = crate::openapi_document();
    let table = [
        ("/instances/ns%2Fsvc%23%2310.0.0.1:1", "instance"),
        ("/services/ns/svc", "registry_service"),
        ("/namespaces/ns", "namespace"),
        ("/aliases/ns/alias", "alias"),
        ("/rules/lane/1", "rule"),
        ("/status", "registry_status"),
    ];
    for (path, schema) in table {
        let answer = registered.call("GET", path, "").await.json();
        let properties = &document["components"]["schemas"][schema]["properties"];
        let names = |value: &Value| {
            let fields = value.as_object().expect("an object").keys().cloned();
            fields.collect::<std::collections::BTreeSet<String>>()
        };
        assert_eq!(names(&answer), names(properties), "{path}");
    }
}

#[tokio::test]
async fn what_people_write_is_among_the_changes_and_what_services_do_is_not() {
    let registered = Registered::new().await;
    let mut new = instance(80);
    new["id"] = "one".into();
    registered.register(&new).await;
    let path = "/instances/one";
    let isolate = json!({"isolated": true}).to_string();
    registered.call("PATCH", path, isolate.clone()).await;
    // The second call changes nothing.
    registered.call("PATCH", path, isolate).await;
    registered.call("POST", &format!("{path}/heartbeat"), "").await;
    registered.call("POST", "/namespaces", json!({"name": "other"}).to_string()).await;
    registered.call("DELETE", path, "").await;
    // Refused calls have changed nothing.
    registered.call("DELETE", path, "").await;
    let answer = registered.fixture.send(console_request("/changes?kind=registry")).await.json();
    let rows = answer["rows"].as_array().expect("rows");
    let told: Vec<(&str, &str)> = rows
        .iter()
        .map(|row| (row["deed"].as_str().unwrap_or(""), row["id"].as_str().unwrap_or("")))
        .collect();
    let instance = path.trim_start_matches('/');
    let expected = [("delete", instance), ("create", "namespaces/other"), ("patch", instance)];
    assert_eq!(told, expected);
    assert_eq!(rows[2]["actor"], "admin");
    assert_eq!(
        (&rows[0]["title"], &rows[1]["title"]),
        (&json!("svc 10.0.0.1:80"), &json!("other"))
    );
    let is_isolated = |row: &&Value| row["pointer"] == "/isolated" && row["after"] == true;
    assert!(rows[2]["differences"].as_array().expect("a list").iter().any(|it| is_isolated(&it)));
    let one = format!("/changes/{}", rows[0]["name"].as_str().expect("a name"));
    let one = registered.fixture.send(console_request(&one)).await.json();
    assert_eq!((&one["before"]["host"], &one["after"]), (&json!("10.0.0.1"), &Value::Null));
    assert!(one["undo_refused"].is_string(), "{one}");
}

fn console_request(path: &str) -> Request<Full<Bytes>> {
    let mut request = request("GET", "", "");
    let uri = format!("http://127.0.0.1:9180/console/v1{path}");
    *request.uri_mut() = uri.parse().expect("it is a URI");
    request
}
