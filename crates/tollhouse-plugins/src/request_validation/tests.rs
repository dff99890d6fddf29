//! Which requests pass, and what nodes get.

use tollhouse_plugin::testing::{FakeExchange, Harness, Outcome};

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
    Harness::new::<RequestValidation>(conf).request(&request)
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
        ("{\"id\": 0}", "property \"id\" validation failed: expected 0 to be at least 1"),
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
fn a_request_that_names_two_content_types_is_refused_before_its_body_is_read() {
    let form = "application/x-www-form-urlencoded";
    for head in [
        format!("Content-Type: {form}\nContent-Type: application/json"),
        format!("Content-Type: application/json\ncontent-type: {form}"),
        "Content-Type: application/json\nContent-Type: application/json".to_owned(),
        "Content-Type: application/json\nContent-Type:".to_owned(),
    ] {
        let mut harness = Harness::new::<RequestValidation>(&body_conf());
        let text = format!("POST / HTTP/1.1\n{head}\n\n{{\"id\": 1}}");
        let mut request = FakeExchange::parse(&text, harness.now_ms);
        let outcome = harness.run(&mut request);
        let refusal = (outcome.status(), outcome.body());
        assert_eq!(refusal, (400, "more than one Content-Type"), "{head}");
        assert!(!request.body_was_read, "{head}");
        assert_eq!(outcome.edits, "");
    }
    // A conf that looks at headers alone has no body to misread.
    let conf = json!({"header_schema": {"required": ["a"]}});
    assert!(post(&conf, "A: b\nContent-Type: x\nContent-Type: y", "").passes());
}

/// Schemas of a property `a`, values of it, and what is wrong with them.
const BAD_PROPERTIES: &[(&str, &str, &str)] = &[
    (r#"{"type": "string"}"#, "1", "wrong type: expected string, got number"),
    (
        r#"{"type": ["string", "null"]}"#,
        "true",
        "wrong type: expected one of string, null, got boolean",
    ),
    (r#"{"enum": [1]}"#, "2", "matches none of the enum values"),
    (r#"{"const": 1}"#, "2", "matches none of the enum values"),
    (r#"{"minimum": 1}"#, "0", "expected 0 to be at least 1"),
    (r#"{"exclusiveMinimum": 0}"#, "0", "expected 0 to be greater than 0"),
    (r#"{"maximum": 5}"#, "9", "expected 9 to be at most 5"),
    (r#"{"exclusiveMaximum": 5}"#, "9", "expected 9 to be smaller than 5"),
    (r#"{"minLength": 1}"#, r#""""#, "string too short, expected at least 1, got 0"),
    (r#"{"maxLength": 2}"#, r#""abc""#, "string too long, expected at most 2, got 3"),
    (r#"{"pattern": "^b"}"#, r#""abc""#, r#"failed to match pattern "^b" with "abc""#),
    (
        r#"{"items": {"type": "string"}}"#,
        "[1]",
        "failed to validate item 1: wrong type: expected string, got number",
    ),
    (r#"{"minItems": 2}"#, "[1]", "expect array to have at least 2 items"),
    (r#"{"maxItems": 1}"#, "[1, 2]", "expect array to have at most 1 items"),
    (r#"{"uniqueItems": true}"#, "[1, 1]", "expected unique items but items 1 and 2 are equal"),
    (
        r#"{"items": [true], "additionalItems": false}"#,
        "[1, 2]",
        "found unexpected extra items in array",
    ),
    (r#"{"allOf": [{"minimum": 2}]}"#, "1", "allOf 1 failed: expected 1 to be at least 2"),
    (r#"{"anyOf": [{"minimum": 2}]}"#, "1", "object matches none of the required"),
    (r#"{"oneOf": [{"minimum": 2}]}"#, "1", "value should match only one schema, but matches none"),
    (
        r#"{"oneOf": [true, true]}"#,
        "1",
        "value should match only one schema, but matches both schemas 1 and 2",
    ),
    (r#"{"not": {"minimum": 1}}"#, "1", "value wasn't supposed to match schema"),
    (r#"{"multipleOf": 2}"#, "3", "expected 3 to be a multiple of 2"),
    (r#"{"format": "ipv4"}"#, r#""x""#, "expect valid ipv4 format but got: x"),
];

/// Schemas of an object, and what is wrong with one whose property `a` is 1.
const BAD_OBJECTS: &[(&str, &str)] = &[
    (r#"{"required": ["b"]}"#, r#"property "b" is required"#),
    (r#"{"additionalProperties": false}"#, "additional properties forbidden, found a"),
    (
        r#"{"additionalProperties": {"type": "string"}}"#,
        "failed to validate additional property a: wrong type: expected string, got number",
    ),
    (
        r#"{"patternProperties": {"^a": {"minimum": 2}}}"#,
        r#"failed to validate a (matching "^a"): expected 1 to be at least 2"#,
    ),
    (r#"{"minProperties": 2}"#, "expect object to have at least 2 properties"),
    (r#"{"maxProperties": 0}"#, "expect object to have at most 0 properties"),
    (
        r#"{"anyOf": [{"required": ["b"]}, {"required": ["c"]}]}"#,
        r#"object matches none of the required: ["b"] or ["c"]"#,
    ),
    (r#"{"if": {"required": ["a"]}, "then": {"required": ["b"]}}"#, "then clause did not match"),
    (r#"{"if": {"required": ["b"]}, "else": {"required": ["c"]}}"#, "else clause did not match"),
    (r#"{"dependencies": {"a": ["b"]}}"#, r#"property "b" is required when "a" is set"#),
    (
        r#"{"dependencies": {"a": {"required": ["b"]}}}"#,
        r#"failed to validate dependent schema for "a": property "b" is required"#,
    ),
];

fn parse_json(text: &str) -> Value {
    serde_json::from_str(text).expect("the table has JSON")
}

#[test]
fn refusals_say_what_is_wrong_in_the_words_that_apisix_has_for_it() {
    for (rules, value, inner) in BAD_PROPERTIES {
        let schema = json!({"properties": {"a": parse_json(rules)}});
        let expected = format!("property \"a\" validation failed: {inner}");
        let body = format!("{{\"a\": {value}}}");
        let outcome = post(&json!({ "body_schema": schema }), "A: b", &body);
        assert_eq!((outcome.status(), outcome.body()), (400, expected.as_str()), "{rules}");
        // Headers are texts, so that only what is wrong with a text can be wrong with them.
        let Value::String(text) = parse_json(value) else { continue };
        let outcome = post(&json!({ "header_schema": schema }), &format!("a: {text}"), "");
        assert_eq!((outcome.status(), outcome.body()), (400, expected.as_str()), "{rules}");
    }
    for (schema, expected) in BAD_OBJECTS {
        let conf = json!({"body_schema": parse_json(schema)});
        let outcome = post(&conf, "A: b", "{\"a\": 1}");
        assert_eq!((outcome.status(), outcome.body()), (400, *expected), "{schema}");
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
        (
            json!({}),
            "object matches none of the required: [\"header_schema\"] or [\"body_schema\"]",
        ),
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
