//! ShenYu's admin in a running gateway: what operators, services and ShenYu's own gateways do with it,
//! and that it serves.

use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};
use tollhouse_testkit::patience::wait_for;
use tollhouse_testkit::program::{Ran, run};
use tollhouse_testkit::{Gateway, Message, Origin, RawClient, ReservedPort};

use crate::support::{gateway, listener_named};

/// Whoever calls the admin, logged in.
struct Operator {
    admin: SocketAddr,
    token: String,
}

fn ask(admin: SocketAddr, method: &str, path: &str, token: &str, body: &Value) -> Message {
    let body = if body.is_null() { String::new() } else { body.to_string() };
    RawClient::connect(admin).ask(format!(
        "{method} {path} HTTP/1.1\r\nHost: admin\r\nX-Access-Token: {token}\r\nContent-Type: application/json\r\n\
         Content-Length: {}\r\n\r\n{body}",
        body.len()
    ))
}

fn json(answer: &Message) -> Value {
    serde_json::from_str(&answer.text())
        .unwrap_or_else(|error| panic!("{error}: {}", answer.text()))
}

impl Operator {
    fn log_in(gateway: &Gateway) -> Self {
        let admin = listener_named(gateway, "shenyu");
        let path = "/platform/login?userName=admin&password=123456";
        let answer = json(&ask(admin, "GET", path, "", &Value::Null));
        assert_eq!(answer["message"], "login dashboard user success", "{answer}");
        let token = answer["data"]["token"].as_str().expect("a token").to_owned();
        Self { admin, token }
    }

    fn call(&self, method: &str, path: &str, body: &Value) -> Value {
        let answer = ask(self.admin, method, path, &self.token, body);
        assert_eq!(answer.status(), 200, "{method} {path}: {}", answer.text());
        json(&answer)
    }

    /// What a service registers; the answer is text.
    fn register(&self, what: &str, body: &Value) {
        let path = format!("/shenyu-client/{what}");
        assert_eq!(ask(self.admin, "POST", &path, &self.token, body).text(), "success", "{body}");
    }

    /// The id of the newest row with this name.
    fn id(&self, path: &str, name: &str) -> String {
        let rows = self.call("GET", path, &Value::Null)["data"]["dataList"].clone();
        let rows = rows.as_array().expect("a list");
        let row = rows
            .iter()
            .find(|row| row["name"] == name)
            .unwrap_or_else(|| panic!("{name} in {path}"));
        row["id"].as_str().expect("an id").to_owned()
    }
}

fn with_admin() -> Gateway {
    gateway().without_resources().set("listen.shenyu", "127.0.0.1:0").start()
}

fn begins_with(path: &str) -> Value {
    json!([{"paramType": "uri", "operator": "startsWith", "paramName": "/", "paramValue": path}])
}

/// What a service says of itself: a method, and where it is.
fn registrations(context: &str, method: &str, port: u16) -> [Value; 2] {
    let name = context.trim_start_matches('/');
    let path = format!("{context}/{method}");
    let method = json!({"appName": name, "contextPath": context, "path": path, "pathDesc": method,
        "rpcType": "http", "ruleName": path, "enabled": true, "host": "127.0.0.1", "port": port,
        "registerMetaData": false, "pluginNames": [], "timeMillis": 1});
    let address = json!({"protocol": "http://", "appName": name, "contextPath": context, "rpcType": "http",
        "host": "127.0.0.1", "port": port, "eventType": "REGISTER"});
    [method, address]
}

#[test]
fn the_request_after_a_registration_or_a_change_meets_it() {
    let origin = Origin::named("order");
    let gateway = with_admin();
    let operator = Operator::log_in(&gateway);
    // On a machine that lets nobody else run, a call is answered before, and the log says so.
    let meets = |path: &str, expected: &str| {
        let text = gateway.client().get(path).text();
        let is_late = || gateway.output().text().contains("before it serves");
        assert!(text.contains(expected) || is_late(), "{path}: {text}");
    };
    for number in 0..4 {
        let (context, port) = (format!("/order{number}"), origin.address().port());
        let [method, address] = registrations(&context, "find", port);
        operator.register("register-metadata", &method);
        operator.register("register-uri", &address);
        let path = format!("{context}/find");
        meets(&path, "order");
        let id = operator.id("/selector?pluginId=5&currentPage=1&pageSize=100", &context);
        let off = json!({"ids": [id], "enabled": false});
        operator.call("POST", "/selector/batchEnabled", &off);
        meets(&path, "-107");
    }
}

