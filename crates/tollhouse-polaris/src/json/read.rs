//! Encoding of messages from JSON.

use prost::Message;
use prost_reflect::{DeserializeOptions, DynamicMessage, MessageDescriptor};
use serde::de::{DeserializeSeed, Deserializer, SeqAccess, Visitor};
use std::borrow::Cow;
use std::fmt;
use thiserror::Error;

mod known_names;
use known_names::KnownNames;

/// Reason for which a JSON text cannot be converted to the message.
#[derive(Debug, Error)]
#[error("{0}")]
pub struct ReadError(String);

impl ReadError {
    pub(super) fn new(reason: String) -> Self {
        Self(reason)
    }
}

/// Returns the lenient options: unknown fields are ignored, because they come from newer clients.
/// Unknown enum names are ignored too; [`check_names`] detects them.
pub(super) fn options() -> DeserializeOptions {
    DeserializeOptions::new().deny_unknown_fields(false)
}

/// Returns the strict options, which accept a message only if all fields are known. They accept
/// most texts and are therefore tried first.
fn strict_options() -> DeserializeOptions {
    DeserializeOptions::new().deny_unknown_fields(true)
}

/// Encodes a message from JSON. An unknown enum name counts as absent.
pub fn read(descriptor: &MessageDescriptor, json: &[u8]) -> Result<Vec<u8>, ReadError> {
    read_one(descriptor, &options(), json).map_err(read_error)
}

/// Encodes a message that will be stored. Unknown enum names are refused, because a rule with a
/// policy other than the intended one does harm.
pub fn read_kept(descriptor: &MessageDescriptor, json: &[u8]) -> Result<Vec<u8>, ReadError> {
    if let Ok(message) = read_one(descriptor, &strict_options(), json) {
        return Ok(message);
    }
    let json = with_current_types(descriptor, json);
    let message = read(descriptor, &json)?;
    check_names(descriptor, &json)?;
    Ok(message)
}

/// Replaces type names of routing rules as consoles before version 1.17 write them; the types are in
/// `v1` now. Polaris does the same. Other messages stay as they are, because their texts may contain
/// such names.
fn with_current_types<'j>(descriptor: &MessageDescriptor, json: &'j [u8]) -> Cow<'j, [u8]> {
    const FORMER: &str = "\"type.googleapis.com/v2.";
    const CURRENT: &str = "\"type.googleapis.com/v1.";
    if descriptor.full_name() != "v1.RouteRule" {
        return json.into();
    }
    match std::str::from_utf8(json) {
        Ok(text) if text.contains(FORMER) => text.replace(FORMER, CURRENT).into_bytes().into(),
        _ => json.into(),
    }
}

fn read_one(
    descriptor: &MessageDescriptor,
    options: &DeserializeOptions,
    json: &[u8],
) -> serde_json::Result<Vec<u8>> {
    let json = with_current_types(descriptor, json);
    let mut reader = serde_json::Deserializer::from_slice(&json);
    let message = OneMessage { descriptor, options }.deserialize(&mut reader)?;
    reader.end()?;
    Ok(message)
}

/// Encodes a list of at most `items_max` messages like [`read_kept`]; returns `None` if the list is
/// longer.
pub fn read_list(
    descriptor: &MessageDescriptor,
    json: &[u8],
    items_max: usize,
) -> Result<Option<Vec<Vec<u8>>>, ReadError> {
    let json = &*with_current_types(descriptor, json);
    let read_with = |options: &DeserializeOptions| {
        let mut reader = serde_json::Deserializer::from_slice(json);
        let list = MessageList { descriptor, items_max, options }.deserialize(&mut reader)?;
        // The text after a list that is too long is not checked.
        if list.is_some() {
            reader.end()?;
        }
        Ok::<_, serde_json::Error>(list)
    };
    if let Ok(list) = read_with(&strict_options()) {
        return Ok(list);
    }
    let list = read_with(&options()).map_err(read_error)?;
    if list.is_some() {
        check_names(descriptor, json)?;
    }
    Ok(list)
}

/// Refuses a message or a list of messages with an unknown enum name.
fn check_names(descriptor: &MessageDescriptor, json: &[u8]) -> Result<(), ReadError> {
    let mut reader = serde_json::Deserializer::from_slice(json);
    KnownNames::Message(descriptor.clone()).deserialize(&mut reader).map_err(read_error)
}

fn read_error(error: serde_json::Error) -> ReadError {
    ReadError(error.to_string())
}

struct OneMessage<'a> {
    descriptor: &'a MessageDescriptor,
    options: &'a DeserializeOptions,
}

impl<'de> DeserializeSeed<'de> for OneMessage<'_> {
    type Value = Vec<u8>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Vec<u8>, D::Error> {
        let descriptor = self.descriptor.clone();
        let message =
            DynamicMessage::deserialize_with_options(descriptor, deserializer, self.options)?;
        Ok(message.encode_to_vec())
    }
}

struct MessageList<'a> {
    descriptor: &'a MessageDescriptor,
    items_max: usize,
    options: &'a DeserializeOptions,
}

impl<'de> DeserializeSeed<'de> for MessageList<'_> {
    type Value = Option<Vec<Vec<u8>>>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for MessageList<'_> {
    type Value = Option<Vec<Vec<u8>>>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "a list of {}", self.descriptor.name())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Self::Value, A::Error> {
        let mut messages = Vec::new();
        let one = || OneMessage { descriptor: self.descriptor, options: self.options };
        while let Some(message) = items.next_element_seed(one())? {
            if messages.len() == self.items_max {
                // The rest must be consumed, because the deserializer has to reach the end of the
                // list.
                while items.next_element::<serde::de::IgnoredAny>()?.is_some() {}
                return Ok(None);
            }
            messages.push(message);
        }
        Ok(Some(messages))
    }
}
