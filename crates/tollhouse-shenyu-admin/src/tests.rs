//! Tests of the REST interface over a store in memory: the calls of operators' scripts, in the
//! forms of ShenYu 2.6 and 2.7.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::body::{Body, to_bytes};
use axum::extract::Request;
use serde_json::{Value, json};
use tollhouse_net::local_name::HostNames;
use tollhouse_store::{Location, Store};
use tollhouse_web::Peer;

use crate::admin::{Beginning, Options, Probing, ShenyuAdmin};
use crate::aes::Aes;
use crate::api;

/// Default namespace of ShenYu.
const NAMESPACE: &str = "649330b6-c2d7-4edc-be8e-8a54df9eb385";

mod dashboard;
mod endpoints;
mod follow;
mod local;
mod operator;
mod probe;
mod rights;
mod served;
mod transfer;
mod warnings;

/// Options of an admin that gateways may follow without a token, and whose calls do not wait for
/// the data plane.
pub(crate) fn options() -> Options {
    Options {
        first_password: "123456".to_owned(),
        sync_token: None,
        probing: Probing::Never,
        beginning: Beginning::Admin,
        aes: None,
        hosts: HostNames::default(),
        in_service: None,
        problems: None,
    }
}

struct Fixture {
    admin: ShenyuAdmin,
    store: Arc<dyn Store>,
    token: String,
}

impl Fixture {
    async fn new() -> Self {
        let store = tollhouse_store::open(&Location::Memory).expect("memory");
        Self::over(store).await
    }

    /// Creates a fixture whose admin serves only the gateway's own interface.
    async fn bare() -> Self {
        let store = tollhouse_store::open(&Location::Memory).expect("memory");
        let options = Options { beginning: Beginning::Nothing, ..options() };
        let admin = ShenyuAdmin::open(Arc::clone(&store), options).await.expect("it opens");
        Self { admin, store, token: String::new() }
    }

    async fn over(store: Arc<dyn Store>) -> Self {
        let options = Options {
            sync_token: Some("sesame".to_owned()),
            hosts: HostNames::new(&["gw.example.org".to_owned()]),
            ..options()
        };
        let admin = ShenyuAdmin::open(Arc::clone(&store), options).await.expect("it opens");
        let mut fixture = Self { admin, store, token: String::new() };
        fixture.token = fixture.log_in("admin", "123456").await.expect("the first user");
        fixture
    }

    async fn log_in(&self, name: &str, password: &str) -> Option<String> {
        let path = format!("/platform/login?userName={name}&password={password}");
        let answer = self.call("GET", &path, &Value::Null).await;
        Some(answer["data"]["token"].as_str()?.to_owned())
    }

    async fn send(&self, method: &str, path: &str, kind: &str, body: String) -> (u16, String) {
        let (status, body) = self.send_bytes(method, path, kind, body.into_bytes()).await;
        (status, String::from_utf8_lossy(&body).into_owned())
    }

    async fn send_bytes(
        &self,
        method: &str,
        path: &str,
        kind: &str,
        body: Vec<u8>,
    ) -> (u16, Vec<u8>) {
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header("X-Access-Token", &self.token)
            .header("Content-Type", kind)
            .body(Body::from(body))
            .expect("a request");
        let answer = api::answer(self.admin.clone(), request).await;
        let status = answer.status().as_u16();
        let body = to_bytes(answer.into_body(), usize::MAX).await.expect("a body");
        (status, body.to_vec())
    }

    async fn call(&self, method: &str, path: &str, body: &Value) -> Value {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let (_, text) = self.send(method, path, "application/json", body).await;
        serde_json::from_str(&text).unwrap_or(Value::String(text))
    }

    async fn expect(&self, method: &str, path: &str, body: &Value, message: &str) -> Value {
        let answer = self.call(method, path, body).await;
        assert_eq!(answer["message"], message, "{method} {path}: {answer}");
        assert_eq!(answer["code"], 200, "{method} {path}: {answer}");
        answer["data"].clone()
    }

    /// Creates a selector of `divide` with one rule, and returns their ids.
    async fn pair(&self) -> (String, String) {
        let selector = json!({"pluginId": "5", "name": "s", "type": 1, "selectorConditions": []});
        self.expect("POST", "/selector", &selector, "create success").await;
        let list = self.expect("GET", "/selector?name=s", &Value::Null, "query success").await;
        let selector = list["dataList"][0]["id"].as_str().expect("an id").to_owned();
        let rule = json!({"selectorId": selector, "name": "r", "ruleConditions": []});
        self.expect("POST", "/rule", &rule, "create success").await;
        let path = format!("/rule?selectorId={selector}");
        let list = self.expect("GET", &path, &Value::Null, "query success").await;
        (selector, list["dataList"][0]["id"].as_str().expect("an id").to_owned())
    }
}

