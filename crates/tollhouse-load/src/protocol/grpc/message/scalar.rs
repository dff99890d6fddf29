//! Encoding of a single value, from JSON or from the text of an expanded template.
//!
//! Texts are accepted in place of numbers, because 64-bit numbers are texts in proto JSON and
//! templates produce only texts. Numbers are not accepted in place of texts.

use base64::Engine;
use base64::alphabet;
use base64::engine::DecodePaddingMode;
use base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig};
use prost::encoding::encode_varint;
use prost_reflect::{EnumDescriptor, Kind};
use serde_json::Number;
use tollhouse_stdx::nearest;

use super::well_known;

/// Scalar types of Protobuf, which differ in their encoding.
#[derive(Debug, Clone)]
pub(super) enum Scalar {
    Double,
    Float,
    Int32,
    Int64,
    Uint32,
    Uint64,
    Sint32,
    Sint64,
    Fixed32,
    Fixed64,
    Sfixed32,
    Sfixed64,
    Bool,
    String,
    Bytes,
    Enum(EnumDescriptor),
    /// The fields of a `google.protobuf.Timestamp`, without key or length; `Duration` and
    /// `FieldMask` likewise.
    Timestamp,
    Duration,
    FieldMask,
}

/// Value from JSON or a template, before conversion to the type of its field.
#[derive(Debug, Clone, Copy)]
pub(super) enum Input<'a> {
    Text(&'a str),
    Number(&'a Number),
    Bool(bool),
}

/// Error for a value that does not fit its field: `takes …, not …`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(super) struct Unfit(String);

impl Unfit {
    pub(super) fn new(why: impl Into<String>) -> Self {
        Self(why.into())
    }

    fn hinting(self, hint: &str) -> Self {
        Self(self.0 + hint)
    }
}

const LENIENT: GeneralPurposeConfig =
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent);
const BASE64: GeneralPurpose = GeneralPurpose::new(&alphabet::STANDARD, LENIENT);
const BASE64_URL: GeneralPurpose = GeneralPurpose::new(&alphabet::URL_SAFE, LENIENT);

impl Scalar {
    pub(super) fn from_kind(kind: &Kind) -> Option<Self> {
        Some(match kind {
            Kind::Double => Self::Double,
            Kind::Float => Self::Float,
            Kind::Int32 => Self::Int32,
            Kind::Int64 => Self::Int64,
            Kind::Uint32 => Self::Uint32,
            Kind::Uint64 => Self::Uint64,
            Kind::Sint32 => Self::Sint32,
            Kind::Sint64 => Self::Sint64,
            Kind::Fixed32 => Self::Fixed32,
            Kind::Fixed64 => Self::Fixed64,
            Kind::Sfixed32 => Self::Sfixed32,
            Kind::Sfixed64 => Self::Sfixed64,
            Kind::Bool => Self::Bool,
            Kind::String => Self::String,
            Kind::Bytes => Self::Bytes,
            Kind::Enum(descriptor) => Self::Enum(descriptor.clone()),
            Kind::Message(_) => return None,
        })
    }

    /// Whether `null` is the only value of this type.
    pub(super) fn is_null_value(&self) -> bool {
        matches!(self, Self::Enum(kind) if kind.full_name() == "google.protobuf.NullValue")
    }

    /// Appends the encoded value, without its key.
    pub(super) fn put(&self, input: Input<'_>, out: &mut Vec<u8>) -> Result<(), Unfit> {
        match self {
            Self::Double => out.extend_from_slice(&float(input)?.to_le_bytes()),
            Self::Float => out.extend_from_slice(&single(input)?.to_le_bytes()),
            Self::Int32 => put_signed(signed(input, I32)?, out),
            Self::Int64 => put_signed(signed(input, I64)?, out),
            Self::Uint32 => encode_varint(unsigned(input, u64::from(u32::MAX))?, out),
            Self::Uint64 => encode_varint(unsigned(input, u64::MAX)?, out),
            Self::Sint32 => encode_varint(zigzag(signed(input, I32)?), out),
            Self::Sint64 => encode_varint(zigzag(signed(input, I64)?), out),
            Self::Fixed32 => {
                let value = unsigned(input, u64::from(u32::MAX))?;
                out.extend_from_slice(&(value as u32).to_le_bytes());
            }
            Self::Fixed64 => out.extend_from_slice(&unsigned(input, u64::MAX)?.to_le_bytes()),
            Self::Sfixed32 => {
                out.extend_from_slice(&(signed(input, I32)? as i32).to_le_bytes());
            }
            Self::Sfixed64 => out.extend_from_slice(&signed(input, I64)?.to_le_bytes()),
            Self::Bool => out.push(u8::from(boolean(input)?)),
            Self::String => put_sized(text(input, "a text")?.as_bytes(), out),
            Self::Bytes => put_sized(&bytes(input)?, out),
            Self::Enum(descriptor) => put_signed(i64::from(enumeration(input, descriptor)?), out),
            Self::Timestamp => well_known::put_timestamp(text(input, "an RFC 3339 time")?, out)?,
            Self::Duration => well_known::put_duration(text(input, "a text such as 1.5s")?, out)?,
            Self::FieldMask => {
                well_known::put_field_mask(text(input, "a text of paths with commas")?, out)?;
            }
        }
        Ok(())
    }
}

