//! Decoding of the wrappers `StringValue`, `UInt32Value` and `BoolValue`: messages of one field,
//! whose presence has a meaning even if the field is absent.
//!
//! Each function merges one occurrence into a slot. A repeated wrapper changes only the field that
//! it contains, as protobuf defines it.

use super::scan::{Fields, Value, WireError};

/// Number of the only field of a wrapper.
const VALUE: u32 = 1;

/// Decodes a text, which must be UTF-8.
pub(super) fn text(bytes: &[u8]) -> Result<&str, WireError> {
    std::str::from_utf8(bytes).map_err(|_| WireError::NotUtf8)
}

/// Decodes a `google.protobuf.StringValue`.
pub(super) fn string<'a>(wrapper: &'a [u8], slot: &mut Option<&'a str>) -> Result<(), WireError> {
    let mut value = slot.unwrap_or("");
    for field in Fields::new(wrapper) {
        let field = field?;
        if let (VALUE, Value::Bytes(bytes)) = (field.number, field.value) {
            value = text(bytes)?;
        }
    }
    *slot = Some(value);
    Ok(())
}

/// Decodes a `UInt32Value`; a longer number is truncated to 32 bits, as in every implementation.
pub(super) fn number(wrapper: &[u8], slot: &mut Option<u32>) -> Result<(), WireError> {
    let mut value = slot.unwrap_or(0);
    for field in Fields::new(wrapper) {
        let field = field?;
        if let (VALUE, Value::Varint(number)) = (field.number, field.value) {
            value = number as u32;
        }
    }
    *slot = Some(value);
    Ok(())
}

/// Decodes a `google.protobuf.BoolValue`.
pub(super) fn boolean(wrapper: &[u8], slot: &mut Option<bool>) -> Result<(), WireError> {
    let mut value = slot.unwrap_or(false);
    for field in Fields::new(wrapper) {
        let field = field?;
        if let (VALUE, Value::Varint(number)) = (field.number, field.value) {
            value = number != 0;
        }
    }
    *slot = Some(value);
    Ok(())
}
