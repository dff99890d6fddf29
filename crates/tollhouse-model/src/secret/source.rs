//! Sources of secrets, and the replacement of references in a configuration.

use serde_json::Value;

use super::expected::{Schemas, TargetType};
use super::reference::{SecretRef, is_reference};

/// A source of the values that references to secrets stand for.
pub trait SecretSource {
    /// Returns the referenced value; `None` if this source does not have it.
    fn fetch(&self, reference: &SecretRef) -> Option<String>;

    /// Whether the source may read this reference. A source with an allow list refuses all other
    /// names.
    fn may_read(&self, _reference: &SecretRef) -> bool {
        true
    }
}

/// Environment variables, looked up by a closure, so that this crate does no IO.
pub struct EnvironmentSource<F> {
    lookup: F,
}

impl<F: Fn(&str) -> Option<String>> EnvironmentSource<F> {
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
            // Numbers and booleans are returned as text; lists and objects as JSON.
            other => Some(other.to_string()),
        }
    }
}

/// Asks the sources in order; the first value wins.
impl SecretSource for [&dyn SecretSource] {
    fn fetch(&self, reference: &SecretRef) -> Option<String> {
        self.iter().find_map(|source| source.fetch(reference))
    }

    fn may_read(&self, reference: &SecretRef) -> bool {
        self.iter().any(|source| source.may_read(reference))
    }
}

/// Whether any text within `value` begins like a reference. A configuration without one needs no
/// resolving.
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

/// A reference that was not replaced by a usable value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnresolvedReference {
    /// Field that contains the reference: names joined by dots, without list indices.
    pub field: String,
    /// Reference as written in the object.
    pub reference: String,
    pub answer: NoAnswer,
}

impl UnresolvedReference {
    /// Returns the reason as a sentence that never contains the value.
    pub fn reason(&self) -> String {
        let reference = &self.reference;
        match self.answer {
            NoAnswer::Unknown => format!("nothing answers for {reference}"),
            NoAnswer::Unlisted => format!(
                "{reference} is not read: its variable must be listed in secrets.env of the bootstrap file, and not \
                 begin with TOLLHOUSE_"
            ),
            NoAnswer::Empty => format!("what {reference} stands for is empty"),
            NoAnswer::NotA(expected) => {
                format!("what {reference} stands for is not {}", expected.name())
            }
        }
    }
}

/// Why a reference has no usable value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoAnswer {
    /// No source knows the reference, or a part is missing. The text of the reference stays.
    Unknown,
    /// The source may not read the variable. The text of the reference stays.
    Unlisted,
    /// The value is empty, and has replaced the reference.
    Empty,
    /// The value does not have the expected type. The text of the reference stays.
    NotA(TargetType),
}

/// Replaces the references within `value` by the texts that `source` returns. Returns the
/// references without a usable value.
pub fn resolve_in(
    value: &mut Value,
    source: Option<&dyn SecretSource>,
) -> Vec<UnresolvedReference> {
    resolve_as(value, &Value::Null, source)
}

/// Replaces references like `resolve_in`, and converts each text to the type that `schema` expects
/// at its place: a number, a boolean, a list.
pub fn resolve_as(
    value: &mut Value,
    schema: &Value,
    source: Option<&dyn SecretSource>,
) -> Vec<UnresolvedReference> {
    let mut unanswered = Vec::new();
    // An explicit stack instead of recursion, because a configuration may nest deeper than a
    // thread's stack allows.
    let mut waiting = vec![(String::new(), value, Schemas::from_document(schema))];
    while let Some((field, value, schemas)) = waiting.pop() {
        match value {
            Value::String(text) if is_reference(text) => {
                let reference = text.clone();
                let answer = answer(value, &schemas, source);
                unanswered.extend(answer.map(|answer| UnresolvedReference {
                    field,
                    reference,
                    answer,
                }));
            }
            Value::Array(items) => {
                let below = schemas.items();
                let item = |item| (field.clone(), item, below.clone());
                waiting.extend(items.iter_mut().map(item));
            }
            Value::Object(fields) => {
                let below = |name: &String| match field.as_str() {
                    "" => name.clone(),
                    above => format!("{above}.{name}"),
                };
                let part = |(name, value)| (below(name), value, schemas.field(name));
                waiting.extend(fields.iter_mut().map(part));
            }
            Value::String(_) | Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }
    unanswered
}

/// Replaces one reference; returns the reason if it has no usable value.
fn answer(
    value: &mut Value,
    schemas: &Schemas<'_>,
    source: Option<&dyn SecretSource>,
) -> Option<NoAnswer> {
    let text = value.as_str()?;
    let fetch = |source: &dyn SecretSource| source.fetch(&SecretRef::parse(text)?);
    let Some(found) = source.and_then(fetch) else {
        let may_read = |reference| source.is_none_or(|source| source.may_read(&reference));
        let is_unlisted = SecretRef::parse(text).is_some_and(|reference| !may_read(reference));
        return Some(if is_unlisted { NoAnswer::Unlisted } else { NoAnswer::Unknown });
    };
    // A dry-run source returns the reference itself, which must not be converted.
    if is_reference(&found) && SecretRef::parse(&found) == SecretRef::parse(text) {
        return None;
    }
    let is_empty = found.is_empty();
    match schemas.read(found) {
        Ok(read) => *value = read,
        Err(expected) => return Some(NoAnswer::NotA(expected)),
    }
    is_empty.then_some(NoAnswer::Empty)
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
            "EMPTY" => "",
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
            "list": ["$ENV://OBJECT/a", 1, null, {"deep": "$ENV://KEY"}, {"none": "$ENV://NO"}],
            "missing": "$env://MISSING",
            "kept": "$secret://vault/1/a/b",
            "broken": "$secret://vault",
            "empty": {"text": "$env://EMPTY"},
            "$env://KEY": "a name is no value",
            // A reference inside a referenced value is not resolved.
            "loop": "$ENV://LOOP",
        });
        let mut unanswered = resolve_in(&mut conf, Some(&source));
        assert_eq!(
            conf,
            json!({
                "key": "opened",
                "list": ["field", 1, null, {"deep": "opened"}, {"none": "$ENV://NO"}],
                "missing": "$env://MISSING",
                "kept": "$secret://vault/1/a/b",
                "broken": "$secret://vault",
                "empty": {"text": ""},
                "$env://KEY": "a name is no value",
                "loop": "$ENV://KEY",
            })
        );
        unanswered.sort_by(|one, other| one.field.cmp(&other.field));
        let reported: Vec<_> = unanswered
            .iter()
            .map(|it| (it.field.as_str(), it.reference.as_str(), it.answer))
            .collect();
        let expected = [
            ("broken", "$secret://vault", NoAnswer::Unknown),
            ("empty.text", "$env://EMPTY", NoAnswer::Empty),
            ("kept", "$secret://vault/1/a/b", NoAnswer::Unknown),
            ("list.none", "$ENV://NO", NoAnswer::Unknown),
            ("missing", "$env://MISSING", NoAnswer::Unknown),
        ];
        assert_eq!(reported, expected);
        let mut conf = json!({"key": "$env://KEY"});
        assert_eq!(resolve_in(&mut conf, None).len(), 1, "nobody answers");
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
        let source = EnvironmentSource::new(environment);
        assert_eq!(resolve_in(&mut value, Some(&source)), []);
        assert!(!has_references(&value));
        // Dropped level by level, because dropping the whole value would recurse.
        while let Value::Array(mut items) = value {
            value = items.pop().expect("each level holds one item");
        }
        assert_eq!(value, json!("opened"));
    }
}
