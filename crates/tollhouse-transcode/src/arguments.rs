//! Converts arguments of a query or form to JSON.

use std::borrow::Cow;

use serde_json::{Map, Value};

/// Maximum number of arguments read, as in APISIX.
const ARGUMENTS_MAX: usize = 100;

/// Maximum depth of a dotted name; each step is a nested object.
const STEPS_MAX: usize = 32;

/// Converts `a=1&b.c=2` to `{"a": "1", "b": {"c": "2"}}`: decoded, repeated arguments as lists,
/// arguments without `=` as `true`. An argument that contradicts earlier ones (`a=1&a.b=2`) is
/// ignored.
pub fn document_of_arguments(text: &[u8]) -> Vec<u8> {
    let mut document = Map::new();
    let pairs = text.split(|&byte| byte == b'&');
    for pair in pairs.filter(|pair| !pair.is_empty()).take(ARGUMENTS_MAX) {
        let mut parts = pair.splitn(2, |&byte| byte == b'=');
        let name = decoded(parts.next().unwrap_or_default());
        let value = parts.next().map_or(Value::Bool(true), |value| decoded(value).into());
        if !name.is_empty() && name.split('.').count() <= STEPS_MAX {
            insert(&mut document, &name, value);
        }
    }
    Value::Object(document).to_string().into_bytes()
}

fn insert(mut object: &mut Map<String, Value>, name: &str, value: Value) {
    let mut steps = name.split('.');
    let last = steps.next_back().unwrap_or_default();
    for step in steps {
        let inner = object.entry(step).or_insert_with(|| Value::Object(Map::new()));
        let Value::Object(inner) = inner else { return };
        object = inner;
    }
    match object.get_mut(last) {
        None => drop(object.insert(last.to_owned(), value)),
        Some(Value::Object(_)) => {}
        Some(Value::Array(values)) => values.push(value),
        Some(first) => *first = Value::Array(vec![first.take(), value]),
    }
}

/// Decodes `%XX` and `+`. Invalid UTF-8 is replaced, because JSON cannot carry it.
fn decoded(encoded: &[u8]) -> String {
    let argument = [b"a=", encoded].concat();
    let value = tollhouse_model::variable::query_argument(&argument, "a").map(Cow::into_owned);
    String::from_utf8_lossy(&value.unwrap_or_default()).into_owned()
}
