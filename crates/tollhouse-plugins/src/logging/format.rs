//! Configured formats of entries: maps of texts and variables.

use serde_json::{Map, Value};
use tollhouse_model::variable::Variable;

/// Names and values of a log entry's fields.
#[derive(Debug, Default)]
pub(super) struct Fields(Vec<(String, Part)>);

#[derive(Debug)]
enum Part {
    /// Literal JSON value.
    Literal(Value),
    /// Value of a variable; the field is omitted if it has none.
    Variable { name: String, variable: Variable },
    /// Object with further fields.
    Object(Fields),
}

impl Fields {
    /// Parses a format. A text that begins with `$` names a variable.
    pub fn parse(format: &Map<String, Value>) -> Self {
        Self(format.iter().map(|(name, value)| (name.clone(), Part::parse(value))).collect())
    }

    /// Adds the fields to `entry`; `value_of` returns the values of variables.
    pub fn add_to(
        &self,
        entry: &mut Map<String, Value>,
        value_of: &dyn Fn(&str, &Variable) -> Option<Value>,
    ) {
        for (name, part) in &self.0 {
            let value = match part {
                Part::Literal(value) => Some(value.clone()),
                Part::Variable { name, variable } => value_of(name, variable),
                Part::Object(fields) => {
                    let mut object = Map::new();
                    fields.add_to(&mut object, value_of);
                    Some(Value::Object(object))
                }
            };
            entry.extend(value.map(|value| (name.clone(), value)));
        }
    }
}

impl Part {
    fn parse(value: &Value) -> Self {
        match value {
            Value::String(text) => match text.strip_prefix('$') {
                Some(name) => Part::Variable { name: name.into(), variable: Variable::parse(name) },
                None => Part::Literal(value.clone()),
            },
            Value::Object(format) => Part::Object(Fields::parse(format)),
            other => Part::Literal(other.clone()),
        }
    }
}
