//! The API from outside: a registry in memory, a listener, and requests as bytes.

mod config;
mod contracts;
mod grants;
mod identity;
mod lists;
mod maintain;
mod records;

use super::*;
use crate::access::{Account, Gate};
use crate::dialect::{Caller, ChangeSink, Dialect, TokenReads};
use crate::v1;
use prost::Message;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tollhouse_registry::{Keeper, Options};
use tollhouse_web::{Listener, until_stopped};

/// A server that ends with the test.
struct Server {
    address: std::net::SocketAddr,
    dialect: Dialect,
    changes: Arc<records::Kept>,
    token_reads: Arc<records::Reads>,
    connections: crate::grpc::Connections,
    _stop: tokio::sync::watch::Sender<bool>,
}

/// What came back.
struct Answer {
    status: u16,
    head: String,
    text: String,
}

impl Answer {
    fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|_| panic!("no JSON: {}", self.text))
    }

    fn code(&self) -> u64 {
        self.json()["code"].as_u64().unwrap_or(0)
    }

    fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| {
            let (key, value) = line.split_once(':')?;
            key.eq_ignore_ascii_case(name).then(|| value.trim())
        })
    }
}

const TOKEN: &str = "x-polaris-token: secret\r\n";

impl Server {
    async fn start() -> Self {
        Self::start_with(Gate::Locked, Gate::Open).await
    }

    async fn start_with(console: Gate, client: Gate) -> Self {
        Self::start_whole(console, client, Vec::new()).await
    }

    async fn start_at(networks: Vec<crate::NetworkLocation>) -> Self {
        Self::start_whole(Gate::Locked, Gate::Open, networks).await
    }

    async fn start_whole(
        console: Gate,
        client: Gate,
        networks: Vec<crate::NetworkLocation>,
    ) -> Self {
        let store = tollhouse_store::open(&tollhouse_store::Location::Memory).expect("memory");
        let (keeper, registry) = Keeper::open(store, Options::default()).await.expect("empty");
        tokio::spawn(keeper.run(std::future::pending()));
        let [name, password, token] = ["polaris", "polaris", "secret"].map(str::to_owned);
        let account = Account { name, password, token };
        let access = Access::new(console, client, account, "client".to_owned());
        let access = Arc::new(access);
        let changes: Arc<records::Kept> = Arc::default();
        let dialect = Dialect::new(registry, Arc::clone(&access));
        let dialect = dialect.with_locations(crate::Locations::new(networks));
        let dialect = dialect.with_changes(Arc::clone(&changes) as Arc<dyn ChangeSink>);
        let token_reads: Arc<records::Reads> = Arc::default();
        let dialect = dialect.with_token_reads(Arc::clone(&token_reads) as Arc<dyn TokenReads>);
        let metrics = Arc::new(|| "up 1\n".to_owned());
        let api = HttpApi::new(dialect.clone(), access, metrics, Capacity::default());
        let api = api.with_hosts(HostNames::new(&["registry.example.org".to_owned()]));
        let api = api.with_log(Arc::new(maintain::TestLog::default()));
        let connections = crate::grpc::Connections::default();
        let api = api.with_connections(connections.clone());
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("bound");
        let (stop, stopped) = tokio::sync::watch::channel(false);
        let listener = Listener { socket: listener, tls: None, limits: limits(1_000) };
        tokio::spawn(tollhouse_web::serve(listener, router(api), until_stopped(stopped)));
        Self { address, dialect, changes, token_reads, connections, _stop: stop }
    }

    async fn send(&self, method: &str, path: &str, headers: &str, body: &str) -> Answer {
        self.send_to("x", method, path, headers, body).await
    }

    async fn send_to(
        &self,
        host: &str,
        method: &str,
        path: &str,
        headers: &str,
        body: &str,
    ) -> Answer {
        let mut stream = TcpStream::connect(self.address).await.expect("listening");
        let request = format!(
            "{method} {path} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n{headers}\
             content-length: {}\r\n\r\n{body}",
            body.len()
        );
        stream.write_all(request.as_bytes()).await.expect("taken");
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes).await.expect("answered");
        // An archive is no text; its head is.
        let text = String::from_utf8_lossy(&bytes);
        let (head, text) = text.split_once("\r\n\r\n").expect("a head");
        let status = head[9..12].parse().expect("a status");
        Answer { status, head: head.to_owned(), text: text.to_owned() }
    }

    async fn client(&self, call: &str, body: &Value) -> Answer {
        let headers = "content-type: application/json\r\n";
        self.send("POST", &format!("/v1/{call}"), headers, &body.to_string()).await
    }

    async fn write(&self, method: &str, path: &str, body: &Value) -> Answer {
        let headers = format!("content-type: application/json\r\n{TOKEN}");
        self.send(method, path, &headers, &body.to_string()).await
    }

    async fn post(&self, path: &str, body: &Value) -> Answer {
        self.write("POST", path, body).await
    }

    async fn get(&self, path: &str) -> Answer {
        self.send("GET", path, TOKEN, "").await
    }
}

fn instance(service: &str, host: &str) -> Value {
    json!({"service": service, "namespace": "ns", "host": host, "port": "8080"})
}

#[tokio::test]
async fn clients_register_beat_discover_and_leave() {
    let server = Server::start().await;
    let body = json!({
        "service": "svc-a", "namespace": "ns-auto", "host": "127.0.0.1", "port": "8080",
        "health_check": {"type": 1, "heartbeat": {"ttl": 3}}, "ctime": "whenever",
    });
    let registered = server.client("RegisterInstance", &body).await;
    assert_eq!((registered.status, registered.code()), (200, 200_000), "{}", registered.text);
    assert_eq!(registered.header("content-type"), Some("text/plain; charset=utf-8"));
    assert_eq!(registered.header("x-polaris-code"), None);
    let id = "c83801b575d0ed329fb95c1d38944df9006b4f82";
    assert_eq!(registered.json()["instance"]["id"], id);

    assert_eq!(server.client("Heartbeat", &json!({"id": id})).await.code(), 200_000);
    let question =
        json!({"type": "INSTANCE", "service": {"name": "svc-a", "namespace": "ns-auto"}});
    let discovered = server.client("Discover", &question).await.json();
    assert_eq!(discovered["code"], 200_000);
    assert_eq!(discovered["type"], "INSTANCE");
    assert_eq!(discovered["service"]["name"], "svc-a");
    let found = &discovered["instances"][0];
    assert_eq!((&found["id"], &found["weight"]), (&json!(id), &json!(100)));
    assert_eq!(found["healthCheck"], json!({"type": "HEARTBEAT", "heartbeat": {"ttl": 3}}));

    assert_eq!(server.client("DeregisterInstance", &json!({"id": id})).await.code(), 200_000);
    let discovered = server.client("Discover", &question).await.json();
    assert_eq!(discovered["instances"], json!([]));
    let client = server.client("ReportClient", &json!({"host": "h", "type": "SDK"})).await;
    assert_eq!(client.json()["client"]["host"], "h");
}

