//! Tests of messages keyword by keyword, of defaults, secrets and limits, and that no input panics.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

fn verdict(document: Value, value: Value) -> String {
    let schema = Schema::compile(&document).expect("the schema of a test is good");
    assert_same_as_text(&schema, &value);
    match schema.validate(&value) {
        Ok(()) => "ok".to_owned(),
        Err(violation) => violation.into(),
    }
}

/// Asserts that a value and its JSON text have the same violations and receive the same defaults.
fn assert_same_as_text(schema: &Schema, value: &Value) {
    let text = value.to_string();
    let document = crate::json::Document::parse(text.as_bytes()).expect("it is JSON");
    let mut filled = value.clone();
    let verdict = schema.validate_and_fill(&mut filled);
    let additions = schema.validate_text(&document);
    assert_eq!(additions.as_ref().map(|_| ()), verdict.as_ref().map(|_| ()), "{text}");
    if let Ok(additions) = additions {
        let written = crate::json::write_compact(&document, &additions);
        let written = written.unwrap_or_else(|| text.as_bytes().to_vec());
        // Converted through text, because a number that is read back may differ in the last digit.
        let expected = serde_json::from_str::<Value>(&filled.to_string());
        assert_eq!(serde_json::from_slice::<Value>(&written).ok(), expected.ok(), "{text}");
    }
}

