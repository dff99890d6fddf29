//! An object with the text in which it came, and its members in their order.

use std::fmt;

use serde::de::{DeserializeOwned, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;

/// Bytes of the text of one object. A selector with a thousand nodes in its handle takes 200 KB.
const DOCUMENT_BYTES_MAX: usize = 4 << 20;

/// An object, read, and its text, which is what is stored and sent on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Document<T> {
    text: Box<str>,
    value: T,
}

/// Why a text is no object of the kind that was asked for.
#[derive(Debug, thiserror::Error)]
pub enum DocumentError {
    /// It is longer than any object needs to be.
    #[error("the object has {bytes} bytes, at most {DOCUMENT_BYTES_MAX} are taken")]
    TooLong {
        /// Its length.
        bytes: usize,
    },
    /// It is JSON of another shape, such as a list.
    #[error("expected a JSON object")]
    NotAnObject,
    /// It is not JSON, or a member has the wrong type.
    #[error("the object cannot be read: {0}")]
    Malformed(#[from] serde_json::Error),
}

impl<T: DeserializeOwned> Document<T> {
    /// Reads the text of one object.
    ///
    /// # Errors
    /// When the text is too long, is no JSON object, or a member has the wrong type.
    pub fn parse(text: &str) -> Result<Self, DocumentError> {
        if text.len() > DOCUMENT_BYTES_MAX {
            return Err(DocumentError::TooLong { bytes: text.len() });
        }
        // Derived readers would take a list for the members in their order.
        if !text.trim_start().starts_with('{') {
            return Err(DocumentError::NotAnObject);
        }
        Ok(Self { value: serde_json::from_str(text)?, text: text.into() })
    }

    /// The same object with other values in some members; all others stay as they are written.
    ///
    /// # Errors
    /// When the object cannot be read with the new values.
    pub fn edited(&self, edit: impl FnOnce(&mut Fields)) -> Result<Self, DocumentError> {
        let mut fields: Fields = serde_json::from_str(&self.text)?;
        edit(&mut fields);
        Self::parse(&serde_json::to_string(&fields)?)
    }
}

impl<T: Serialize + DeserializeOwned> Document<T> {
    /// The document of an object that has come from no text.
    ///
    /// # Errors
    /// When it is too long.
    pub fn from_value(value: &T) -> Result<Self, DocumentError> {
        Self::parse(&serde_json::to_string(value)?)
    }
}

impl<T> Document<T> {
    /// The text, byte for byte as it came.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The object.
    pub fn value(&self) -> &T {
        &self.value
    }
}

/// The members of a JSON object in their order, each value as it is written. Of a name that is there twice
/// the last value counts, as in Java's readers.
#[derive(Debug, Clone, Default)]
pub struct Fields(Vec<(String, Box<RawValue>)>);

impl Fields {
    /// The text of a member's value.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(known, _)| known == name).map(|(_, value)| value.get())
    }

    /// Sets a member where it stands, or at the end.
    ///
    /// # Errors
    /// When the value cannot be written as JSON.
    pub fn set(&mut self, name: &str, value: &impl Serialize) -> serde_json::Result<()> {
        self.put(name.to_owned(), serde_json::value::to_raw_value(value)?);
        Ok(())
    }

    /// Takes a member out.
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
