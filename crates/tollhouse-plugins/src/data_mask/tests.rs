//! Tests of masks in logs and the access log.

use std::sync::Arc;

use serde_json::json;
use tollhouse_plugin::testing::{FakeExchange, Harness};
use tollhouse_plugin::{MaskedRequest, Memory, Transfer};

use super::*;

/// Runs the log phase and returns what later loggers see.
fn masked(conf: &Value, request: &str) -> Option<Box<MaskedRequest>> {
    let harness = Harness::new::<DataMask>(conf);
    let handler = Arc::clone(&harness.handler);
    let mut exchange = FakeExchange::parse(request, 0);
    exchange.body_was_read = true;
    let mut memory = Memory::default();
    let mut cx = LogContext::new(&exchange, &mut memory, Transfer::default());
    handler.log(&mut cx);
    cx.into_masked()
}

fn mask(fields: Value) -> Value {
    json!({"request": [fields]})
}

#[test]
fn arguments_are_removed_replaced_and_rewritten() {
    let uri = |fields: Value| {
        let request = "GET /a?token=x%20y&card=12345678&b=1&token=z&flag HTTP/1.1\n\n";
        let masked = masked(&mask(fields), request);
        masked.map(|masked| String::from_utf8(masked.uri.unwrap()).unwrap())
    };
    for (fields, expected) in [
        (
            json!({"type": "query", "name": "token", "action": "remove"}),
            Some("/a?card=12345678&b=1&flag"),
        ),
        (
            json!({"type": "query", "name": "token", "action": "replace", "value": "***"}),
            Some("/a?token=***&card=12345678&b=1&token=***&flag"),
        ),
        (
            json!({"type": "query", "name": "card", "action": "regex", "regex": "^\\d+(\\d{2})$", "value": "*$1"}),
            Some("/a?token=x%20y&card=*78&b=1&token=z&flag"),
        ),
        (
            json!({"type": "query", "name": "flag", "action": "regex", "regex": ".", "value": "x"}),
            None,
        ),
        (json!({"type": "query", "name": "none", "action": "remove"}), None),
    ] {
        assert_eq!(uri(fields.clone()).as_deref(), expected, "{fields}");
    }
    let all = mask(json!({"type": "query", "name": "a", "action": "remove"}));
    let only = masked(&all, "GET /x?a=1 HTTP/1.1\n\n").unwrap();
    assert_eq!(only.uri.as_deref(), Some(&b"/x"[..]));
}

#[test]
fn headers_are_masked_for_loggers_alone() {
    let header = |fields: Value| {
        let masked = masked(&mask(fields), "GET / HTTP/1.1\nX-Secret: 1234-5678\n\n")?;
        let value = masked.header(b"x-secret")?;
        Some(value.map(|value| String::from_utf8_lossy(value).into_owned()))
    };
    let of = |action: &str| json!({"type": "header", "name": "x-secret", "action": action, "regex": "^\\d+", "value": "*"});
    assert_eq!(header(of("remove")), Some(None));
    assert_eq!(header(of("replace")), Some(Some("*".into())));
    assert_eq!(header(of("regex")), Some(Some("*-5678".into())));
    assert_eq!(header(json!({"type": "header", "name": "x-other", "action": "remove"})), None);
}

#[test]
fn fields_of_bodies_are_masked_and_unreadable_bodies_are_not_logged() {
    let body = |conf: Value, body: &str| {
        let masked = masked(&conf, &format!("POST / HTTP/1.1\n\n{body}"));
        masked.map(|masked| String::from_utf8(masked.body.unwrap()).unwrap())
    };
    let of = |format: &str, name: &str, action: &str| {
        mask(
            json!({"type": "body", "body_format": format, "name": name, "action": action, "regex": "^.", "value": "*"}),
        )
    };
    let users = r#"{"users":[{"card":"12","n":1},{"card":"34"}],"password":"p"}"#;
    for (conf, sent, expected) in [
        (
            of("json", "$.password", "remove"),
            users,
            Some(r#"{"users":[{"card":"12","n":1},{"card":"34"}]}"#),
        ),
        (
            of("json", "$.users[*].card", "regex"),
            users,
            Some(r#"{"users":[{"card":"*2","n":1},{"card":"*4"}],"password":"p"}"#),
        ),
        (of("json", "$.users[0].n", "regex"), users, None),
        (
            of("json", "$.users[0].n", "replace"),
            users,
            Some(r#"{"users":[{"card":"12","n":"*"},{"card":"34"}],"password":"p"}"#),
        ),
        (
            of("json", "$.items[0,2]", "remove"),
            r#"{"items":[1,2,3,4]}"#,
            Some(r#"{"items":[2,4]}"#),
        ),
        (of("json", "$.items[*]", "remove"), r#"{"items":[1,2,3]}"#, Some(r#"{"items":[]}"#)),
        (of("json", "$.password", "remove"), "password=p", Some("")),
        (of("urlencoded", "password", "replace"), "a=1&password=p", Some("a=1&password=*")),
        (of("urlencoded", "password", "remove"), "a=1", None),
        (of("urlencoded", "password", "remove"), "", None),
    ] {
        assert_eq!(body(conf.clone(), sent).as_deref(), expected, "{conf}");
    }
    let short = |name: &str, value: u64| {
        let mut conf = of("urlencoded", "password", "replace");
        conf[name] = json!(value);
        conf
    };
    assert_eq!(body(short("max_body_size", 3), "password=p").as_deref(), Some(""));
    assert_eq!(body(short("max_req_post_args", 1), "a=1&password=p").as_deref(), Some("a=1"));
}

#[test]
fn bad_confs_are_refused() {
    let base = json!({"type": "body", "name": "a", "action": "remove"});
    for (conf, text) in [
        (mask(base), "then clause did not match"),
        (
            mask(json!({"type": "query", "name": "a", "action": "regex", "value": ""})),
            "then clause did not match",
        ),
        (
            mask(json!({"type": "query", "name": "a", "action": "replace"})),
            "then clause did not match",
        ),
        (
            mask(json!({"type": "cookie", "name": "a", "action": "remove"})),
            "matches none of the enum values",
        ),
        (
            mask(
                json!({"type": "query", "name": "a", "action": "regex", "regex": "(", "value": ""}),
            ),
            "pcre2_compile() failed",
        ),
        (
            mask(
                json!({"type": "body", "body_format": "json", "name": "$.a[?(@.b)]", "action": "remove"}),
            ),
            "unsupported JSONPath",
        ),
        (json!({"max_body_size": 0}), "expected 0 to be greater than 0"),
    ] {
        let refusal = Harness::refusal::<DataMask>(&conf);
        assert!(refusal.contains(text), "{refusal}");
    }
}