fn check_all(table: impl IntoIterator<Item = (Value, Value, &'static str)>) {
    for (document, value, expected) in table {
        let shown = format!("{value} against {document}");
        assert_eq!(verdict(document, value), expected, "{shown}");
    }
}

#[test]
fn types_are_named() {
    check_all([
        (json!({"type": "string"}), json!(1), "wrong type: expected string, got number"),
        (json!({"type": "string"}), json!({"a": 1}), "wrong type: expected string, got table"),
        (json!({"type": "string"}), json!(null), "wrong type: expected string, got userdata"),
        (json!({"type": "integer"}), json!(1.5), "wrong type: expected integer, got number"),
        (json!({"type": "integer"}), json!(1.0), "ok"),
        (json!({"type": "integer"}), json!(1e300), "ok"),
        (json!({"type": "integer"}), json!("1"), "wrong type: expected integer, got string"),
        (json!({"type": "number"}), json!(true), "wrong type: expected number, got boolean"),
        (json!({"type": "object"}), json!("a"), "wrong type: expected object, got string"),
        (json!({"type": "object"}), json!([1]), "wrong type: expected object, got table"),
        (json!({"type": "object"}), json!([]), "ok"),
        (json!({"type": "array"}), json!({}), "ok"),
        (json!({"type": "array"}), json!({"a": 1}), "wrong type: expected array, got table"),
        (json!({"type": "null"}), json!(null), "ok"),
        (json!({"type": "boolean"}), json!(0), "wrong type: expected boolean, got number"),
        (
            json!({"type": ["string", "integer"]}),
            json!(true),
            "wrong type: expected one of string, integer, got boolean",
        ),
        (json!(true), json!(1), "ok"),
        (json!(false), json!(1), "expect false always"),
    ]);
}

#[test]
fn texts_and_numbers_have_bounds() {
    check_all([
        (json!({"minLength": 1}), json!(""), "string too short, expected at least 1, got 0"),
        (json!({"maxLength": 2}), json!("éé"), "ok"),
        (json!({"maxLength": 2}), json!("ééé"), "string too long, expected at most 2, got 3"),
        (json!({"maxLength": 2}), json!(12345), "ok"),
        (
            json!({"pattern": "^\\S+$"}),
            json!("a b"),
            r#"failed to match pattern "^\\S+$" with "a b""#,
        ),
        (json!({"pattern": "b+"}), json!("abc"), "ok"),
        (
            json!({"pattern": "^(?!a)"}),
            json!("abc"),
            r#"failed to match pattern "^(?!a)" with "abc""#,
        ),
        (json!({"minimum": 1}), json!(0), "expected 0 to be at least 1"),
        (json!({"minimum": 1}), json!(0.0), "expected 0 to be at least 1"),
        (json!({"minimum": 1}), json!(1), "ok"),
        (json!({"exclusiveMinimum": 0}), json!(0), "expected 0 to be greater than 0"),
        (json!({"maximum": 5}), json!(9), "expected 9 to be at most 5"),
        (json!({"exclusiveMaximum": 5}), json!(9), "expected 9 to be smaller than 5"),
        (
            json!({"minimum": 0, "exclusiveMinimum": true}),
            json!(0),
            "expected 0 to be greater than 0",
        ),
        (json!({"minimum": 0, "exclusiveMinimum": false}), json!(0), "ok"),
        (json!({"multipleOf": 2}), json!(3), "expected 3 to be a multiple of 2"),
        (json!({"multipleOf": 0.5}), json!(1.5), "ok"),
        (json!({"multipleOf": 0.5}), json!(1.2), "expected 1.2 to be a multiple of 0.5"),
        (json!({"enum": ["a", 1, {"b": 2}]}), json!({"b": 2.0}), "ok"),
        (json!({"enum": ["a", 1]}), json!("b"), "matches none of the enum values"),
        (json!({"const": 1}), json!(1.0), "ok"),
        (json!({"const": 1}), json!(2), "matches none of the enum values"),
        (json!({"format": "ipv4"}), json!("10.0.0.1"), "ok"),
        (json!({"format": "ipv4"}), json!("10.0.0"), "expect valid ipv4 format but got: 10.0.0"),
        (json!({"format": "ipv6"}), json!("::1"), "ok"),
        (json!({"format": "ipv6"}), json!("x"), "expect valid ipv6 format but got: x"),
        (json!({"format": "email"}), json!("x"), "ok"),
    ]);
}

#[test]
fn objects_are_checked_property_by_property() {
    let two = json!({
        "type": "object",
        "properties": {"a": {"type": "string"}, "b": {"type": "integer"}},
        "required": ["b", "c"],
    });
    check_all([
        (
            two.clone(),
            json!({"a": 1}),
            r#"property "a" validation failed: wrong type: expected string, got number"#,
        ),
        (two.clone(), json!({"a": "x"}), r#"property "b" is required"#),
        (two.clone(), json!({"b": 1}), r#"property "c" is required"#),
        (two.clone(), json!([]), r#"property "b" is required"#),
        (two, json!({"b": 1, "c": null}), "ok"),
        (
            json!({"properties": {"a": {}}, "additionalProperties": false}),
            json!({"a": 1, "x": 2}),
            "additional properties forbidden, found x",
        ),
        (
            json!({"additionalProperties": {"type": "string"}}),
            json!({"x": 2}),
            "failed to validate additional property x: wrong type: expected string, got number",
        ),
        (
            json!({"patternProperties": {"^k": {"minimum": 1}}, "additionalProperties": false}),
            json!({"k1": 1, "k2": 0}),
            r#"failed to validate k2 (matching "^k"): expected 0 to be at least 1"#,
        ),
        (
            json!({"patternProperties": {"^k": true}, "additionalProperties": false}),
            json!({"k": 1, "x": 0}),
            "additional properties forbidden, found x",
        ),
        (json!({"minProperties": 1}), json!({}), "expect object to have at least 1 properties"),
        (
            json!({"maxProperties": 1}),
            json!({"a": 1, "b": 2}),
            "expect object to have at most 1 properties",
        ),
        (
            json!({"dependencies": {"x": ["y"]}}),
            json!({"x": 1}),
            r#"property "y" is required when "x" is set"#,
        ),
        (
            json!({"properties": {"x": true}, "dependencies": {"x": {"required": ["y"]}}}),
            json!({"x": 1}),
            r#"failed to validate dependent schema for "x": property "y" is required"#,
        ),
        (json!({"dependencies": {"x": ["y"]}}), json!({}), "ok"),
        (
            json!({"propertyNames": {"maxLength": 1}}),
            json!({"ab": 1}),
            "property name \"ab\" validation failed: string too long, expected at most 1, got 2",
        ),
        (json!({"required": ["a"]}), json!("no object"), "ok"),
    ]);
}

#[test]
fn lists_are_checked_item_by_item() {
    check_all([
        (
            json!({"items": {"type": "string"}}),
            json!(["a", 1]),
            "failed to validate item 2: wrong type: expected string, got number",
        ),
        (json!({"minItems": 1}), json!([]), "expect array to have at least 1 items"),
        (json!({"minItems": 1}), json!({}), "expect array to have at least 1 items"),
        (json!({"maxItems": 1}), json!([1, 2]), "expect array to have at most 1 items"),
        (
            json!({"uniqueItems": true}),
            json!([1, 2, 1.0]),
            "expected unique items but items 1 and 3 are equal",
        ),
        (
            json!({"items": [{"type": "string"}, {"type": "integer"}], "additionalItems": false}),
            json!(["a", 1, 2]),
            "found unexpected extra items in array",
        ),
        (
            json!({"items": [true], "additionalItems": {"type": "string"}}),
            json!([1, 2]),
            "failed to validate additional item 2: wrong type: expected string, got number",
        ),
        (json!({"items": [true, false]}), json!([1]), "ok"),
        (json!({"items": false}), json!([1]), "failed to validate item 1: expect false always"),
        (json!({"contains": {"const": 1}}), json!([2, 1]), "ok"),
        (json!({"contains": {"const": 1}}), json!([2]), "failed to check contains"),
        (json!({"contains": {"const": 1}}), json!([]), "check contains: empty array is invalid"),
    ]);
}

#[test]
fn schemas_combine() {
    let one_of = json!({"oneOf": [{"required": ["a"]}, {"required": ["b"]}]});
    let conditional = json!({
        "if": {"properties": {"kind": {"enum": ["x"]}}, "required": ["kind"]},
        "then": {"required": ["a"]},
        "else": {"required": ["b"]},
    });
    check_all([
        (
            json!({"allOf": [true, {"minimum": 2}]}),
            json!(1),
            "allOf 2 failed: expected 1 to be at least 2",
        ),
        (
            json!({"anyOf": [{"type": "string"}, {"minimum": 2}]}),
            json!(1),
            "object matches none of the required",
        ),
        (
            json!({"anyOf": [{"required": ["a"]}, {"required": ["a", "b"]}]}),
            json!({}),
            r#"object matches none of the required: ["a"] or ["a","b"]"#,
        ),
        (one_of.clone(), json!({}), "value should match only one schema, but matches none"),
        (
            one_of.clone(),
            json!({"a": 1, "b": 1}),
            "value should match only one schema, but matches both schemas 1 and 2",
        ),
        (one_of, json!({"b": 1}), "ok"),
        (
            json!({"not": {"required": ["a"]}}),
            json!({"a": 1}),
            "value wasn't supposed to match schema",
        ),
        (conditional.clone(), json!({"kind": "x"}), "then clause did not match"),
        (conditional.clone(), json!({"kind": "y"}), "else clause did not match"),
        (conditional, json!({"kind": "x", "a": 1}), "ok"),
    ]);
}

#[test]
fn the_first_fault_is_told_in_the_usual_order() {
    let document = json!({
        "type": "object",
        "properties": {"a": {"type": "string", "minLength": 3, "pattern": "^x", "enum": ["y"]}},
        "additionalProperties": false,
        "maxProperties": 1,
        "oneOf": [{"required": ["b"]}],
    });
    check_all([
        (
            document.clone(),
            json!({"z": 1, "a": "y"}),
            r#"property "a" validation failed: string too short, expected at least 3, got 1"#,
        ),
        (document.clone(), json!({"z": 1}), "additional properties forbidden, found z"),
        (document, json!({}), "value should match only one schema, but matches none"),
        (
            json!({"maxItems": 3, "items": {"type": "string"}, "uniqueItems": true}),
            json!([1, 1]),
            "failed to validate item 1: wrong type: expected string, got number",
        ),
    ]);
}

#[test]
fn references_lead_into_the_same_document() {
    let tree = json!({
        "$ref": "#/definitions/tree",
        "definitions": {"tree": {
            "type": "object",
            "properties": {
                "children": {"type": "array", "items": {"$ref": "#/definitions/tree"}},
                "a/b": {"$ref": "#/$defs/count"},
            },
            "required": ["children"],
        }},
        "$defs": {"count": {"type": "integer"}},
    });
    check_all([
        (tree.clone(), json!({"children": [{"children": []}]}), "ok"),
        (
            tree.clone(),
            json!({"children": [{"children": [{}]}]}),
            "property \"children\" validation failed: failed to validate item 1: property \
             \"children\" validation failed: failed to validate item 1: property \"children\" \
             is required",
        ),
        (
            tree,
            json!({"children": [], "a/b": "x"}),
            "property \"a/b\" validation failed: wrong type: expected integer, got string",
        ),
        (json!({"$ref": "#"}), json!(1), "nested more than 160 levels deep"),
        (json!({"not": {"$ref": "#"}}), json!(1), "nested more than 160 levels deep"),
        (
            json!({"anyOf": [{"allOf": [{"$ref": "#"}]}, {"items": {"$ref": "#"}}]}),
            json!(1),
            "nested more than 160 levels deep",
        ),
    ]);
}

#[test]
fn branches_that_multiply_are_given_up() {
    // Each level tries the one below it twice.
    let mut definitions = json!({"0": {"type": "string"}});
    for level in 1..60 {
        let below = json!({"$ref": format!("#/definitions/{}", level - 1)});
        definitions[level.to_string()] = json!({"anyOf": [below, below]});
    }
    let document = json!({"$ref": "#/definitions/59", "definitions": definitions});
    check_all([(document, json!(1), "more than 1000000 steps to validate")]);
}

#[test]
fn bad_documents_are_refused_with_a_reason() {
    let deep = (0..200).fold(json!({}), |inner, _| json!({"items": inner}));
    let long: Vec<Value> = (0..60_000).map(Value::from).collect();
    let table = [
        (json!(1), "a schema must be an object or a boolean"),
        (json!({"type": "text"}), "invalid JSON type: \"text\""),
        (json!({"type": 1}), "invalid JSON type: 1"),
        (json!({"pattern": "("}), "invalid pattern \"(\": unclosed group"),
        (json!({"patternProperties": {"[": true}}), "invalid pattern \"[\": unclosed character"),
        (json!({"minLength": -1}), "invalid \"minLength\": expected an integer from 0"),
        (json!({"minItems": "1"}), "invalid \"minItems\": expected a number"),
        (json!({"multipleOf": 0}), "invalid \"multipleOf\": expected a number above 0"),
        (json!({"required": [1]}), "invalid \"required\": expected an array of strings"),
        (json!({"properties": 1}), "invalid \"properties\": expected an object"),
        (json!({"properties": {"a": 1}}), "a schema must be an object or a boolean"),
        (json!({"enum": 1}), "invalid \"enum\": expected an array"),
        (json!({"uniqueItems": 1}), "invalid \"uniqueItems\": expected a boolean"),
        (json!({"$ref": "#/a"}), "invalid reference \"#/a\""),
        (json!({"$ref": "http://a/b"}), "invalid reference \"http://a/b\""),
        (json!({"$ref": 1}), "invalid \"$ref\": expected a string"),
        (deep, "nested more than 96 levels deep"),
        (json!({"enum": long}), "more than 50000 values"),
    ];
    for (document, expected) in table {
        let reason = Schema::compile(&document).expect_err("the document is bad").to_string();
        assert!(reason.starts_with(expected), "{reason}");
    }
}

#[test]
fn secrets_pass_for_values_of_the_configuration_only() {
    let document = json!({
        "type": "object",
        "properties": {
            "count": {"type": "integer"},
            "name": {"type": "string", "maxLength": 3, "enum": ["a"]},
            "list": {"type": "array", "items": {"type": "boolean"}},
            "whole": {"type": "array", "items": {"type": "boolean"}},
            "inner": {"type": "object"},
        },
        "additionalProperties": {"minimum": 1, "type": ["number", "object"]},
    });
    for prefix in ["$secret://vault/1/a/b", "$env://A", "$ENV://A/b"] {
        let value = json!({"count": prefix, "name": prefix, "list": [prefix], "whole": prefix, "x": prefix});
        assert_eq!(verdict(document.clone(), value.clone()), "ok");
        let traffic = Schema::compile_for(&document, Subject::Traffic).expect("it is good");
        let refused = traffic.validate(&value).expect_err("nothing stands for anything here");
        let reason = refused.to_string();
        assert!(reason.starts_with("property \"count\""), "{reason}");
    }
    check_all([
        (
            document.clone(),
            json!({"inner": "$env://A"}),
            "property \"inner\" validation failed: wrong type: expected object, got string",
        ),
        (document.clone(), json!("$env://A"), "wrong type: expected object, got string"),
        (
            document,
            json!({"count": "env://A"}),
            "property \"count\" validation failed: wrong type: expected integer, got string",
        ),
    ]);
}

#[test]
fn defaults_are_filled_in_where_they_belong() {
    let document = json!({
        "type": "object",
        "properties": {
            "a": {"type": "integer", "default": 1},
            "on": {"type": "boolean", "default": false},
            "none": {"default": null},
            "inner": {
                "type": "object",
                "properties": {"b": {"default": "x"}},
                "default": {},
            },
            "list": {"items": {"properties": {"c": {"default": [1]}}}},
        },
        "additionalProperties": {"properties": {"d": {"default": 2}}},
        "oneOf": [
            {"properties": {"a": {"enum": [7]}, "seven": {"default": true}}},
            {"properties": {"a": {"enum": [1]}, "one": {"default": true}}},
        ],
        "if": {"required": ["list"]},
        "then": {"properties": {"listed": {"default": true}}},
        "else": {"properties": {"unlisted": {"default": true}}},
    });
    let schema = Schema::compile(&document).expect("the document is good");
    let table = [
        (
            json!({}),
            json!({"a": 1, "on": false, "inner": {"b": "x"}, "one": true, "unlisted": true}),
        ),
        (
            json!({"a": 7, "on": true, "inner": {"b": 1}, "list": [{}, {"c": 2}], "z": {}}),
            json!({
                "a": 7, "on": true, "inner": {"b": 1}, "list": [{"c": [1]}, {"c": 2}],
                "z": {"d": 2}, "seven": true, "listed": true,
            }),
        ),
        (
            json!([]),
            json!({"a": 1, "on": false, "inner": {"b": "x"}, "one": true, "unlisted": true}),
        ),
        (json!("text"), json!("text")),
    ];
    for (mut value, expected) in table {
        assert_same_as_text(&schema, &value);
        if value != json!("text") {
            assert_eq!(schema.validate(&value), Ok(()), "{value}");
        }
        schema.apply_defaults(&mut value);
        // A second run changes nothing.
        schema.apply_defaults(&mut value);
        assert_eq!(value, expected);
    }
}

#[test]
fn conditions_see_the_defaults_of_their_object() {
    let document = json!({
        "properties": {"policy": {"enum": ["local", "redis"], "default": "local"}},
        "if": {"properties": {"policy": {"enum": ["redis"]}}},
        "then": {"required": ["redis_host"]},
    });
    check_all([
        (document.clone(), json!({}), "ok"),
        (document.clone(), json!({"policy": "redis"}), "then clause did not match"),
        (document, json!({"policy": "redis", "redis_host": "a"}), "ok"),
    ]);
}

#[test]
fn long_values_do_not_fill_messages() {
    let long = "x".repeat(100_000);
    for document in [
        json!({"additionalProperties": false}),
        json!({"additionalProperties": {"pattern": "y"}}),
        json!({"propertyNames": {"pattern": "y"}}),
        json!({"additionalProperties": {"format": "ipv4"}}),
    ] {
        let reason = verdict(document, json!({ long.as_str(): long }));
        assert!(reason.len() < 4096, "{}", reason.len());
    }
}

/// Strategy for arbitrary JSON of few words, so that schemas and values often share names.
fn any_value() -> impl Strategy<Value = Value> {
    let word = proptest::sample::select(vec![
        "a",
        "b",
        "type",
        "properties",
        "required",
        "items",
        "enum",
        "const",
        "allOf",
        "anyOf",
        "oneOf",
        "not",
        "if",
        "then",
        "else",
        "default",
        "pattern",
        "minimum",
        "maxLength",
        "minItems",
        "uniqueItems",
        "additionalProperties",
        "patternProperties",
        "dependencies",
        "contains",
        "propertyNames",
        "multipleOf",
        "format",
        "$ref",
        "definitions",
        "additionalItems",
        "exclusiveMinimum",
        "minProperties",
    ]);
    let text = proptest::sample::select(vec![
        "a",
        "b",
        "object",
        "array",
        "string",
        "integer",
        "#",
        "#/definitions/a",
        "ipv4",
        "^a",
        "(",
        "$env://A",
        "é",
    ]);
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (-3i64..4).prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        text.prop_map(Value::from),
    ];
    leaf.prop_recursive(5, 48, 6, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            prop::collection::vec((word.clone().prop_map(str::to_owned), inner), 0..6)
                .prop_map(|fields| Value::Object(fields.into_iter().collect())),
        ]
    })
}

/// Strategy for schemas that mostly compile, unlike schemas of arbitrary JSON.
fn any_schema() -> impl Strategy<Value = Value> {
    let kind = proptest::sample::select(vec!["object", "array", "string", "integer", "number"]);
    let leaf = prop_oneof![
        any::<bool>().prop_map(Value::from),
        kind.prop_map(|kind| json!({"type": kind})),
        any_value().prop_map(|value| json!({"default": value})),
        any_value().prop_map(|value| json!({"enum": [value]})),
        (-3i64..4).prop_map(|bound| json!({"minimum": bound, "uniqueItems": true})),
        Just(json!({"$ref": "#"})),
        Just(json!({"pattern": "^a", "minLength": 1, "format": "ipv6"})),
    ];
    leaf.prop_recursive(4, 32, 4, |inner| {
        let list = prop::collection::vec(inner.clone(), 1..4);
        prop_oneof![
            (inner.clone(), inner.clone()).prop_map(|(a, b)| json!({
                "properties": {"a": a, "b": b}, "required": ["a"],
            })),
            (inner.clone(), inner.clone()).prop_map(|(a, b)| json!({
                "patternProperties": {"^t": a}, "additionalProperties": b,
            })),
            (inner.clone(), inner.clone()).prop_map(|(a, b)| json!({
                "dependencies": {"a": a, "b": ["a"]}, "items": b,
            })),
            inner.clone().prop_map(|a| json!({"contains": a.clone(), "not": a})),
            list.clone().prop_map(|list| json!({"anyOf": list})),
            list.clone().prop_map(|list| json!({"allOf": list})),
            list.clone().prop_map(|list| json!({"oneOf": list})),
            list.prop_map(|list| json!({"items": list, "additionalItems": false})),
            (inner.clone(), inner.clone(), inner)
                .prop_map(|(a, b, c)| json!({"if": a, "then": b, "else": c})),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..Default::default() })]

    #[test]
    fn nothing_panics(document in prop_oneof![any_value(), any_schema()], value in any_value()) {
        if let Ok(schema) = Schema::compile(&document) {
            let verdict = schema.validate(&value);
            let mut filled = value.clone();
            prop_assert_eq!(&schema.validate_and_fill(&mut filled), &verdict);
            assert_same_as_text(&schema, &value);
            if let Err(reason) = verdict {
                prop_assert!(!reason.to_string().is_empty());
            }
        }
    }

    #[test]
    fn what_defaults_fill_in_takes_nothing_away(
        document in any_schema(),
        value in any_value(),
    ) {
        if let Ok(schema) = Schema::compile(&document) {
            let mut filled = value.clone();
            schema.apply_defaults(&mut filled);
            if let (Value::Object(before), Value::Object(after)) = (&value, &filled) {
                prop_assert!(before.keys().all(|name| after.contains_key(name)));
            }
        }
    }
}

#[test]
fn all_faults_are_found_each_at_its_place() {
    let schema = Schema::compile(&json!({
        "type": "object",
        "properties": {
            "uri": {"type": "string"},
            "nodes": {"type": "array", "items": {
                "type": "object",
                "properties": {"port": {"type": "integer", "maximum": 65535}},
                "required": ["host"],
            }},
            "labels": {"type": "object", "additionalProperties": {"type": "string"}},
            "either": {"oneOf": [{"type": "string"}, {"type": "boolean"}]},
            "name": {"type": "string"},
        },
        "required": ["uri", "name"],
        "additionalProperties": false,
    }))
    .expect("it is a schema");
    let value = json!({
        "uri": 5,
        "nodes": [{"host": "a", "port": 1}, {"port": 70000}],
        "labels": {"a/b": 1, "c": "d"},
        "either": 7,
        "other": 1,
    });
    let found: Vec<(String, String)> =
        schema.faults(&value).into_iter().map(|fault| (fault.pointer, fault.text)).collect();
    let expected = [
        ("/uri", "wrong type: expected string, got number"),
        ("/nodes/1/port", "expected 70000 to be at most 65535"),
        ("/nodes/1/host", "property \"host\" is required"),
        ("/labels/a~1b", "wrong type: expected string, got number"),
        ("/either", "value should match only one schema, but matches none"),
        ("/name", "property \"name\" is required"),
        ("/other", "additional properties forbidden, found other"),
    ];
    let expected = expected.map(|(pointer, text)| (pointer.to_owned(), text.to_owned()));
    assert_eq!(found, expected);
    assert_eq!(schema.faults(&json!({"uri": "/", "name": ""})), []);
}

#[test]
fn unknown_fields_and_values_come_with_what_was_probably_meant() {
    let schema = Schema::compile(&json!({
        "properties": {
            "uri": {"type": "string"},
            "policy": {"enum": ["local", "redis", "redis-cluster"]},
            "inner": {"properties": {"timeout": {}}, "additionalProperties": false},
            "either": {"oneOf": [{"enum": ["a"]}, {"type": "string"}]},
        },
        "additionalProperties": false,
    }))
    .expect("it is a schema");
    let table = [
        (json!({"urii": "/a"}), "/urii", Some("did you mean \"uri\"?")),
        (json!({"zzz": 1}), "/zzz", Some("known fields: uri, policy, inner, either")),
        (json!({"policy": "redsi"}), "/policy", Some("did you mean \"redis\"?")),
        (json!({"policy": "x"}), "/policy", Some("known values: local, redis, redis-cluster")),
        (json!({"policy": 5}), "/policy", None),
        (json!({"inner": {"timeuot": 1}}), "/inner/timeuot", Some("did you mean \"timeout\"?")),
        (json!({"either": 5}), "/either", None),
    ];
    for (value, pointer, hint) in table {
        let faults = schema.faults(&value);
        let found: Vec<(&str, Option<&str>)> =
            faults.iter().map(|fault| (&*fault.pointer, fault.hint.as_deref())).collect();
        assert_eq!(found, [(pointer, hint)], "{value}");
    }
    let many = json!({"a/b": 1, "policy": "locl", "urii": 1});
    let hints: Vec<Option<String>> =
        schema.faults(&many).into_iter().map(|fault| fault.hint).collect();
    assert_eq!(hints.iter().flatten().count(), 3, "{hints:?}");
}
