//! Header lines from a conf for the gateway's own answers: a map from name to value.

use std::borrow::Cow;

use serde_json::{Map, Value, json};
use tollhouse_model::variable::Lookup;
use tollhouse_plugin::Answer;

use super::text::Text;

/// Parsed header lines, added to answers.
#[derive(Debug, Default)]
pub(crate) struct HeaderFields(Box<[(Box<str>, Text)]>);

impl HeaderFields {
    /// Parses a map that satisfies [`rules`].
    pub(crate) fn read(fields: Option<&Map<String, Value>>) -> Self {
        let text = |value: &Value| match value {
            Value::String(text) => Text::parse(text),
            other => Text::parse(&other.to_string()),
        };
        let fields = fields.into_iter().flatten();
        Self(fields.map(|(name, value)| (name.as_str().into(), text(value))).collect())
    }

    /// Whether a value reads the request's body.
    pub(crate) fn reads_body(&self) -> bool {
        self.0.iter().any(|(_, value)| value.reads_body())
    }

    /// Appends the lines to an answer.
    pub(crate) fn add_to<'a>(&'a self, answer: &mut Answer<'a>, request: &dyn Lookup) {
        for (name, value) in &self.0 {
            answer.headers.push((Cow::Borrowed(name), value.for_request(request)));
        }
    }
}

/// Adds the schema rules of such a map to its description.
pub(crate) fn rules(schema: &mut Value) {
    schema["type"] = json!("object");
    schema["minProperties"] = json!(1);
    schema["patternProperties"] =
        json!({"^[^:]+$": {"oneOf": [{"type": "string"}, {"type": "number"}]}});
    if let Some(fields) = schema.as_object_mut() {
        fields.shift_remove("additionalProperties");
    }
}
