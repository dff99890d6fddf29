//! Header lines that a conf gives for answers of the gateway's own: a map from name to value.

use std::borrow::Cow;

use serde_json::{Map, Value, json};
use tollhouse_model::variable::Lookup;
use tollhouse_plugin::Answer;

use super::text::Text;

/// Header lines, ready to be added to answers.
#[derive(Debug, Default)]
pub(crate) struct HeaderFields(Box<[(Box<str>, Text)]>);

impl HeaderFields {
    /// Reads a map that satisfies [`rules`].
    pub(crate) fn read(fields: Option<&Map<String, Value>>) -> Self {
        let text = |value: &Value| match value {
            Value::String(text) => Text::parse(text),
            other => Text::parse(&other.to_string()),
        };
        let fields = fields.into_iter().flatten();
        Self(fields.map(|(name, value)| (name.as_str().into(), text(value))).collect())
    }

    /// Whether they need the request's body to have been read.
    pub(crate) fn reads_body(&self) -> bool {
        self.0.iter().any(|(_, value)| value.reads_body())
    }

    /// Appends them to an answer.
    pub(crate) fn add_to<'a>(&'a self, answer: &mut Answer<'a>, request: &dyn Lookup) {
        for (name, value) in &self.0 {
            answer.headers.push((Cow::Borrowed(name), value.for_request(request)));
        }
    }
}

/// What the schema of such a map says, apart from its description.
pub(crate) fn rules(schema: &mut Value) {
    schema["type"] = json!("object");
    schema["minProperties"] = json!(1);
    schema["patternProperties"] =
        json!({"^[^:]+$": {"oneOf": [{"type": "string"}, {"type": "number"}]}});
    if let Some(fields) = schema.as_object_mut() {
        fields.shift_remove("additionalProperties");
    }
}
