//! Printing of encoded messages as JSON, without an intermediate form.
//!
//! Every field of the schema is written: unset ones as `null`, `[]`, `{}` or their default, enums
//! by name, 64-bit numbers as text. Left out are fields unknown to the schema, which have no name,
//! and unset fields that strict clients do not know.

use super::newer::newer_fields;
use crate::schema::descriptors;
use crate::wire::{Field, Fields, Value, WireError};
use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use prost_reflect::{FieldDescriptor, Kind, MessageDescriptor};
use std::fmt::Write;

/// Maximum nesting of messages, equal to the limit for reading JSON. The schema nests nine; an
/// `Any` sent by a client may nest more.
const DEPTH_MAX: usize = 128;

/// Reason for which a message cannot be printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PrintError {
    #[error("{0}")]
    Wire(#[from] WireError),
    /// The JSON text exceeds the size limit.
    #[error("the text is too long")]
    TooLong,
}

/// Prints a message as JSON.
///
/// # Errors
/// If the bytes cannot be decoded.
pub fn print(descriptor: &MessageDescriptor, message: &[u8]) -> Result<String, PrintError> {
    // Names, quotes and unset fields make the text several times as long as the message.
    let mut out = String::with_capacity(256 + 4 * message.len());
    print_into(&mut out, descriptor, message)?;
    Ok(out)
}

/// Prints a message as JSON of at most `bytes_max` bytes; a single field may exceed the limit.
///
/// # Errors
/// If the text is longer, or the bytes cannot be decoded.
pub fn print_within(
    descriptor: &MessageDescriptor,
    message: &[u8],
    bytes_max: usize,
) -> Result<String, PrintError> {
    let mut out = String::with_capacity(bytes_max.min(2 * message.len()));
    Printer { out: &mut out, depth: 0, bytes_max }.message(descriptor, message)?;
    Ok(out)
}

/// Prints a message as JSON at the end of `out`.
///
/// # Errors
/// If the bytes cannot be decoded.
fn print_into(
    out: &mut String,
    descriptor: &MessageDescriptor,
    message: &[u8],
) -> Result<(), PrintError> {
    Printer { out, depth: 0, bytes_max: usize::MAX }.message(descriptor, message)
}

struct Printer<'a> {
    out: &'a mut String,
    depth: usize,
    bytes_max: usize,
}

