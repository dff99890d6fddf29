//! What answers references, and putting the answers into a conf.

use serde_json::Value;

use super::reference::{SecretRef, is_reference};

/// Something that may know what a reference stands for.
pub trait SecretSource {
    /// The value; `None` where this source has none.
    fn fetch(&self, reference: &SecretRef) -> Option<String>;
}

/// Variables of the process, looked up by a closure: what reads the real ones lives elsewhere.
pub struct EnvironmentSource<F> {
    lookup: F,
}

impl<F: Fn(&str) -> Option<String>> EnvironmentSource<F> {
    /// Answers with what `lookup` finds.
    pub fn new(lookup: F) -> Self {
        Self { lookup }
    }
}

impl<F: Fn(&str) -> Option<String>> SecretSource for EnvironmentSource<F> {
    fn fetch(&self, reference: &SecretRef) -> Option<String> {
        let SecretRef::Environment { name, json_key } = reference else { return None };
        let text = (self.lookup)(name)?;
        let Some(key) = json_key else { return Some(text) };
        let object: Value = serde_json::from_str(&text).ok()?;
        match object.get(key)? {
            Value::String(text) => Some(text.clone()),
            Value::Null => None,
            // A number or a flag is given as its text; a list or an object as JSON.
            other => Some(other.to_string()),
        }
    }
}

/// Sources in the order they are asked; the first answer counts.
impl SecretSource for [&dyn SecretSource] {
    fn fetch(&self, reference: &SecretRef) -> Option<String> {
        self.iter().find_map(|source| source.fetch(reference))
    }
}

/// Whether any text within `value` is meant as a reference. A conf without one needs no resolving.
pub fn has_references(value: &Value) -> bool {
    let mut waiting = vec![value];
    while let Some(value) = waiting.pop() {
        match value {
            Value::String(text) if is_reference(text) => return true,
            Value::Array(items) => waiting.extend(items),
            Value::Object(fields) => waiting.extend(fields.values()),
            _ => {}
        }
    }
    false
}

/// Replaces the references within `value` by what `source` knows. Those it knows nothing of stay as
/// they stand, and are returned.
pub fn resolve_in(value: &mut Value, source: &dyn SecretSource) -> Vec<SecretRef> {
    let mut unresolved = Vec::new();
    // A list of its own instead of recursion: a conf may nest deeper than a thread's stack.
    let mut waiting = vec![value];
    while let Some(value) = waiting.pop() {
        match value {
            Value::String(text) => {
                let Some(reference) = SecretRef::parse(text) else { continue };
                match source.fetch(&reference) {
                    Some(found) => *text = found,
                    None => unresolved.push(reference),
                }
            }
            Value::Array(items) => waiting.extend(items),
            Value::Object(fields) => waiting.extend(fields.values_mut()),
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }
    unresolved
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn environment(name: &str) -> Option<String> {
        let text = match name {
            "KEY" => "opened",
            "OBJECT" => r#"{"a": "field", "n": 7, "none": null, "list": [1]}"#,
            "LOOP" => "$ENV://KEY",
            _ => return None,
        };
        Some(text.to_owned())
    }

    #[test]
    fn the_environment_answers_for_its_variables() {
        let source = EnvironmentSource::new(environment);
        let table = [
            ("$ENV://KEY", Some("opened")),
            ("$env://KEY", Some("opened")),
            ("$env://OBJECT/a", Some("field")),
            ("$env://OBJECT/n", Some("7")),
            ("$env://OBJECT/list", Some("[1]")),
            ("$env://OBJECT/none", None),
            ("$env://OBJECT/other", None),
            ("$env://KEY/a", None),
            ("$env://MISSING", None),
            ("$secret://vault/1/a/b", None),
        ];
        for (text, expected) in table {
            let reference = SecretRef::parse(text).expect("it is a reference");
            assert_eq!(source.fetch(&reference).as_deref(), expected, "{text}");
        }
    }

    #[test]
    fn references_within_a_conf_are_replaced_and_unknown_ones_stay() {
        let source = EnvironmentSource::new(environment);
        let mut conf = json!({
            "key": "$env://KEY",
            "list": ["$ENV://OBJECT/a", 1, null, {"deep": "$ENV://KEY"}],
            "missing": "$ENV://MISSING",
            "kept": "$secret://vault/1/a/b",
            "broken": "$secret://vault",
            "$env://KEY": "a name is no value",
            // What an answer says is not looked up again.
            "loop": "$ENV://LOOP",
        });
        let mut unresolved = resolve_in(&mut conf, &source);
        assert_eq!(
            conf,
            json!({
                "key": "opened",
                "list": ["field", 1, null, {"deep": "opened"}],
                "missing": "$ENV://MISSING",
                "kept": "$secret://vault/1/a/b",
                "broken": "$secret://vault",
                "$env://KEY": "a name is no value",
                "loop": "$ENV://KEY",
            })
        );
        unresolved.sort_by_key(ToString::to_string);
        let names: Vec<String> = unresolved.iter().map(ToString::to_string).collect();
        assert_eq!(names, ["$ENV://MISSING", "$secret://vault/1/a/b"]);
    }

    #[test]
    fn confs_without_references_are_told() {
        assert!(has_references(&json!({"a": [{"b": "$env://X"}]})));
        assert!(has_references(&json!("$secret://")));
        assert!(!has_references(&json!({"$env://X": [1, "x", null, {"a": true}]})));
    }

    #[test]
    fn a_conf_of_any_depth_is_walked() {
        let mut value = json!("$ENV://KEY");
        for _ in 0..10_000 {
            value = Value::Array(vec![value]);
        }
        assert!(has_references(&value));
        assert_eq!(resolve_in(&mut value, &EnvironmentSource::new(environment)), []);
        assert!(!has_references(&value));
        // Taken apart by hand: dropping it at once would recurse.
        while let Value::Array(mut items) = value {
            value = items.pop().expect("each level holds one item");
        }
        assert_eq!(value, json!("opened"));
    }
}
