//! What answers references, and putting the answers into a conf.

use serde_json::Value;

use super::expected::{Expected, Schemas};
use super::reference::{SecretRef, is_reference};

/// Something that may know what a reference stands for.
pub trait SecretSource {
    /// The value; `None` where this source has none.
    fn fetch(&self, reference: &SecretRef) -> Option<String>;

    /// Whether the reference may be answered at all; a source that answers from a list refuses all other names.
    fn may_read(&self, _reference: &SecretRef) -> bool {
        true
    }
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

    fn may_read(&self, reference: &SecretRef) -> bool {
        self.iter().any(|source| source.may_read(reference))
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

/// A reference that came to no value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unanswered {
    /// Where it stands: names of fields with dots between them; places in lists do not show.
    pub field: String,
    /// The reference as it is written.
    pub reference: String,
    /// What became of it.
    pub answer: NoAnswer,
}

impl Unanswered {
    /// What became of it, in words that never show a value.
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

/// How a reference came to no value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoAnswer {
    /// No source knows it, or it lacks a part. It stands as it is written.
    Unknown,
    /// The source may not read it. The text of the reference stays.
    Unlisted,
    /// The value is empty, which is what stands there now.
    Empty,
    /// The value is not what is expected in its place, where the reference still stands.
    NotA(Expected),
}

/// Replaces the references within `value` by the texts that `source` knows; reports those that came to
/// no value.
pub fn resolve_in(value: &mut Value, source: Option<&dyn SecretSource>) -> Vec<Unanswered> {
    resolve_as(value, &Value::Null, source)
}

/// The same, each text read as what the schema of `value` expects in its place: a number, a flag, a list.
pub fn resolve_as(
    value: &mut Value,
    schema: &Value,
    source: Option<&dyn SecretSource>,
) -> Vec<Unanswered> {
    let mut unanswered = Vec::new();
    // A list of its own instead of recursion: a conf may nest deeper than a thread's stack.
    let mut waiting = vec![(String::new(), value, Schemas::from_document(schema))];
    while let Some((field, value, schemas)) = waiting.pop() {
        match value {
            Value::String(text) if is_reference(text) => {
                let reference = text.clone();
                let answer = answer(value, &schemas, source);
                unanswered.extend(answer.map(|answer| Unanswered { field, reference, answer }));
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

/// Puts what a reference stands for in its place; tells where that is no value.
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
    // Who knows of references alone answers with the reference, which is not to be read as anything.
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
            // What an answer says is not looked up again.
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
        // Taken apart by hand: dropping it at once would recurse.
        while let Value::Array(mut items) = value {
            value = items.pop().expect("each level holds one item");
        }
        assert_eq!(value, json!("opened"));
    }
}
