//! Plugins that write requests down, seen from outside: http-logger, tcp-logger, file-logger and prometheus.

use serde_json::{Value, json};
use tollhouse_testkit::patience::wait_for;
use tollhouse_testkit::{Message, Origin};

use crate::cases::Bench;

fn entry(message: &Message) -> Value {
    serde_json::from_slice(&message.body).expect("JSON")
}

fn ask(bench: &Bench, host: &str, bytes: &str) -> Message {
    let request = format!("POST /hello?ab=cd HTTP/1.1\r\nHost: {host}\r\n{bytes}");
    bench.gateway.client().ask(request)
}

#[test]
fn entries_are_sent() {
    let (bench, log) = (Bench::start(), Origin::named("log"));
    let uri = format!("http://{}/log", log.address());
    let conf =
        json!({"uri": uri, "batch_max_size": 1, "include_req_body": true, "auth_header": "secret"});
    bench.put("/routes/one", bench.route("one.test", json!({"http-logger": conf})));
    bench.wait_until_served();
    let answer = ask(&bench, "one.test", "X-Secret: s\r\nContent-Length: 4\r\n\r\nbody");
    assert_eq!(answer.status(), 200);
    let sent = log.wait_requests(1).remove(0);
    assert_eq!((sent.method(), sent.target()), ("POST", "/log"));
    assert_eq!(sent.field("authorization"), Some("secret"));
    assert_eq!(sent.field("content-type"), Some("application/json"));
    let entry = entry(&sent);
    for (pointer, value) in [
        ("/request/method", json!("POST")),
        ("/request/uri", json!("/hello?ab=cd")),
        ("/request/querystring", json!({"ab": "cd"})),
        ("/request/headers/x-secret", json!("s")),
        ("/request/body", json!("body")),
        ("/response/status", json!(200)),
        ("/response/headers/content-type", json!("text/plain")),
        ("/route_id", json!("one")),
        ("/service_id", json!("")),
        ("/client_ip", json!("127.0.0.1")),
        ("/upstream", json!(bench.node.address().to_string())),
        ("/server/version", json!("3.18.0")),
    ] {
        assert_eq!(entry.pointer(pointer), Some(&value), "{pointer} of {entry}");
    }
    let port = bench.gateway.address().port();
    assert_eq!(entry["request"]["url"], format!("http://one.test:{port}/hello?ab=cd"));
    for name in ["start_time", "latency", "upstream_latency", "apisix_latency"] {
        assert!(entry[name].is_number(), "{name} of {entry}");
    }
    assert!(entry["request"]["size"].is_number() && entry["response"]["size"].is_number());
    assert!(entry["server"]["hostname"].is_string());
    let server = entry.pointer("/response/headers/server").and_then(Value::as_str);
    assert_eq!((server, server.is_some()), (answer.field("server"), true), "as the client sees it");
}

#[test]
fn entries_that_wait_are_counted() {
    let (bench, log) = (Bench::start(), Origin::named("log"));
    let uri = format!("http://{}/log", log.address());
    let conf = json!({"uri": uri, "inactive_timeout": 600, "buffer_duration": 600});
    bench.put("/routes/w", bench.route("w.test", json!({"http-logger": conf})));
    bench.wait_until_served();
    let name = "apisix_batch_process_entries\
                {name=\"http logger\",route_id=\"w\",server_addr=\"127.0.0.1\"}";
    for waiting in [1.0, 2.0] {
        ask(&bench, "w.test", "Content-Length: 0\r\n\r\n");
        wait_for(name, || (bench.gateway.metric(name) == waiting).then_some(()));
    }
}

