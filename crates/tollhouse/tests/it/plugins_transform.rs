//! Plugins that change requests and answers, seen from outside: proxy-rewrite, response-rewrite,
//! redirect, mocking, fault-injection, echo, request-id, gzip, brotli and body-transformer.

use serde_json::json;

use crate::cases::Bench;

#[test]
fn requests_are_rewritten() {
    let bench = Bench::start();
    bench.check(include_str!("cases/tables/proxy_rewrite.txt"));
    bench.refuse(include_str!("cases/tables/transform_refusals.txt"));
}

#[test]
fn answers_are_rewritten() {
    let bench = Bench::start();
    bench.put("/consumers", json!({"username": "jack", "plugins": {"key-auth": {"key": "k1"}}}));
    bench.check(include_str!("cases/tables/response_rewrite.txt"));
}

#[test]
fn answers_without_nodes() {
    let bench = Bench::start();
    bench.put("/consumers", json!({"username": "jack", "plugins": {"key-auth": {"key": "k1"}}}));
    bench.check(include_str!("cases/tables/local_answers.txt"));
}

#[test]
fn answers_are_compressed() {
    let bench = Bench::start();
    bench.check(include_str!("cases/tables/compression.txt"));
}

#[test]
fn bodies_are_written_anew_by_templates() {
    let bench = Bench::start();
    let request = r#"<name>{*_escape_xml(name)*}</name><age>{{age + 10}}</age>"#;
    let response = r#"{"is": {*_escape_json(a.b)*}, "status": {{_ctx.var.status}}}"#;
    let conf = json!({
        "request": {"template": request},
        "response": {"input_format": "xml", "template": response},
    });
    bench.put("/routes/t", bench.route("t.test", json!({"body-transformer": conf})));
    let args = json!({"request": {"input_format": "json", "template": "hello {{name}}"}});
    bench.put("/routes/a", bench.route("a.test", json!({"body-transformer": args})));
    bench.wait_until_served();
    bench.say(
        "t.test",
        r#"
        > POST /
        > Content-Type: application/json
        > X-Answer: 200 OK|Content-Type: text/xml||<x:a xmlns:x='u'><b>&lt;1&gt; "</b></x:a>
        >= {"name": "a<b", "age": 20}
        < 200
        <= {"is": "<1> \\"", "status": 200}
        ^= <name>a&lt;b</name><age>30</age>

        > POST /
        > Content-Type: application/json
        >= {"name"
        < 400
        <~ request body decode
        ^ none

        > POST /
        > Content-Type: application/json
        >= {"name": "a"}
        < 503
        <~ attempt to perform arithmetic on a nil value
        ^ none

        > POST /
        > Content-Type: application/json
        > X-Answer: 200 OK|Content-Type: text/xml||no xml, but secret
        >= {"name": "a", "age": 1}
        < 502"#,
    );
    bench.say("a.test", "> GET /?name=john\n< 200\n^= hello john");
    let long = format!("<x>{}</x>", "y".repeat(100_000));
    let body = json!({"name": long, "age": 1}).to_string();
    let request = format!(
        "POST / HTTP/1.1\r\nHost: t.test\r\nContent-Type: application/json\r\nX-Answer: 200 OK||<a><b>1</b></a>\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    assert_eq!(bench.gateway.client().ask(request).status(), 200);
    let sent = bench.node.last_request().text();
    assert!(sent.starts_with("<name>&lt;x&gt;yyy") && sent.len() > 100_000, "{}", sent.len());
}