#[tokio::test]
async fn what_is_no_call_has_its_status() {
    let server = Server::start().await;
    let json_type = "content-type: application/json\r\n";
    let bad = server.send("POST", "/v1/Heartbeat", json_type, "{bad").await;
    assert_eq!((bad.status, bad.code()), (400, 400_001));
    assert_eq!(bad.header("x-polaris-code"), Some("400001"));
    assert_eq!(bad.header("x-polaris-message"), Some("request decode failed"));
    let no_type = server.send("POST", "/v1/Heartbeat", "", "{}").await;
    assert_eq!(no_type.status, 415);
    let plain = server.send("POST", "/v1/Heartbeat", "content-type: text/plain\r\n", "{}").await;
    assert_eq!(plain.status, 415);
    let empty_id = server.client("Heartbeat", &json!({"id": ""})).await;
    assert_eq!((empty_id.status, empty_id.code()), (400, 400_130));
    assert_eq!(server.get("/nothing/here").await.status, 404);
    assert_eq!(server.get("/v1/Heartbeat").await.status, 405);
}

#[tokio::test]
async fn questions_are_answered_by_type_and_filter() {
    let server = Server::start().await;
    let service = json!({"name": "s", "namespace": "ns"});
    for (question, code, shown) in [
        (json!({"type": 999, "service": service}), 400_004, json!(999)),
        (json!({"service": service}), 400_004, json!("UNKNOWN")),
        (json!({"type": "LANE"}), 400_002, json!("LANE")),
        (json!({"type": "INSTANCE", "service": service}), 400_202, json!("INSTANCE")),
        (json!({"type": "NOT_THERE", "service": service}), 400_004, json!("UNKNOWN")),
    ] {
        let answer = server.client("Discover", &question).await;
        assert_eq!((answer.status, answer.code()), (400, code), "{question}");
        assert_eq!(answer.json()["type"], shown, "{question}");
    }

    let mut ill = instance("s", "ill");
    ill["healthy"] = json!(false);
    server.client("RegisterInstance", &ill).await;
    server.client("RegisterInstance", &instance("s", "well")).await;
    for (filter, amount) in [(json!(null), 2), (json!({"OnlyHealthyInstance": true}), 1)] {
        let question = json!({"type": "INSTANCE", "service": service, "Filter": filter});
        let found = server.client("Discover", &question).await.json();
        assert_eq!(found["instances"].as_array().map(Vec::len), Some(amount), "{filter}");
    }
    let revision = server.client("Discover", &json!({"type": 1, "service": service})).await.json()
        ["service"]["revision"]
        .clone();
    let again =
        json!({"type": 1, "service": {"name": "s", "namespace": "ns", "revision": revision}});
    let unchanged = server.client("Discover", &again).await;
    assert_eq!((unchanged.status, unchanged.code()), (200, 200_001));
    assert_eq!(unchanged.header("x-polaris-code"), Some("200001"));
    assert_eq!(unchanged.json()["instances"], json!([]));
}

#[tokio::test]
async fn the_root_and_the_metrics_answer_anybody() {
    let server = Server::start().await;
    let root = server.send("GET", "/", "request-id: r-1\r\n", "").await;
    assert_eq!((root.status, &*root.text), (200, "tollhouse registry"));
    assert_eq!(root.header("request-id"), Some("r-1"));
    let metrics = server.send("GET", "/metrics", "", "").await;
    assert_eq!((metrics.status, &*metrics.text), (200, "up 1\n"));
    let functions = server.send("GET", "/maintain/v1/server/functions", "", "").await;
    assert_eq!(functions.status, 200);
    assert!(functions.json().as_array().is_some_and(|groups| groups.len() > 5));
}

#[tokio::test]
async fn no_website_makes_calls_of_clients() {
    let server = Server::start().await;
    let json = "content-type: application/json\r\n";
    let body = instance("s", "10.0.0.1").to_string();
    let same = "origin: http://evil.example:8090\r\n";
    for (host, more, status) in [
        ("evil.example:8090", "", 403),
        ("evil.example:8090", same, 403),
        ("evil.example:8090", "x-polaris-token: guessed\r\n", 403),
        ("evil.example:8090", "x-polaris-token: \r\n", 403),
        ("127.0.0.1:8090", "origin: https://evil.example\r\n", 403),
        ("127.0.0.1:8090", "origin: null\r\n", 403),
        ("evil.example:8090", "x-polaris-token: client\r\n", 200),
        ("evil.example:8090", TOKEN, 200),
        ("registry.example.org", "", 200),
        ("127.0.0.1:8090", "origin: http://127.0.0.1:8090\r\n", 200),
        ("polaris.svc.cluster.local:8090", "", 200),
        ("registry", "", 200),
    ] {
        let headers = format!("{json}{more}");
        let answer = server.send_to(host, "POST", "/v1/RegisterInstance", &headers, &body).await;
        assert_eq!(answer.status, status, "{host} {more}: {}", answer.text);
        assert_eq!(answer.text.contains("listen.hosts"), status == 403, "{}", answer.text);
    }
    // A console passes on the origin of its own pages when somebody logs in.
    let login = json!({"name": "polaris", "password": "polaris"}).to_string();
    for (host, origin, status) in [
        ("127.0.0.1:8090", "http://127.0.0.1:8080", 200),
        ("127.0.0.1:8090", "http://registry.example.org", 200),
        ("127.0.0.1:8090", "https://evil.example", 403),
        ("127.0.0.1:8090", "null", 403),
        ("evil.example", "http://127.0.0.1:8080", 403),
    ] {
        let headers = format!("{json}origin: {origin}\r\n");
        let answer = server.send_to(host, "POST", "/core/v1/user/login", &headers, &login).await;
        assert_eq!(answer.status, status, "{host} {origin}: {}", answer.text);
    }
    for path in ["/metrics", "/", "/prometheus/v1/clients", "/naming/v1/services"] {
        assert_eq!(server.send_to("evil.example", "GET", path, "", "").await.status, 403, "{path}");
    }
}

