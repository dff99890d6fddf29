//! Converts JSON to an encoded message in one pass over the text, without an intermediate tree, so
//! that the memory use depends on the size of the request and not on its number of fields.
//!
//! Fields are found by their name in the definition or by their JSON name. Values are accepted
//! leniently, because they may come from a query: numbers and booleans as text, a single value in
//! place of a list, 64-bit integers as `#123` or `0x7B`.

use std::borrow::Cow;
use std::fmt;

use base64::Engine;
use base64::alphabet;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use prost::encoding::{WireType, encode_key, encode_varint};
use prost_reflect::{EnumDescriptor, FieldDescriptor, Kind, MessageDescriptor};
use tollhouse_model::json::{Kind as JsonKind, Piece};

/// Maximum nesting of messages: the default limit of gRPC servers.
const DEPTH_MAX: usize = 100;

/// Maximum number of characters of a value shown in an error.
const SHOWN_CHARS_MAX: usize = 40;

/// Limit up to which a 64-bit float represents every integer exactly (2^53).
const FLOAT_INTEGER_MAX: f64 = 9_007_199_254_740_992.0;

const LENIENT: GeneralPurposeConfig = GeneralPurposeConfig::new()
    .with_decode_padding_mode(DecodePaddingMode::Indifferent)
    .with_decode_allow_trailing_bits(true);
const STANDARD: GeneralPurpose = GeneralPurpose::new(&alphabet::STANDARD, LENIENT);
const URL_SAFE: GeneralPurpose = GeneralPurpose::new(&alphabet::URL_SAFE, LENIENT);

/// A value that does not fit its field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EncodeError {
    /// Path of the field, such as `user.tags`; empty for the message itself.
    path: String,
    /// Description of the problem, for the client.
    reason: String,
}

impl std::error::Error for EncodeError {}

impl fmt::Display for EncodeError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.path.is_empty() {
            return out.write_str(&self.reason);
        }
        write!(out, "field {}: {}", self.path, self.reason)
    }
}

/// Appends the JSON object `piece` as a message of type `descriptor`. Unknown names are ignored;
/// `null` counts as an absent field.
///
/// # Errors
/// If a value does not fit its field, or an object is nested deeper than servers accept.
pub fn encode_message(
    descriptor: &MessageDescriptor,
    piece: Piece<'_>,
    out: &mut Vec<u8>,
) -> Result<(), EncodeError> {
    message(descriptor, piece, 0, out)
}

fn message(
    descriptor: &MessageDescriptor,
    piece: Piece<'_>,
    depth: usize,
    out: &mut Vec<u8>,
) -> Result<(), EncodeError> {
    if piece.kind() != JsonKind::Object {
        return Err(expected("an object", piece));
    }
    if depth > DEPTH_MAX {
        return Err(EncodeError::new(format!("nested deeper than {DEPTH_MAX}")));
    }
    // Keyed by number, because a field has two names and a message must not contain it under both.
    let mut seen: Vec<u32> = Vec::new();
    for (name, value) in piece.members() {
        let name = name.text().unwrap_or_default();
        let found = descriptor
            .get_field_by_name(&name)
            .or_else(|| descriptor.get_field_by_json_name(&name));
        let Some(field) = found.filter(|_| value.kind() != JsonKind::Null) else { continue };
        let written = if seen.contains(&field.number()) {
            Err(EncodeError::new("given twice".into()))
        } else {
            seen.push(field.number());
            whole_field(&field, value, depth, out)
        };
        written.map_err(|error| error.below(field.name()))?;
    }
    Ok(())
}

fn whole_field(
    field: &FieldDescriptor,
    piece: Piece<'_>,
    depth: usize,
    out: &mut Vec<u8>,
) -> Result<(), EncodeError> {
    if field.is_map() {
        return map(field, piece, depth, out);
    }
    if !field.is_list() {
        return one(field, piece, depth, out);
    }
    if piece.kind() != JsonKind::List {
        return one(field, piece, depth, out);
    }
    if !field.is_packed() {
        return piece.items().try_for_each(|item| one(field, item, depth, out));
    }
    let mut packed = Vec::new();
    for item in piece.items() {
        scalar(&field.kind(), &Scalar::from_json(item)?, &mut packed)?;
    }
    if !packed.is_empty() {
        encode_key(field.number(), WireType::LengthDelimited, out);
        delimited(&packed, out);
    }
    Ok(())
}