#[tokio::test]
async fn a_login_says_who_it_is_and_never_the_password() {
    let fixture = Fixture::new().await;
    for answer in [
        fixture.call("GET", "/platform/login?userName=admin&password=123456", &Value::Null).await,
        fixture
            .call("POST", "/platform/login", &json!({"userName": "admin", "password": "123456"}))
            .await,
    ] {
        assert_eq!(answer["message"], "login dashboard user success");
        for member in [
            "id",
            "userName",
            "role",
            "enabled",
            "dateCreated",
            "dateUpdated",
            "token",
            "expiredTime",
        ] {
            assert!(!answer["data"][member].is_null(), "{member}: {answer}");
        }
        assert!(answer["data"].get("password").is_none());
    }
    for (name, password) in [("admin", "wrong"), ("nobody", "123456"), ("admin", "")] {
        assert_eq!(fixture.log_in(name, password).await, None, "{name} {password}");
    }
}

#[tokio::test]
async fn no_website_logs_in_or_follows() {
    let fixture = Fixture::new().await;
    let ask = async |path: &str, to_loopback: bool, headers: &[(&str, &str)]| -> u16 {
        let mut request = Request::builder().uri(path);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let mut request = request.body(Body::empty()).expect("a request");
        if to_loopback {
            let address = SocketAddr::from(([127, 0, 0, 1], 1));
            request.extensions_mut().insert(Peer { address, is_local: true });
        }
        api::answer(fixture.admin.clone(), request).await.status().as_u16()
    };
    let login = "/platform/login?userName=admin&password=123456";
    let evil = ("origin", "http://evil.example");
    for (to_loopback, headers, status) in [
        (true, &[("host", "127.0.0.1:9095")][..], 200),
        (true, &[("host", "gw.example.org:9095")], 200),
        (true, &[], 200),
        (true, &[("host", "evil.example:9095")], 403),
        (true, &[("host", "127.0.0.1:9095"), evil], 403),
        (false, &[("host", "shenyu.example.net")], 200),
    ] {
        assert_eq!(ask(login, to_loopback, headers).await, status, "{headers:?}");
    }
    let token = ("x-access-token", fixture.token.as_str());
    let known = [("host", "evil.example"), token];
    assert_eq!(ask("/selector", true, &known).await, 200, "who brings a token is no website");
    let upgrade = [
        ("upgrade", "websocket"),
        ("connection", "keep-alive, Upgrade"),
        ("sec-websocket-key", "eA=="),
        ("host", "10.0.0.1:9095"),
    ];
    let open = ShenyuAdmin::open(Arc::clone(&fixture.store), options());
    let open = open.await.expect("it opens");
    for (origin, status) in [
        // Accepted up to the upgrade, which fails because this test has no connection.
        (None, 400),
        (Some("http://localhost:9195"), 400),
        (Some("http://10.0.0.1:9095"), 400),
        (Some("http://evil.example"), 403),
        (Some("null"), 403),
    ] {
        let mut request = Request::builder().uri("/websocket");
        for (name, value) in upgrade.into_iter().chain(origin.map(|origin| ("origin", origin))) {
            request = request.header(name, value);
        }
        let request = request.body(Body::empty()).expect("a request");
        let answer = api::answer(open.clone(), request).await;
        assert_eq!(answer.status().as_u16(), status, "{origin:?}");
    }
}

#[tokio::test]
async fn bodies_of_strangers_are_short_and_those_of_all_share_one_bound() {
    let fixture = Fixture::new().await;
    let login = |padding: usize| {
        let password = "x".repeat(padding);
        json!({"userName": "admin", "password": password}).to_string()
    };
    let ask = async |path: &str, body: String| {
        let (_, text) = fixture.send("POST", path, "application/json", body).await;
        serde_json::from_str::<Value>(&text).expect("JSON")["message"].to_string()
    };
    let said = ask("/platform/login", login(20_000)).await;
    assert!(said.contains("more than 16384 bytes"), "{said}");
    let said = ask("/platform/login", login(10_000)).await;
    assert!(said.contains("username or password error"), "{said}");
    // Two characters of text become a value of eighty bytes, so a body that fits as text may not
    // fit when parsed.
    let many = format!("[1{}]", ",1".repeat(7 << 20));
    let said = ask("/selector", many).await;
    assert!(said.contains("all the memory that they may"), "{said}");
    assert_eq!(fixture.admin.memory.held(), 0, "it is given back");
    let others = fixture.admin.memory.take(crate::limits::BODIES_BYTES_MAX - 100).expect("free");
    let said = ask("/selector", json!({"name": "x".repeat(200)}).to_string()).await;
    assert!(said.contains("all the memory that they may"), "{said}");
    drop(others);
    fixture.pair().await;
    assert_eq!(fixture.admin.memory.held(), 0);
}

