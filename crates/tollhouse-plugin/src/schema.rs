//! JSON Schemas of configuration types, in the simple form that APISIX's clients know: draft 7,
//! without references, and without `null` for optional fields.

use std::marker::PhantomData;

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value};

/// Generator of the JSON Schema of a configuration type `T`.
#[derive(Debug)]
pub struct SchemaOf<T>(PhantomData<T>);

/// Keywords that `schemars` generates and that are removed, because APISIX's schemas do not have
/// them.
const NOISE: [&str; 3] = ["$schema", "title", "format"];

impl<T: JsonSchema> SchemaOf<T> {
    /// Generates the schema, draft 07, with subschemas inlined.
    pub fn value() -> Value {
        let mut settings = SchemaSettings::draft07();
        settings.inline_subschemas = true;
        let schema = settings.into_generator().into_root_schema_for::<T>();
        let mut schema = Value::from(schema);
        simplify(&mut schema);
        schema
    }
}

/// Converts a schema and its subschemas to the simple form.
fn simplify(schema: &mut Value) {
    match schema {
        Value::Object(fields) => {
            if fields.contains_key("type") || fields.contains_key("$schema") {
                for noise in NOISE {
                    // `format` is kept for `ipv4` and `ipv6`, where it is a rule; for numbers it is
                    // not.
                    let is_rule = fields.get("format").is_some_and(|format| {
                        noise == "format" && matches!(format.as_str(), Some("ipv4" | "ipv6"))
                    });
                    if !is_rule && fields.get(noise).is_none_or(Value::is_string) {
                        fields.shift_remove(noise);
                    }
                }
            }
            drop_null(fields);
            merge_words(fields);
            fields.values_mut().for_each(simplify);
        }
        Value::Array(items) => items.iter_mut().for_each(simplify),
        _ => {}
    }
}

/// Removes `null` from optional fields: such a field may be absent, but not `null`.
fn drop_null(fields: &mut Map<String, Value>) {
    if let Some(Value::Array(types)) = fields.get_mut("type") {
        types.retain(|name| name != "null");
        if let [only] = types.as_slice() {
            let only = only.clone();
            fields.insert("type".into(), only);
        }
    }
    if let Some(Value::Array(values)) = fields.get_mut("enum") {
        values.retain(|value| !value.is_null());
    }
    if fields.get("default").is_some_and(Value::is_null) {
        fields.shift_remove("default");
    }
    let Some(Value::Array(branches)) = fields.get_mut("anyOf") else { return };
    let before = branches.len();
    branches.retain(|branch| branch["type"] != "null");
    // A single branch beside `null` is an optional field; more branches are a real choice.
    if branches.len() == 1 && before == 2 {
        let only = branches.pop();
        fields.shift_remove("anyOf");
        if let Some(Value::Object(only)) = only {
            for (name, value) in only {
                fields.entry(name).or_insert(value);
            }
        }
    }
}

/// Merges documented enum variants, which are generated as one branch each, into one list.
fn merge_words(fields: &mut Map<String, Value>) {
    let Some(Value::Array(branches)) = fields.get("oneOf") else { return };
    let mut words = Vec::new();
    for branch in branches {
        match (&branch["const"], &branch["enum"]) {
            (word @ Value::String(_), _) => words.push(word.clone()),
            (_, Value::Array(listed)) if branch["type"] == "string" => words.extend(listed.clone()),
            _ => return,
        }
    }
    fields.shift_remove("oneOf");
    fields.insert("type".into(), "string".into());
    fields.insert("enum".into(), words.into());
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[derive(JsonSchema)]
    #[serde(rename_all = "snake_case")]
    #[expect(dead_code, reason = "only its schema is used")]
    enum Documented {
        /// First variant.
        First,
        SecondOne,
        ThirdOne,
    }

    #[test]
    fn documented_variants_are_one_list_of_words() {
        let schema = SchemaOf::<Documented>::value();
        assert_eq!(schema["type"], "string");
        let mut words: Vec<_> = schema["enum"].as_array().unwrap().clone();
        words.sort_by_key(Value::to_string);
        assert_eq!(words, [json!("first"), json!("second_one"), json!("third_one")]);
        assert!(schema.get("oneOf").is_none());
    }
}
