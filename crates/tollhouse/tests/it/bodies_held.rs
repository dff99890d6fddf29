//! Request bodies that are held whole: one budget for all of them, long ones looked into beside the
//! serving thread, and nothing held for routes that do not ask.

use serde_json::{Value, json};
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