#[tokio::test]
async fn passwords_come_plain_or_encrypted() {
    let store = tollhouse_store::open(&Location::Memory).expect("memory");
    let aes = Aes::new("2095132720951327".to_owned(), "6075877187097700".to_owned());
    let options = Options { aes: Some(aes.expect("a key")), ..options() };
    let admin = ShenyuAdmin::open(Arc::clone(&store), options).await.expect("it opens");
    let fixture = Fixture { admin, store, token: String::new() };
    for password in ["123456", "bbiB8zbUo3z3oA0VqEB/IA=="] {
        let body = json!({"userName": "admin", "password": password});
        fixture.expect("POST", "/platform/login", &body, "login dashboard user success").await;
    }
    let info = fixture.expect("GET", "/platform/secretInfo", &Value::Null, "query success").await;
    assert!(info.as_str().is_some_and(|info| info.starts_with("eyJ")), "base64 of an object");
}

#[tokio::test]
async fn lists_single_objects_and_pages_have_shenyus_shape() {
    let fixture = Fixture::new().await;
    let (selector, rule) = fixture.pair().await;
    for path in [
        "/plugin?name=&enabled=&currentPage=1&pageSize=12",
        "/selector?pluginId=5&currentPage=1&pageSize=12&namespaceId=",
        "/meta-data/queryList?path=&currentPage=1&pageSize=12",
        "/appAuth/findPageByQuery?appKey=&phone=&currentPage=1&pageSize=12",
        "/shenyu-dict?type=operator&currentPage=1&pageSize=12",
        "/namespace/findPageByQuery?currentPage=1&pageSize=12",
        "/dashboardUser?currentPage=1&pageSize=12",
        "/role?currentPage=1&pageSize=12",
        "/proxy-selector?currentPage=1&pageSize=12",
        "/plugin-handle?pluginId=5&currentPage=1&pageSize=12",
        "/namespace-plugin?currentPage=1&pageSize=12",
        "/plugin-template?currentPage=1&pageSize=12",
    ] {
        let data = fixture.expect("GET", path, &Value::Null, "query success").await;
        assert_eq!(data["page"]["pageSize"], 12, "{path}");
        assert!(data["dataList"].is_array(), "{path}");
    }
    for path in ["/plugin/all", "/meta-data/findAll", "/namespace/list", "/plugin/snapshot/active"]
    {
        let data = fixture.expect("GET", path, &Value::Null, "query success").await;
        assert!(data.is_array(), "{path}: {data}");
    }
    let one = fixture.expect("GET", &format!("/rule/{rule}"), &Value::Null, "detail success").await;
    assert_eq!((&one["selectorId"], &one["matchModeName"]), (&json!(selector), &json!("and")));
    let search = json!({"pageNum": 1, "pageSize": 5, "condition": {"keyword": "div"}});
    let found = fixture.expect("POST", "/plugin/list/search", &search, "query success").await;
    assert_eq!(found["list"][0]["name"], "divide");
    assert_eq!(found["total"], 1);
}

