//! ShenYu's own client for Spring MVC, unmodified, in two versions: a service registers itself, is routed,
//! leaves and comes back. And the library beneath all of its clients, for services of other kinds.
//!
//! `cargo x install` builds it (source in `tests/interop`); a machine without one skips its test.

use std::net::SocketAddr;
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::Value;
use tollhouse_testkit::patience::wait_for;
use tollhouse_testkit::program::{self, Running};
use tollhouse_testkit::{Gateway, RawClient};

use crate::support::{gateway, listener_named};

/// A service in Java takes seconds to start and to leave, and on a machine that compiles beside it a minute was
/// seen: this bounds a hang and measures nothing.
const PATIENCE: Duration = Duration::from_secs(180);

/// Between two questions.
const PAUSE: Duration = Duration::from_millis(20);

struct Service {
    running: Running,
}

impl Service {
    fn start(program: &std::path::Path, admin: SocketAddr) -> Self {
        let running = Running::start(Command::new(program).arg(admin.to_string()));
        let is_serving = |line: &str| (line == "serving").then_some(());
        running.output().wait_line_within(PATIENCE, "serving", is_serving);
        Self { running }
    }
}

/// Waits until a request gets an answer that has this in it: the client registers its methods one after the other.
fn wait_answer(gateway: &Gateway, request: &str, text: &str) {
    let end = Instant::now() + PATIENCE;
    loop {
        let answer = gateway.client().ask(request.to_owned()).text();
        if answer.contains(text) {
            return;
        }
        assert!(Instant::now() < end, "waited in vain for {text} from {request}: {answer}");
        std::thread::park_timeout(PAUSE);
    }
}

/// A GET request for `path`.
fn get(path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: shop\r\n\r\n")
}

fn serve_with_client(version: &str) {
    let Some(program) = program::find(&format!("shenyu-springmvc-{version}")) else { return };
    let gateway = gateway().without_resources().set("listen.shenyu", "127.0.0.1:0").start();
    let admin = listener_named(&gateway, "shenyu");
    for round in ["at first", "again, on another port"] {
        let service = Service::start(&program, admin);
        wait_answer(&gateway, &get("/shop/orders/find?id=7"), "{\"found\":\"7\"}");
        wait_answer(&gateway, &get("/shop/orders/of/me/all"), "{\"customer\":\"me\"}");
        let order = "{\"number\":1}";
        let save = format!(
            "POST /shop/orders/save HTTP/1.1\r\nHost: shop\r\nContent-Type: application/json\r\n\
             Content-Length: {}\r\n\r\n{order}",
            order.len()
        );
        wait_answer(&gateway, &save, "{\"saved\":{\"number\":1}}");
        let unknown = gateway.client().get("/shop/orders/other");
        assert!(unknown.text().contains("Rule not found!"), "{round}: {}", unknown.text());
        service.running.terminate();
        wait_answer(&gateway, &get("/shop/orders/find?id=7"), "\"code\":-119");
    }
}

#[test]
fn a_service_with_shenyus_client_2_5_0_is_routed_leaves_and_comes_back() {
    serve_with_client("2.5.0");
}

#[test]
fn a_service_with_shenyus_client_2_6_1_is_routed_leaves_and_comes_back() {
    serve_with_client("2.6.1");
}

/// Who looks at what the admin has. A login is dear, so there is one.
struct Onlooker {
    admin: SocketAddr,
    token: String,
}

impl Onlooker {
    fn log_in(admin: SocketAddr) -> Self {
        let mut onlooker = Self { admin, token: String::new() };
        let login = onlooker.ask("/platform/login?userName=admin&password=123456");
        onlooker.token = login["data"]["token"].as_str().expect("a token").to_owned();
        onlooker
    }

    fn ask(&self, path: &str) -> Value {
        self.call("GET", path, "")
    }

    fn call(&self, method: &str, path: &str, body: &str) -> Value {
        let (token, length) = (&self.token, body.len());
        let request = format!(
            "{method} {path} HTTP/1.1\r\nHost: admin\r\nX-Access-Token: {token}\r\n\
             Content-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}"
        );
        let answer = RawClient::connect(self.admin).ask(request);
        serde_json::from_slice(&answer.body).expect("JSON")
    }

