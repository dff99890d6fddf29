//! Request bodies that are held whole: one budget for all of them, long ones looked into beside the
//! serving thread, and nothing held for routes that do not ask.

use serde_json::{Value, json};
use tollhouse_testkit::origin::answer;
use tollhouse_testkit::{Gateway, Origin};

use crate::support::{gateway, upstream};

const JSON: &str = "Content-Type: application/json\r\n";

struct Bodies {
    origin: Origin,
    gateway: Gateway,
}

impl Bodies {
    /// Routes that judge, choose by, filter by and ignore bodies; `buffered` is the budget.
    fn new(buffered: &str) -> Self {
        let origin = Origin::named("a");
        let to = upstream([origin.address()]);
        let schema = json!({
            "type": "array", "contains": { "type": "integer" },
            "items": { "properties": { "filled": { "default": true } } },
        });
        let filter = json!([["post_arg.deny[*].who", "has", "jack"]]);
        let abort = json!({ "http_status": 418 });
        let routes: Value = json!([
            { "id": "plain", "uri": "/plain", "upstream": to },
            { "id": "judged", "uri": "/judged", "upstream": to,
              "plugins": { "request-validation": { "body_schema": schema } } },
            { "id": "chosen", "uri": "/chosen", "upstream": to,
              "vars": [["post_arg.list[-1].kind", "==", "last"]] },
            { "id": "filtered", "uri": "/filtered", "upstream": to,
              "plugins": { "fault-injection": { "abort": abort, "_meta": { "filter": filter } } } },
            { "id": "graphql", "uri": "/graphql", "upstream": to,
              "vars": [["graphql_root_fields", "has", "owner"], ["graphql_operation", "==", "query"]] },
        ]);
        let gateway = gateway()
            .set("limits.buffered_bytes", buffered)
            .resources(&json!({ "routes": routes }))
            .start();
        Self { origin, gateway }
    }

    /// The status of a POST, sent with its length or in one chunk.
    fn post(&self, path: &str, body: &str) -> u16 {
        let (sized, chunked) = (sized(path, body), chunked(path, body));
        let first = self.gateway.client().ask(&sized).status();
        assert_eq!(self.gateway.client().ask(&chunked).status(), first, "{path}");
        first
    }
}

fn sized(path: &str, body: &str) -> String {
    let length = body.len();
    format!("POST {path} HTTP/1.1\r\nHost: a\r\n{JSON}Content-Length: {length}\r\n\r\n{body}")
}

fn chunked(path: &str, body: &str) -> String {
    let head =
        format!("POST {path} HTTP/1.1\r\nHost: a\r\n{JSON}Transfer-Encoding: chunked\r\n\r\n");
    format!("{head}{:x}\r\n{body}\r\n0\r\n\r\n", body.len())
}

#[test]
fn a_body_that_finds_no_memory_is_refused_and_others_pass() {
    let bodies = Bodies::new("64KiB");
    let long = format!("[1{}]", ",1".repeat(100_000));
    for _ in 0..3 {
        assert_eq!(bodies.post("/judged", &long), 503);
        assert_eq!(bodies.post("/chosen", &long), 503);
        // What was held is given back, and a route that asks for no body never holds it.
        assert_eq!(bodies.post("/judged", "[1]"), 200);
        assert_eq!(bodies.post("/plain", &long), 200);
    }
    assert_eq!(bodies.gateway.failures("memory_limit"), 12.0);
}