#[tokio::test]
async fn objects_are_changed_switched_and_deleted_in_both_shapes() {
    let fixture = Fixture::new().await;
    let (selector, rule) = fixture.pair().await;
    let change = json!({"pluginId": "5", "name": "renamed", "sort": "7", "selectorConditions": []});
    fixture.expect("PUT", &format!("/selector/{selector}"), &change, "update success").await;
    let path = format!("/selector/{selector}");
    let one = fixture.expect("GET", &path, &Value::Null, "detail success").await;
    assert_eq!((&one["name"], &one["sort"]), (&json!("renamed"), &json!(7)));
    let off = json!({"ids": [rule], "enabled": false, "namespaceId": NAMESPACE});
    fixture.expect("POST", "/rule/batchEnabled", &off, "enable success").await;
    let one = fixture.expect("GET", &format!("/rule/{rule}"), &Value::Null, "detail success").await;
    assert_eq!(one["enabled"], false);
    fixture.expect("DELETE", "/rule/batch", &json!({"ids": [rule]}), "delete success").await;
    fixture.expect("DELETE", "/selector/batch", &json!([selector]), "delete success").await;
    for path in [format!("/selector/{selector}"), format!("/rule/{rule}")] {
        assert_eq!(fixture.call("GET", &path, &Value::Null).await["code"], 500, "{path}");
    }
    let plugin = fixture.expect("GET", "/plugin/5", &Value::Null, "detail success").await;
    assert_eq!(plugin["name"], "divide");
    fixture
        .expect(
            "PUT",
            "/plugin/5",
            &json!({"name": "divide", "role": "Proxy", "enabled": false, "sort": 200}),
            "update success",
        )
        .await;
    fixture
        .expect(
            "POST",
            "/plugin/enabled",
            &json!({"ids": ["5"], "enabled": true}),
            "enable success",
        )
        .await;
}

#[tokio::test]
async fn applications_get_keys_that_can_be_changed() {
    let fixture = Fixture::new().await;
    let apply = json!({"userId": "1", "phone": "1", "appName": "order", "appParam": "{}", "extInfo": "", "open": true,
        "pathList": ["/order/**"]});
    fixture.expect("POST", "/appAuth/apply", &apply, "create success").await;
    let list =
        fixture.expect("GET", "/appAuth/findPageByQuery", &Value::Null, "query success").await;
    let one = &list["dataList"][0];
    let key = one["appKey"].as_str().expect("a key").to_owned();
    assert!(
        key.len() == 32
            && key.bytes().all(|byte| byte.is_ascii_hexdigit() && !byte.is_ascii_lowercase())
    );
    assert_eq!(one["authPathList"][0]["path"], "/order/**");
    let change = json!({"appKey": key, "appSecret": "mine"});
    fixture.expect("POST", "/appAuth/updateSk", &change, "").await;
    let path = format!("/appAuth/detail?id={}", one["id"].as_str().expect("an id"));
    let one = fixture.expect("GET", &path, &Value::Null, "detail success").await;
    assert_eq!(one["appSecret"], "mine");
}

#[tokio::test]
async fn what_is_wrong_is_named_and_nothing_is_written() {
    let fixture = Fixture::new().await;
    let bad = [
        ("/selector", json!({"name": "s"}), "[pluginId: must not be null]"),
        ("/selector", json!({"name": "s", "pluginId": "none"}), "there is no such plugin"),
        (
            "/selector",
            json!({"name": "s", "pluginId": "5", "selectorConditions": [{"paramType": "uri", "operator": "like"}]}),
            "[operator: `like` does not exist",
        ),
        (
            "/selector",
            json!({"name": "s", "pluginId": "5", "handle": "{"}),
            "[handle: must be JSON",
        ),
        ("/rule", json!({"name": "r", "selectorId": "none"}), "there is no such selector"),
        ("/selector", json!([1]), "expected a JSON object"),
        ("/plugin", json!({"name": "divide", "role": "Proxy"}), "exists already"),
    ];
    for (path, body, part) in bad {
        let answer = fixture.call("POST", path, &body).await;
        assert_eq!(answer["code"], 500, "{answer}");
        assert!(answer["message"].as_str().is_some_and(|it| it.contains(part)), "{part}: {answer}");
    }
    let (status, text) =
        fixture.send("POST", "/selector", "application/json", "{".to_owned()).await;
    assert!(status == 200 && text.contains("\"code\":500"), "{text}");
    let list = fixture.expect("GET", "/selector", &Value::Null, "query success").await;
    assert_eq!(list["page"]["totalCount"], 0);
    for path in ["/nothing", "/selector/1/2/3"] {
        assert_eq!(fixture.call("GET", path, &Value::Null).await["code"], 404, "{path}");
    }
}

