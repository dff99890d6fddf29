//! Semantics of PATCH: deep merge of an object, or replacement of one place in it.

use serde_json::{Map, Value};

use crate::limits::DEPTH_MAX;

/// Merges `patch` into `target`: objects are merged, `null` removes a field, and any other value
/// replaces.
pub(crate) fn merge(target: &mut Value, patch: Value) {
    merge_at(target, patch, 0);
}

fn merge_at(target: &mut Value, patch: Value, depth: usize) {
    let changes = match patch {
        Value::Object(changes) if depth < DEPTH_MAX => changes,
        other => {
            *target = other;
            return;
        }
    };
    // A new field is created from the patch alone; `null` inside it is dropped.
    if !target.is_object() {
        *target = Value::Object(Map::new());
    }
    let Value::Object(fields) = target else { return };
    for (name, change) in changes {
        if change.is_null() {
            fields.shift_remove(&name);
        } else {
            merge_at(fields.entry(name).or_insert(Value::Null), change, depth + 1);
        }
    }
}

/// Sets the value at the path `segments`; creates missing objects on the way.
///
/// # Errors
/// Returns `invalid sub-path: /…` if the path leads through a value that is not an object.
pub(crate) fn put_at(target: &mut Value, segments: &[String], value: Value) -> Result<(), String> {
    let Some((last, way)) = segments.split_last() else {
        *target = value;
        return Ok(());
    };
    if way.len() > DEPTH_MAX {
        return Err(invalid(way));
    }
    let mut place = target;
    for (index, segment) in way.iter().enumerate() {
        place = step(place, segment).ok_or_else(|| invalid(&segments[..index]))?;
    }
    let fields = fields_at(place).ok_or_else(|| invalid(way))?;
    // `null` removes the field.
    if value.is_null() {
        fields.shift_remove(last);
    } else {
        fields.insert(last.clone(), value);
    }
    Ok(())
}

/// Returns the field `segment` of `place`, created if missing; `None` if `place` is not an object.
fn step<'v>(place: &'v mut Value, segment: &str) -> Option<&'v mut Value> {
    Some(fields_at(place)?.entry(segment).or_insert(Value::Null))
}

fn fields_at(place: &mut Value) -> Option<&mut Map<String, Value>> {
    if place.is_null() {
        *place = Value::Object(Map::new());
    }
    place.as_object_mut()
}

/// Whether the nesting of a value is within [`DEPTH_MAX`].
pub(crate) fn is_shallow(value: &Value) -> bool {
    // Iterative, because the value may be nested deeper than the stack allows.
    let mut waiting = vec![(value, 0)];
    while let Some((value, depth)) = waiting.pop() {
        if depth > DEPTH_MAX {
            return false;
        }
        match value {
            Value::Array(items) => waiting.extend(items.iter().map(|item| (item, depth + 1))),
            Value::Object(fields) => {
                waiting.extend(fields.values().map(|field| (field, depth + 1)));
            }
            _ => {}
        }
    }
    true
}

fn invalid(way: &[String]) -> String {
    format!("invalid sub-path: /{}", way.join("/"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_merge_goes_deep_and_null_removes() {
        let table = [
            (json!({"a": 1}), json!({"b": 2}), json!({"a": 1, "b": 2})),
            (json!({"a": {"b": 1, "c": 2}}), json!({"a": {"b": null}}), json!({"a": {"c": 2}})),
            (json!({"a": [1, 2]}), json!({"a": [3]}), json!({"a": [3]})),
            (json!({"a": [1, 2]}), json!({"a": {"b": 1}}), json!({"a": {"b": 1}})),
            (json!({"a": 1}), json!({"a": null}), json!({})),
            (json!({}), json!({"a": {"b": null, "c": 1}}), json!({"a": {"c": 1}})),
            (json!({"a": {}}), json!({"x": null}), json!({"a": {}})),
        ];
        for (mut target, patch, expected) in table {
            merge(&mut target, patch.clone());
            assert_eq!(target, expected, "{patch}");
        }
    }

    #[test]
    fn a_place_is_replaced_whole() {
        type Case<'c> = (Value, &'c [&'c str], Value, Result<Value, &'c str>);
        let table: [Case<'_>; 6] = [
            (
                json!({"u": {"n": {"a": 1}}}),
                &["u", "n"],
                json!({"b": 1}),
                Ok(json!({"u": {"n": {"b": 1}}})),
            ),
            (json!({}), &["a", "b"], json!(1), Ok(json!({"a": {"b": 1}}))),
            (json!({"a": 1}), &["a"], json!([1]), Ok(json!({"a": [1]}))),
            (json!({"a": 1, "b": 2}), &["a"], json!(null), Ok(json!({"b": 2}))),
            (json!({"a": 1}), &["a", "b"], json!(1), Err("invalid sub-path: /a")),
            (json!({"a": [1]}), &["a", "b", "c"], json!(1), Err("invalid sub-path: /a")),
        ];
        for (mut target, path, value, expected) in table {
            let segments: Vec<String> = path.iter().map(|part| (*part).to_owned()).collect();
            let done = put_at(&mut target, &segments, value);
            assert_eq!(done.map(|()| target), expected.map_err(str::to_owned), "{path:?}");
        }
    }
}
