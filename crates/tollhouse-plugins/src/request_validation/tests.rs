//! Which requests pass, and what nodes get.

use tollhouse_plugin::testing::{Harness, Outcome};

use super::*;

fn body_conf() -> Value {
    json!({"body_schema": {
        "type": "object",
        "required": ["id"],
        "properties": {
            "id": {"type": "integer", "minimum": 1},
            "name": {"type": "string", "default": "nobody"},
        },
    }})
}

fn post(conf: &Value, head: &str, body: &str) -> Outcome {
    let request = format!("POST / HTTP/1.1\n{head}\n\n{body}");
    Harness::of::<RequestValidation>(conf).request(&request)
}

#[test]
fn a_good_body_is_written_anew_with_defaults() {
    let outcome = post(&body_conf(), "A: b", "{ \"id\" : 1, \"id\": 2 , \"x\":[] }");
    assert!(outcome.passes(), "{outcome:?}");
    assert_eq!(outcome.edits, "body {\"id\":2,\"x\":[],\"name\":\"nobody\"}\n");
}

#[test]
fn a_bad_body_is_refused_with_what_is_wrong() {
    for (body, expected) in [
        ("{}", "property \"id\" is required"),
        (
            "{\"id\": \"1\"}",
            "property \"id\" validation failed: wrong type: expected integer, got string",
        ),
        (
            "{\"id\": 0}",
            "property \"id\" validation failed: expected 0 to be at least 1",
        ),
        // What looks like a reference to a secret is a text like any other.
        (
            "{\"id\": \"$env://ID\"}",
            "property \"id\" validation failed: wrong type: expected integer, got string",
        ),
        ("[", "Expected value but found T_END at character 2"),
        ("x", "Expected value but found invalid token at character 1"),
        ("{\n x", "Expected value but found invalid token at character 4"),
        ("", ""),
    ] {
        let outcome = post(&body_conf(), "A: b", body);
        assert_eq!((outcome.status(), outcome.body()), (400, expected), "{body}");
    }
}

#[test]
fn status_and_text_of_a_refusal_may_be_chosen() {
    let mut conf = body_conf();
    conf["rejected_code"] = json!(422);
    conf["rejected_msg"] = json!("no good");
    for body in ["{}", "x", ""] {
        let outcome = post(&conf, "A: b", body);
        assert_eq!((outcome.status(), outcome.body()), (422, "no good"), "{body}");
        assert_eq!(outcome.header("content-type"), None);
    }
}

#[test]
fn a_form_is_judged_and_left_as_it_is() {
    let conf = json!({"body_schema": {
        "required": ["a", "c d"],
        "properties": {
            "a": {"type": "string", "enum": ["b+c"]}, "flag": {"type": "boolean"},
            "list": {"type": "array", "minItems": 2},
        },
    }});
    for (kind, body, expected) in [
        ("application/x-www-form-urlencoded", "a=b%2Bc&c+d=1&flag&list=1&list=2&=x&&", 0),
        ("Application/X-www-form-urlencoded; charset=utf-8", "a=b%2bc&c%20d=%", 0),
        ("application/x-www-form-urlencoded", "a=b&c+d=1", 400),
        ("application/x-www-form-urlencoded", "a=b%2Bc", 400),
        ("text/plain", "a=b%2Bc&c+d=1", 400),
    ] {
        let outcome = post(&conf, &format!("Content-Type: {kind}"), body);
        assert_eq!((outcome.status(), outcome.edits.as_str()), (expected, ""), "{kind} {body}");
    }
}

#[test]
fn headers_are_judged_whatever_the_case_of_their_names() {
    let schema = |name: &str| {
        json!({"header_schema": {
            "type": "object",
            "required": [name],
            "properties": {name: {"type": "string", "pattern": "^a"}},
        }})
    };
    for (name, head, expected) in [
        ("x-test", "X-Test: a", ""),
        ("X-Test", "x-test: ab", ""),
        ("x_test", "x-test: ab", ""),
        ("x-test", "A: b", "property \"x-test\" is required"),
        (
            "X-Test",
            "x-test: b",
            "property \"X-Test\" validation failed: failed to match pattern \"^a\" with \"b\"",
        ),
        (
            "x-test",
            "x-test: a\nX-Test: b",
            "property \"x-test\" validation failed: wrong type: expected string, got table",
        ),
    ] {
        let outcome = post(&schema(name), head, "");
        assert_eq!(outcome.body(), expected, "{name} {head}");
        assert_eq!(outcome.passes(), expected.is_empty(), "{name} {head}");
    }
}

#[test]
fn headers_come_before_the_body() {
    let mut conf = body_conf();
    conf["header_schema"] = json!({"required": ["x-test"]});
    let outcome = post(&conf, "A: b", "{}");
    assert_eq!(outcome.body(), "property \"x-test\" is required");
}

#[test]
fn a_body_that_is_too_long_is_refused() {
    let mut conf = body_conf();
    conf["max_req_body_size"] = json!(8);
    assert!(post(&conf, "A: b", "{\"id\":1}").passes());
    let outcome = post(&conf, "A: b", "{\"id\":10}");
    assert_eq!((outcome.status(), outcome.body()), (400, ""));
}

#[test]
fn bad_confs_are_refused() {
    for (conf, expected) in [
        (json!({}), "object matches none of the required: [\"header_schema\"] or [\"body_schema\"]"),
        (
            json!({"body_schema": 1}),
            "property \"body_schema\" validation failed: wrong type: expected object, got",
        ),
        (
            json!({"body_schema": {"type": "object"}, "rejected_code": 600}),
            "property \"rejected_code\" validation failed: expected 600 to be at most 599",
        ),
        (
            json!({"body_schema": {"type": "object"}, "rejected_msg": ""}),
            "property \"rejected_msg\" validation failed: string too short, expected at least 1, got 0",
        ),
    ] {
        let refusal = Harness::refusal::<RequestValidation>(&conf);
        assert!(refusal.starts_with(expected), "{conf}: {refusal}");
    }
    let conf = json!({"body_schema": {"type": "nothing"}});
    assert_ne!(Harness::refusal::<RequestValidation>(&conf), "");
}