#[tokio::test]
async fn what_has_a_name_of_its_own_is_there_once() {
    let fixture = Fixture::new().await;
    let metadata = json!({"appName": "a", "path": "/a/b", "rpcType": "http", "serviceName": "s",
        "methodName": "m", "enabled": true});
    let field =
        json!({"pluginId": "5", "field": "f", "label": "l", "dataType": 1, "type": 1, "sort": 1});
    let entry = json!({"type": "t", "dictCode": "c", "dictName": "n", "dictValue": "v", "sort": 1,
        "enabled": true});
    let calls = [
        ("/meta-data/createOrUpdate", metadata, ("path", "/a/c"), "can't be added repeatedly!"),
        ("/plugin-handle", field, ("type", "2"), "unique index conflict"),
        ("/shenyu-dict", entry, ("dictName", "n2"), "unique index conflict"),
    ];
    for (path, body, (member, other), refused) in calls {
        fixture.expect("POST", path, &body, "create success").await;
        let again = fixture.call("POST", path, &body).await;
        let message = again["message"].as_str().unwrap_or_default();
        assert!(again["code"] == 500 && message.contains(refused), "{path}: {again}");
        let mut another = body.clone();
        another[member] = other.into();
        fixture.expect("POST", path, &another, "create success").await;
    }
    let gone = fixture.call("PUT", "/plugin/syncPluginData/nope", &Value::Null).await;
    assert_eq!(gone, json!({"code": 500, "message": "plugin is not existed", "data": null}));
}

#[tokio::test]
async fn who_names_no_namespace_means_the_default_one() {
    let fixture = Fixture::new().await;
    let plugins = fixture.expect("GET", "/plugin/all", &Value::Null, "query success").await;
    let namespace = json!({"name": "other"});
    let other = fixture.expect("POST", "/namespace/insertOrUpdate", &namespace, "success").await;
    let other = other["namespaceId"].as_str().expect("an id").to_owned();
    for path in ["/plugin/all", "/plugin-template/all"] {
        let now = fixture.expect("GET", path, &Value::Null, "query success").await;
        assert_eq!(now.as_array().map(Vec::len), plugins.as_array().map(Vec::len), "{path}");
    }
    let divide = format!("/namespace-plugin?name=divide&namespaceId={other}");
    let divide = fixture.expect("GET", &divide, &Value::Null, "query success").await;
    let plugin = divide["dataList"][0]["id"].clone();
    let selector = json!({"name": "s", "pluginId": plugin, "namespaceId": other});
    fixture.expect("POST", "/selector", &selector, "create success").await;
    let count = async |query: &str| {
        let path = format!("/selector?{query}");
        let page = fixture.expect("GET", &path, &Value::Null, "query success").await;
        page["page"]["totalCount"].clone()
    };
    assert_eq!(count("name=s").await, 0);
    assert_eq!(count(&format!("namespaceId={other}")).await, 1);
    let plugin = plugin.as_str().expect("an id");
    assert_eq!(count(&format!("pluginId={plugin}")).await, 1, "it lies where its plugin does");
}

#[tokio::test]
async fn forms_find_what_they_choose_from() {
    let fixture = Fixture::new().await;
    let kinds = [
        ("operator", 11),
        ("matchMode", 2),
        ("multiSelectorHandle", 2),
        ("multiRuleHandle", 2),
        ("degradeRuleGrade", 3),
        ("flowRuleGrade", 2),
        ("flowRuleControlBehavior", 4),
        ("mode", 3),
        ("way", 2),
        ("mapType", 2),
        ("compressAlg", 2),
        ("engine", 4),
        ("securityProtocol", 5),
        ("saslMechanism", 6),
        ("apidoc", 1),
        ("apidocEnv", 2),
        ("provider", 5),
        ("preRole", 2),
        ("postRole", 2),
        ("aiTokenLimitType", 6),
    ];
    for (kind, count) in kinds {
        let path = format!("/shenyu-dict/all/{kind}");
        let entries = fixture.expect("GET", &path, &Value::Null, "query success").await;
        assert_eq!(entries.as_array().map(Vec::len), Some(count), "{kind}: {entries}");
    }
    let path = "/shenyu-dict/all/saslMechanism";
    let mechanisms = fixture.expect("GET", path, &Value::Null, "query success").await;
    let shown =
        |at: usize| (mechanisms[at]["dictName"].clone(), mechanisms[at]["dictValue"].clone());
    assert_eq!(shown(0), (json!("default"), json!("")));
    assert_eq!(shown(5), (json!("SCRAM-SHA-512"), json!("SCRAM-SHA-512")));
    let path = "/shenyu-dict/all/flowRuleGrade";
    let grades = fixture.expect("GET", path, &Value::Null, "query success").await;
    assert_eq!((&grades[0]["dictName"], &grades[0]["dictValue"]), (&json!("QPS"), &json!("1")));
}

