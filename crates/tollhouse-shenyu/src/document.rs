//! JSON object together with its original text, and its members in order.

use std::fmt;

use serde::de::{DeserializeOwned, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;

/// Maximum length of an object's text in bytes. A selector with a thousand nodes in its handle
/// takes 200 KB.
const DOCUMENT_BYTES_MAX: usize = 4 << 20;

/// Parsed object with its text, which is stored and forwarded unchanged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Document<T> {
    text: Box<str>,
    value: T,
}

/// Why a text is not an object of the expected kind.
#[derive(Debug, thiserror::Error)]
pub enum DocumentError {
    /// The text is longer than any object needs.
    #[error("the object has {bytes} bytes; at most {DOCUMENT_BYTES_MAX} are allowed")]
    TooLong {
        /// Length of the refused text in bytes.
        bytes: usize,
    },
    /// The text is JSON of another shape, such as an array.
    #[error("expected a JSON object")]
    NotAnObject,
    /// The text is not JSON, or a member has the wrong type.
    #[error("the object cannot be read: {0}")]
    Malformed(#[from] serde_json::Error),
}

impl<T: DeserializeOwned> Document<T> {
    /// Parses the text of an object.
    ///
    /// # Errors
    ///
    /// If the text is too long, is not a JSON object, or a member has the wrong type.
    pub fn parse(text: &str) -> Result<Self, DocumentError> {
        if text.len() > DOCUMENT_BYTES_MAX {
            return Err(DocumentError::TooLong { bytes: text.len() });
        }
        // Derived deserializers would also accept a JSON array with the members in order.
        if !text.trim_start().starts_with('{') {
            return Err(DocumentError::NotAnObject);
        }
        Ok(Self { value: serde_json::from_str(text)?, text: text.into() })
    }

    /// Returns the object with some members changed; all others keep their text.
    ///
    /// # Errors
    ///
    /// If the edited text is not a valid object of this kind.
    pub fn edited(&self, edit: impl FnOnce(&mut Fields)) -> Result<Self, DocumentError> {
        let mut fields: Fields = serde_json::from_str(&self.text)?;
        edit(&mut fields);
        Self::parse(&serde_json::to_string(&fields)?)
    }
}

impl<T: Serialize + DeserializeOwned> Document<T> {
    /// Creates the document of an object that has no text yet.
    ///
    /// # Errors
    ///
    /// If the text is too long.
    pub fn from_value(value: &T) -> Result<Self, DocumentError> {
        Self::parse(&serde_json::to_string(value)?)
    }
}

impl<T> Document<T> {
    /// Returns the text of the object as it was stored, byte for byte.
    pub fn text(&self) -> &str {
        &self.text
    }

    pub fn value(&self) -> &T {
        &self.value
    }
}

/// Members of a JSON object in order, each value as its original text. Of duplicate names the last
/// value counts, as in Java's parsers.
#[derive(Debug, Clone, Default)]
pub struct Fields(Vec<(String, Box<RawValue>)>);

impl Fields {
    /// Returns the text of a member's value.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(known, _)| known == name).map(|(_, value)| value.get())
    }

    /// Replaces a member in place, or appends it.
    ///
    /// # Errors
    ///
    /// If the value cannot be written as JSON.
    pub fn set(&mut self, name: &str, value: &impl Serialize) -> serde_json::Result<()> {
        self.put(name.to_owned(), serde_json::value::to_raw_value(value)?);
        Ok(())
    }

    pub fn remove(&mut self, name: &str) {
        self.0.retain(|(known, _)| known != name);
    }

    fn put(&mut self, name: String, value: Box<RawValue>) {
        match self.0.iter_mut().find(|(known, _)| *known == name) {
            Some((_, current)) => *current = value,
            None => self.0.push((name, value)),
        }
    }
}

impl<'de> Deserialize<'de> for Fields {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(FieldsVisitor)
    }
}

struct FieldsVisitor;

impl<'de> Visitor<'de> for FieldsVisitor {
    type Value = Fields;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a JSON object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Fields, A::Error> {
        let mut fields = Fields::default();
        while let Some((name, value)) = map.next_entry()? {
            fields.put(name, value);
        }
        Ok(fields)
    }
}

impl Serialize for Fields {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(name, value)| (name, value)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Selector;

    const TEXT: &str = r#"{"id":"1", "unknown":{"b":1.50,"a":[ 1e3 ]},"name":"x","enabled":true}"#;

    #[test]
    fn unknown_members_stay_byte_true() {
        let document: Document<Selector> = Document::parse(TEXT).unwrap();
        assert_eq!(document.text(), TEXT);
        let edited = document.edited(|fields| fields.set("enabled", &false).unwrap()).unwrap();
        assert!(!edited.value().enabled);
        let mut fields: Fields = serde_json::from_str(edited.text()).unwrap();
        assert_eq!(fields.get("unknown"), Some(r#"{"b":1.50,"a":[ 1e3 ]}"#));
        fields.remove("unknown");
        let written = serde_json::to_string(&fields).unwrap();
        assert_eq!(written, r#"{"id":"1","name":"x","enabled":false}"#);
    }

    #[test]
    fn an_overlong_object_is_refused() {
        let text = format!(r#"{{"id":"{}"}}"#, "x".repeat(DOCUMENT_BYTES_MAX));
        let refused = Document::<Selector>::parse(&text).unwrap_err();
        assert!(matches!(refused, DocumentError::TooLong { .. }));
    }

    #[test]
    fn what_is_no_object_is_refused() {
        for text in ["", "[]", "1", "{", r#"{"sort":"many"}"#, r#"{"enabled":"perhaps"}"#] {
            assert!(Document::<Selector>::parse(text).is_err(), "{text}");
        }
    }
}
