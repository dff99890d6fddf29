//! Shapes of less common values: tables interpreted elsewhere, lists of secrets, fractions.

use serde_json::{Map, Value};

use super::parts::Secret;
use super::shape::{Read, Shape, refuse, text_of, texts_of};

/// Syntax of a table that is interpreted elsewhere, such as `plugin_attr`.
pub(crate) struct Table;

impl Shape for Table {
    type Value = Map<String, Value>;
    fn takes() -> String {
        "table".to_owned()
    }
    fn read(value: &Value) -> Read<Map<String, Value>> {
        let hint = "write a table, or JSON text in a variable or flag";
        match value {
            Value::Object(fields) => Ok(fields.clone()),
            Value::String(text) => match serde_json::from_str(text) {
                Ok(Value::Object(fields)) => Ok(fields),
                _ => refuse("not a table", hint),
            },
            _ => refuse("not a table", hint),
        }
    }
    fn show(value: &Map<String, Value>) -> String {
        Value::Object(value.clone()).to_string()
    }
}

/// Syntax of a table whose texts may be secrets and are displayed as stars.
pub(crate) struct PrivateTable;

impl Shape for PrivateTable {
    type Value = Map<String, Value>;
    const SECRET: bool = true;
    fn takes() -> String {
        Table::takes()
    }
    fn read(value: &Value) -> Read<Map<String, Value>> {
        Table::read(value)
    }
    fn show(value: &Map<String, Value>) -> String {
        let mut shown = Value::Object(value.clone());
        let mut waiting = vec![&mut shown];
        while let Some(value) = waiting.pop() {
            match value {
                Value::String(text) => "***".clone_into(text),
                Value::Array(items) => waiting.extend(items),
                Value::Object(fields) => waiting.extend(fields.values_mut()),
                Value::Null | Value::Bool(_) | Value::Number(_) => {}
            }
        }
        shown.to_string()
    }
}

/// Syntax of a text that may be unset.
pub(crate) struct OptionalText;

impl Shape for OptionalText {
    type Value = Option<String>;
    fn takes() -> String {
        "text or null".to_owned()
    }
    fn read(value: &Value) -> Read<Option<String>> {
        let text = text_of(value)?;
        Ok((!text.is_empty()).then_some(text))
    }
    fn show(value: &Option<String>) -> String {
        value.clone().unwrap_or_else(|| "null".to_owned())
    }
}

/// Syntax of a list of TLS versions, by the names of nginx; at least one.
pub(crate) struct TlsVersions;

/// TLS versions that can be configured.
const TLS_VERSIONS: [&str; 2] = ["TLSv1.2", "TLSv1.3"];

impl Shape for TlsVersions {
    type Value = Vec<String>;
    fn takes() -> String {
        format!("list of {}", TLS_VERSIONS.join(", "))
    }
    fn read(value: &Value) -> Read<Vec<String>> {
        // Separated by commas, or by spaces as in APISIX.
        let named = texts_of(value)?;
        let named: Vec<&str> = named.iter().flat_map(|text| text.split_whitespace()).collect();
        let unknown = named.iter().find(|name| !TLS_VERSIONS.contains(name));
        match unknown {
            Some(name) => {
                refuse(format!("{name:?} is not served"), format!("use {}", Self::takes()))
            }
            None if named.is_empty() => refuse("no version is named", "leave the key out for both"),
            None => Ok(named.into_iter().map(str::to_owned).collect()),
        }
    }
    fn show(value: &Vec<String>) -> String {
        value.join(", ")
    }
}

/// Syntax of a fraction from 0 to 1.
pub(crate) struct Fraction;

impl Shape for Fraction {
    type Value = f64;
    fn takes() -> String {
        "number from 0 to 1".to_owned()
    }
    fn read(value: &Value) -> Read<f64> {
        let text = text_of(value)?;
        match text.trim().parse::<f64>() {
            Ok(part) if (0.0..=1.0).contains(&part) => Ok(part),
            _ => refuse(format!("{text:?} is not a number from 0 to 1"), "for example 0.5"),
        }
    }
    fn show(value: &f64) -> String {
        value.to_string()
    }
}

/// Syntax of the keys of a keyring: 16 or 32 characters each.
pub(crate) struct Keys;

impl Shape for Keys {
    type Value = Vec<Secret>;
    const SECRET: bool = true;
    fn takes() -> String {
        "list of keys of 16 or 32 characters".to_owned()
    }
    fn read(value: &Value) -> Read<Vec<Secret>> {
        let keys = texts_of(value)?;
        if keys.iter().any(|key| !matches!(key.len(), 16 | 32)) {
            return refuse(
                "a key has neither 16 nor 32 characters",
                "16 for AES-128, 32 for AES-256",
            );
        }
        Ok(keys.into_iter().map(Secret::new).collect())
    }
    fn show(value: &Vec<Secret>) -> String {
        if value.is_empty() { "[]" } else { "***" }.to_owned()
    }
}
