//! Differences between two JSON values: the JSON pointer of each, with both values. Works on plain
//! JSON, without knowledge of object kinds.

use serde_json::{Map, Value, json};

/// Returns at most `max` differences. `update_time` is ignored, because every write changes it.
pub(super) fn between(before: &Value, after: &Value, max: usize) -> Vec<Value> {
    let mut differences = Vec::new();
    let mut place = String::new();
    compare(&mut place, before, after, max, &mut differences);
    differences
}

/// Field that every write changes and that comparisons therefore ignore.
const UPDATE_TIME: &str = "update_time";

/// Adds the differences at and below `place`. Recursive; the depth is bounded, because stored
/// objects were checked against `limits::DEPTH_MAX`.
fn compare(place: &mut String, before: &Value, after: &Value, max: usize, found: &mut Vec<Value>) {
    if before == after || found.len() >= max {
        return;
    }
    let (Value::Object(old), Value::Object(new)) = (before, after) else {
        return compare_lists(place, before, after, max, found);
    };
    for name in names(old, new) {
        if place.is_empty() && name == UPDATE_TIME {
            continue;
        }
        let length = place.len();
        place.push('/');
        place.push_str(&name.replace('~', "~0").replace('/', "~1"));
        match (old.get(name), new.get(name)) {
            (Some(old), Some(new)) => compare(place, old, new, max, found),
            (old, new) => push(place, old, new, max, found),
        }
        place.truncate(length);
    }
}

fn compare_lists(
    place: &mut String,
    before: &Value,
    after: &Value,
    max: usize,
    found: &mut Vec<Value>,
) {
    let (Value::Array(old), Value::Array(new)) = (before, after) else {
        return push(place, Some(before), Some(after), max, found);
    };
    for at in 0..old.len().max(new.len()) {
        let length = place.len();
        place.push_str(&format!("/{at}"));
        match (old.get(at), new.get(at)) {
            (Some(old), Some(new)) => compare(place, old, new, max, found),
            (old, new) => push(place, old, new, max, found),
        }
        place.truncate(length);
    }
}

fn push(
    place: &str,
    before: Option<&Value>,
    after: Option<&Value>,
    max: usize,
    found: &mut Vec<Value>,
) {
    if found.len() >= max {
        return;
    }
    let mut difference = json!({ "pointer": place });
    if let Some(before) = before {
        difference["before"] = before.clone();
    }
    if let Some(after) = after {
        difference["after"] = after.clone();
    }
    found.push(difference);
}

/// Returns the member names of both objects without duplicates, in the order in which they were
/// written.
fn names<'v>(old: &'v Map<String, Value>, new: &'v Map<String, Value>) -> Vec<&'v String> {
    old.keys().chain(new.keys().filter(|name| !old.contains_key(*name))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_place_is_named_with_what_stands_there() {
        let before = json!({"uri": "/a", "a/b": 1, "update_time": 1, "gone": true, "list": [1, 2]});
        let after = json!({"uri": "/b", "a/b": 2, "update_time": 2, "list": [1, 3, 4], "new": {}});
        let expected = vec![
            json!({"pointer": "/uri", "before": "/a", "after": "/b"}),
            json!({"pointer": "/a~1b", "before": 1, "after": 2}),
            json!({"pointer": "/gone", "before": true}),
            json!({"pointer": "/list/1", "before": 2, "after": 3}),
            json!({"pointer": "/list/2", "after": 4}),
            json!({"pointer": "/new", "after": {}}),
        ];
        assert_eq!(between(&before, &after, 100), expected);
        assert_eq!(between(&before, &after, 2), expected[..2]);
        assert_eq!(between(&json!(null), &json!({"a": 1}), 9)[0]["pointer"], "");
        assert!(between(&before, &before, 9).is_empty());
    }
}
