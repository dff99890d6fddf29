//! Converts a message to JSON: names as in the definition; options determine the form of integers,
//! enums and absent fields. Messages with a special form in protobuf's own JSON, such as
//! timestamps, are written as ordinary messages, as in APISIX.

use std::io::Write;

use base64::Engine;
use prost::Message;
use prost_reflect::{
    DynamicMessage, EnumDescriptor, FieldDescriptor, Kind, MapKey, MessageDescriptor,
    ReflectMessage, Syntax, Value,
};

/// Form of integers that do not fit into 32 bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Int64Form {
    /// 64-bit integers as JSON numbers: `4294967296`.
    #[default]
    Number,
    /// 64-bit integers as decimal texts: `"#4294967296"`.
    Text,
    /// 64-bit integers as hexadecimal texts: `"#0x100000000"`.
    Hexadecimal,
}

/// Form of enum values in JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum EnumForm {
    /// Name of the enum value, or its number if the definition has no name for it.
    #[default]
    Name,
    /// Number of the enum value.
    Number,
}

/// Rule for fields that the message does not contain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Defaults {
    /// Writes proto3 fields without presence (scalars, enums, lists and maps) with their default
    /// value.
    #[default]
    Auto,
    /// Writes the fields of `Auto`, and also proto2 scalars with their declared default.
    All,
    Nothing,
}

/// Smallest output size, in bytes, for which `may_grow` is called.
const GRANT_BYTES_MIN: usize = 1024;

/// Reason why a message cannot be written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WriteError {
    /// The bytes are not a valid encoding of the message type.
    #[error(transparent)]
    NoMessage(#[from] prost::DecodeError),
    /// The output would exceed the size that `may_grow` permits.
    #[error("the message is too large as JSON")]
    NoRoom,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct JsonForm {
    pub int64: Int64Form,
    pub enums: EnumForm,
    pub defaults: Defaults,
}

impl JsonForm {
    /// Appends the message encoded in `bytes` as JSON on one line. `may_grow` is called with the
    /// size that `out` may reach next: absent fields are written too, so that a few bytes of input
    /// can expand to a large output.
    ///
    /// # Errors
    /// If the bytes are not a valid message, or `may_grow` denies the space for the output.
    pub fn write(
        &self,
        descriptor: &MessageDescriptor,
        bytes: &[u8],
        out: &mut Vec<u8>,
        may_grow: &mut dyn FnMut(usize) -> bool,
    ) -> Result<(), WriteError> {
        let mut message = DynamicMessage::new(descriptor.clone());
        message.merge(bytes)?;
        let mut out = Text { bytes: out, granted: 0, may_grow, is_full: false };
        self.message(&message, &mut out);
        if out.is_full { Err(WriteError::NoRoom) } else { Ok(()) }
    }

    fn message(&self, message: &DynamicMessage, out: &mut Text<'_>) {
        out.push(b'{');
        let mut is_first = true;
        for field in message.descriptor().fields() {
            if !message.has_field(&field) && !self.fills(&field) {
                continue;
            }
            if !out.separate(&mut is_first) {
                return;
            }
            text(field.name(), out);
            out.push(b':');
            self.field(&field, &message.get_field(&field), out);
        }
        out.push(b'}');
    }

    /// Whether an absent field is written.
    fn fills(&self, field: &FieldDescriptor) -> bool {
        let is_message = matches!(field.kind(), Kind::Message(_)) && !field.is_list();
        let is_proto2 = field.parent_file().syntax() == Syntax::Proto2;
        match self.defaults {
            Defaults::Nothing => false,
            Defaults::Auto => !field.supports_presence() && !is_proto2,
            Defaults::All if field.is_map() => true,
            Defaults::All if field.containing_oneof().is_some() || is_message => false,
            Defaults::All => !field.supports_presence() || is_proto2,
        }
    }

    fn field(&self, field: &FieldDescriptor, value: &Value, out: &mut Text<'_>) {
        let kind = field.kind();
        match value {
            Value::List(items) => {
                out.push(b'[');
                let mut is_first = true;
                for item in items {
                    if !out.separate(&mut is_first) {
                        return;
                    }
                    self.value(&kind, item, out);
                }
                out.push(b']');
            }
            Value::Map(entries) => {
                let Kind::Message(entry) = kind else { return };
                let kind = entry.map_entry_value_field().kind();
                // Sorted, so that equal messages give equal output.
                let mut sorted: Vec<(String, &Value)> =
                    entries.iter().map(|(key, value)| (key_text(key), value)).collect();
                sorted.sort_by(|a, b| a.0.cmp(&b.0));
                out.push(b'{');
                let mut is_first = true;
                for (key, value) in sorted {
                    if !out.separate(&mut is_first) {
                        return;
                    }
                    text(&key, out);
                    out.push(b':');
                    self.value(&kind, value, out);
                }
                out.push(b'}');
            }
            value => self.value(&kind, value, out),
        }
    }

    fn value(&self, kind: &Kind, value: &Value, out: &mut Text<'_>) {
        match value {
            Value::Bool(value) => display(value, out),
            Value::I32(number) => display(number, out),
            Value::U32(number) => display(number, out),
            Value::I64(number) => self.wide(i128::from(*number), out),
            Value::U64(number) => self.wide(i128::from(*number), out),
            Value::F32(number) if number.is_finite() => json(number, out),
            Value::F32(number) => text(unusual(f64::from(*number)), out),
            Value::F64(number) if number.is_finite() => json(number, out),
            Value::F64(number) => text(unusual(*number), out),
            Value::String(value) => text(value, out),
            Value::Bytes(value) => {
                text(&base64::engine::general_purpose::STANDARD.encode(value), out);
            }
            Value::EnumNumber(number) => self.variant(kind.as_enum(), *number, out),
            Value::Message(message) => self.message(message, out),
            // Lists and maps are never nested, and `field` writes the outer ones.
            Value::List(_) | Value::Map(_) => out.bytes.extend_from_slice(b"null"),
        }
    }

    /// Writes a 64-bit integer; as text if it exceeds 32 bits, like the library used by APISIX.
    fn wide(&self, number: i128, out: &mut Text<'_>) {
        let fits = (i128::from(i32::MIN)..=i128::from(u32::MAX)).contains(&number);
        let sign = if number < 0 { "-" } else { "" };
        match self.int64 {
            Int64Form::Text if !fits => text(&format!("#{number}"), out),
            Int64Form::Hexadecimal if !fits => {
                text(&format!("#{sign}0x{:X}", number.unsigned_abs()), out);
            }
            _ => display(&number, out),
        }
    }

    fn variant(&self, names: Option<&EnumDescriptor>, number: i32, out: &mut Text<'_>) {
        let known = names.and_then(|names| names.get_value(number));
        match known.filter(|_| self.enums == EnumForm::Name) {
            Some(known) => text(known.name(), out),
            None => display(&number, out),
        }
    }
}

/// JSON text that is written, with the length up to which it may grow.
struct Text<'o> {
    bytes: &'o mut Vec<u8>,
    /// Length up to which `may_grow` need not be called again.
    granted: usize,
    may_grow: &'o mut dyn FnMut(usize) -> bool,
    is_full: bool,
}

