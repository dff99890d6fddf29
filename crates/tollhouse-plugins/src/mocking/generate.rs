//! Random documents that satisfy a JSON Schema, as JSON or XML.
//!
//! Only `type`, `properties`, `items` and `example` of a schema are used.

use std::fmt::Write;

use serde_json::{Map, Number, Value, json};
use tollhouse_stdx::random::Random;

/// Largest number of values in a document, because nested lists could otherwise grow without bound.
const VALUES_MAX: u32 = 10_000;

/// Largest number of items in a generated list.
const ITEMS_MAX: u32 = 3;

/// Largest number of letters in a generated text.
const LETTERS_MAX: u32 = 10;

/// Exclusive upper bound of generated numbers.
const NUMBERS_END: u32 = 10_000;

/// Name of the root element of XML documents.
const ROOT: &str = "data";

/// Format of a generated document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    Json,
    Xml,
    /// Empty text, for formats that cannot be generated.
    Empty,
}

/// Generates a document that satisfies the schema of an object.
pub(super) fn document(schema: &Map<String, Value>, form: Form, random: &mut Random) -> String {
    let mut maker = Maker { random, values_left: VALUES_MAX };
    match form {
        Form::Json => maker.object(schema).to_string(),
        Form::Xml => xml(&maker.object(schema)),
        Form::Empty => String::new(),
    }
}

struct Maker<'r> {
    random: &'r mut Random,
    values_left: u32,
}

impl Maker<'_> {
    /// Generates a value; `None` if the schema's type is missing or unknown.
    fn value(&mut self, schema: &Value) -> Option<Value> {
        let schema = schema.as_object()?;
        self.values_left = self.values_left.checked_sub(1)?;
        let example = schema.get("example");
        match schema.get("type")?.as_str()?.to_ascii_lowercase().as_str() {
            "object" => Some(self.object(schema)),
            "array" => self.array(schema),
            "string" => {
                Some(example.filter(|it| it.is_string()).cloned().unwrap_or_else(|| self.text()))
            }
            "number" => {
                let made = |maker: &mut Self| json!(maker.random.unit() * f64::from(NUMBERS_END));
                Some(example.filter(|it| it.is_number()).cloned().unwrap_or_else(|| made(self)))
            }
            "integer" => Some(example.and_then(floor).unwrap_or_else(|| self.integer())),
            "boolean" => Some(json!(match example {
                Some(Value::Bool(example)) => *example,
                _ => self.random.below(2) == 1,
            })),
            _ => None,
        }
    }

    fn object(&mut self, schema: &Map<String, Value>) -> Value {
        let mut object = Map::new();
        for (name, property) in
            schema.get("properties").and_then(Value::as_object).into_iter().flatten()
        {
            if let Some(value) = self.value(property) {
                object.insert(name.clone(), value);
            }
        }
        Value::Object(object)
    }

    fn array(&mut self, schema: &Map<String, Value>) -> Option<Value> {
        let items = schema.get("items")?;
        let count = 1 + self.random.below(ITEMS_MAX);
        Some((0..count).filter_map(|_| self.value(items)).collect())
    }

    fn text(&mut self) -> Value {
        let length = 1 + self.random.below(LETTERS_MAX);
        let letter = |random: &mut Random| char::from(b'a' + random.below(26) as u8);
        Value::String((0..length).map(|_| letter(self.random)).collect())
    }

    fn integer(&mut self) -> Value {
        json!(1 + self.random.below(NUMBERS_END))
    }
}

fn floor(example: &Value) -> Option<Value> {
    let Value::Number(number) = example else { return None };
    if number.is_f64() {
        let floor = number.as_f64()?.floor();
        // Larger integers have no exact form in JSON.
        let whole = (floor.abs() < 2e15).then(|| Number::from(floor as i64));
        return whole.or_else(|| Number::from_f64(floor)).map(Value::Number);
    }
    Some(example.clone())
}

/// Writes an object as elements inside the root element.
fn xml(object: &Value) -> String {
    let mut out = format!("<{ROOT}>\n");
    elements(object, 1, &mut out);
    // Writing to a string cannot fail, here and below.
    let _ = writeln!(out, "</{ROOT}>");
    out
}