#[tokio::test]
async fn users_without_the_role_read_what_is_no_secret_and_write_nothing() {
    let mut fixture = Fixture::new().await;
    let user = json!({"userName": "viewer", "password": "secret1", "roles": [], "enabled": true});
    fixture.expect("POST", "/dashboardUser", &user, "create success").await;
    let superior = std::mem::take(&mut fixture.token);
    fixture.token = fixture.log_in("viewer", "secret1").await.expect("the new user");
    fixture.expect("GET", "/selector", &Value::Null, "query success").await;
    for (method, path) in [
        ("GET", "/dashboardUser"),
        ("GET", "/appAuth/findPageByQuery"),
        ("POST", "/selector"),
        ("DELETE", "/selector/batch"),
        ("POST", "/shenyu-client/register-uri"),
        ("PUT", "/dashboardUser/1"),
        ("GET", "/configs/fetch?groupKeys=APP_AUTH"),
    ] {
        let answer = fixture.call(method, path, &json!({"ids": ["1"]})).await;
        assert_eq!(answer["code"], 601, "{method} {path}: {answer}");
    }
    // The token of a disabled user is no longer valid.
    let list = {
        let viewer = std::mem::replace(&mut fixture.token, superior);
        let list =
            fixture.expect("GET", "/dashboardUser?userName=viewer", &Value::Null, "query success");
        let id = list.await["dataList"][0]["id"].as_str().expect("an id").to_owned();
        let off = json!({"userName": "viewer", "enabled": false, "roles": []});
        fixture.expect("PUT", &format!("/dashboardUser/{id}"), &off, "update success").await;
        viewer
    };
    fixture.token = list;
    assert_eq!(fixture.call("GET", "/selector", &Value::Null).await["code"], 600);
}

#[tokio::test]
async fn a_websocket_is_asked_for_by_both_headers() {
    let store = tollhouse_store::open(&Location::Memory).expect("memory");
    let admin = ShenyuAdmin::open(store, options()).await.expect("it opens");
    for (connection, is_asked) in
        [(None, false), (Some("close"), false), (Some("close, upgrade"), true)]
    {
        let mut request = Request::builder()
            .uri("/websocket")
            .header("Upgrade", "websocket")
            .header("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ==");
        if let Some(connection) = connection {
            request = request.header("Connection", connection);
        }
        let request = request.body(Body::empty()).expect("a request");
        let answer = api::answer(admin.clone(), request).await;
        // Accepted up to the missing connection, or refused in ShenYu's wrapper.
        assert_eq!(answer.status().as_u16(), if is_asked { 400 } else { 200 }, "{connection:?}");
    }
}

#[tokio::test]
async fn gateways_without_the_token_do_not_follow() {
    let fixture = Fixture::new().await;
    for (token, status) in
        [(None, 401), (Some(""), 401), (Some("sesam"), 401), (Some("sesame"), 400)]
    {
        let mut request = Request::builder()
            .uri("/websocket")
            .header("Upgrade", "websocket")
            .header("Connection", "Upgrade")
            .header("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ==");
        if let Some(token) = token {
            request = request.header("X-Shenyu-Sync-Token", token);
        }
        let request = request.body(Body::empty()).expect("a request");
        // With the right token, the call is accepted up to the missing connection.
        let answer = api::answer(fixture.admin.clone(), request).await;
        assert_eq!(answer.status(), status, "{token:?}");
    }
}

#[tokio::test]
async fn another_admin_over_the_same_store_begins_with_what_is_there() {
    let fixture = Fixture::new().await;
    let (selector, _) = fixture.pair().await;
    fixture.expect("DELETE", "/plugin/batch", &json!(["2"]), "delete success").await;
    let second = Fixture::over(Arc::clone(&fixture.store)).await;
    second.expect("GET", &format!("/selector/{selector}"), &Value::Null, "detail success").await;
    assert_eq!(
        second.call("GET", "/plugin/2", &Value::Null).await["code"],
        500,
        "deleted stays so"
    );
    // A token of the first admin is valid at the second one.
    let mut third = second;
    third.token.clone_from(&fixture.token);
    third.expect("GET", "/selector", &Value::Null, "query success").await;
}

