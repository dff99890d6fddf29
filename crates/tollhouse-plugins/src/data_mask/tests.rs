//! Tests of masks in logs and the access log.

use std::sync::Arc;

use serde_json::json;
use tollhouse_plugin::testing::{FakeExchange, Harness};
use tollhouse_plugin::{MaskedRequest, Transfer};

use super::*;

/// Runs the log phase and returns what later loggers see.
fn masked(conf: &Value, request: &str) -> Option<Box<MaskedRequest>> {
    let mut exchange = FakeExchange::parse(request, 0);
    exchange.body_was_read = true;
    masked_of(conf, &mut exchange)
}

fn masked_of(conf: &Value, exchange: &mut FakeExchange) -> Option<Box<MaskedRequest>> {
    let mut harness = Harness::new::<DataMask>(conf);
    harness.run(exchange);
    let handler = Arc::clone(&harness.handler);
    let mut memory = std::mem::take(&mut exchange.memory);
    let mut cx = LogContext::new(exchange, &mut memory, Transfer::default());
    cx.enter(1);
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
        let kind = if body.starts_with('{') { "json" } else { "x-www-form-urlencoded" };
        let request = format!("POST / HTTP/1.1\nContent-Type: application/{kind}\n\n{body}");
        let masked = masked(&conf, &request);
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

fn body_mask(format: &str, name: &str) -> Value {
    json!({"type": "body", "body_format": format, "name": name, "action": "regex", "regex": "secret", "value": "*"})
}

/// Returns the body that logs show: `None` if it is the client's own.
fn shown(masks: &[Value], kind: &str, body: &str) -> Option<String> {
    let request = format!("POST / HTTP/1.1\nContent-Type: {kind}\n\n{body}");
    let masked = masked(&json!({"request": masks}), &request)?;
    masked.body.map(|body| String::from_utf8(body).unwrap())
}

#[test]
fn a_body_of_another_type_than_the_masks_is_not_logged() {
    let (form, json) = (body_mask("urlencoded", "a"), body_mask("json", "$.a"));
    let encoded = "application/x-www-form-urlencoded; charset=utf-8";
    for (masks, kind, body, expected) in [
        (vec![form.clone()], encoded, "a=secret", Some("a=*")),
        (vec![form.clone()], "application/json", r#"{"a":"secret"}"#, Some("")),
        (vec![form.clone()], encoded, r#"{"a":"secret"}"#, Some("")),
        (vec![form.clone()], "multipart/form-data; boundary=x", "--x a=secret", Some("")),
        (vec![form.clone()], "", "a=secret", Some("")),
        (vec![json.clone()], encoded, "a=secret", Some("")),
        (vec![json.clone(), form.clone()], encoded, "a=secret", Some("a=*")),
        (vec![json.clone(), form], "", r#"{"a":"secret"}"#, Some(r#"{"a":"*"}"#)),
        (vec![json], "", r#"{"a": "open"}"#, None),
    ] {
        assert_eq!(shown(&masks, kind, body).as_deref(), expected, "{kind} {body}");
    }
}

#[test]
fn json_that_servers_read_in_different_ways_is_not_logged() {
    let mask = [body_mask("json", "$.a.b")];
    for body in [r#"{"a":{"b":"secret"},"a":1}"#, r#"{"a":{"b":"secret","b":"x"}}"#] {
        assert_eq!(shown(&mask, "application/json", body).as_deref(), Some(""), "{body}");
    }
}

#[test]
fn deep_documents_and_hostile_values_cost_a_bounded_work() {
    let deep = format!("{}{}{}", "[".repeat(100), "1,".repeat(20_000) + "1", "]".repeat(100));
    let paths = [body_mask("json", "$..*..*..*..a")];
    assert_eq!(shown(&paths, "application/json", &deep).as_deref(), Some(""));
    let many = format!("[{}1]", "1,".repeat(100_001));
    assert_eq!(shown(&paths, "application/json", &many).as_deref(), Some(""));
}

#[test]
fn long_bodies_are_masked_before_the_log_phase_unless_a_plugin_has_replaced_them() {
    let long = "x".repeat(INLINE_BYTES_MAX);
    let body = format!(r#"{{"a":"secret","b":"{long}"}}"#);
    let conf = json!({"request": [body_mask("json", "$.a")]});
    for (replaced, expected) in [(None, body.replace("secret", "*")), (Some(b"{}"), String::new())] {
        let mut exchange = FakeExchange::parse(&format!("POST / HTTP/1.1\n\n{body}"), 0);
        exchange.body_was_read = true;
        exchange.edits.body = replaced.map(|body| body.to_vec());
        let masked = masked_of(&conf, &mut exchange).and_then(|masked| masked.body);
        assert_eq!(masked.map(|body| String::from_utf8(body).unwrap()), Some(expected));
    }
}

#[test]
fn arguments_that_plugins_have_set_for_nodes_are_masked() {
    let conf = mask(json!({"type": "query", "name": "token", "action": "remove"}));
    let mut exchange = FakeExchange::parse("GET /a?b=1 HTTP/1.1\n\n", 0);
    exchange.edits.set_upstream_uri(b"/c?token=x&d=1");
    let masked = masked_of(&conf, &mut exchange).unwrap();
    assert_eq!((masked.uri.as_deref(), masked.upstream_uri.as_deref()), (None, Some(&b"/c?d=1"[..])));
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