#[tokio::test]
async fn the_console_needs_the_token_of_a_login() {
    let server = Server::start().await;
    for headers in ["", "x-polaris-token: wrong\r\n"] {
        let refused = server.send("GET", "/naming/v1/services", headers, "").await;
        assert_eq!((refused.status, refused.code()), (401, 401_001));
    }
    let headers = "content-type: application/json\r\n";
    let refused = server.send("POST", "/naming/v1/services", headers, "[{}]").await;
    assert_eq!((refused.status, refused.code()), (401, 401_001));

    let log_in = |password| json!({"name": "polaris", "password": password}).to_string();
    // A console asks before the log-in.
    let before = server.send("GET", "/core/v1/auth/status", "", "").await;
    assert_eq!(before.json()["optionSwitch"]["options"]["consoleOpen"], "true", "{}", before.text);
    let wrong = server.send("POST", "/core/v1/user/login", headers, &log_in("x")).await;
    assert_eq!((wrong.status, wrong.code()), (401, 401_001));
    let right = server.send("POST", "/core/v1/user/login", headers, &log_in("polaris")).await;
    assert_eq!(right.json()["loginResponse"]["token"], "secret");
    let listed = server.get("/naming/v1/services").await;
    assert_eq!((listed.status, listed.code()), (200, 200_000));
    assert_eq!(listed.json()["services"], json!([]));
}

#[tokio::test]
async fn a_list_is_done_whole_or_not_at_all() {
    let server = Server::start().await;
    let path = "/naming/v1/instances";
    let mixed = json!([instance("a", "h1"), {"service": "a", "namespace": "ns", "host": "h2"}]);
    let refused = server.post(path, &mixed).await;
    assert_eq!((refused.status, refused.code()), (400, 400_132));
    let answers = refused.json()["responses"].clone();
    assert_eq!(answers.as_array().map(Vec::len), Some(1), "only what is wrong is listed");
    assert_eq!(answers[0]["instance"]["host"], "h2");
    let listed = server.get("/naming/v1/instances?namespace=ns").await;
    assert_eq!(listed.json()["amount"], 0);

    assert_eq!(server.post(path, &json!([])).await.code(), 400_002);
    let many: Vec<Value> = (0..101).map(|n| instance("a", &format!("h{n}"))).collect();
    assert_eq!(server.post(path, &json!(many)).await.code(), 400_003);
    let created = server.post(path, &json!(many[..100])).await;
    assert_eq!((created.status, created.code()), (200, 200_000), "{}", created.text);
    assert_eq!(created.json()["size"], 100);
    let again = server.post(path, &json!(many[..1])).await;
    assert_eq!((again.status, again.code()), (200, 200_000), "it is replaced, as by a client");
    assert_eq!(server.post(path, &json!({"service": "a"})).await.code(), 400_001);
}

/// Gives an instance a version, a priority and a place.
fn place(instance: &mut Value) {
    instance["version"] = json!("1.0");
    instance["priority"] = json!(3);
    instance["location"] = json!({"region": "r1", "zone": "z1", "campus": "c1"});
}

#[tokio::test]
async fn instances_are_filtered_paged_edited_and_isolated() {
    let server = Server::start().await;
    let mut first = instance("a", "h1");
    first["metadata"] = json!({"env": "gray", "zone": "z"});
    place(&mut first);
    let all = json!([first, instance("a", "h2"), instance("b", "h3")]);
    assert_eq!(server.post("/naming/v1/instances", &all).await.code(), 200_000);

    let cases = [
        ("namespace=ns", 3),
        ("namespace=ns&service=a", 2),
        ("service=a*", 2),
        ("service=missing&namespace=ns", 0),
        ("host=h1,h3", 2),
        ("port=8080", 3),
        ("port=1", 0),
        ("version=1.0", 1),
        ("keys=env&values=gray", 1),
        ("healthy=true", 3),
        ("health_status=true", 3),
        ("health_status=false", 0),
        ("cmdb_region=r1", 1),
        ("cmdb_zone=z2", 0),
        ("cmdb_idc=c*", 1),
        ("priority=3", 1),
        ("isolate=true", 0),
        ("weight=100", 3),
        ("host=h1&lang=en", 1),
        ("offset=0&limit=5", 3),
    ];
    for (query, amount) in cases {
        let found = server.get(&format!("/naming/v1/instances?{query}")).await.json();
        assert_eq!(found["amount"], amount, "{query}");
        assert_eq!(found["instances"].as_array().map(Vec::len), Some(amount), "{query}");
    }
    let page = server.get("/naming/v1/instances?namespace=ns&offset=2&limit=5").await.json();
    assert_eq!((&page["amount"], &page["size"]), (&json!(3), &json!(1)));
    for (query, code) in [
        ("", 400_104),
        ("?colour=red", 400_103),
        ("?host=h1&keys=a", 400_105),
        ("?host=h1&offset=-1", 400_103),
    ] {
        let refused = server.get(&format!("/naming/v1/instances{query}")).await;
        assert_eq!((refused.status, refused.code()), (400, code), "{query}");
    }
    let shown = server.get("/naming/v1/instances?host=h1").await.json();
    let labels = &shown["instances"][0]["metadata"];
    assert_eq!(labels, &json!({"env": "gray", "zone": "z"}), "the owner's labels only");

    let edit =
        json!([{"service": "a", "namespace": "ns", "host": "h1", "port": 8080, "weight": 7}]);
    assert_eq!(server.write("PUT", "/naming/v1/instances", &edit).await.code(), 200_000);
    let unchanged = server.write("PUT", "/naming/v1/instances", &edit).await;
    assert_eq!((unchanged.status, unchanged.code()), (200, 200_002));
    let isolate = json!([{"service": "a", "namespace": "ns", "host": "h1", "isolate": true}]);
    let path = "/naming/v1/instances/isolate/host";
    assert_eq!(server.write("PUT", path, &isolate).await.code(), 200_000);
    assert_eq!(server.write("PUT", path, &isolate).await.code(), 200_002);
    let shown = server.get("/naming/v1/instances?host=h1").await.json()["instances"][0].clone();
    assert_eq!((&shown["weight"], &shown["isolate"]), (&json!(7), &json!(true)));
    let no_flag = json!([{"service": "a", "namespace": "ns", "host": "h1"}]);
    assert_eq!(server.write("PUT", path, &no_flag).await.code(), 400_139);

    assert_eq!(server.get("/naming/v1/instances/count").await.json()["amount"], 3);
    let host = json!([{"service": "a", "namespace": "ns", "host": "h1"}]);
    assert_eq!(server.post("/naming/v1/instances/delete/host", &host).await.code(), 200_000);
    let gone = json!([{"service": "b", "namespace": "ns", "host": "h3", "port": 8080}]);
    assert_eq!(server.post("/naming/v1/instances/delete", &gone).await.code(), 200_000);
    assert_eq!(
        server.post("/naming/v1/instances/delete", &json!([{"id": ""}])).await.code(),
        400_130
    );
    assert_eq!(server.get("/naming/v1/instances/count").await.json()["amount"], 1);
}

