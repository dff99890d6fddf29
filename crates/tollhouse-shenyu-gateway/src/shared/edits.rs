//! Changes of named values and of JSON bodies, which several plugins make. The order is always:
//! add, set, rename, remove.

use serde::Deserialize;
use serde_json::Value;
use tollhouse_plugin::response::ResponseContext;
use tollhouse_shenyu::lenient;
use tollhouse_shenyu::weight::is_light;

use super::json_path::JsonPath;
use crate::handle::HandleError;

/// Maximum length in bytes of a body that is changed. It is limited because the body is buffered.
/// Longer requests pass unchanged, longer responses are refused.
pub(crate) const EDITED_BODY_BYTES_MAX: usize = 8 << 20;

/// Changes of named values.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Edits {
    /// Values added to existing ones.
    pub add: Vec<(String, String)>,
    /// Values that replace all values of their name.
    pub set: Vec<(String, String)>,
    /// Old and new names.
    pub rename: Vec<(String, String)>,
    /// Names of removed values.
    pub remove: Vec<String>,
}

impl Edits {
    /// Whether the lists of changes are all empty.
    pub fn is_empty(&self) -> bool {
        self.add.is_empty()
            && self.set.is_empty()
            && self.rename.is_empty()
            && self.remove.is_empty()
    }

    /// Applies the changes to a list of names and values; `is_same` compares names.
    pub fn apply<V: From<String>>(
        &self,
        values: &mut Vec<(String, V)>,
        is_same: fn(&str, &str) -> bool,
    ) {
        let pair = |(name, value): &(String, String)| (name.clone(), V::from(value.clone()));
        values.extend(self.add.iter().map(pair));
        for (name, value) in &self.set {
            match values.iter().position(|(known, _)| is_same(known, name)) {
                Some(first) => {
                    values[first].1 = V::from(value.clone());
                    let mut place = 0;
                    values.retain(|(known, _)| {
                        place += 1;
                        place - 1 <= first || !is_same(known, name)
                    });
                }
                None => values.push((name.clone(), V::from(value.clone()))),
            }
        }
        for (old, new) in &self.rename {
            let renamed = values.extract_if(.., |(name, _)| is_same(name, old));
            let renamed: Vec<_> = renamed.map(|(_, value)| (new.clone(), value)).collect();
            values.extend(renamed);
        }
        values.retain(|(name, _)| !self.remove.iter().any(|gone| is_same(gone, name)));
    }
}

/// Choice among several lines of a header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unique {
    /// The first line.
    First,
    /// The last line.
    Last,
    /// The first line of each distinct value.
    Each,
}

impl Unique {
    pub(crate) fn read(name: &str) -> Option<Self> {
        match name {
            "RETAIN_FIRST" => Some(Self::First),
            "RETAIN_LAST" => Some(Self::Last),
            "RETAIN_UNIQUE" => Some(Self::Each),
            _ => None,
        }
    }

    /// Returns the values that remain.
    pub fn choose<T: PartialEq>(self, mut values: Vec<T>) -> Vec<T> {
        match self {
            Self::First => values.truncate(1),
            Self::Last => values = values.pop().into_iter().collect(),
            Self::Each => {
                let mut left: Vec<T> = Vec::with_capacity(values.len());
                for value in values {
                    if !left.contains(&value) {
                        left.push(value);
                    }
                }
                values = left;
            }
        }
        values
    }
}

/// Changes of a JSON body.
#[derive(Debug, Clone, Default)]
pub struct BodyEdits {
    /// Path of the object, name and value of the new member.
    add: Vec<(JsonPath, String, String)>,
    /// Path of the object, old and new name of the member.
    rename: Vec<(JsonPath, String, String)>,
    remove: Vec<JsonPath>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
pub(crate) struct BodyEdit {
    #[serde(deserialize_with = "lenient::or_default")]
    path: String,
    #[serde(deserialize_with = "lenient::or_default")]
    key: String,
    #[serde(deserialize_with = "lenient::text")]
    value: Option<String>,
}

impl BodyEdits {
    pub(crate) fn new(
        add: Vec<BodyEdit>,
        rename: Vec<BodyEdit>,
        remove: &[String],
    ) -> Result<Self, HandleError> {
        let parse = |path: &str| {
            JsonPath::parse(path).map_err(|reason| {
                HandleError::Malformed(format!("invalid body path `{path}`: {reason}"))
            })
        };
        let places = |edits: Vec<BodyEdit>| -> Result<Vec<_>, HandleError> {
            let place = |it: BodyEdit| Ok((parse(&it.path)?, it.key, it.value.unwrap_or_default()));
            edits.into_iter().map(place).collect()
        };
        Ok(Self {
            add: places(add)?,
            rename: places(rename)?,
            remove: remove.iter().map(|path| parse(path)).collect::<Result<_, _>>()?,
        })
    }

    /// Whether the lists of changes are all empty.
    pub fn is_empty(&self) -> bool {
        self.add.is_empty() && self.rename.is_empty() && self.remove.is_empty()
    }

    /// Applies the changes to a value. Paths that match nothing are ignored.
    pub fn apply(&self, body: &mut Value) {
        for (path, key, value) in &self.add {
            path.each(body, &mut |found| {
                if let Value::Object(members) = found {
                    members.insert(key.clone(), Value::from(value.as_str()));
                }
            });
        }
        for (path, old, new) in &self.rename {
            path.each(body, &mut |found| {
                if let Value::Object(members) = found
                    && let Some(value) = members.shift_remove(old)
                {
                    members.insert(new.clone(), value);
                }
            });
        }
        for path in &self.remove {
            path.remove(body);
        }
    }

    /// Applies the changes to the text of a body; `None` if it is not JSON, or has too many values
    /// to be parsed.
    pub fn apply_to_text(&self, body: &[u8]) -> Option<Vec<u8>> {
        if !is_light(body) {
            return None;
        }
        let mut value: Value = serde_json::from_slice(body).ok()?;
        self.apply(&mut value);
        serde_json::to_vec(&value).ok()
    }
}

/// Deserializes an object to names and texts in its order; numbers and booleans become texts as
/// they are written.
pub(crate) fn texts<'de, D: serde::Deserializer<'de>>(
    reader: D,
) -> Result<Vec<(String, String)>, D::Error> {
    let values: Option<serde_json::Map<String, Value>> = Option::deserialize(reader)?;
    let values = values.unwrap_or_default().into_iter().map(|(name, value)| match value {
        Value::String(text) => (name, text),
        Value::Null => (name, String::new()),
        other => (name, other.to_string()),
    });
    Ok(values.collect())
}

/// Returns the lines of a response header.
pub(crate) fn values_named(cx: &ResponseContext<'_>, name: &str) -> Vec<Vec<u8>> {
    let mut values = Vec::new();
    cx.each_header(&mut |known, value| {
        if known.eq_ignore_ascii_case(name.as_bytes()) {
            values.push(value.to_vec());
        }
    });
    values
}

/// Replaces the lines of a response header.
pub(crate) fn replace_header(cx: &mut ResponseContext<'_>, name: &str, values: Vec<Vec<u8>>) {
    cx.remove_header(name);
    for value in values {
        cx.add_header(name, &value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_of_several_lines_stays() {
        let values = vec!["a", "b", "a"];
        assert_eq!(Unique::First.choose(values.clone()), ["a"]);
        assert_eq!(Unique::Last.choose(values.clone()), ["a"]);
        assert_eq!(Unique::Each.choose(values), ["a", "b"]);
    }
}