impl Text<'_> {
    fn push(&mut self, byte: u8) {
        self.bytes.push(byte);
    }

    /// Begins the next member or item; `false` if the output is full.
    fn separate(&mut self, is_first: &mut bool) -> bool {
        if !std::mem::take(is_first) {
            self.push(b',');
        }
        if !self.is_full && self.bytes.len() >= self.granted {
            // Doubled, as vectors grow.
            self.granted = self.bytes.len().saturating_mul(2).max(GRANT_BYTES_MIN);
            self.is_full = !(self.may_grow)(self.granted);
        }
        !self.is_full
    }
}

fn key_text(key: &MapKey) -> String {
    match key {
        MapKey::Bool(key) => key.to_string(),
        MapKey::I32(key) => key.to_string(),
        MapKey::I64(key) => key.to_string(),
        MapKey::U32(key) => key.to_string(),
        MapKey::U64(key) => key.to_string(),
        MapKey::String(key) => key.clone(),
    }
}

/// Returns the text for a non-finite number, as in protobuf's JSON mapping.
fn unusual(number: f64) -> &'static str {
    if number.is_nan() {
        "NaN"
    } else if number > 0.0 {
        "Infinity"
    } else {
        "-Infinity"
    }
}

fn text(text: &str, out: &mut Text<'_>) {
    json(text, out);
}

fn json<T: serde::Serialize + ?Sized>(value: &T, out: &mut Text<'_>) {
    // Writing to memory does not fail, and numbers and texts are always serializable.
    let _ = serde_json::to_writer(&mut *out.bytes, value);
}

fn display(value: &dyn std::fmt::Display, out: &mut Text<'_>) {
    let _ = write!(out.bytes, "{value}");
}