#[tokio::test]
async fn labels_are_listed_with_version_protocol_and_place() {
    let server = Server::start().await;
    let mut instance = instance("a", "h1");
    instance["metadata"] = json!({"env": "gray", "zone": "z"});
    place(&mut instance);
    assert_eq!(server.post("/naming/v1/instances", &json!([instance])).await.code(), 200_000);
    let labels = server.get("/naming/v1/instances/labels?service=a&namespace=ns").await.json();
    let labels = &labels["instanceLabels"]["labels"];
    for (key, values) in [
        ("env", json!(["gray"])),
        ("version", json!(["1.0"])),
        ("region", json!(["r1"])),
        ("zone", json!(["z", "z1"])),
        ("campus", json!(["c1"])),
    ] {
        assert_eq!(labels[key]["values"], values, "{key}");
    }
}

#[tokio::test]
async fn services_and_namespaces_have_a_life_of_their_own() {
    let server = Server::start().await;
    let service = json!([{"name": "s", "namespace": "ns", "business": "shop", "cmdb_mod1": "m",
                          "platform_id": "p", "metadata": {"team": "a"}}]);
    let created = server.post("/naming/v1/services", &service).await;
    assert_eq!(created.code(), 200_000, "{}", created.text);
    let token = created.json()["responses"][0]["service"]["token"].clone();
    assert_eq!(token.as_str().map(str::len), Some(32));
    assert_eq!(server.post("/naming/v1/services", &service).await.code(), 400_201);
    let bad =
        server.post("/naming/v1/services", &json!([{"name": "s p", "namespace": "ns"}])).await;
    assert_eq!(bad.code(), 400_120);

    server.post("/naming/v1/instances", &json!([instance("s", "h")])).await;
    for (query, amount) in [
        ("", 1),
        ("?name=s&namespace=ns", 1),
        ("?business=sh*", 1),
        ("?cmdb_mod1=m&platform_id=p", 1),
        ("?cmdb_mod2=m", 0),
        ("/count?cmdb_mod1=m", 1),
        ("/count?cmdb_mod3=m", 0),
        ("?keys=team&values=a", 1),
        ("?keys=team&values=b", 0),
        ("?host=h&port=8080", 1),
        ("?port=1", 0),
        ("?only_exist_health_instance=true", 1),
    ] {
        let found = server.get(&format!("/naming/v1/services{query}")).await.json();
        assert_eq!(found["amount"], amount, "{query}");
    }
    for path in ["/naming/v1/services", "/naming/v1/services/all"] {
        let shown = server.get(path).await.json()["services"][0].clone();
        assert_eq!((&shown["total_instance_count"], &shown["token"]), (&json!(1), &Value::Null));
        assert_eq!(shown["metadata"]["team"], "a", "{path}: {shown}");
    }
    let refused = server.post("/naming/v1/services/delete", &service).await;
    assert_eq!((refused.status, refused.code()), (400, 400_204));

    let edit = json!([{"name": "s", "namespace": "ns", "comment": "now with one"}]);
    assert_eq!(server.write("PUT", "/naming/v1/services", &edit).await.code(), 200_000);
    let unchanged = server.write("PUT", "/naming/v1/services", &edit).await;
    assert_eq!((unchanged.status, unchanged.code()), (200, 200_002));
    let shown = server.get("/naming/v1/services?name=s").await.json()["services"][0].clone();
    assert_eq!((&shown["business"], &shown["comment"]), (&json!("shop"), &json!("now with one")));
    let read = server.get("/naming/v1/service/token?name=s&namespace=ns").await.json();
    assert_eq!(read["service"]["token"], token);

    let namespaces = server.get("/core/v1/namespaces?name=ns").await.json();
    assert_eq!(namespaces["namespaces"][0]["total_service_count"], 1);
    let ns = json!([{"name": "ns"}]);
    assert_eq!(server.post("/core/v1/namespaces/delete", &ns).await.code(), 400_203);
    server.post("/naming/v1/instances/delete", &json!([instance("s", "h")])).await;
    assert_eq!(server.post("/naming/v1/services/delete", &service).await.code(), 200_000);
    assert_eq!(server.post("/naming/v1/services/delete", &service).await.code(), 200_000);
    assert_eq!(server.post("/naming/v1/namespaces/delete", &ns).await.code(), 200_000);
    assert_eq!(server.post("/core/v1/namespaces", &ns).await.code(), 200_000);
    assert_eq!(server.post("/core/v1/namespaces", &ns).await.code(), 400_201);
}

