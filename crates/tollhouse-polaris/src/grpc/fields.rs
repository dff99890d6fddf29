//! Header fields of a call, decoded into one buffer.

use tollhouse_h2::field::FieldKind;
use tollhouse_h2::{Field, FieldSink, HeadKind, StreamId};

/// Size of the two lengths before each field.
const LENGTHS_BYTES: usize = 4;
/// Initial capacity: the fields of usual SDKs, with some reserve.
const USUAL_BYTES: usize = 256;

/// Header fields of a call, with names in lower case.
///
/// Each field is stored as both lengths, name and value.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Fields {
    text: Vec<u8>,
    count: usize,
}

impl Fields {
    /// Returns the value of the first field of this name.
    pub fn find(&self, name: &str) -> Option<&[u8]> {
        let mut rest = self.text.as_slice();
        while let Some((&[n0, n1, v0, v1], text)) = rest.split_first_chunk() {
            let name_bytes = usize::from(u16::from_le_bytes([n0, n1]));
            let end = name_bytes + usize::from(u16::from_le_bytes([v0, v1]));
            if name_bytes == name.len() && text[..name_bytes] == *name.as_bytes() {
                return Some(&text[name_bytes..end]);
            }
            rest = &text[end..];
        }
        None
    }

    pub fn len(&self) -> usize {
        self.count
    }

    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Returns the bytes of all names and values.
    pub(super) fn text_bytes(&self) -> usize {
        self.text.len() - LENGTHS_BYTES * self.count
    }

    fn push(&mut self, name: &[u8], value: &[u8]) {
        if self.text.capacity() == 0 {
            self.text.reserve(USUAL_BYTES);
        }
        // Always fits, because the codec limits the field list to fewer bytes.
        let length = |text: &[u8]| u16::try_from(text.len()).unwrap_or(0).to_le_bytes();
        debug_assert!(name.len() + value.len() <= usize::from(u16::MAX), "a bounded field");
        for part in [&length(name)[..], &length(value), name, value] {
            self.text.extend_from_slice(part);
        }
        self.count += 1;
    }
}

/// The head that was decoded last; one per connection, reused.
#[derive(Debug, Default)]
pub(super) struct Head {
    pub(super) method: Vec<u8>,
    pub(super) path: Vec<u8>,
    pub(super) fields: Fields,
}

impl Head {
    /// Takes the fields out; the next head starts with an empty list.
    pub(super) fn take_fields(&mut self) -> Fields {
        std::mem::take(&mut self.fields)
    }
}

impl FieldSink for Head {
    fn begin(&mut self, _: StreamId, _: HeadKind) {
        self.method.clear();
        self.path.clear();
        self.fields.text.clear();
        self.fields.count = 0;
    }

    #[inline]
    fn field(&mut self, field: Field<'_>) {
        match field.kind {
            FieldKind::Method => self.method.extend_from_slice(field.value),
            FieldKind::Path => self.path.extend_from_slice(field.value),
            kind if kind.is_pseudo() => {}
            _ => self.fields.push(field.name, field.value),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_found_by_name() {
        let mut fields = Fields::default();
        for (name, value) in [("a", "1"), ("empty", ""), ("a", "2"), ("x-token", "t")] {
            fields.push(name.as_bytes(), value.as_bytes());
        }
        assert_eq!(fields.find("a"), Some(&b"1"[..]));
        assert_eq!(fields.find("empty"), Some(&b""[..]));
        assert_eq!(fields.find("x-token"), Some(&b"t"[..]));
        assert_eq!(fields.find("1"), None, "values are no names");
        assert_eq!((fields.len(), fields.text_bytes()), (4, 17));
        assert!(Fields::default().is_empty() && Fields::default().find("a").is_none());
    }
}