#[test]
fn every_address_of_the_admin_is_opened() {
    let (one, two) = (ReservedPort::new(), ReservedPort::new());
    let addresses = format!("{},{}", one.address(), two.address());
    let _gateway = gateway().without_resources().set("listen.shenyu", &addresses).start();
    for port in [one, two] {
        let health = ask(port.address(), "GET", "/actuator/health", "", &Value::Null);
        assert_eq!(health.text(), r#"{"status":"UP"}"#);
    }
}

#[test]
fn what_an_operator_writes_serves_and_what_is_switched_off_does_not() {
    let origin = Origin::named("order");
    let gateway = with_admin();
    let operator = Operator::log_in(&gateway);
    let node = json!([{"upstreamHost": "localhost", "protocol": "http://", "weight": 50, "status": true,
        "upstreamUrl": origin.address().to_string()}]);
    let selector = json!({"pluginId": "5", "name": "order", "type": 1, "matchMode": 0, "sort": 1, "enabled": true,
        "loged": true, "continued": true, "handle": node.to_string(), "selectorConditions": begins_with("/order/")});
    let created = operator.call("POST", "/selector", &selector);
    assert_eq!((&created["code"], &created["message"]), (&json!(200), &json!("create success")));
    let id = operator.id("/selector?pluginId=5&currentPage=1&pageSize=12", "order");
    let rule = json!({"selectorId": id, "name": "all", "matchMode": 0, "sort": 1, "enabled": true, "loged": true,
        "handle": "{\"loadBalance\":\"random\"}", "ruleConditions": begins_with("/order/")});
    operator.call("POST", "/rule", &rule);
    let serves = |text: &str| {
        wait_for("the change to serve", || {
            (gateway.client().get("/order/1").text().contains(text)).then_some(())
        });
    };
    serves("order");
    let off = json!({"ids": [id], "enabled": false, "namespaceId": "649330b6-c2d7-4edc-be8e-8a54df9eb385"});
    assert_eq!(operator.call("POST", "/selector/batchEnabled", &off)["message"], "enable success");
    serves("-107");
    let shown = operator.call("GET", &format!("/selector/{id}"), &Value::Null);
    assert_eq!(shown["data"]["enabled"], false);
    assert_eq!(shown["data"]["selectorConditions"][0]["paramValue"], "/order/");
    let on = json!({"ids": [id], "enabled": true});
    operator.call("POST", "/selector/batchEnabled", &on);
    serves("order");
    // 2.6 sends a bare list.
    assert_eq!(
        operator.call("DELETE", "/selector/batch", &json!([id]))["message"],
        "delete success"
    );
    // Without any selector it is a gateway like others.
    serves("404 Route Not Found");
    let rules = operator.call("GET", &format!("/rule?selectorId={id}"), &Value::Null);
    assert_eq!(rules["data"]["page"]["totalCount"], 0, "rules go with their selector");
}

#[test]
fn a_service_that_registers_is_routed_and_one_that_leaves_is_not() {
    let origin = Origin::named("order");
    let gateway = with_admin();
    let operator = Operator::log_in(&gateway);
    let port = origin.address().port();
    let [method, address] = registrations("/order", "findById", port);
    operator.register("register-metadata", &method);
    operator.register("register-uri", &address);
    wait_for("the service to be routed", || {
        (gateway.client().get("/order/findById?id=3").text() == "order").then_some(())
    });
    // The context path is taken off.
    assert_eq!(origin.last_request().target(), "/findById?id=3");
    let mut beat = address.clone();
    beat["eventType"] = json!("HEARTBEAT");
    operator.register("register-uri", &beat);
    operator.register("offline", &address);
    wait_for("the node to be gone", || {
        (gateway.client().get("/order/findById").text().contains("\"code\"")).then_some(())
    });
    // Values as texts, as clients in Go write them.
    let texts = json!({"protocol": "http", "appName": "order", "contextPath": "/order", "rpcType": "http",
        "host": "127.0.0.1", "port": port.to_string(), "eventType": "REGISTER"});
    operator.register("register-uri", &texts);
    wait_for("the node to be back", || {
        (gateway.client().get("/order/findById").text() == "order").then_some(())
    });
}

#[test]
fn instances_of_a_service_come_and_go_one_by_one() {
    let [one, two] = ["one", "two"].map(Origin::named);
    let gateway = with_admin();
    let operator = Operator::log_in(&gateway);
    let ports = [&one, &two].map(|origin| origin.address().port());
    for method in ["**", "od/{id}/items"] {
        operator.register("register-metadata", &registrations("/full", method, ports[0])[0]);
    }
    let addresses = ports.map(|port| registrations("/full", "**", port)[1].clone());
    let serve = |path: &str, expected: &[&str]| {
        wait_for("the instances", || {
            let mut client = gateway.client();
            let mut texts: Vec<_> = (0..30).map(|_| client.get(path).text()).collect();
            texts.sort();
            texts.dedup();
            (texts == expected).then_some(())
        });
    };
    for address in &addresses {
        operator.register("register-uri", address);
    }
    serve("/full/any", &["one", "two"]);
    serve("/full/od/7/items", &["one", "two"]);
    operator.register("offline", &addresses[1]);
    serve("/full/any", &["one"]);
    operator.register("register-uri", &addresses[1]);
    serve("/full/any", &["one", "two"]);
}

#[test]
fn nobody_without_a_token_reads_or_registers() {
    let gateway = with_admin();
    let admin = listener_named(&gateway, "shenyu");
    for (method, path) in [
        ("GET", "/selector"),
        ("GET", "/configs/fetch?groupKeys=PLUGIN"),
        ("POST", "/configs/listener"),
        ("POST", "/shenyu-client/register-uri"),
        ("DELETE", "/plugin/batch"),
        ("GET", "/platform/enum"),
        ("GET", "//selector"),
        ("GET", "/%73elector"),
    ] {
        for token in
            ["", "x.y.z", "eyJhbGciOiJub25lIn0.eyJ1c2VyTmFtZSI6ImFkbWluIiwiZXhwIjo5OTk5OTk5OTk5fQ."]
        {
            let answer = ask(admin, method, path, token, &Value::Null);
            assert_eq!(answer.status(), 401, "{method} {path} {token}");
            assert_eq!(json(&answer)["code"], 600, "{method} {path}");
        }
    }
    let path = "/platform/login?userName=admin&password=wrong";
    let answer = json(&ask(admin, "GET", path, "", &Value::Null));
    assert_eq!(answer, json!({"code": 500, "message": "username or password error", "data": null}));
}

#[test]
fn a_gateway_of_shenyus_gets_all_of_it_and_each_change() {
    let gateway = with_admin();
    let operator = Operator::log_in(&gateway);
    let mut follower = RawClient::connect(operator.admin);
    let answer = follower.ask(
        "GET /websocket HTTP/1.1\r\nHost: admin\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
         Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n",
    );
    assert_eq!(answer.status(), 101);
    assert_eq!(answer.field("sec-websocket-accept"), Some("s3pPLMBiTxaQ9kYGzzhZRbK+xOo="));
    send_text(&mut follower, "MYSELF");
    let mut groups = Vec::new();
    for _ in 0..7 {
        let message = read_text(&mut follower);
        assert_eq!(message["eventType"], "MYSELF");
        groups.push(message["groupType"].as_str().unwrap_or_default().to_owned());
    }
    groups.sort_unstable();
    let expected = [
        "APP_AUTH",
        "DISCOVER_UPSTREAM",
        "META_DATA",
        "PLUGIN",
        "PROXY_SELECTOR",
        "RULE",
        "SELECTOR",
    ];
    assert_eq!(groups, expected);
    let selector =
        json!({"pluginId": "5", "name": "order", "selectorConditions": begins_with("/order/")});
    operator.call("POST", "/selector", &selector);
    let change = read_text(&mut follower);
    assert_eq!(
        (&change["groupType"], &change["eventType"]),
        (&json!("SELECTOR"), &json!("CREATE"))
    );
    assert_eq!(change["data"][0]["name"], "order");
    assert_eq!(change["data"][0]["pluginName"], "divide");
}

#[test]
fn a_gateway_of_shenyus_polls_for_what_differs() {
    let gateway = with_admin();
    let operator = Operator::log_in(&gateway);
    let fetched =
        operator.call("GET", "/configs/fetch?groupKeys=PLUGIN&groupKeys=SELECTOR", &Value::Null);
    let plugins = &fetched["data"]["PLUGIN"];
    assert!(plugins["data"].as_array().is_some_and(|list| list.len() > 20), "{fetched}");
    let known = |group: &str| {
        format!("{}={},{}", group, fetched["data"][group]["md5"].as_str().unwrap_or_default(), 1)
    };
    let form = format!("{}&{}", known("PLUGIN"), known("SELECTOR"));
    let mut poll = RawClient::connect(operator.admin);
    poll.send(format!(
        "POST /configs/listener HTTP/1.1\r\nHost: admin\r\nX-Access-Token: {}\r\n\
         Content-Type: application/x-www-form-urlencoded\r\nContent-Length: {}\r\n\r\n{form}",
        operator.token,
        form.len()
    ));
    let selector =
        json!({"pluginId": "5", "name": "order", "selectorConditions": begins_with("/order/")});
    operator.call("POST", "/selector", &selector);
    assert_eq!(json(&poll.answer())["data"], json!(["SELECTOR"]));
}

fn send_text(client: &mut RawClient, text: &str) {
    let length = u8::try_from(text.len()).expect("a short text");
    let mut frame = vec![0x81, 0x80 | length, 0, 0, 0, 0];
    frame.extend(text.as_bytes());
    client.send(frame);
}

fn read_text(client: &mut RawClient) -> Value {
    let head = client.take(2);
    assert_eq!(head[0], 0x81, "a whole text");
    let length = match head[1] {
        126 => client.take(2).iter().fold(0, |length, byte| length << 8 | usize::from(*byte)),
        127 => client.take(8).iter().fold(0, |length, byte| length << 8 | usize::from(*byte)),
        short => usize::from(short),
    };
    serde_json::from_slice(&client.take(length)).expect("JSON")
}

/// A command with its own data directory, happy or not.
fn command(words: &[&str], data_dir: &Path) -> Ran {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tollhouse"));
    command.args(words).env("NO_COLOR", "1");
    run(command.arg("--set").arg(format!("data_dir={}", data_dir.display())))
}

/// Whether a file of a folder has these bytes.
fn holds(folder: &Path, bytes: &[u8]) -> bool {
    let files = std::fs::read_dir(folder).expect("a folder").flatten();
    let contents = files.filter_map(|file| std::fs::read(file.path()).ok());
    contents.into_iter().any(|content| content.windows(bytes.len()).any(|at| at == bytes))
}

#[test]
fn what_a_running_admin_has_is_taken_over_and_goes_on_as_an_archive() {
    let gateway = with_admin();
    let operator = Operator::log_in(&gateway);
    let selector = json!({"pluginId": "5", "name": "order", "type": 1, "handle": "[]",
        "selectorConditions": begins_with("/order/")});
    operator.call("POST", "/selector", &selector);
    let app = json!({"appKey": "A1", "appSecret": "hush-hush"});
    operator.call("POST", "/appAuth", &app);
    assert!(!holds(gateway.folder(), b"hush-hush"), "secrets lie sealed");
    let folder = tempfile::tempdir().expect("a temporary folder");
    let place = |name: &str| folder.path().join(name);
    let url = format!("http://{}", operator.admin);
    let taken = command(&["import", "shenyu", "--admin", &url, "--yes"], &place("one"));
    assert!(taken.status.success(), "{}", taken.text);
    for line in [
        "auth                    1 taken over",
        "plugin                 47 taken over",
        "selector                1 taken over",
        "written to",
    ] {
        assert!(taken.text.contains(line), "{line}: {}", taken.text);
    }
    assert!(!holds(&place("one"), b"hush-hush"), "secrets lie sealed");
    let archive = place("export.zip");
    let file = archive.to_str().expect("UTF-8");
    let exported = command(&["export", "shenyu", file], &place("one"));
    assert!(exported.status.success(), "{}", exported.text);
    let looked = command(&["import", "shenyu", file, "--dry-run"], &place("two"));
    assert!(looked.status.success(), "{}", looked.text);
    assert!(looked.text.contains("selector                1 taken over"), "{}", looked.text);
    assert!(looked.text.contains("auth                    1 taken over"), "{}", looked.text);
    assert!(looked.text.contains("nothing was written: --dry-run"), "{}", looked.text);
    let refused = command(&["import", "shenyu", file, "--yes"], gateway.folder());
    assert!(!refused.status.success());
    assert!(refused.text.contains("a gateway runs with this data directory"), "{}", refused.text);
    std::fs::write(&archive, "no archive").expect("the folder takes files");
    let broken = command(&["import", "shenyu", file, "--yes"], &place("one"));
    assert!(!broken.status.success());
    assert!(broken.text.contains("not a zip archive"), "{}", broken.text);
}

#[test]
fn a_gateway_that_follows_an_admin_serves_what_that_has() {
    let origin = Origin::named("order");
    let gateway_of_admin = with_admin();
    let operator = Operator::log_in(&gateway_of_admin);
    let node = json!([{"upstreamHost": "localhost", "protocol": "http://", "weight": 50, "status": true,
        "upstreamUrl": origin.address().to_string()}]);
    let selector = json!({"pluginId": "5", "name": "order", "type": 1, "continued": false,
        "handle": node.to_string(), "selectorConditions": begins_with("/order/")});
    operator.call("POST", "/selector", &selector);
    let id = operator.id("/selector?pluginId=5", "order");
    for scheme in ["ws", "http"] {
        let address = format!("{scheme}://{}", operator.admin);
        let follower =
            gateway().without_resources().set("shenyu.follow.addresses", &address).start();
        let wait = |text: &str| {
            wait_for(&format!("{text} over {scheme}"), || {
                follower.client().get("/order/1").text().contains(text).then_some(())
            });
        };
        wait("order");
        for (enabled, text) in [(false, "-107"), (true, "order")] {
            operator.call(
                "POST",
                "/selector/batchEnabled",
                &json!({"ids": [id], "enabled": enabled}),
            );
            wait(text);
        }
    }
}

/// Asks the gateway's own Admin listener, with its key.
fn ask_console(gateway: &Gateway, method: &str, path: &str, body: &Value) -> Message {
    let body = if body.is_null() { String::new() } else { body.to_string() };
    RawClient::connect(gateway.admin_address()).ask(format!(
        "{method} /console/v1{path} HTTP/1.1\r\nHost: 127.0.0.1\r\nX-API-KEY: {}\r\nContent-Length: {}\r\n\r\n{body}",
        gateway.admin_key(),
        body.len()
    ))
}

#[test]
fn a_key_of_the_gateway_writes_the_same_objects_and_every_change_has_its_author() {
    let origin = Origin::named("order");
    let gateway = with_admin();
    let operator = Operator::log_in(&gateway);
    let node = json!([{"upstreamUrl": origin.address().to_string(), "weight": 50}]);
    let selector = json!({"pluginId": "5", "name": "order", "handle": node.to_string(),
        "selectorConditions": begins_with("/order/")});
    let made = json(&ask_console(&gateway, "POST", "/shenyu/selector", &selector));
    let id = made["data"].as_str().expect("an id").to_owned();
    let rule = json!({"selectorId": id, "name": "all", "handle": "{}", "ruleConditions": begins_with("/order/")});
    let rule = ask_console(&gateway, "POST", "/shenyu/rule", &rule);
    assert_eq!(rule.status(), 200, "{}", rule.text());
    wait_for("the rule to serve", || {
        (gateway.client().get("/order/1").text() == "order").then_some(())
    });
    // By ShenYu's own interface, too.
    operator.call("PUT", &format!("/selector/{id}"), &json!({"name": "renamed"}));
    let changes = json(&ask_console(&gateway, "GET", "/changes?kind=shenyu", &Value::Null));
    let rows = changes["rows"].as_array().expect("rows");
    assert_eq!(rows.len(), 3, "{changes}");
    assert_eq!((&rows[0]["way"], &rows[2]["way"]), (&json!("shenyu"), &json!("console")));
    assert_eq!(
        (&rows[0]["actor"], &rows[0]["id"]),
        (&json!("admin"), &json!(format!("selector/{id}")))
    );
    assert_eq!(
        rows[0]["differences"][0],
        json!({"pointer": "/name", "before": "order", "after": "renamed"})
    );
    let refused = ask_console(&gateway, "POST", "/shenyu/rule", &json!({"name": "x"}));
    assert!(refused.status() == 400 && refused.text().contains("selectorId"), "{}", refused.text());
    assert_eq!(ask_console(&gateway, "GET", "/shenyu/dashboardUser", &Value::Null).status(), 404);
}

#[test]
fn an_accepted_write_that_does_not_serve_is_named_in_its_answer() {
    let gateway = with_admin();
    let operator = Operator::log_in(&gateway);
    let plugins = operator.call("GET", "/plugin?name=mcpServer", &Value::Null);
    let plugin = plugins["data"]["dataList"][0]["id"].as_str().expect("an id").to_owned();
    let selector = json!({"pluginId": plugin, "name": "tools", "type": 1, "matchMode": 0, "sort": 1, "enabled": true,
        "continued": true, "handle": "{}", "selectorConditions": begins_with("/mcp/")});
    let created = operator.call("POST", "/selector", &selector);
    assert_eq!(created["message"], "create success", "the plugin is off: {created}");
    let selector = created["data"].as_str().expect("an id").to_owned();
    let on = json!({"ids": [plugin], "enabled": true});
    let rule = json!({"selectorId": selector, "name": "all", "matchMode": 0, "sort": 1, "enabled": true,
        "handle": "{}", "ruleConditions": begins_with("/mcp/")});
    let reason = "the plugin `mcpServer` is not built into this gateway";
    let mut rule_id = String::new();
    for (path, body, success, table) in [
        ("/plugin/enabled", &on, "enable success", "selector"),
        ("/rule", &rule, "create success", "rule"),
        ("/plugin/enabled", &on, "enable success", "rule"),
    ] {
        let answer = ask(operator.admin, "POST", path, &operator.token, body);
        if table == "rule" && rule_id.is_empty() {
            rule_id = operator.id(&format!("/rule?selectorId={selector}"), "all");
        }
        let id = if table == "rule" { &rule_id } else { &selector };
        let line = format!("{table}/{id}: {reason}");
        assert_eq!(answer.field("x-tollhouse-warning"), Some(&*line), "{}", answer.text());
        let answer = json(&answer);
        assert_eq!(answer["code"], 200, "ShenYu's console counts it as a success: {answer}");
        assert_eq!(answer["message"], format!("{success}; {line}"), "{answer}");
        assert_eq!(answer["warnings"][0]["path"], format!("shenyu/{table}/{id}"), "{answer}");
    }
    let problems = gateway.configuration()["problems"].clone();
    assert_eq!(problems.as_array().map(Vec::len), Some(1), "{problems}");
    assert!(gateway.client().get("/mcp/a").text().contains("-1"), "requests are refused");
    let off = json!({"ids": [plugin], "enabled": false});
    assert_eq!(operator.call("POST", "/plugin/enabled", &off)["message"], "enable success");
}
