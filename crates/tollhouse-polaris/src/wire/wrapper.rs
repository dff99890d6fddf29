//! The wrappers `StringValue`, `UInt32Value` and `BoolValue`: messages of one field, whose presence
//! says something even when the field is left out.
//!
//! Each function takes one occurrence into a slot. A wrapper that stands twice is merged, as every
//! message is: the second one changes only what it names.

use super::scan::{Fields, Value, WireError};

/// The only field of every wrapper.
const VALUE: u32 = 1;

/// Text that must be UTF-8.
pub(super) fn text(bytes: &[u8]) -> Result<&str, WireError> {
    std::str::from_utf8(bytes).map_err(|_| WireError::NotUtf8)
}

/// A `StringValue`.
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

/// A `UInt32Value`; a longer number loses its upper half, as in every implementation.
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

/// A `BoolValue`.
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
