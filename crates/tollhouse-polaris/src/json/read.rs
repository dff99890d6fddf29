//! JSON to the bytes of a message.

use prost::Message;
use prost_reflect::{DeserializeOptions, DynamicMessage, MessageDescriptor};
use serde::de::{DeserializeSeed, Deserializer, SeqAccess, Visitor};
use std::fmt;
use thiserror::Error;

/// Why a text is no such message.
#[derive(Debug, Error)]
#[error("{0}")]
pub struct ReadError(String);

impl ReadError {
    pub(super) fn new(reason: String) -> Self {
        Self(reason)
    }
}

/// Fields nobody knows come from newer clients and mean no harm.
pub(super) fn options() -> DeserializeOptions {
    DeserializeOptions::new().deny_unknown_fields(false)
}

/// Reads one message and gives its bytes.
pub fn read(descriptor: &MessageDescriptor, json: &[u8]) -> Result<Vec<u8>, ReadError> {
    let mut reader = serde_json::Deserializer::from_slice(json);
    let message = OneMessage(descriptor).deserialize(&mut reader).map_err(read_error)?;
    reader.end().map_err(read_error)?;
    Ok(message)
}

/// Reads a list of at most `items_max` messages; `None` stands for a longer list.
pub fn read_list(
    descriptor: &MessageDescriptor,
    json: &[u8],
    items_max: usize,
) -> Result<Option<Vec<Vec<u8>>>, ReadError> {
    let mut reader = serde_json::Deserializer::from_slice(json);
    let list = MessageList { descriptor, items_max };
    let list = list.deserialize(&mut reader).map_err(read_error)?;
    // What follows a list that is too long is of no interest.
    if list.is_some() {
        reader.end().map_err(read_error)?;
    }
    Ok(list)
}

fn read_error(error: serde_json::Error) -> ReadError {
    ReadError(error.to_string())
}

struct OneMessage<'a>(&'a MessageDescriptor);

impl<'de> DeserializeSeed<'de> for OneMessage<'_> {
    type Value = Vec<u8>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Vec<u8>, D::Error> {
        let message =
            DynamicMessage::deserialize_with_options(self.0.clone(), deserializer, &options())?;
        Ok(message.encode_to_vec())
    }
}

struct MessageList<'a> {
    descriptor: &'a MessageDescriptor,
    items_max: usize,
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
        while let Some(message) = items.next_element_seed(OneMessage(self.descriptor))? {
            if messages.len() == self.items_max {
                // The rest is taken in all the same: a list must be read to its end.
                while items.next_element::<serde::de::IgnoredAny>()?.is_some() {}
                return Ok(None);
            }
            messages.push(message);
        }
        Ok(Some(messages))
    }
}
