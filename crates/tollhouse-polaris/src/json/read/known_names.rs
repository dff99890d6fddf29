//! Check of enum names: walks JSON along its schema, and stores nothing.

use prost_reflect::{EnumDescriptor, FieldDescriptor, Kind, MessageDescriptor};
use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use std::fmt;

/// Key of the type of a message in an `Any`.
const TYPE_KEY: &str = "@type";
/// Full name of the message that contains a message of any type.
const ANY: &str = "google.protobuf.Any";

/// Expected type of a value, or of each item of a list.
#[derive(Clone)]
pub(super) enum KnownNames {
    Message(MessageDescriptor),
    Enum(EnumDescriptor),
    /// An object whose values all have this type.
    Map(Box<Self>),
    Other,
}

impl KnownNames {
    fn from_field(field: &FieldDescriptor) -> Self {
        match field.kind() {
            Kind::Message(entry) if field.is_map() => {
                Self::Map(Box::new(Self::from_field(&entry.map_entry_value_field())))
            }
            Kind::Message(message) => Self::Message(message),
            Kind::Enum(names) => Self::Enum(names),
            _ => Self::Other,
        }
    }
}

/// Returns the field of an object's key, in either spelling.
fn field_of(message: &MessageDescriptor, key: &str) -> Option<FieldDescriptor> {
    message.get_field_by_json_name(key).or_else(|| message.get_field_by_name(key))
}

impl<'de> DeserializeSeed<'de> for KnownNames {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        match self {
            Self::Other => deserializer.deserialize_ignored_any(IgnoredAny).map(|_| ()),
            _ => deserializer.deserialize_any(self),
        }
    }
}

impl<'de> Visitor<'de> for KnownNames {
    type Value = ();

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a value of the schema")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<(), E> {
        match self {
            Self::Enum(names) if names.get_value_by_name(text).is_none() => {
                Err(E::custom(format_args!("{text:?} is not a {}", names.name())))
            }
            _ => Ok(()),
        }
    }

    fn visit_bool<E: Error>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E: Error>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E: Error>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E: Error>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_unit<E: Error>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        while items.next_element_seed(self.clone())?.is_some() {}
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<(), A::Error> {
        let mut message = match self {
            Self::Message(message) => message,
            Self::Map(value) => {
                while members.next_key::<IgnoredAny>()?.is_some() {
                    members.next_value_seed((*value).clone())?;
                }
                return Ok(());
            }
            Self::Enum(_) | Self::Other => return IgnoredAny.visit_map(members).map(|_| ()),
        };
        while let Some(key) = members.next_key::<String>()? {
            // Every encoder writes the type before the other members. If it comes later, these
            // members are not checked.
            if key == TYPE_KEY && message.full_name() == ANY {
                let url: String = members.next_value()?;
                let name = url.rsplit('/').next().unwrap_or_default();
                let inner = message.parent_pool().get_message_by_name(name);
                message = inner.unwrap_or(message);
                continue;
            }
            let field = field_of(&message, &key);
            members.next_value_seed(field.as_ref().map_or(Self::Other, Self::from_field))?;
        }
        Ok(())
    }
}
