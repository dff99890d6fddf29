//! Types that a schema expects, and conversion of texts to them. Environment variables and secret
//! managers only hold texts, while configurations also contain numbers, booleans and lists.
//!
//! The converted values are not validated here.

use serde_json::{Number, Value};

/// Maximum depth to which nested branches are searched; schemas have two or three levels.
const BRANCHES_DEPTH_MAX: usize = 16;

/// JSON Schema keywords whose subschemas describe the same value as the schema that contains them.
const BRANCH_LISTS: [&str; 3] = ["anyOf", "oneOf", "allOf"];
const BRANCHES: [&str; 3] = ["if", "then", "else"];

/// A JSON type, other than a string, that a text may be converted to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TargetType {
    Integer,
    Number,
    Boolean,
    /// List, written as JSON text.
    List,
    /// Object, written as JSON text.
    Object,
}

impl TargetType {
    fn from_name(name: &str) -> Option<Self> {
        match name {
            "integer" => Some(Self::Integer),
            "number" => Some(Self::Number),
            "boolean" => Some(Self::Boolean),
            "array" => Some(Self::List),
            "object" => Some(Self::Object),
            _ => None,
        }
    }

    /// Returns the type as a noun phrase for error messages.
    pub fn name(self) -> &'static str {
        match self {
            Self::Integer => "a whole number",
            Self::Number => "a number",
            Self::Boolean => "true or false",
            Self::List => "a list in JSON",
            Self::Object => "an object in JSON",
        }
    }

    fn read(self, text: &str) -> Option<Value> {
        let value: Value = serde_json::from_str(text.trim()).ok()?;
        let is_whole =
            |number: &Number| number.as_f64().is_some_and(|number| number.fract() == 0.0);
        let is_expected = match (self, &value) {
            (Self::Integer, Value::Number(number)) => is_whole(number),
            (Self::Number, Value::Number(_))
            | (Self::Boolean, Value::Bool(_))
            | (Self::List, Value::Array(_))
            | (Self::Object, Value::Object(_)) => true,
            _ => false,
        };
        is_expected.then_some(value)
    }
}

/// The schemas that apply to one place in a configuration.
#[derive(Debug, Clone, Default)]
pub(super) struct Schemas<'s>(Vec<&'s Value>);

impl<'s> Schemas<'s> {
    /// Returns the schemas of a whole configuration.
    pub(super) fn from_document(document: &'s Value) -> Self {
        let mut all = Vec::new();
        gather(document, BRANCHES_DEPTH_MAX, &mut all);
        Self(all)
    }

    /// Returns the schemas that apply to the field `name`.
    pub(super) fn field(&self, name: &str) -> Self {
        self.below(|schema| {
            let listed = schema.get("properties").and_then(|fields| fields.get(name));
            listed.or_else(|| schema.get("additionalProperties"))
        })
    }

    /// Returns the schemas of the items of a list.
    pub(super) fn items(&self) -> Self {
        self.below(|schema| schema.get("items"))
    }

    fn below(&self, pick: impl Fn(&'s Value) -> Option<&'s Value>) -> Self {
        let mut all = Vec::new();
        for schema in self.0.iter().filter_map(|schema| pick(schema)) {
            gather(schema, BRANCHES_DEPTH_MAX, &mut all);
        }
        Self(all)
    }

    /// Converts a text to the expected type. The text is kept if a string is allowed, or if no
    /// schema names a type.
    ///
    /// # Errors
    /// The first expected type, if the text fits none of them.
    pub(super) fn read(&self, text: String) -> Result<Value, TargetType> {
        let mut expected = Vec::new();
        for name in self.0.iter().flat_map(|schema| types(schema)) {
            match TargetType::from_name(name) {
                Some(kind) => expected.push(kind),
                None if name == "string" => return Ok(Value::String(text)),
                None => {}
            }
        }
        let Some(first) = expected.first().copied() else { return Ok(Value::String(text)) };
        expected.iter().find_map(|kind| kind.read(&text)).ok_or(first)
    }
}

/// Collects a schema and those of its branches that apply to the value itself.
fn gather<'s>(schema: &'s Value, depth: usize, all: &mut Vec<&'s Value>) {
    all.push(schema);
    if depth == 0 {
        return;
    }
    let lists = BRANCH_LISTS.iter().filter_map(|name| schema.get(name)?.as_array()).flatten();
    let single = BRANCHES.iter().filter_map(|name| schema.get(name));
    lists.chain(single).for_each(|branch| gather(branch, depth - 1, all));
}

/// Returns the types that a schema names.
fn types(schema: &Value) -> impl Iterator<Item = &str> {
    let named = schema.get("type");
    let list = named.and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str);
    named.and_then(Value::as_str).into_iter().chain(list)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_text_is_read_as_what_is_expected_in_its_place() {
        let schema = json!({
            "properties": {
                "count": {"type": "integer"},
                "rate": {"type": "number"},
                "on": {"type": "boolean"},
                "name": {"type": "string"},
                "either": {"oneOf": [{"type": "integer"}, {"type": "string"}]},
                "both": {"type": ["integer", "boolean"]},
                "nets": {"type": "array", "items": {"type": "string"}},
                "codes": {"type": "array", "items": {"type": "integer"}},
                "any": {},
            },
            "additionalProperties": {"type": "number"},
            "allOf": [{"if": {}, "then": {"properties": {"later": {"type": "boolean"}}}}],
        });
        let schemas = Schemas::from_document(&schema);
        let table = [
            ("count", "5", Ok(json!(5))),
            ("count", " 5\n", Ok(json!(5))),
            ("count", "-1", Ok(json!(-1))),
            ("count", "5.5", Err(TargetType::Integer)),
            ("count", "five", Err(TargetType::Integer)),
            ("count", "\"5\"", Err(TargetType::Integer)),
            ("rate", "0.5", Ok(json!(0.5))),
            ("on", "true", Ok(json!(true))),
            ("on", "1", Err(TargetType::Boolean)),
            ("name", "5", Ok(json!("5"))),
            ("either", "5", Ok(json!("5"))),
            ("both", "true", Ok(json!(true))),
            ("both", "x", Err(TargetType::Integer)),
            ("nets", "[\"10.0.0.0/8\"]", Ok(json!(["10.0.0.0/8"]))),
            ("nets", "10.0.0.0/8", Err(TargetType::List)),
            ("any", "5", Ok(json!("5"))),
            ("other", "7", Ok(json!(7))),
        ];
        for (name, text, expected) in table {
            assert_eq!(schemas.field(name).read(text.to_owned()), expected, "{name}: {text}");
        }
        let code = schemas.field("codes").items().read("503".to_owned());
        assert_eq!(code, Ok(json!(503)));
        assert_eq!(
            Schemas::from_document(&Value::Null).field("a").read("5".into()),
            Ok(json!("5"))
        );
        let later =
            Schemas::from_document(&schema["allOf"][0]).field("later").read("true".to_owned());
        assert_eq!(later, Ok(json!(true)));
    }
}