#[test]
fn long_bodies_are_judged_chosen_by_and_filtered_by_like_short_ones() {
    let bodies = Bodies::new("64MiB");
    for padding in [0, 300_000] {
        let pad = "x".repeat(padding);
        for (path, body, status) in [
            ("/judged", format!("[\"{pad}\",1]"), 200),
            ("/judged", format!("[\"{pad}\"]"), 400),
            ("/judged", format!("[\"{pad}\",1"), 400),
            ("/chosen", format!(r#"{{"pad":"{pad}","list":[{{"kind":"last"}}]}}"#), 200),
            ("/chosen", format!(r#"{{"pad":"{pad}","list":[{{"kind":"first"}}]}}"#), 404),
            ("/filtered", format!(r#"{{"pad":"{pad}","deny":[{{"who":"jack"}}]}}"#), 418),
            ("/filtered", format!(r#"{{"pad":"{pad}","deny":[{{"who":"rose"}}]}}"#), 200),
            ("/graphql", format!(r#"{{"pad":"{pad}","query":"{{ owner {{ name }} }}"}}"#), 200),
            ("/graphql", format!(r#"{{"pad":"{pad}","query":"{{ other }}"}}"#), 404),
        ] {
            assert_eq!(bodies.post(path, &body), status, "{path} {}", &body[..body.len().min(80)]);
        }
        // Defaults are filled in, blanks and replaced members are left out.
        let body = format!(r#"[ 1, {{"pad": "{pad}", "a": 1, "a": 2}} ]"#);
        assert_eq!(bodies.post("/judged", &body), 200);
        let expected = format!(r#"[1,{{"pad":"{pad}","a":2,"filled":true}}]"#);
        assert!(bodies.origin.last_request().text() == expected, "{padding}");
        // What needs no change arrives as it was sent.
        let body = format!(r#"[1,"{pad}",1.50]"#);
        assert_eq!(bodies.post("/judged", &body), 200);
        assert!(bodies.origin.last_request().text() == body, "{padding}");
    }
}

#[test]
fn an_answer_that_has_to_be_held_breaks_off_where_there_is_no_memory() {
    let long = "x".repeat(300_000);
    let origin = Origin::script(move |connection| {
        while let Some(head) = connection.head() {
            let body = if head.target().contains("long") { &long } else { "short" };
            connection.send(answer(200, body));
        }
    });
    let filters = json!([{ "regex": "short", "replace": "shorter" }]);
    let route = json!({ "id": "held", "uri": "/held/*", "upstream": upstream([origin.address()]),
        "plugins": { "response-rewrite": { "filters": filters } } });
    let plain = json!({ "id": "plain", "uri": "/*", "upstream": upstream([origin.address()]) });
    let gateway = gateway()
        .set("limits.buffered_bytes", "64KiB")
        .resources(&json!({ "routes": [route, plain] }))
        .start();
    for _ in 0..3 {
        let mut client = gateway.client();
        client.send("GET /held/long HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
        let rest = client.wire.take_all().unwrap_or_default();
        assert!(!rest.ends_with(b"0\r\n\r\n"), "nobody takes it for whole");
        assert!(!String::from_utf8_lossy(&rest).contains("xxx"), "nor for unchanged");
        assert_eq!(gateway.client().get("/held/short").text(), "shorter");
        assert_eq!(gateway.client().get("/long").text().len(), 300_000);
    }
    gateway.wait_failures("memory_limit", 3);
}

#[test]
fn a_route_for_a_graphql_operation_is_not_avoided_by_the_type_of_the_body() {
    let origin = Origin::named("a");
    let to = upstream([origin.address()]);
    let refuse = json!({ "fault-injection": { "abort": { "http_status": 418 } } });
    let gateway = gateway()
        .resources(&json!({ "routes": [
            { "id": "guard", "uri": "/graphql", "vars": [["graphql_name", "==", "repo"]],
              "plugins": refuse, "upstream": to },
            { "id": "rest", "uri": "/*", "upstream": to },
        ] }))
        .start();
    let types = ["", "text/plain", "application/x-www-form-urlencoded", "application/graphql", "x"];
    for content_type in types {
        for (name, status) in [("repo", 418), ("other", 200)] {
            let body = format!("query {name} {{ owner }}");
            let line = match content_type {
                "" => String::new(),
                named => format!("Content-Type: {named}\r\n"),
            };
            let answer = gateway.client().ask(format!(
                "POST /graphql HTTP/1.1\r\nHost: a\r\n{line}Content-Length: {}\r\n\r\n{body}",
                body.len()
            ));
            assert_eq!(answer.status(), status, "{name} as {content_type:?}");
        }
    }
}

#[test]
fn fields_of_a_body_are_named_without_braces_and_compared_as_booleans() {
    let origin = Origin::named("a");
    let to = upstream([origin.address()]);
    let set = json!({ "proxy-rewrite": { "headers": { "set": { "X-Tenant": "<$post_arg.tenant.id>" } } } });
    let gateway = gateway()
        .resources(&json!({ "routes": [
            { "id": "1", "uri": "/a", "vars": [["post_arg.flag", "==", true]], "plugins": set, "upstream": to },
        ] }))
        .start();
    for (flag, status) in [("true", 200), ("\"true\"", 404), ("false", 404), ("1", 404)] {
        let body = format!(r#"{{"tenant":{{"id":"t7"}},"flag":{flag}}}"#);
        let answer = gateway.client().ask(sized("/a", &body));
        assert_eq!(answer.status(), status, "{flag}");
    }
    assert_eq!(origin.last_request().field("x-tenant"), Some("<t7>"));
}