#[tokio::test]
async fn namespaces_of_a_list_stand_for_themselves() {
    let server = Server::start().await;
    server.client("RegisterInstance", &instance("s", "h")).await;
    let list = json!([{"name": "ns"}, {"name": "free"}]);
    server.post("/naming/v1/namespaces", &json!([{"name": "free"}])).await;
    let deleted = server.post("/naming/v1/namespaces/delete", &list).await;
    assert_eq!((deleted.status, deleted.code()), (400, 400_203), "{}", deleted.text);
    let responses = &deleted.json()["responses"];
    assert_eq!((&responses[0]["code"], &responses[1]["code"]), (&json!(400_203), &json!(200_000)));
    let left = server.get("/naming/v1/namespaces?name=ns&name=free&name=default").await.json();
    let names: Vec<_> = left["namespaces"].as_array().expect("a list").iter().collect();
    assert_eq!(left["amount"], 2, "{names:?}");
    let bad = json!([{"name": "+$#@+"}, {"name": "good"}]);
    let created = server.post("/naming/v1/namespaces", &bad).await;
    assert_eq!((created.code(), created.json()["size"].as_u64()), (400_110, Some(2)));
    assert_eq!(server.get("/naming/v1/namespaces?name=good").await.json()["amount"], 1);
}

#[tokio::test]
async fn what_is_wrong_is_told_in_the_language_that_is_asked_for() {
    let server = Server::start().await;
    let bad = json!([{"name": "+$#@+"}]);
    let headers = format!("content-type: application/json\r\n{TOKEN}");
    let english = "invalid namespace name";
    for (query, accepted, expected) in [
        ("", "", english),
        ("?lang=en", "accept-language: zh\r\n", english),
        ("?lang=zh", "", "命名空间名称非法"),
        ("", "accept-language: zh-CN,zh;q=0.9,en;q=0.8\r\n", "命名空间名称非法"),
    ] {
        let path = format!("/naming/v1/namespaces{query}");
        let headers = format!("{headers}{accepted}");
        let answer = server.send("POST", &path, &headers, &bad.to_string()).await;
        assert_eq!(answer.json()["info"], expected, "{query} {accepted}");
        assert_eq!(answer.header("x-polaris-message"), Some(english), "{query} {accepted}");
    }
}

#[tokio::test]
async fn passwords_cannot_be_guessed_at_will() {
    let server = Server::start().await;
    let headers = "content-type: application/json\r\n";
    let body = |password| json!({"name": "polaris", "password": password}).to_string();
    let log_in =
        async |password| server.send("POST", "/core/v1/user/login", headers, &body(password)).await;
    for _ in 0..5 {
        assert_eq!(log_in("wrong").await.code(), 401_001);
    }
    let refused = log_in("polaris").await;
    assert_eq!((refused.status, refused.code()), (429, 429_002));
}

#[tokio::test]
async fn a_long_answer_is_printed_once_for_all_who_ask_at_once() {
    let server = Server::start().await;
    let label = "v".repeat(4_000);
    for number in 0..30 {
        let mut body = instance("s", &format!("h{number}"));
        body["metadata"] = json!({"a": label, "b": label});
        assert_eq!(server.client("RegisterInstance", &body).await.code(), 200_000);
    }
    let question = json!({"type": 1, "service": {"name": "s", "namespace": "ns"}});
    let ask = || server.client("Discover", &question);
    let (first, second, third) = tokio::join!(ask(), ask(), ask());
    for answer in [&first, &second, &third] {
        assert_eq!(answer.json()["instances"].as_array().map(Vec::len), Some(30));
    }
    let listed = server.get("/naming/v1/instances?service=s&namespace=ns").await;
    assert_eq!(listed.json()["amount"], 30);
}

#[tokio::test]
async fn an_alias_is_another_name() {
    let server = Server::start().await;
    server.post("/naming/v1/instances", &json!([instance("s", "h")])).await;
    let alias =
        json!({"service": "s", "namespace": "ns", "alias": "other", "alias_namespace": "ns"});
    let created = server.post("/naming/v1/service/alias", &alias).await;
    assert_eq!((created.status, created.code()), (200, 200_000), "{}", created.text);
    assert_eq!(created.json()["alias"]["alias"], "other");
    assert_eq!(server.post("/naming/v1/service/alias", &alias).await.code(), 400_201);
    let of_alias = json!({"service": "other", "namespace": "ns", "alias": "third"});
    assert_eq!(server.post("/naming/v1/service/alias", &of_alias).await.code(), 400_504);
    let of_nothing = json!({"service": "none", "namespace": "ns", "alias": "third"});
    assert_eq!(server.post("/naming/v1/service/alias", &of_nothing).await.code(), 400_306);

    let question = json!({"type": 1, "service": {"name": "other", "namespace": "ns"}});
    let found = server.client("Discover", &question).await.json();
    assert_eq!(found["service"]["name"], "other");
    assert_eq!(found["aliasFor"]["name"], "s");
    assert_eq!(found["instances"][0]["service"], "s");
    assert_eq!(server.client("RegisterInstance", &instance("other", "h")).await.code(), 400_000);

    let listed = server.get("/naming/v1/service/aliases?service=s").await.json();
    assert_eq!((&listed["amount"], &listed["aliases"][0]["alias"]), (&json!(1), &json!("other")));
    let deleted = server.post("/naming/v1/service/aliases/delete", &json!([alias])).await;
    assert_eq!(deleted.code(), 200_000);
    assert_eq!(server.client("Discover", &question).await.code(), 400_202);
}