#[tokio::test]
async fn registration_from_five_client_dialects_comes_to_the_same() {
    let dialects = [
        // Java's client.
        json!({"appName": "a", "contextPath": "/a", "rpcType": "http", "host": "10.0.0.1", "port": 8080, "protocol": "http://",
            "eventType": "REGISTER"}),
        // Go's client sends texts only.
        json!({"appName": "a", "contextPath": "/a", "rpcType": "http", "host": "10.0.0.2", "port": "8080", "protocol": "http",
            "namespaceId": NAMESPACE}),
        // Python's client sends no protocol.
        json!({"appName": "a", "contextPath": "a", "rpcType": "http", "host": "10.0.0.3", "port": 8080}),
        // Rust's client.
        json!({"appName": "a", "contextPath": "/a", "rpcType": "http", "host": "10.0.0.4", "port": 8080, "protocol": "http",
            "registerMetaData": ""}),
        // .NET's client.
        json!({"appName": "a", "contextPath": "/a/", "rpcType": "http", "host": "10.0.0.5", "port": 8080, "protocol": "http://"}),
    ];
    let fixture = Fixture::new().await;
    for body in &dialects {
        let answer = fixture.call("POST", "/shenyu-client/register-uri", body).await;
        assert_eq!(answer, "success", "{body}");
    }
    let list = fixture.expect("GET", "/selector?name=a", &Value::Null, "query success").await;
    assert_eq!(list["page"]["totalCount"], 1, "one service: {list}");
    let upstreams = list["dataList"][0]["discoveryUpstreams"].as_array().expect("a list");
    let urls: Vec<_> = upstreams.iter().map(|it| it["url"].as_str().unwrap_or_default()).collect();
    let expected: Vec<String> = (1..=5).map(|host| format!("10.0.0.{host}:8080")).collect();
    assert_eq!(urls, expected);
    assert!(upstreams.iter().all(|it| it["protocol"] == "http://"), "{upstreams:?}");
}

#[tokio::test]
async fn events_that_shenyu_does_not_have_are_refused_and_change_nothing() {
    let fixture = Fixture::new().await;
    let registration = |event: Value| {
        json!({"appName": "a", "contextPath": "/a", "rpcType": "http", "host": "10.0.0.1", "port": 8080,
            "protocol": "http://", "eventType": event})
    };
    let nodes = async || {
        let list = fixture.expect("GET", "/selector?name=a", &Value::Null, "query success").await;
        list["dataList"][0]["discoveryUpstreams"].as_array().map_or(0, Vec::len)
    };
    for (event, expected) in [
        (json!("REGISTER"), 1),
        (json!("OFFLINE"), 0),
        (json!("UPDATED"), 1),
        (json!("DELETED"), 0),
        (json!("IGNORED"), 0),
        (json!("HEARTBEAT"), 1),
        (json!(""), 1),
        (Value::Null, 1),
    ] {
        let body = registration(event);
        let answer = fixture.call("POST", "/shenyu-client/register-uri", &body).await;
        assert_eq!((answer, nodes().await), (json!("success"), expected), "{body}");
    }
    for event in ["OFF", "offline", "GONE"] {
        let body = registration(json!(event));
        let answer = fixture.call("POST", "/shenyu-client/register-uri", &body).await;
        let message = answer["message"].as_str().unwrap_or_default();
        assert!(message.contains("[eventType: must be one of REGISTER"), "{event}: {answer}");
        assert_eq!((&answer["code"], nodes().await), (&json!(500), 1), "{event}");
    }
}

#[tokio::test]
async fn pages_of_the_console_ask_for_no_token() {
    let mut fixture = Fixture::new().await;
    fixture.token.clear();
    for path in [
        "/",
        "/index",
        "/index.html",
        "/favicon.ico",
        "/static/js/app.js",
        "/actuator/prometheus",
        "/swagger-ui.html",
        "/webjars/a.js",
        "/v2/api-docs",
        "/swagger-resources/configuration/ui",
        "/csrf",
        "/error",
    ] {
        let (status, text) = fixture.send("GET", path, "application/json", String::new()).await;
        assert_eq!(status, 200, "{path}: {text}");
        assert_eq!(text.contains("\"code\":200"), path.len() < 2 || path.starts_with("/index"));
    }
    for path in ["/favicons", "/statics/a", "/index/selector", "/selector", "/actuator", "/v2"] {
        let (status, text) = fixture.send("GET", path, "application/json", String::new()).await;
        assert_eq!(status, 401, "{path}: {text}");
    }
}

#[tokio::test]
async fn a_service_of_spring_cloud_is_known_by_all_paths_below_its_own() {
    let fixture = Fixture::new().await;
    let method = json!({"appName": "pay", "contextPath": "/pay", "path": "/pay/charge", "rpcType": "springCloud",
        "ruleName": "/pay/charge", "enabled": true});
    assert_eq!(fixture.call("POST", "/shenyu-client/register-metadata", &method).await, "success");
    let metadata = fixture.expect("GET", "/meta-data/findAll", &Value::Null, "query success").await;
    assert_eq!(
        (&metadata[0]["path"], &metadata[0]["rpcType"]),
        (&json!("/pay/**"), &json!("springCloud"))
    );
}