/// Encodes one value with its key (field number and wire type).
fn one(
    field: &FieldDescriptor,
    piece: Piece<'_>,
    depth: usize,
    out: &mut Vec<u8>,
) -> Result<(), EncodeError> {
    let number = field.number();
    match field.kind() {
        Kind::Message(inner) if field.is_group() => {
            encode_key(number, WireType::StartGroup, out);
            message(&inner, piece, depth + 1, out)?;
            encode_key(number, WireType::EndGroup, out);
        }
        Kind::Message(inner) => {
            let mut body = Vec::new();
            message(&inner, piece, depth + 1, &mut body)?;
            encode_key(number, WireType::LengthDelimited, out);
            delimited(&body, out);
        }
        kind => {
            encode_key(number, kind.wire_type(), out);
            scalar(&kind, &Scalar::from_json(piece)?, out)?;
        }
    }
    Ok(())
}

fn map(
    field: &FieldDescriptor,
    piece: Piece<'_>,
    depth: usize,
    out: &mut Vec<u8>,
) -> Result<(), EncodeError> {
    let Kind::Message(entry) = field.kind() else { return Ok(()) };
    if piece.kind() != JsonKind::Object {
        return Err(expected("an object", piece));
    }
    let (key_field, value_field) = (entry.map_entry_key_field(), entry.map_entry_value_field());
    let mut body = Vec::new();
    for (name, value) in piece.members() {
        let key = name.text().unwrap_or_default();
        body.clear();
        encode_key(key_field.number(), key_field.kind().wire_type(), &mut body);
        let written = scalar(&key_field.kind(), &Scalar::Text(key.clone()), &mut body)
            .and_then(|()| one(&value_field, value, depth, &mut body));
        written.map_err(|error| error.below(&key))?;
        encode_key(field.number(), WireType::LengthDelimited, out);
        delimited(&body, out);
    }
    Ok(())
}

fn delimited(body: &[u8], out: &mut Vec<u8>) {
    encode_varint(body.len() as u64, out);
    out.extend_from_slice(body);
}