#[tokio::test]
async fn what_is_wrong_with_an_alias_has_its_code() {
    let server = Server::start().await;
    server.post("/naming/v1/instances", &json!([instance("s", "h")])).await;
    let path = "/naming/v1/service/alias";
    let good = json!({"service": "s", "namespace": "ns", "alias": "a", "alias_namespace": "ns"});
    let cases = [
        ("service", json!("s p"), 400_120),
        ("namespace", json!(""), 400_110),
        ("alias_namespace", json!("n s"), 400_110),
        ("alias", json!(""), 400_133),
        ("comment", json!("é".repeat(1_025)), 400_129),
        ("owners", json!("é".repeat(1_025)), 400_135),
        ("type", json!("CL5SID"), 400_134),
    ];
    for (field, value, code) in cases {
        let mut alias = good.clone();
        alias[field] = value;
        assert_eq!(server.post(path, &alias).await.code(), code, "{field}");
    }
    assert_eq!(
        server.post(path, &json!({})).await.code(),
        400_120,
        "the service is looked at first"
    );
    let delete = async |alias: Value| {
        server.post("/naming/v1/service/aliases/delete", &json!([alias])).await.code()
    };
    assert_eq!(delete(json!({"alias": "a"})).await, 400_134);
    assert_eq!(delete(json!({"alias_namespace": "ns"})).await, 400_133);
    assert_eq!(server.post(path, &good).await.code(), 200_000);
}

#[tokio::test]
async fn contracts_are_listed_with_the_id_by_which_they_go() {
    let server = Server::start().await;
    let contract = v1::ServiceContract {
        namespace: "ns".to_owned(),
        service: "s".to_owned(),
        r#type: "api".to_owned(),
        protocol: "http".to_owned(),
        ..Default::default()
    };
    let caller = Caller::default();
    for version in ["1", "2"] {
        let contract = v1::ServiceContract { version: version.to_owned(), ..contract.clone() };
        let reported = server.dialect.report_contract(&caller, contract.encode_to_vec().into());
        reported.await.expect("a contract");
    }
    let path = "/naming/v1/service/contracts";
    let listed = server.get(&format!("{path}?service=s")).await.json();
    assert_eq!(listed["amount"], 2);
    let first = &listed["data"][0];
    assert_eq!(first["id"].as_str().map(str::len), Some(40), "{first}");
    assert_eq!(first["revision"].as_str().map(str::len), Some(32), "{first}");
    assert!(first["ctime"].as_str().is_some_and(|text| !text.is_empty()), "{first}");
    let delete = format!("{path}/delete");
    assert_eq!(server.post(&delete, &json!([{"id": first["id"]}])).await.code(), 200_000);
    let left = server.get(path).await.json();
    assert_eq!(left["amount"], 1);
    let mut named = left["data"][0].clone();
    named["id"] = "".into();
    assert_eq!(server.post(&delete, &json!([named])).await.code(), 200_000, "by its name");
    assert_eq!(server.get(path).await.json()["amount"], 0);
    assert_eq!(server.post(&delete, &json!([{}])).await.code(), 400_110);
}

#[tokio::test]
async fn lengths_count_before_what_is_missing() {
    let server = Server::start().await;
    let long = "p".repeat(33);
    let cases = [
        (json!({"port": 70_000}), 400_132),
        (json!({"weight": 65_536, "port": 70_000}), 400_132),
        (json!({"weight": 65_536}), 400_103),
        (json!({"protocol": long, "weight": 65_536}), 400_136),
        (
            json!({"service": "s", "namespace": "ns", "host": "h", "port": 1, "version": long}),
            400_137,
        ),
        (json!({"port": 1}), 400_120),
    ];
    for (item, code) in cases {
        for call in ["RegisterInstance", "DeregisterInstance"] {
            assert_eq!(server.client(call, &item).await.code(), code, "{call} {item}");
        }
        for path in ["/naming/v1/instances", "/naming/v1/instances/delete"] {
            assert_eq!(server.post(path, &json!([item])).await.code(), code, "{path} {item}");
        }
    }
    // With an id nothing else counts.
    let named = json!({"id": "i", "weight": 65_536});
    assert_eq!(server.client("DeregisterInstance", &named).await.code(), 200_000);
}

#[tokio::test]
async fn routing_rules_are_found_by_a_service_and_its_namespace() {
    let server = Server::start().await;
    let config = json!({
        "@type": "type.googleapis.com/v1.RuleRoutingConfig",
        "rules": [{"name": "r", "sources": [{"service": "a", "namespace": "na"}],
                   "destinations": [{"service": "b", "namespace": "nb"}]}],
    });
    let rule = json!([{"name": "r", "routing_policy": "RulePolicy", "routing_config": config}]);
    let created = server.post("/naming/v2/routings", &rule).await;
    assert_eq!(created.code(), 200_000, "{}", created.text);
    for (query, amount) in [
        ("service=b", 1),
        ("service=b&namespace=nb", 1),
        ("service=a&namespace=na", 1),
        ("service=b&namespace=na", 0),
        ("namespace=nb", 1),
        ("namespace=elsewhere", 1),
    ] {
        let found = server.get(&format!("/naming/v2/routings?{query}")).await.json();
        assert_eq!(found["amount"], amount, "{query}");
    }
}

#[tokio::test]
async fn the_list_of_calls_is_a_document_of_swagger() {
    let server = Server::start().await;
    let list = server.send("GET", "/apidocs.json", "", "").await.json();
    assert_eq!(list["swagger"], "2.0");
    let call = &list["paths"]["/naming/v1/services"]["get"];
    assert_eq!(call, &json!({"summary": "GET /naming/v1/services", "tags": ["naming"]}));
}