    /// The id of a plugin's row.
    fn plugin(&self, name: &str) -> String {
        let listed = self.ask(&format!("/plugin?name={name}&currentPage=1&pageSize=50"));
        let rows = listed["data"]["dataList"].as_array().cloned().unwrap_or_default();
        let row = rows.iter().find(|row| row["name"] == name).expect("the plugin is there");
        row["id"].as_str().expect("it has an id").to_owned()
    }
}

/// The nodes of the selector that a kind of service has made, as `protocol url`.
fn nodes_of_kind(admin: &Onlooker, plugin: &str, context: &str) -> Vec<String> {
    let id = admin.plugin(plugin);
    let path = format!("/selector?pluginId={id}&name={context}&currentPage=1&pageSize=12");
    let selectors = admin.ask(&path)["data"]["dataList"].clone();
    let selectors = selectors.as_array().cloned().unwrap_or_default();
    let selector = selectors.iter().find(|row| row["name"] == context).expect("a selector");
    let upstreams = selector["discoveryUpstreams"].as_array().cloned().unwrap_or_default();
    let text = |row: &Value, name: &str| row[name].as_str().unwrap_or_default().to_owned();
    upstreams.iter().map(|row| format!("{} {}", text(row, "protocol"), text(row, "url"))).collect()
}

fn register_other_kinds(version: &str) {
    let Some(program) = program::find(&format!("shenyu-springmvc-{version}")) else { return };
    let gateway = gateway().without_resources().set("listen.shenyu", "127.0.0.1:0").start();
    let admin = listener_named(&gateway, "shenyu");
    let onlooker = Onlooker::log_in(admin);
    let kinds = ["springCloud", "grpc", "dubbo", "websocket"];
    // It is off until an operator switches it on.
    let switch = serde_json::json!({"ids": [onlooker.plugin("springCloud")], "enabled": true});
    let switched = onlooker.call("POST", "/plugin/enabled", &switch.to_string());
    assert_eq!(switched["code"], 200, "{switched}");
    let mut command = Command::new(program);
    command.arg(admin.to_string()).args(kinds);
    let running = Running::start(&mut command);
    let address = running.output().wait_line_within(PATIENCE, "registered", |line| {
        line.strip_prefix("registered ").map(str::to_owned)
    });
    // What is for HTTP is routed; the context path is taken off.
    wait_for("the service of Spring Cloud to be routed", || {
        (gateway.client().get("/springcloud/find").text() == "/find").then_some(())
    });
    let handshake = "GET /websocket/find HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
                     Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";
    wait_for("the handshake to be passed on", || {
        (gateway.client().send(handshake).answer_head().status() == 101).then_some(())
    });
    for kind in kinds {
        let context = format!("/{}", kind.to_ascii_lowercase());
        let nodes = nodes_of_kind(&onlooker, kind, &context);
        assert_eq!(nodes.len(), 1, "{kind}: a beat makes no second node: {nodes:?}");
        assert!(nodes[0].ends_with(&address), "{kind}: {nodes:?}");
        if matches!(kind, "grpc" | "dubbo") {
            let found = onlooker.ask(&format!("/meta-data/queryList?path={context}/find"));
            let row = found["data"]["dataList"][0].clone();
            assert_eq!(
                (&row["rpcType"], &row["serviceName"]),
                (&kind.into(), &"shop.Orders".into()),
                "{found}"
            );
            assert!(row["rpcExt"].as_str().is_some_and(|text| text.contains("5000")), "{row}");
        }
    }
    running.terminate();
    let is_left = |line: &str| (line == "left").then_some(());
    running.output().wait_line_within(PATIENCE, "left", is_left);
    for kind in kinds {
        let context = format!("/{}", kind.to_ascii_lowercase());
        assert_eq!(
            nodes_of_kind(&onlooker, kind, &context),
            Vec::<String>::new(),
            "{kind} has left"
        );
    }
    wait_answer(&gateway, &get("/springcloud/find"), "\"code\"");
}

#[test]
fn services_of_other_kinds_register_beat_and_leave_through_shenyus_library_2_5_0() {
    register_other_kinds("2.5.0");
}

#[test]
fn services_of_other_kinds_register_beat_and_leave_through_shenyus_library_2_6_1() {
    register_other_kinds("2.6.1");
}