#[test]
fn entries_have_the_form_that_is_asked_for() {
    let (bench, log) = (Bench::start(), Origin::named("log"));
    let uri = format!("http://{}/", log.address());
    let format = json!({"host": "$host", "nested": {"@method": "$request_method"}, "lit": "x", "status": "$status"});
    let conf = json!({"uri": uri, "batch_max_size": 1, "log_format": format});
    bench.put("/routes/f", bench.route("f.test", json!({"http-logger": conf})));
    bench.put("/plugin_metadata/http-logger", json!({"log_format": {"meta": "$uri"}}));
    let conf = json!({"uri": uri, "batch_max_size": 2, "concat_method": "new_line"});
    bench.put("/routes/m", bench.route("m.test", json!({"http-logger": conf})));
    let refused = json!({"http-logger": {"uri": uri, "batch_max_size": 2, "log_format": {"s": "$status"}}, "ip-restriction": {"blacklist": ["127.0.0.1"]}});
    bench.put("/routes/r", bench.route("r.test", refused));
    bench.wait_until_served();
    let end = "Content-Length: 0\r\n\r\n";
    ask(&bench, "f.test", end);
    let sent = entry(&log.wait_requests(1)[0]);
    assert_eq!(sent["host"], "f.test");
    assert_eq!(sent["nested"], json!({"@method": "POST"}));
    assert_eq!(sent["lit"], "x");
    assert_eq!(sent["route_id"], "f");
    assert!(sent.get("request").is_none());

    ask(&bench, "m.test", end);
    ask(&bench, "m.test", end);
    let sent = log.wait_requests(2).remove(1);
    assert_eq!(sent.field("content-type"), Some("text/plain"));
    let lines: Vec<Value> =
        sent.text().lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert_eq!(lines.len(), 2);
    assert_eq!(lines[0]["meta"], "/hello");

    assert_eq!(ask(&bench, "r.test", end).status(), 403);
    assert_eq!(ask(&bench, "r.test", end).status(), 403);
    let sent = entry(&log.wait_requests(3)[2]);
    assert_eq!(sent.as_array().map(Vec::len), Some(2));
    assert_eq!(sent[0]["s"], 403);
}

#[test]
fn entries_are_sent_over_tcp_in_the_form_of_the_metadata() {
    let bench = Bench::start();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = listener.local_addr().expect("a bound socket").port();
    let conf = json!({"host": "127.0.0.1", "port": port, "batch_max_size": 2});
    bench.put("/routes/t", bench.route("t.test", json!({"tcp-logger": conf})));
    bench.put(
        "/plugin_metadata/tcp-logger",
        json!({"log_format": {"host": "$host", "@timestamp": "$time_iso8601"}}),
    );
    bench.wait_until_served();
    for _ in 0..2 {
        ask(&bench, "t.test", "Content-Length: 0\r\n\r\n");
    }
    let (stream, _) = listener.accept().expect("a connection");
    let sent: Vec<Value> = serde_json::from_reader(stream).expect("a JSON array, then the end");
    assert_eq!(sent.len(), 2);
    assert_eq!((&sent[0]["host"], &sent[1]["route_id"]), (&json!("t.test"), &json!("t")));
}

#[test]
fn entries_are_written_to_files() {
    let bench = Bench::start();
    let path = bench.gateway.folder().join("logs/file.log");
    let conf =
        json!({"path": path, "include_resp_body": true, "match": [[["arg_ab", "==", "cd"]]]});
    bench.put("/routes/f", bench.route("f.test", json!({"file-logger": conf})));
    bench.wait_until_served();
    let request = "GET /other HTTP/1.1\r\nHost: f.test\r\n\r\n";
    assert_eq!(bench.gateway.client().ask(request).status(), 200);
    ask(&bench, "f.test", "Content-Length: 0\r\n\r\n");
    ask(&bench, "f.test", "Content-Length: 0\r\n\r\n");
    let text = wait_for("two lines", || {
        let text = std::fs::read_to_string(&path).unwrap_or_default();
        (text.matches('\n').count() == 2).then_some(text)
    });
    let first: Value = serde_json::from_str(text.lines().next().unwrap_or_default()).expect("JSON");
    assert_eq!(first["request"]["uri"], "/hello?ab=cd");
    assert_eq!(first["response"]["body"], "hello");
}