#[tokio::test]
async fn rules_of_every_kind_are_written_listed_and_handed_out() {
    let server = Server::start().await;
    let any = |name: &str, mut fields: Value| {
        fields["@type"] = json!(format!("type.googleapis.com/v1.{name}"));
        fields
    };
    let to = json!({"service": "s", "namespace": "ns"});
    let nearby = any("NearbyRoutingConfig", to.clone());
    let by_rule = any("RuleRoutingConfig", json!({"rules": [{"name": "r", "destinations": [to]}]}));
    let cases = [
        (
            "/naming/v1/ratelimits",
            "rateLimits",
            json!({"service": "s", "namespace": "ns",
            "name": "r", "amounts": [{"maxAmount": 5, "validDuration": "1s"}]}),
        ),
        (
            "/naming/v2/routings",
            "data",
            json!({"name": "r", "routing_policy": "RulePolicy",
            "routing_config": by_rule}),
        ),
        (
            "/naming/v1/circuitbreaker/rules",
            "data",
            json!({"name": "r", "level": "SERVICE",
            "ruleMatcher": {"destination": to}}),
        ),
        ("/naming/v1/faultdetectors", "data", json!({"name": "r", "targetService": to})),
        ("/naming/v1/lane/groups", "data", json!({"name": "r", "destinations": [to]})),
        ("/naming/v1/lossless/rules", "data", json!({"service": "s", "namespace": "ns"})),
        ("/naming/v1/blockallow/rules", "data", json!({"service": "s", "namespace": "ns"})),
        ("/naming/v1/faultinjection/rules", "data", json!({"service": "s", "namespace": "ns"})),
    ];
    for (path, field, rule) in cases {
        let created = server.post(path, &json!([rule])).await;
        assert_eq!(created.code(), 200_000, "{path}: {}", created.text);
        let listed = server.get(path).await.json();
        assert_eq!(listed["amount"], 1, "{path}");
        let shown = &listed[field][0];
        assert_eq!(shown["revision"].as_str().map(str::len), Some(32), "{path}: {listed}");
        let key = if shown["id"].is_string() { json!({"id": shown["id"]}) } else { rule };
        let deleted = server.post(&format!("{path}/delete"), &json!([key])).await;
        assert_eq!(deleted.code(), 200_000, "{path}: {}", deleted.text);
        assert_eq!(server.get(path).await.json()["amount"], 0, "{path}");
    }

    let rule = json!([{"name": "near", "routing_policy": 2, "routing_config": nearby}]);
    let created = server.post("/naming/v2/routings", &rule).await.json();
    let mut near = created["responses"][0]["data"].clone();
    assert_eq!(near["enable"], false);
    let enable = json!([{"id": near["id"], "enable": true}]);
    assert_eq!(server.write("PUT", "/naming/v2/routings/enable", &enable).await.code(), 200_000);
    assert_eq!(server.get("/naming/v2/routings?enable=true").await.json()["amount"], 1);
    let service = json!({"name": "s", "namespace": "ns"});
    let question = json!({"type": "NEARBY_ROUTE_RULE", "service": service});
    let found = server.client("Discover", &question).await.json();
    let handed_out = &found["nearbyRouteRules"][0];
    assert_eq!((&handed_out["id"], &handed_out["enable"]), (&near["id"], &json!(true)));

    near["routing_policy"] = json!("RulePolicy");
    near["routing_config"] = by_rule;
    let changed = server.write("PUT", "/naming/v2/routings", &json!([near])).await;
    assert_eq!(changed.code(), 200_000, "{}", changed.text);
    assert_eq!(server.get("/naming/v2/routings").await.json()["amount"], 1);
    let bad = server.post("/naming/v2/routings", &json!([{"name": "x"}])).await;
    assert_eq!((bad.status, bad.code()), (400, 400_701));
}

#[tokio::test]
async fn rules_are_filtered_by_what_is_in_them() {
    let server = Server::start().await;
    let method = |text: &str| json!({"type": "EXACT", "value": text});
    let to = |text: &str| json!({"service": "s", "namespace": "ns", "method": method(text)});
    let breaker = json!([{"name": "b", "level": "METHOD", "description": "slow calls",
        "ruleMatcher": {"source": {"service": "web", "namespace": "edge"},
            "destination": to("/pay")}}]);
    let detector = json!([{"name": "d", "description": "pings", "targetService": to("/ping")}]);
    let limit = json!([{"name": "l", "service": "s", "namespace": "ns", "method": method("/buy"),
        "labels": {"user": method("u1")}, "amounts": [{"maxAmount": 5, "validDuration": "1s"}]}]);
    for (path, rules, cases) in [
        (
            "/naming/v1/circuitbreaker/rules",
            breaker,
            &[
                ("level=1,2", 1),
                ("level=1", 0),
                ("dstMethod=/p*", 1),
                ("dstMethod=/other", 0),
                ("description=slow*", 1),
                ("description=fast", 0),
                ("description=low", 1),
                ("name=b", 1),
                ("name=x", 0),
                ("srcService=we&srcNamespace=edg&dstService=s", 1),
                ("srcService=s", 0),
                ("dstNamespace=edge", 0),
                ("service=s&serviceNamespace=ns", 1),
            ][..],
        ),
        (
            "/naming/v1/faultdetectors",
            detector,
            &[
                ("dstMethod=/ping", 1),
                ("dstMethod=ing", 1),
                ("dstMethod=/pong", 0),
                ("description=pings", 1),
                ("dstService=other", 0),
            ][..],
        ),
        (
            "/naming/v1/ratelimits",
            limit,
            &[("method=/buy", 1), ("method=/sell", 0), ("labels=u1", 1), ("labels=u2", 0)][..],
        ),
    ] {
        let created = server.post(path, &rules).await;
        assert_eq!(created.code(), 200_000, "{path}: {}", created.text);
        for (query, amount) in cases {
            let found = server.get(&format!("{path}?{query}")).await.json();
            assert_eq!(found["amount"], *amount, "{path}?{query}: {found}");
        }
    }
}

#[tokio::test]
async fn a_service_with_limits_of_its_own_stays() {
    let server = Server::start().await;
    let service = json!([{"name": "s", "namespace": "ns"}]);
    server.post("/naming/v1/services", &service).await;
    let limit =
        json!([{"id": "l", "service": "s", "namespace": "ns", "amounts": [{"maxAmount": 1}]}]);
    assert_eq!(server.post("/naming/v1/ratelimits", &limit).await.code(), 200_000);
    assert_eq!(server.post("/naming/v1/services/delete", &service).await.code(), 400_206);
    assert_eq!(server.post("/naming/v1/ratelimits/delete", &limit).await.code(), 200_000);
    assert_eq!(server.post("/naming/v1/services/delete", &service).await.code(), 200_000);
}

