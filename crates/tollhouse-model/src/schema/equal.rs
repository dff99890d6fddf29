//! Equality of JSON values. Numbers compare by value (`1` equals `1.0`); the order of fields does
//! not matter. Also finds the first duplicate in a list.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hash, Hasher, RandomState};

use serde_json::Value;

use crate::json::equal::numbers_equal;

pub(super) fn equal(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Number(one), Value::Number(other)) => numbers_equal(one, other),
        (Value::Array(one), Value::Array(other)) => {
            one.len() == other.len() && one.iter().zip(other).all(|(one, other)| equal(one, other))
        }
        (Value::Object(one), Value::Object(other)) => {
            one.len() == other.len()
                && one
                    .iter()
                    .all(|(name, one)| other.get(name).is_some_and(|other| equal(one, other)))
        }
        (one, other) => one == other,
    }
}

/// Returns the first item that equals an earlier one, as (earlier, later). Time is linear in the
/// number of items.
pub(super) fn first_repeated(items: &[Value]) -> Option<(usize, usize)> {
    let state = RandomState::new();
    let mut seen = HashMap::with_capacity(items.len());
    items.iter().enumerate().find_map(|(index, value)| {
        let earlier = seen.insert(ValueKey { value, state: &state }, index);
        earlier.map(|earlier| (earlier, index))
    })
}

/// A value as the key of a hash map.
struct ValueKey<'v> {
    value: &'v Value,
    /// Hasher of single fields. Their hashes are summed, because fields have no order.
    state: &'v RandomState,
}

impl PartialEq for ValueKey<'_> {
    fn eq(&self, other: &Self) -> bool {
        equal(self.value, other.value)
    }
}

impl Eq for ValueKey<'_> {}

impl Hash for ValueKey<'_> {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        let keyed = |value| ValueKey { value, state: self.state };
        match self.value {
            Value::Null => 0u8.hash(hasher),
            Value::Bool(boolean) => boolean.hash(hasher),
            // Adding zero turns -0.0 into 0.0.
            Value::Number(number) => {
                (number.as_f64().unwrap_or_default() + 0.0).to_bits().hash(hasher);
            }
            Value::String(text) => text.hash(hasher),
            Value::Array(items) => {
                items.len().hash(hasher);
                for item in items {
                    keyed(item).hash(hasher);
                }
            }
            Value::Object(fields) => {
                let hashes =
                    fields.iter().map(|(name, value)| self.state.hash_one((name, keyed(value))));
                hashes.fold(0u64, u64::wrapping_add).hash(hasher);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn repeated_items_are_found_by_worth() {
        let table = [
            (json!([]), None),
            (json!([1, 2, 3]), None),
            (json!([1, 2, 1]), Some((0, 2))),
            (json!([1, 1.0]), Some((0, 1))),
            (json!([0.0, -0.0]), Some((0, 1))),
            (json!([9007199254740993u64, 9007199254740992u64]), None),
            (json!([1, "1", true, null]), None),
            (json!([{"a": 1, "b": 2}, {"b": 2.0, "a": 1}]), Some((0, 1))),
            (json!([{"a": 1}, {"a": 1, "b": 2}]), None),
            (json!([[1], [1, 2], [1]]), Some((0, 2))),
        ];
        for (items, expected) in table {
            let list = items.as_array().expect("it is written as a list");
            assert_eq!(first_repeated(list), expected, "{items}");
        }
    }
}
