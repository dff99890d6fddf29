//! Conversion between Lua's values and JSON, by the rules of cjson.

use mlua::{LightUserData, Lua, Table, Value};
use serde_json::{Map, Number};

/// Levels of nesting that are converted.
const DEPTH_MAX: usize = 100;

/// Positions of a sparse list that may be empty.
const GAPS_MAX: usize = 1_024;

/// Metatables that mark tables for the conversion.
pub(crate) struct Marks {
    /// Marks lists, so that an empty one stays a list.
    pub(crate) array: Table,
}

/// Value of JSON's `null`, which differs from `nil`.
pub(crate) const NULL: Value = Value::LightUserData(LightUserData(std::ptr::null_mut()));

pub(crate) fn is_null(value: &Value) -> bool {
    matches!(value, Value::LightUserData(it) if it.0.is_null())
}

/// Converts JSON to a value of Lua. Lists are marked.
pub(crate) fn to_lua(lua: &Lua, marks: &Marks, json: &serde_json::Value) -> mlua::Result<Value> {
    Ok(match json {
        serde_json::Value::Null => NULL,
        serde_json::Value::Bool(it) => Value::Boolean(*it),
        serde_json::Value::Number(it) => Value::Number(it.as_f64().unwrap_or(f64::NAN)),
        serde_json::Value::String(it) => Value::String(lua.create_string(it)?),
        serde_json::Value::Array(items) => {
            let table = lua.create_table_with_capacity(items.len(), 0)?;
            for (index, item) in items.iter().enumerate() {
                table.raw_set(index + 1, to_lua(lua, marks, item)?)?;
            }
            table.set_metatable(Some(marks.array.clone()))?;
            Value::Table(table)
        }
        serde_json::Value::Object(fields) => {
            let table = lua.create_table_with_capacity(0, fields.len())?;
            for (name, field) in fields {
                table.raw_set(lua.create_string(name)?, to_lua(lua, marks, field)?)?;
            }
            Value::Table(table)
        }
    })
}

/// Converts a value of Lua to JSON; an error is in the words of cjson.
pub(crate) fn from_lua(
    marks: &Marks,
    value: &Value,
    depth: usize,
) -> Result<serde_json::Value, String> {
    if depth > DEPTH_MAX {
        return Err("Cannot serialise, excessive depth".to_owned());
    }
    Ok(match value {
        Value::Nil => serde_json::Value::Null,
        Value::Boolean(it) => (*it).into(),
        Value::Integer(it) => (*it).into(),
        Value::Number(it) => number(*it)?,
        Value::String(it) => String::from_utf8_lossy(&it.as_bytes()).into_owned().into(),
        Value::Table(table) => from_table(marks, table, depth)?,
        other if is_null(other) => serde_json::Value::Null,
        other => {
            let kind = other.type_name();
            return Err(format!("Cannot serialise {kind}: type not supported"));
        }
    })
}

fn number(value: f64) -> Result<serde_json::Value, String> {
    if value.fract() == 0.0 && value.abs() < 1e15 {
        return Ok((value as i64).into());
    }
    let number = Number::from_f64(value);
    number.map(Into::into).ok_or_else(|| "Cannot serialise number: must not be NaN or Inf".into())
}

fn from_table(marks: &Marks, table: &Table, depth: usize) -> Result<serde_json::Value, String> {
    let is_marked = table.metatable().is_some_and(|it| it.to_pointer() == marks.array.to_pointer());
    let mut pairs = Vec::new();
    let (mut is_list, mut highest) = (true, 0_usize);
    for pair in table.pairs::<Value, Value>() {
        let (key, value) = pair.map_err(|error| error.to_string())?;
        let index = match &key {
            Value::Integer(it) => usize::try_from(*it).ok().filter(|it| *it > 0),
            Value::Number(it) if it.fract() == 0.0 && *it > 0.0 => Some(*it as usize),
            _ => None,
        };
        is_list &= index.is_some();
        highest = highest.max(index.unwrap_or(0));
        pairs.push((key, index, value));
    }
    if is_list && (is_marked || !pairs.is_empty()) {
        if highest > pairs.len() + GAPS_MAX || highest > pairs.len().saturating_mul(2) + 10 {
            return Err("Cannot serialise table: excessively sparse array".to_owned());
        }
        let mut items = vec![serde_json::Value::Null; highest];
        for (_, index, value) in &pairs {
            if let Some(item) = index.and_then(|index| items.get_mut(index - 1)) {
                *item = from_lua(marks, value, depth + 1)?;
            }
        }
        return Ok(items.into());
    }
    let mut fields = Map::with_capacity(pairs.len());
    for (key, _, value) in &pairs {
        let name = match key {
            Value::String(it) => String::from_utf8_lossy(&it.as_bytes()).into_owned(),
            Value::Integer(it) => it.to_string(),
            Value::Number(it) => it.to_string(),
            _ => {
                let text = "Cannot serialise table: table key must be a number or string";
                return Err(text.to_owned());
            }
        };
        fields.insert(name, from_lua(marks, value, depth + 1)?);
    }
    Ok(fields.into())
}