/// A value that is neither list nor object.
#[derive(Debug)]
enum Scalar<'t> {
    Text(Cow<'t, str>),
    /// Number as written in the text.
    Number(&'t str),
    Boolean(bool),
}

impl<'t> Scalar<'t> {
    fn from_json(piece: Piece<'t>) -> Result<Self, EncodeError> {
        match piece.kind() {
            JsonKind::Text => Ok(Self::Text(piece.text().unwrap_or_default())),
            JsonKind::Number => Ok(Self::Number(piece.raw())),
            JsonKind::Boolean => Ok(Self::Boolean(piece.raw() == "true")),
            JsonKind::Null | JsonKind::List | JsonKind::Object => Err(expected("one value", piece)),
        }
    }

    fn as_text(&self) -> &str {
        match self {
            Self::Text(text) => text,
            Self::Number(text) => text,
            Self::Boolean(true) => "true",
            Self::Boolean(false) => "false",
        }
    }

    fn refused(&self, wanted: &str) -> EncodeError {
        let quote = if matches!(self, Self::Text(_)) { "\"" } else { "" };
        let shown: String = self.as_text().chars().take(SHOWN_CHARS_MAX).collect();
        EncodeError::new(format!("expected {wanted}, got {quote}{shown}{quote}"))
    }
}

/// Encodes a value without its key (field number and wire type).
fn scalar(kind: &Kind, value: &Scalar<'_>, out: &mut Vec<u8>) -> Result<(), EncodeError> {
    let narrow = || i32::try_from(integer(value)?).map_err(|_| value.refused("a 32-bit integer"));
    let wide = || i64::try_from(integer(value)?).map_err(|_| value.refused("a 64-bit integer"));
    let natural =
        || u32::try_from(integer(value)?).map_err(|_| value.refused("a 32-bit integer from 0"));
    let wide_natural =
        || u64::try_from(integer(value)?).map_err(|_| value.refused("a 64-bit integer from 0"));
    match kind {
        // Negative numbers are sign-extended to 64 bits and take ten bytes (protobuf encoding,
        // "Signed Integers").
        Kind::Int32 => encode_varint(i64::from(narrow()?) as u64, out),
        Kind::Int64 => encode_varint(wide()? as u64, out),
        Kind::Uint32 => encode_varint(u64::from(natural()?), out),
        Kind::Uint64 => encode_varint(wide_natural()?, out),
        Kind::Sint32 => {
            let number = narrow()?;
            encode_varint(u64::from(((number << 1) ^ (number >> 31)) as u32), out);
        }
        Kind::Sint64 => {
            let number = wide()?;
            encode_varint(((number << 1) ^ (number >> 63)) as u64, out);
        }
        Kind::Fixed32 => out.extend_from_slice(&natural()?.to_le_bytes()),
        Kind::Fixed64 => out.extend_from_slice(&wide_natural()?.to_le_bytes()),
        Kind::Sfixed32 => out.extend_from_slice(&narrow()?.to_le_bytes()),
        Kind::Sfixed64 => out.extend_from_slice(&wide()?.to_le_bytes()),
        Kind::Float => out.extend_from_slice(&(float(value)? as f32).to_le_bytes()),
        Kind::Double => out.extend_from_slice(&float(value)?.to_le_bytes()),
        Kind::Bool => out.push(u8::from(boolean(value)?)),
        Kind::String => match value {
            Scalar::Boolean(_) => return Err(value.refused("a text")),
            Scalar::Text(_) | Scalar::Number(_) => delimited(value.as_text().as_bytes(), out),
        },
        Kind::Bytes => delimited(&decoded(value)?, out),
        Kind::Enum(names) => encode_varint(i64::from(variant(names, value)?) as u64, out),
        Kind::Message(_) => return Err(value.refused("an object")),
    }
    Ok(())
}

/// Parses an integer; `i128` holds all 64-bit integers of either sign.
fn integer(value: &Scalar<'_>) -> Result<i128, EncodeError> {
    let text = match value {
        Scalar::Boolean(_) => return Err(value.refused("an integer")),
        Scalar::Text(text) => text.strip_prefix('#').unwrap_or(text),
        Scalar::Number(text) => text,
    };
    let (sign, digits) = match text.strip_prefix('-') {
        Some(digits) => (-1, digits),
        None => (1, text),
    };
    let hexadecimal = digits.strip_prefix("0x").or_else(|| digits.strip_prefix("0X"));
    let starts_well = digits.starts_with(|first: char| first.is_ascii_hexdigit());
    let number = match hexadecimal {
        Some(digits) => i64_digits(digits, 16),
        None => i64_digits(digits, 10),
    };
    if let Some(number) = number.filter(|_| starts_well) {
        return Ok(sign * number);
    }
    // `1e3` and `1.0` are integers too.
    let float = text
        .parse::<f64>()
        .ok()
        .filter(|float| starts_well && float.fract() == 0.0 && float.abs() <= FLOAT_INTEGER_MAX);
    float.map(|float| float as i128).ok_or_else(|| value.refused("an integer"))
}

fn i64_digits(digits: &str, radix: u32) -> Option<i128> {
    let are_digits = digits.chars().all(|digit| digit.is_digit(radix));
    u64::from_str_radix(digits, radix).ok().filter(|_| are_digits).map(i128::from)
}

fn float(value: &Scalar<'_>) -> Result<f64, EncodeError> {
    let text = match value {
        Scalar::Boolean(_) => return Err(value.refused("a number")),
        other => other.as_text(),
    };
    match text {
        "NaN" => Ok(f64::NAN),
        "Infinity" => Ok(f64::INFINITY),
        "-Infinity" => Ok(f64::NEG_INFINITY),
        _ => {
            let number = text.parse::<f64>().ok().filter(|number| number.is_finite());
            number.ok_or_else(|| value.refused("a number"))
        }
    }
}

fn boolean(value: &Scalar<'_>) -> Result<bool, EncodeError> {
    match value.as_text() {
        "true" | "1" => Ok(true),
        "false" | "0" => Ok(false),
        _ => Err(value.refused("true or false")),
    }
}

fn decoded(value: &Scalar<'_>) -> Result<Vec<u8>, EncodeError> {
    let Scalar::Text(text) = value else { return Err(value.refused("base64")) };
    let decoded = STANDARD.decode(text.as_bytes()).or_else(|_| URL_SAFE.decode(text.as_bytes()));
    decoded.map_err(|_| value.refused("base64"))
}

fn variant(names: &EnumDescriptor, value: &Scalar<'_>) -> Result<i32, EncodeError> {
    if let Some(known) = names.get_value_by_name(value.as_text()) {
        return Ok(known.number());
    }
    let number = integer(value).ok().and_then(|number| i32::try_from(number).ok());
    number.ok_or_else(|| value.refused(&format!("a value of {}", names.name())))
}

fn expected(wanted: &str, piece: Piece<'_>) -> EncodeError {
    let got = match piece.kind() {
        JsonKind::Null => "null",
        JsonKind::Boolean => "a boolean",
        JsonKind::Number => "a number",
        JsonKind::Text => "a text",
        JsonKind::List => "a list",
        JsonKind::Object => "an object",
    };
    EncodeError::new(format!("expected {wanted}, got {got}"))
}

impl EncodeError {
    fn new(reason: String) -> Self {
        Self { path: String::new(), reason }
    }

    fn below(mut self, name: &str) -> Self {
        let dot = if self.path.is_empty() { "" } else { "." };
        self.path = format!("{name}{dot}{}", self.path);
        self
    }
}