/// Writes the fields of an object. Recursion is as deep as the schema, whose depth the JSON parser
/// bounds.
fn elements(object: &Value, depth: usize, out: &mut String) {
    for (name, value) in object.as_object().into_iter().flatten() {
        element(name, value, depth, out);
    }
}

fn element(name: &str, value: &Value, depth: usize, out: &mut String) {
    let indent = "  ".repeat(depth);
    match value {
        Value::Array(items) => items.iter().for_each(|item| element(name, item, depth, out)),
        Value::Object(_) => {
            let _ = writeln!(out, "{indent}<{name}>");
            elements(value, depth + 1, out);
            let _ = writeln!(out, "{indent}</{name}>");
        }
        Value::String(text) => {
            let _ = writeln!(out, "{indent}<{name}>{}</{name}>", escaped(text));
        }
        plain => {
            let _ = writeln!(out, "{indent}<{name}>{plain}</{name}>");
        }
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(schema: &Value, form: Form, seed: u64) -> String {
        document(schema.as_object().unwrap(), form, &mut Random::seeded(seed))
    }

    #[test]
    fn examples_are_taken_where_their_type_fits() {
        for (property, expected) in [
            (json!({"type": "string", "example": "hello"}), "\"hello\""),
            (json!({"type": "integer", "example": 4}), "4"),
            (json!({"type": "integer", "example": 4.7}), "4"),
            (json!({"type": "number", "example": 5.5}), "5.5"),
            (json!({"type": "Boolean", "example": true}), "true"),
            (json!({"type": "object"}), "{}"),
            (
                json!({"type": "object", "properties": {"b": {"type": "string", "example": ""}}}),
                "{\"b\":\"\"}",
            ),
        ] {
            let schema = json!({"type": "object", "properties": {"a": property}});
            assert_eq!(made(&schema, Form::Json, 1), format!("{{\"a\":{expected}}}"), "{schema}");
        }
    }

    #[test]
    fn values_without_example_are_of_their_type() {
        let schema = json!({"properties": {
            "s": {"type": "string", "example": 1},
            "i": {"type": "integer"},
            "n": {"type": "number"},
            "b": {"type": "boolean"},
            "a": {"type": "array", "items": {"type": "integer"}},
            "none": {"type": "array"},
            "other": {"type": "null"},
            "bad": 7,
        }});
        for seed in 0..100 {
            let made: Value = serde_json::from_str(&made(&schema, Form::Json, seed)).unwrap();
            let text = made["s"].as_str().unwrap();
            assert!((1..=10).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_lowercase()));
            assert!((1..=10_000).contains(&made["i"].as_u64().unwrap()));
            assert!((0.0..10_000.0).contains(&made["n"].as_f64().unwrap()));
            assert!(made["b"].is_boolean());
            assert!((1..=3).contains(&made["a"].as_array().unwrap().len()));
            assert_eq!(made.as_object().unwrap().len(), 5);
        }
        assert_eq!(made(&json!({}), Form::Json, 0), "{}");
    }

    #[test]
    fn lists_in_lists_end() {
        let mut items = json!({"type": "string"});
        for _ in 0..60 {
            items = json!({"type": "array", "items": items});
        }
        let schema = json!({"properties": {"a": items}});
        assert!(made(&schema, Form::Json, 3).len() < 1 << 20);
    }

    #[test]
    fn xml_has_one_root_and_an_element_a_value() {
        let schema = json!({"properties": {
            "a": {"type": "string", "example": "x < y"},
            "b": {"type": "object", "properties": {"c": {"type": "integer", "example": 1}}},
            "d": {"type": "array", "items": {"type": "boolean", "example": true}},
        }});
        let made = made(&schema, Form::Xml, 1);
        let head = "<data>\n  <a>x &lt; y</a>\n  <b>\n    <c>1</c>\n  </b>\n  <d>true</d>\n";
        assert!(made.starts_with(head) && made.ends_with("</data>\n"), "{made}");
    }
}