#[tokio::test]
async fn a_host_with_many_instances_goes_at_once() {
    let server = Server::start().await;
    let of_port = |port: u32| {
        let mut instance = instance("s", "h");
        instance["port"] = json!(port);
        instance
    };
    for first in [1, 101, 201] {
        let list: Vec<Value> = (first..first + 100).map(of_port).collect();
        assert_eq!(server.post("/naming/v1/instances", &json!(list)).await.code(), 200_000);
    }
    let host = json!([{"service": "s", "namespace": "ns", "host": "h"}]);
    assert_eq!(server.post("/naming/v1/instances/delete/host", &host).await.code(), 200_000);
    assert_eq!(server.get("/naming/v1/instances/count").await.json()["amount"], 0);
}

#[tokio::test]
async fn clients_with_metrics_are_listed_for_the_scraper() {
    let server = Server::start().await;
    let client = json!({"id": "c", "host": "10.0.0.1", "type": "SDK", "stat": [
        {"target": "prometheus", "port": 9090, "path": "/metrics", "protocol": "http"},
        {"target": "other", "port": 1},
    ]});
    server.client("ReportClient", &client).await;
    let listed = server.send("GET", "/prometheus/v1/clients", "", "").await;
    assert_eq!(
        listed.json(),
        json!([{"targets": ["10.0.0.1:9090"], "labels": {
            "__metrics_path__": "/metrics", "__scheme__": "http",
            "__meta_polaris_client_id": "c"}}])
    );
}

#[tokio::test]
async fn reported_clients_are_filtered_by_what_they_said_of_themselves() {
    let server = Server::start().await;
    for (id, host, version) in [("a", "10.0.0.1", "1.0"), ("b", "10.0.0.2", "1.1")] {
        let stat =
            json!([{"target": "prometheus", "port": 9090, "path": "/m", "protocol": "http"}]);
        let client =
            json!({"id": id, "host": host, "type": "SDK", "version": version, "stat": stat});
        server.client("ReportClient", &client).await;
    }
    let table = [
        ("", vec!["a", "b"]),
        ("?host=10.0.0.1", vec!["a"]),
        ("?host=10.0.0.*", vec!["a", "b"]),
        ("?host=10.0.0.9", vec![]),
        ("?version=1.1&type=SDK", vec!["b"]),
        ("?type=AGENT", vec![]),
        ("?id=b", vec!["b"]),
        ("?offset=1&limit=1", vec!["b"]),
    ];
    for (query, expected) in table {
        let answer = server.get(&format!("/maintain/v1/report/clients{query}")).await.json();
        assert_eq!(answer["Code"], 200_000, "{query}");
        let groups = answer["Response"].as_array().expect(query);
        let id = |group: &Value| group["labels"]["__meta_polaris_client_id"].clone();
        assert_eq!(groups.iter().map(id).collect::<Vec<_>>(), expected, "{query}");
    }
    assert_eq!(server.get("/maintain/v1/report/clients?bogus=1").await.code(), 400_103);
}

#[tokio::test]
async fn aliases_are_listed_among_the_services_of_their_namespace() {
    let server = Server::start().await;
    let service = json!([{"name": "s", "namespace": "ns", "metadata": {"a": "b"}}]);
    server.post("/naming/v1/services", &service).await;
    let alias = |alias: &str, namespace: &str, comment: &str| {
        json!({"service": "s", "namespace": "ns", "alias": alias, "alias_namespace": namespace,
               "comment": comment})
    };
    let ask = async |namespace: &str, revision: &Value| {
        let service = json!({"namespace": namespace, "revision": revision});
        server.client("Discover", &json!({"type": "SERVICES", "service": service})).await.json()
    };
    let names = |answer: &Value| {
        let services = answer["services"].as_array().expect("a list").iter();
        let name = |it: &Value| it["name"].as_str().expect("a name").to_owned();
        let mut names: Vec<_> = services.map(name).collect();
        names.sort();
        names
    };
    let before = ask("ns", &Value::Null).await;
    assert_eq!(names(&before), ["s"]);
    for (name, namespace) in [("one", "ns"), ("two", "ns"), ("far", "other"), ("three", "ns")] {
        let created = server.post("/naming/v1/service/alias", &alias(name, namespace, "")).await;
        assert_eq!(created.code(), 200_000, "{name}");
    }
    let known = &before["service"]["revision"];
    let listed = ask("ns", known).await;
    assert_eq!(names(&listed), ["one", "s", "three", "two"]);
    assert_eq!(names(&ask("other", &Value::Null).await), ["far"]);
    assert_eq!(names(&ask("", &Value::Null).await), ["far", "one", "s", "three", "two"]);
    let unchanged = ask("ns", &listed["service"]["revision"]).await;
    assert_eq!(unchanged["code"], 200_001);
    // A change, and the end of one that is not the last: the list follows, under another revision.
    server.write("PUT", "/naming/v1/service/alias", &alias("two", "ns", "other words")).await;
    let changed = ask("ns", &listed["service"]["revision"]).await;
    assert_eq!(names(&changed), ["one", "s", "three", "two"]);
    let gone = json!([alias("one", "ns", "")]);
    server.post("/naming/v1/service/aliases/delete", &gone).await;
    let left = ask("ns", &changed["service"]["revision"]).await;
    assert_eq!(names(&left), ["s", "three", "two"]);
}

#[tokio::test]
async fn a_namespace_token_is_read_and_renewed_under_either_path() {
    let server = Server::start().await;
    server.post("/naming/v1/namespaces", &json!([{"name": "ns"}])).await;
    let renewed =
        server.write("PUT", "/naming/v1/namespace/token", &json!({"name": "ns"})).await.json();
    let token = renewed["namespace"]["token"].as_str().expect("a token").to_owned();
    assert!(!token.is_empty());
    for path in ["namespace", "namespaces"] {
        let read = server.get(&format!("/naming/v1/{path}/token?name=ns")).await.json();
        assert_eq!(read["namespace"]["token"], *token, "{path}");
    }
}

#[tokio::test]
async fn questions_about_leaders_and_a_cmdb_are_answered_with_none() {
    let server = Server::start().await;
    for path in ["/maintain/v1/leaders", "/maintain/v1/cmdb/info"] {
        assert_eq!(server.get(path).await.json(), json!([]), "{path}");
        assert_eq!(server.send("GET", path, "", "").await.status, 401, "{path}");
    }
}
