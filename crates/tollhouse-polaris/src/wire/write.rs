//! Encoding of messages, field by field, at the end of a byte vector.
//!
//! Functions named `put_…_value` write wrapper messages, in which empty and absent differ. The
//! others omit default values, as proto3 does.

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
enum WireType {
    Varint = 0,
    Bytes = 2,
}

/// Tag of the field `value` (number 1, varint) in wrapper messages of numbers, such as
/// `UInt32Value`.
const VALUE_IS_NUMBER: u8 = 0x08;
/// Tag of the field `value` (number 1, length-delimited) in the wrapper message of texts,
/// `StringValue`.
const VALUE_IS_TEXT: u8 = 0x0a;

/// Returns the length of a varint in bytes, 1 to 10.
pub const fn varint_bytes(number: u64) -> usize {
    // Zero takes one byte too; each byte holds seven bits.
    (63 - (number | 1).leading_zeros() as usize) / 7 + 1
}

/// Returns the encoded length of a field with `length` bytes of content, including tag and length.
pub const fn field_bytes(number: u32, length: usize) -> usize {
    varint_bytes((number as u64) << 3) + varint_bytes(length as u64) + length
}

#[inline]
pub fn put_varint(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

fn put_tag(out: &mut Vec<u8>, number: u32, wire_type: WireType) {
    put_varint(out, u64::from(number) << 3 | wire_type as u64);
}

/// Writes the head of a field with `length` bytes of content, which the caller writes next or sends
/// separately.
pub fn put_head(out: &mut Vec<u8>, number: u32, length: usize) {
    put_tag(out, number, WireType::Bytes);
    put_varint(out, length as u64);
}

/// Writes an encoded message as a field.
pub fn put_message(out: &mut Vec<u8>, number: u32, message: &[u8]) {
    put_head(out, number, message.len());
    out.extend_from_slice(message);
}

/// Writes a message that `write` encodes.
///
/// The length is not known in advance: one byte is reserved for it, and a message that needs a
/// longer length is moved. This is cheap for small messages.
pub fn put_nested(out: &mut Vec<u8>, number: u32, write: impl FnOnce(&mut Vec<u8>)) {
    put_tag(out, number, WireType::Bytes);
    let length_at = out.len();
    out.push(0);
    write(out);
    let length = out.len() - length_at - 1;
    if length < 0x80 {
        out[length_at] = length as u8;
        return;
    }
    let body_at = length_at + 1;
    let extra = varint_bytes(length as u64) - 1;
    let end = out.len();
    out.resize(end + extra, 0);
    out.copy_within(body_at..end, body_at + extra);
    let mut rest = length;
    for byte in &mut out[length_at..length_at + extra] {
        *byte = rest as u8 | 0x80;
        rest >>= 7;
    }
    out[length_at + extra] = rest as u8;
}

/// Writes a plain text, unless it is empty.
pub fn put_text(out: &mut Vec<u8>, number: u32, text: &str) {
    if !text.is_empty() {
        put_message(out, number, text.as_bytes());
    }
}

/// Writes a plain number, unless it is zero.
pub fn put_number(out: &mut Vec<u8>, number: u32, value: u64) {
    if value != 0 {
        put_tag(out, number, WireType::Varint);
        put_varint(out, value);
    }
}

/// Writes a plain signed number or enum, unless it is zero; negative numbers take ten bytes.
pub fn put_signed(out: &mut Vec<u8>, number: u32, value: i64) {
    put_number(out, number, value as u64);
}

/// Writes a plain boolean, unless it is false.
pub fn put_flag(out: &mut Vec<u8>, number: u32, value: bool) {
    put_number(out, number, u64::from(value));
}

/// Writes a plain number below 128, or a boolean as 0 or 1, also if it is 0.
pub fn put_small_number(out: &mut Vec<u8>, number: u32, value: u8) {
    put_tag(out, number, WireType::Varint);
    out.push(value);
}

/// Writes a field of type `google.protobuf.StringValue`.
pub fn put_text_value(out: &mut Vec<u8>, number: u32, text: &str) {
    if text.is_empty() {
        return put_head(out, number, 0);
    }
    put_head(out, number, 1 + varint_bytes(text.len() as u64) + text.len());
    out.push(VALUE_IS_TEXT);
    put_varint(out, text.len() as u64);
    out.extend_from_slice(text.as_bytes());
}

/// Returns the length that [`put_text_value`] writes, in bytes.
pub const fn text_value_bytes(number: u32, text: &str) -> usize {
    let length = match text.len() {
        0 => 0,
        length => field_bytes(1, length),
    };
    field_bytes(number, length)
}

/// Writes a field of type `google.protobuf.UInt32Value`.
pub fn put_number_value(out: &mut Vec<u8>, number: u32, value: u32) {
    if value == 0 {
        return put_head(out, number, 0);
    }
    put_head(out, number, 1 + varint_bytes(u64::from(value)));
    out.push(VALUE_IS_NUMBER);
    put_varint(out, u64::from(value));
}

/// Writes a field of type `google.protobuf.BoolValue`.
pub fn put_flag_value(out: &mut Vec<u8>, number: u32, value: bool) {
    put_number_value(out, number, u32::from(value));
}

/// Writes an entry of a `map<string, string>`.
pub fn put_entry(out: &mut Vec<u8>, number: u32, key: &str, value: &str) {
    put_head(out, number, field_bytes(1, key.len()) + field_bytes(2, value.len()));
    put_message(out, 1, key.as_bytes());
    put_message(out, 2, value.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::{Fields, Value};

    #[test]
    fn numbers_take_as_many_bytes_as_foretold() {
        for number in (0..64).flat_map(|bit| [(1_u64 << bit) - 1, 1 << bit]).chain([u64::MAX]) {
            let mut out = Vec::new();
            put_varint(&mut out, number);
            assert_eq!(out.len(), varint_bytes(number), "{number}");
        }
    }

    #[test]
    fn nested_messages_of_every_length_are_framed() {
        for length in [0, 1, 127, 128, 129, 16_383, 16_384, 2_097_151, 2_097_152] {
            let mut out = vec![0x08, 1];
            put_nested(&mut out, 2, |out| out.extend((0..length).map(|byte| byte as u8)));
            put_number(&mut out, 3, 7);
            let fields: Vec<_> = Fields::new(&out).map(|field| field.unwrap().value).collect();
            let body: Vec<u8> = (0..length).map(|byte| byte as u8).collect();
            assert_eq!(fields, [Value::Varint(1), Value::Bytes(&body), Value::Varint(7)]);
        }
    }

    #[test]
    fn lengths_of_wrapped_texts_are_foretold() {
        for length in [0, 1, 125, 126, 127, 128, 16_384] {
            let text = "x".repeat(length);
            for number in [1, 16, 2_048] {
                let mut out = Vec::new();
                put_text_value(&mut out, number, &text);
                assert_eq!(out.len(), text_value_bytes(number, &text), "{number} {length}");
            }
        }
    }

    #[test]
    fn field_lengths_are_foretold() {
        for (number, length) in [(1, 0), (15, 127), (16, 128), (2_047, 16_384), (2_048, 5)] {
            let mut out = Vec::new();
            put_message(&mut out, number, &vec![0; length]);
            assert_eq!(out.len(), field_bytes(number, length));
        }
    }
}
