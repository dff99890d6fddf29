//! A message as JSON: names as the definition writes them, and what options say of integers, enums and
//! fields that are not there. Messages that protobuf's own JSON writes in another form, such as
//! timestamps, are written as the messages that they are, as APISIX does.

use std::io::Write;

use base64::Engine;
use prost::Message;
use prost_reflect::{
    DynamicMessage, EnumDescriptor, FieldDescriptor, Kind, MapKey, MessageDescriptor,
    ReflectMessage, Syntax, Value,
};

/// How integers are written that do not fit 32 bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Int64Form {
    /// `4294967296`.
    #[default]
    Number,
    /// `"#4294967296"`.
    Text,
    /// `"#0x100000000"`.
    Hexadecimal,
}

/// How values of enums are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum EnumForm {
    /// Their names, or numbers where they have none.
    #[default]
    Name,
    /// Their numbers.
    Number,
}

/// Which fields are written that are not there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Defaults {
    /// Those of proto3 that cannot be told from their default.
    #[default]
    Auto,
    /// These, and scalars of proto2 with the default that they declare.
    All,
    /// None.
    Nothing,
}

/// What is asked for at least.
const GRANT_BYTES_MIN: usize = 1024;

/// Why a message is not written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WriteError {
    /// The bytes are none.
    #[error(transparent)]
    NoMessage(#[from] prost::DecodeError),
    /// There is no room for what it says.
    #[error("there is no room for a message as JSON")]
    NoRoom,
}

/// How messages are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct JsonForm {
    /// 64-bit integers.
    pub int64: Int64Form,
    /// Enums.
    pub enums: EnumForm,
    /// Fields that are not there.
    pub defaults: Defaults,
}

impl JsonForm {
    /// Appends the message that `bytes` are, as JSON on one line. `may_grow` is asked with the bytes that `out` may
    /// take up next: fields that are not there are written too, so that two bytes of a list may become a page.
    ///
    /// # Errors
    /// The bytes are no such message, or there is no room for what they say.
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

    /// Whether a field is written that is not there.
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
                // The same answer reads the same each time.
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
            // Neither stands inside of another: fields are taken apart before.
            Value::List(_) | Value::Map(_) => out.bytes.extend_from_slice(b"null"),
        }
    }

    /// A 64-bit integer; as text where 32 bits would not hold it, as the library does that APISIX uses.
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

/// What has been written, and whether there may be more.
struct Text<'o> {
    bytes: &'o mut Vec<u8>,
    /// How long it may become before it has to be asked again.
    granted: usize,
    may_grow: &'o mut dyn FnMut(usize) -> bool,
    is_full: bool,
}

impl Text<'_> {
    fn push(&mut self, byte: u8) {
        self.bytes.push(byte);
    }

    /// Begins the next member or item; `false` where there is no room for it.
    fn separate(&mut self, is_first: &mut bool) -> bool {
        if !std::mem::take(is_first) {
            self.push(b',');
        }
        if !self.is_full && self.bytes.len() >= self.granted {
            // As vectors grow.
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

/// What JSON has no number for, in the words of protobuf's mapping.
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
    // Memory does not refuse bytes, and numbers and texts have a form.
    let _ = serde_json::to_writer(&mut *out.bytes, value);
}

fn display(value: &dyn std::fmt::Display, out: &mut Text<'_>) {
    let _ = write!(out.bytes, "{value}");
}