impl Printer<'_> {
    fn message(&mut self, descriptor: &MessageDescriptor, bytes: &[u8]) -> Result<(), PrintError> {
        if self.depth == DEPTH_MAX {
            self.out.push_str("null");
            return Ok(());
        }
        self.depth += 1;
        match descriptor.full_name() {
            "google.protobuf.Any" => self.any(bytes)?,
            "google.protobuf.Duration" => self.duration(bytes)?,
            name if is_wrapper(name) => self.wrapper(descriptor, bytes)?,
            _ => {
                self.out.push('{');
                self.fields(descriptor, bytes)?;
                self.out.push('}');
            }
        }
        self.depth -= 1;
        Ok(())
    }

    /// Prints the fields of a message, without the braces.
    fn fields(&mut self, descriptor: &MessageDescriptor, bytes: &[u8]) -> Result<(), PrintError> {
        let mut written: Vec<Field<'_>> = Fields::new(bytes).collect::<Result<_, WireError>>()?;
        written.sort_by_key(|field| field.number);
        let newer = newer_fields(descriptor.full_name());
        let mut is_first = true;
        for field in descriptor.fields() {
            let from = written.partition_point(|other| other.number < field.number());
            let to = written.partition_point(|other| other.number <= field.number());
            if from == to && newer.contains(&field.number()) {
                continue;
            }
            if !std::mem::take(&mut is_first) {
                self.out.push(',');
            }
            self.text(field.json_name());
            self.out.push(':');
            self.field(&field, &written[from..to])?;
            if self.out.len() > self.bytes_max {
                return Err(PrintError::TooLong);
            }
        }
        Ok(())
    }

    fn field(&mut self, field: &FieldDescriptor, found: &[Field<'_>]) -> Result<(), PrintError> {
        if field.is_map() {
            return self.map(field, found);
        }
        if field.is_list() {
            return self.list(field, found);
        }
        let kind = field.kind();
        let suited = found.iter().rev().map(|field| field.value).find(|value| suits(&kind, value));
        match suited {
            Some(value) => self.value(&kind, value),
            None => {
                self.absent(&kind);
                Ok(())
            }
        }
    }

    fn list(&mut self, field: &FieldDescriptor, found: &[Field<'_>]) -> Result<(), PrintError> {
        let kind = field.kind();
        self.out.push('[');
        let mut is_first = true;
        for item in found.iter().filter(|item| suits(&kind, &item.value)) {
            if !std::mem::take(&mut is_first) {
                self.out.push(',');
            }
            self.value(&kind, item.value)?;
        }
        self.out.push(']');
        Ok(())
    }

    fn map(&mut self, field: &FieldDescriptor, found: &[Field<'_>]) -> Result<(), PrintError> {
        let Kind::Message(entry) = field.kind() else {
            self.out.push_str("{}");
            return Ok(());
        };
        let value_kind = entry.map_entry_value_field().kind();
        let mut entries = Vec::with_capacity(found.len());
        for item in found {
            let Value::Bytes(bytes) = item.value else {
                continue;
            };
            let (mut key, mut value) = ("", None);
            for field in Fields::new(bytes) {
                match field? {
                    Field { number: 1, value: Value::Bytes(bytes), .. } => key = text_of(bytes)?,
                    Field { number: 2, value: found, .. } if suits(&value_kind, &found) => {
                        value = Some(found);
                    }
                    _ => {}
                }
            }
            entries.push((key, value));
        }
        // The last of several entries with equal keys is valid; sorted, so that equal maps give
        // equal texts.
        entries.reverse();
        entries.sort_by_key(|(key, _)| *key);
        entries.dedup_by_key(|(key, _)| *key);
        self.out.push('{');
        for (index, (key, value)) in entries.into_iter().enumerate() {
            if index > 0 {
                self.out.push(',');
            }
            self.text(key);
            self.out.push(':');
            match (value, &value_kind) {
                (Some(value), kind) => self.value(kind, value)?,
                (None, Kind::Message(message)) => self.message(message, &[])?,
                (None, kind) => self.absent(kind),
            }
        }
        self.out.push('}');
        Ok(())
    }

    fn value(&mut self, kind: &Kind, value: Value<'_>) -> Result<(), PrintError> {
        match (kind, value) {
            (Kind::Message(message), Value::Bytes(bytes)) => return self.message(message, bytes),
            (Kind::String, Value::Bytes(bytes)) => self.text(text_of(bytes)?),
            (Kind::Bytes, Value::Bytes(bytes)) => self.text(&BASE64.encode(bytes)),
            (Kind::Bool, Value::Varint(number)) => {
                self.out.push_str(if number == 0 { "false" } else { "true" });
            }
            (Kind::Enum(names), Value::Varint(number)) => match names.get_value(number as i32) {
                Some(value) => self.text(value.name()),
                None => self.display(number as i32),
            },
            (Kind::Int32, Value::Varint(number)) => self.display(number as i32),
            (Kind::Uint32, Value::Varint(number)) => self.display(number as u32),
            (Kind::Int64, Value::Varint(number)) => self.quoted(number as i64),
            (Kind::Uint64, Value::Varint(number)) => self.quoted(number),
            (Kind::Float, Value::Fixed32(bits)) => self.float(f64::from(f32::from_bits(bits))),
            (Kind::Double, Value::Fixed64(bits)) => self.float(f64::from_bits(bits)),
            (kind, _) => self.absent(kind),
        }
        Ok(())
    }

    /// Prints the value of an unset field.
    fn absent(&mut self, kind: &Kind) {
        match kind {
            Kind::Message(_) => self.out.push_str("null"),
            Kind::String | Kind::Bytes => self.out.push_str("\"\""),
            Kind::Bool => self.out.push_str("false"),
            Kind::Int64 | Kind::Uint64 => self.out.push_str("\"0\""),
            Kind::Enum(names) => self.text(names.default_value().name()),
            _ => self.out.push('0'),
        }
    }

    /// Prints a wrapper message as its bare value.
    fn wrapper(&mut self, descriptor: &MessageDescriptor, bytes: &[u8]) -> Result<(), PrintError> {
        let Some(field) = descriptor.get_field(1) else {
            self.out.push_str("null");
            return Ok(());
        };
        let found: Vec<Field<'_>> = Fields::new(bytes)
            .filter(|read| !matches!(read, Ok(read) if read.number != 1))
            .collect::<Result<_, WireError>>()?;
        self.field(&field, &found)
    }

    /// Prints an `Any` with its message, if the type is known.
    fn any(&mut self, bytes: &[u8]) -> Result<(), PrintError> {
        let (mut url, mut body): (&str, &[u8]) = ("", &[]);
        for field in Fields::new(bytes) {
            match field? {
                Field { number: 1, value: Value::Bytes(bytes), .. } => url = text_of(bytes)?,
                Field { number: 2, value: Value::Bytes(bytes), .. } => body = bytes,
                _ => {}
            }
        }
        if url.is_empty() {
            self.out.push_str("null");
            return Ok(());
        }
        self.out.push_str("{\"@type\":");
        // Types with a special JSON form are written as `value`; the fields of others follow the
        // type directly (proto3's JSON mapping of `Any`).
        self.text(url);
        let name = url.rsplit('/').next().unwrap_or_default();
        let known = descriptors().get_message_by_name(name);
        match known.filter(|message| message.fields().len() > 0) {
            Some(message) if is_special(message.full_name()) => {
                self.out.push_str(",\"value\":");
                self.message(&message, body)?;
            }
            Some(message) => {
                self.out.push(',');
                self.fields(&message, body)?;
            }
            None => {
                self.out.push_str(",\"value\":");
                self.text(&BASE64.encode(body));
            }
        }
        self.out.push('}');
        Ok(())
    }

    /// Prints seconds with 0, 3, 6 or 9 decimals, as few as suffice.
    fn duration(&mut self, bytes: &[u8]) -> Result<(), PrintError> {
        let (mut seconds, mut nanoseconds) = (0_i64, 0_i32);
        for field in Fields::new(bytes) {
            match field? {
                Field { number: 1, value: Value::Varint(number), .. } => seconds = number as i64,
                Field { number: 2, value: Value::Varint(number), .. } => {
                    nanoseconds = number as i32;
                }
                _ => {}
            }
        }
        let sign = if seconds < 0 || nanoseconds < 0 { "-" } else { "" };
        let (seconds, fraction) = (seconds.unsigned_abs(), nanoseconds.unsigned_abs());
        let _ = match fraction {
            0 => write!(self.out, "\"{sign}{seconds}s\""),
            f if f % 1_000_000 == 0 => {
                write!(self.out, "\"{sign}{seconds}.{:03}s\"", f / 1_000_000)
            }
            f if f % 1_000 == 0 => write!(self.out, "\"{sign}{seconds}.{:06}s\"", f / 1_000),
            f => write!(self.out, "\"{sign}{seconds}.{f:09}s\""),
        };
        Ok(())
    }

    fn float(&mut self, number: f64) {
        if number.is_nan() {
            self.out.push_str("\"NaN\"");
        } else if number.is_infinite() {
            self.out.push_str(if number > 0.0 { "\"Infinity\"" } else { "\"-Infinity\"" });
        } else {
            self.display(number);
        }
    }

    fn display(&mut self, number: impl std::fmt::Display) {
        write!(self.out, "{number}").expect("a string takes any text");
    }

    fn quoted(&mut self, number: impl std::fmt::Display) {
        write!(self.out, "\"{number}\"").expect("a string takes any text");
    }

    fn text(&mut self, text: &str) {
        self.out.push('"');
        let mut rest = text;
        while let Some(at) = rest.find(|c: char| c == '"' || c == '\\' || c < ' ') {
            self.out.push_str(&rest[..at]);
            match rest.as_bytes()[at] {
                b'"' => self.out.push_str("\\\""),
                b'\\' => self.out.push_str("\\\\"),
                b'\n' => self.out.push_str("\\n"),
                b'\r' => self.out.push_str("\\r"),
                b'\t' => self.out.push_str("\\t"),
                control => {
                    write!(self.out, "\\u{control:04x}").expect("a string takes any text");
                }
            }
            rest = &rest[at + 1..];
        }
        self.out.push_str(rest);
        self.out.push('"');
    }
}

fn text_of(bytes: &[u8]) -> Result<&str, WireError> {
    std::str::from_utf8(bytes).map_err(|_| WireError::NotUtf8)
}

/// Whether a value fits a kind; others are skipped, as in every protobuf reader.
fn suits(kind: &Kind, value: &Value<'_>) -> bool {
    match kind {
        Kind::Message(_) | Kind::String | Kind::Bytes => matches!(value, Value::Bytes(_)),
        Kind::Float | Kind::Fixed32 | Kind::Sfixed32 => matches!(value, Value::Fixed32(_)),
        Kind::Double | Kind::Fixed64 | Kind::Sfixed64 => matches!(value, Value::Fixed64(_)),
        _ => matches!(value, Value::Varint(_)),
    }
}

fn is_wrapper(name: &str) -> bool {
    name.strip_prefix("google.protobuf.").is_some_and(|name| name.ends_with("Value"))
}

/// Whether a message has a special JSON form instead of an object of its fields.
fn is_special(name: &str) -> bool {
    name.starts_with("google.protobuf.")
}
