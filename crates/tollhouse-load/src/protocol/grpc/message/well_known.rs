//! Messages of `google.protobuf` with a special JSON form.

use prost_reflect::{Kind, MessageDescriptor};
use prost_types::{Duration, FieldMask, Timestamp};

use super::scalar::{Scalar, Unfit};

/// JSON form of a message type (Protobuf's JSON mapping).
pub(super) enum Form {
    /// An object of its fields; the default.
    Fields,
    /// The value of its only field, for the wrapper types.
    Wrapped(Scalar),
    /// A text: timestamps, durations, field masks.
    Text(Scalar),
    /// An object with `@type`, for `Any`.
    Any,
    /// Object with any members, for `Struct`.
    Struct,
    /// Any JSON value, for `Value`.
    Value,
    /// List of any items, for `ListValue`.
    List,
}

/// Returns the JSON form of a message type.
pub(super) fn form(descriptor: &MessageDescriptor) -> Form {
    let Some(name) = descriptor.full_name().strip_prefix("google.protobuf.") else {
        return Form::Fields;
    };
    match name {
        "Timestamp" => Form::Text(Scalar::Timestamp),
        "Duration" => Form::Text(Scalar::Duration),
        "FieldMask" => Form::Text(Scalar::FieldMask),
        "Any" => Form::Any,
        "Struct" => Form::Struct,
        "Value" => Form::Value,
        "ListValue" => Form::List,
        "DoubleValue" | "FloatValue" | "Int64Value" | "UInt64Value" | "Int32Value"
        | "UInt32Value" | "BoolValue" | "StringValue" | "BytesValue" => {
            let kind = descriptor.get_field(1).map(|field| field.kind());
            kind.as_ref().and_then(Scalar::from_kind).map_or(Form::Fields, Form::Wrapped)
        }
        _ => Form::Fields,
    }
}

/// Whether `null` is a value of this kind instead of an absent field.
pub(super) fn takes_null(kind: &Kind) -> bool {
    match kind {
        Kind::Message(descriptor) => descriptor.full_name() == "google.protobuf.Value",
        Kind::Enum(descriptor) => descriptor.full_name() == "google.protobuf.NullValue",
        _ => false,
    }
}

pub(super) fn put_timestamp(text: &str, out: &mut Vec<u8>) -> Result<(), Unfit> {
    let time: Timestamp = text.parse().map_err(|_| {
        let what = "an RFC 3339 time such as 2026-01-31T12:00:00Z";
        Unfit::new(format!("takes {what}, not {text:?}"))
    })?;
    append(&time, out)
}

pub(super) fn put_duration(text: &str, out: &mut Vec<u8>) -> Result<(), Unfit> {
    let duration: Duration = text
        .parse()
        .map_err(|_| Unfit::new(format!("takes a duration such as 1.5s, not {text:?}")))?;
    append(&duration, out)
}

/// Encodes a field mask: comma-separated paths in camel case.
pub(super) fn put_field_mask(text: &str, out: &mut Vec<u8>) -> Result<(), Unfit> {
    let snake = |path: &str| {
        let mut name = String::with_capacity(path.len() + 4);
        for letter in path.chars() {
            if letter.is_ascii_uppercase() {
                name.push('_');
            }
            name.push(letter.to_ascii_lowercase());
        }
        name
    };
    let paths = text.split(',').filter(|path| !path.is_empty()).map(snake).collect();
    append(&FieldMask { paths }, out)
}

fn append(message: &impl prost::Message, out: &mut Vec<u8>) -> Result<(), Unfit> {
    message.encode(out).map_err(|error| Unfit::new(error.to_string()))
}