#[tokio::test]
async fn a_method_becomes_selectors_rules_and_metadata_once() {
    let fixture = Fixture::new().await;
    let method = json!({"appName": "order", "contextPath": "/order", "path": "/order/{id}/items", "rpcType": "http",
        "ruleName": "/order/{id}/items", "registerMetaData": true, "serviceName": "Items", "methodName": "list"});
    for _ in 0..2 {
        assert_eq!(
            fixture.call("POST", "/shenyu-client/register-metadata", &method).await,
            "success"
        );
    }
    let selectors = |plugin: &str| format!("/selector?pluginId={plugin}");
    for (plugin, handle) in [("5", "loadBalance"), ("14", "contextPath")] {
        let list = fixture.expect("GET", &selectors(plugin), &Value::Null, "query success").await;
        assert_eq!(list["page"]["totalCount"], 1, "{list}");
        assert_eq!(list["dataList"][0]["name"], "/order");
        let condition = &list["dataList"][0]["selectorConditions"][0];
        assert_eq!(
            (&condition["operator"], &condition["paramValue"]),
            (&json!("startsWith"), &json!("/order/"))
        );
        let id = list["dataList"][0]["id"].as_str().expect("an id");
        let rules = fixture
            .expect("GET", &format!("/rule?selectorId={id}"), &Value::Null, "query success")
            .await;
        assert_eq!(rules["page"]["totalCount"], 1);
        assert!(rules["dataList"][0]["handle"].as_str().is_some_and(|it| it.contains(handle)));
    }
    let metadata = fixture.expect("GET", "/meta-data/findAll", &Value::Null, "query success").await;
    assert_eq!(metadata.as_array().map(Vec::len), Some(1));
    assert_eq!(metadata[0]["serviceName"], "Items");
}

#[tokio::test]
async fn hostile_registrations_are_refused_in_shenyus_shape() {
    let fixture = Fixture::new().await;
    for body in [
        json!(null),
        json!("x"),
        json!([]),
        json!({}),
        json!({"contextPath": "/", "host": "a", "port": 1}),
        json!({"contextPath": "/a", "host": "a", "port": 0}),
        json!({"contextPath": "/a", "host": "a", "port": 65536}),
        json!({"contextPath": "/a", "port": 1}),
        json!({"contextPath": "/a", "host": "a", "port": 1, "rpcType": "none"}),
    ] {
        let answer = fixture.call("POST", "/shenyu-client/register-uri", &body).await;
        assert_eq!(answer["code"], 500, "{body}: {answer}");
    }
    assert_eq!(fixture.call("POST", "/shenyu-client/nothing", &json!({})).await["code"], 404);
}

#[tokio::test]
async fn the_log_of_operations_outlives_the_process_and_is_bounded() {
    let store = tollhouse_store::open(&Location::Memory).expect("memory");
    let first = Fixture::over(Arc::clone(&store)).await;
    first.pair().await;
    let second = Fixture::over(Arc::clone(&store)).await;
    let list = "/operation-record/log/list";
    let recent = second.expect("GET", list, &Value::Null, "query success").await;
    let kinds: Vec<&str> = recent
        .as_array()
        .expect("a list")
        .iter()
        .filter_map(|it| it["operationType"].as_str())
        .collect();
    assert_eq!(kinds, ["RULE_CREATE", "SELECTOR_CREATE"]);
    assert_eq!(
        (&recent[0]["operator"], &recent[0]["context"]),
        (&json!("admin"), &json!("POST /rule"))
    );
    let way = crate::records::Interface::Admin;
    let author = crate::records::Author::new("x", way, &axum::http::Method::PUT, &["plugin", "1"]);
    let record = author.record(None);
    for at in 0..520 {
        let mut record = record.clone();
        record.insert("id".to_owned(), format!("9{at:018}").into());
        let put = move |draft: &mut crate::draft::Draft<'_>| {
            crate::records::put(draft, record.clone());
            crate::answer::success("", Value::Null)
        };
        second.admin.book.write(put).await.expect("it is written");
    }
    let kept = store.list("/shenyu/record/").await.expect("it answers").entries;
    assert_eq!(kept.len(), 500);
    let clean = "/operation-record/log/clean/9999-01-01%2000:00:00";
    assert_eq!(second.expect("DELETE", clean, &Value::Null, "delete success").await, 500);
    let kept = store.list("/shenyu/record/").await.expect("it answers").entries;
    assert_eq!(kept.len(), 1, "that it was cleaned is a change too");
}