type Range = std::ops::RangeInclusive<i64>;
const I32: Range = i32::MIN as i64..=i32::MAX as i64;
const I64: Range = i64::MIN..=i64::MAX;

/// Encodes a signed varint; negative numbers take ten bytes in protobuf.
fn put_signed(value: i64, out: &mut Vec<u8>) {
    encode_varint(value as u64, out);
}

fn zigzag(value: i64) -> u64 {
    ((value << 1) ^ (value >> (i64::BITS - 1))) as u64
}

pub(super) fn put_sized(bytes: &[u8], out: &mut Vec<u8>) {
    encode_varint(bytes.len() as u64, out);
    out.extend_from_slice(bytes);
}

fn signed(input: Input<'_>, range: Range) -> Result<i64, Unfit> {
    let value = match input {
        Input::Text(text) => text.parse().ok().or_else(|| whole(text.parse().ok()?)),
        Input::Number(number) => number.as_i64().or_else(|| whole(number.as_f64()?)),
        Input::Bool(_) => None,
    };
    value.filter(|value| range.contains(value)).ok_or_else(|| {
        wrong(input, &format!("a whole number from {} to {}", range.start(), range.end()))
    })
}

fn unsigned(input: Input<'_>, max: u64) -> Result<u64, Unfit> {
    let of_float = |value: f64| whole(value).and_then(|value| u64::try_from(value).ok());
    let value = match input {
        Input::Text(text) => text.parse().ok().or_else(|| of_float(text.parse().ok()?)),
        Input::Number(number) => number.as_u64().or_else(|| of_float(number.as_f64()?)),
        Input::Bool(_) => None,
    };
    value
        .filter(|value| *value <= max)
        .ok_or_else(|| wrong(input, &format!("a whole number from 0 to {max}")))
}

/// Converts floats without fraction, such as `1.0` and `1e3`, if they are exactly representable.
fn whole(value: f64) -> Option<i64> {
    const EXACT_MAX: f64 = 9_007_199_254_740_992.0;
    (value.fract() == 0.0 && value.abs() <= EXACT_MAX).then_some(value as i64)
}

fn float(input: Input<'_>) -> Result<f64, Unfit> {
    let value = match input {
        Input::Text("Infinity") => Some(f64::INFINITY),
        Input::Text("-Infinity") => Some(f64::NEG_INFINITY),
        Input::Text("NaN") => Some(f64::NAN),
        Input::Text(text) => text.parse().ok().filter(|value: &f64| value.is_finite()),
        Input::Number(number) => number.as_f64(),
        Input::Bool(_) => None,
    };
    value.ok_or_else(|| wrong(input, "a number"))
}

fn single(input: Input<'_>) -> Result<f32, Unfit> {
    let value = float(input)?;
    let narrow = value as f32;
    if value.is_finite() && !narrow.is_finite() {
        return Err(wrong(input, "a number that fits in 32 bits"));
    }
    Ok(narrow)
}

fn boolean(input: Input<'_>) -> Result<bool, Unfit> {
    match input {
        Input::Bool(value) => Ok(value),
        Input::Text("true") => Ok(true),
        Input::Text("false") => Ok(false),
        _ => Err(wrong(input, "true or false")),
    }
}

fn text<'a>(input: Input<'a>, what: &str) -> Result<&'a str, Unfit> {
    match input {
        Input::Text(text) => Ok(text),
        _ => Err(wrong(input, what)),
    }
}

/// Decodes base64 of either alphabet, with or without padding.
fn bytes(input: Input<'_>) -> Result<Vec<u8>, Unfit> {
    let text = text(input, "a text of base64")?;
    let engine = if text.contains(['-', '_']) { BASE64_URL } else { BASE64 };
    engine.decode(text).map_err(|error| Unfit(format!("is not base64: {error}")))
}

/// Accepts the name of an enum value, or any number.
fn enumeration(input: Input<'_>, descriptor: &EnumDescriptor) -> Result<i32, Unfit> {
    if let Input::Text(name) = input
        && let Some(value) = descriptor.get_value_by_name(name)
    {
        return Ok(value.number());
    }
    if let Ok(number) = signed(input, I32) {
        return Ok(number as i32);
    }
    let names: Vec<String> = descriptor.values().map(|value| value.name().to_owned()).collect();
    let meant = match input {
        Input::Text(name) => nearest(name, names.iter().map(String::as_str)),
        _ => None,
    };
    let what = format!("a value of {}", descriptor.full_name());
    let hint = meant.map_or_else(String::new, |meant| format!("; did you mean {meant}?"));
    Err(wrong(input, &what).hinting(&hint))
}

fn wrong(input: Input<'_>, what: &str) -> Unfit {
    Unfit(match input {
        Input::Text(text) => format!("takes {what}, not {text:?}"),
        Input::Number(number) => format!("takes {what}, not {number}"),
        Input::Bool(value) => format!("takes {what}, not {value}"),
    })
}
