//! The schemas of objects: complete, documented, and refusing in the known words.

use serde_json::{Value, json};

use super::*;

fn verdict(name: &str, value: Value) -> String {
    check_core(name, &value).map_or_else(|reason| reason, |()| "ok".to_owned())
}

#[test]
fn every_document_compiles_and_stands_alone() {
    for name in core_names() {
        let core = core(name).expect("every name has a schema");
        assert_eq!(core.name(), name);
        let text = core.document().to_string();
        assert!(!text.contains("shared.json"), "{name}: {text}");
        // It compiles as it is handed out, too.
        let served: Value = serde_json::from_str(&text).expect("it was written as JSON");
        assert!(Schema::compile(&served).is_ok());
    }
    assert!(core("nothing").is_none());
    assert_eq!(verdict("nothing", json!({})), "not found schema: nothing");
}

#[test]
fn every_field_is_described_and_every_default_is_good() {
    for name in core_names() {
        let core = core(name).expect("every name has a schema");
        check_fields(core.document(), name);
    }
}

fn check_fields(schema: &Value, path: &str) {
    for (name, field) in schema["properties"].as_object().into_iter().flatten() {
        let path = format!("{path}.{name}");
        if schema.get("type").is_some() {
            assert!(field["description"].is_string(), "{path} is not described");
        }
        if let Some(default) = field.get("default") {
            let verdict = Schema::compile(field).expect("it compiles").validate(default);
            assert_eq!(verdict, Ok(()), "the default of {path}");
        }
        check_fields(field, &path);
    }
    for name in ["items", "anyOf", "oneOf"] {
        match &schema[name] {
            Value::Array(branches) => branches.iter().for_each(|branch| check_fields(branch, path)),
            Value::Object(_) => check_fields(&schema[name], path),
            _ => {}
        }
    }
}
