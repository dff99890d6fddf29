//! Serde deserializer from the document tree to typed data, with position and path in every error.
//!
//! Lenient where only one meaning is possible: a number or boolean is accepted as text, and a map
//! as a list of pairs (`headers: {accept: "*/*"}`).

use serde::de::value::StrDeserializer;
use serde::de::{
    self, DeserializeSeed, EnumAccess, IntoDeserializer, MapAccess, SeqAccess, VariantAccess,
    Visitor,
};
use serde::forward_to_deserialize_any;

use super::node::{Key, Kind, Node};
use super::problem::{Problem, unfit};

/// Deserializes a value from a node.
pub(super) fn from_node<T: de::DeserializeOwned>(node: &Node) -> Result<T, Problem> {
    T::deserialize(Reader(node)).map_err(|problem| problem.at(node.at))
}

#[derive(Clone, Copy)]
struct Reader<'a>(&'a Node);

impl<'a> Reader<'a> {
    fn map<'de, V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Problem> {
        match &self.0.kind {
            Kind::Map(entries) => visitor.visit_map(Entries { left: entries.iter(), value: None }),
            // `tls:` without a value is an empty map.
            Kind::Null => visitor.visit_map(Entries { left: [].iter(), value: None }),
            _ => Err(unfit(self.0, "a map of keys")),
        }
    }

    fn list<'de, V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Problem> {
        match &self.0.kind {
            Kind::List(items) => visitor.visit_seq(Items { left: items.iter(), index: 0 }),
            Kind::Map(entries) => visitor.visit_seq(Pairs(entries.iter())),
            _ => Err(unfit(self.0, "a list")),
        }
    }
}

impl<'de> de::Deserializer<'de> for Reader<'_> {
    type Error = Problem;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Problem> {
        let value = match &self.0.kind {
            Kind::Null => visitor.visit_unit(),
            Kind::Bool(value, _) => visitor.visit_bool(*value),
            Kind::Whole(value, _) => visitor.visit_i64(*value),
            Kind::Number(value, _) => visitor.visit_f64(*value),
            Kind::Text(text) => visitor.visit_str(text),
            Kind::List(_) => self.list(visitor),
            Kind::Map(_) => self.map(visitor),
        };
        value.map_err(|problem| problem.at(self.0.at))
    }

    fn deserialize_str<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Problem> {
        let text = self.0.scalar().ok_or_else(|| unfit(self.0, "text"))?;
        visitor.visit_str(text).map_err(|problem: Problem| problem.at(self.0.at))
    }

    fn deserialize_string<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Problem> {
        self.deserialize_str(visitor)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Problem> {
        match self.0.kind {
            Kind::Null => visitor.visit_none(),
            _ => visitor.visit_some(self),
        }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        visitor: V,
    ) -> Result<V::Value, Problem> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Problem> {
        self.list(visitor).map_err(|problem| problem.at(self.0.at))
    }

    fn deserialize_tuple<V: Visitor<'de>>(
        self,
        length: usize,
        visitor: V,
    ) -> Result<V::Value, Problem> {
        let pair = match &self.0.kind {
            Kind::Map(entries) if length == 2 => match entries.as_slice() {
                [(key, value)] => Some(Pair { key: Some(key), value: Some(value) }),
                _ => None,
            },
            _ => None,
        };
        let read = match pair {
            Some(pair) => visitor.visit_seq(pair),
            None => self.list(visitor),
        };
        read.map_err(|problem| problem.at(self.0.at))
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Problem> {
        self.map(visitor).map_err(|problem| problem.at(self.0.at))
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        _fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Problem> {
        self.deserialize_map(visitor)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Problem> {
        let choices =
            || variants.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
        let (name, value) = match &self.0.kind {
            Kind::Map(entries) => match entries.as_slice() {
                [(key, value)] => (key.text.as_str(), Some(value)),
                _ => return Err(unfit(self.0, &format!("exactly one of {}", choices()))),
            },
            _ => match self.0.scalar() {
                Some(text) => (text, None),
                None => return Err(unfit(self.0, &format!("one of {}", choices()))),
            },
        };
        let read = visitor.visit_enum(Choice { name, value });
        read.map_err(|problem| problem.at(self.0.at))
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Problem> {
        visitor.visit_unit()
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char bytes byte_buf unit unit_struct
        tuple_struct identifier
    }
}

/// Deserializer access to the entries of a map that are not read yet.
struct Entries<'a> {
    left: std::slice::Iter<'a, (Key, Node)>,
    value: Option<(&'a Key, &'a Node)>,
}

impl<'de> MapAccess<'de> for Entries<'_> {
    type Error = Problem;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, Problem> {
        let Some((key, value)) = self.left.next() else { return Ok(None) };
        self.value = Some((key, value));
        let name: StrDeserializer<'_, Problem> = key.text.as_str().into_deserializer();
        seed.deserialize(name).map(Some).map_err(|problem| problem.at(key.at).within(&key.text))
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, Problem> {
        let (key, value) = self
            .value
            .take()
            .ok_or_else(|| Problem::new("a value was asked for before its key"))?;
        seed.deserialize(Reader(value)).map_err(|problem| problem.at(value.at).within(&key.text))
    }
}

/// Deserializer access to the items of a list that are not read yet.
struct Items<'a> {
    left: std::slice::Iter<'a, Node>,
    index: usize,
}

impl<'de> SeqAccess<'de> for Items<'_> {
    type Error = Problem;

    fn next_element_seed<S: DeserializeSeed<'de>>(
        &mut self,
        seed: S,
    ) -> Result<Option<S::Value>, Problem> {
        let Some(item) = self.left.next() else { return Ok(None) };
        let index = self.index;
        self.index += 1;
        let read = seed.deserialize(Reader(item)).map(Some);
        read.map_err(|problem| problem.at(item.at).within(&format!("[{index}]")))
    }
}

/// Entries of a map, presented as a sequence of pairs.
struct Pairs<'a>(std::slice::Iter<'a, (Key, Node)>);

impl<'de> SeqAccess<'de> for Pairs<'_> {
    type Error = Problem;

    fn next_element_seed<S: DeserializeSeed<'de>>(
        &mut self,
        seed: S,
    ) -> Result<Option<S::Value>, Problem> {
        let Some((key, value)) = self.0.next() else { return Ok(None) };
        seed.deserialize(Entry(key, value))
            .map(Some)
            .map_err(|problem| problem.at(value.at).within(&key.text))
    }
}

/// Entry of a map where a pair is expected; deserializes only as a tuple.
struct Entry<'a>(&'a Key, &'a Node);

impl<'de> de::Deserializer<'de> for Entry<'_> {
    type Error = Problem;

    fn deserialize_any<V: Visitor<'de>>(self, _visitor: V) -> Result<V::Value, Problem> {
        Err(Problem::new("is the key of a map; write a list here"))
    }

    fn deserialize_tuple<V: Visitor<'de>>(
        self,
        _length: usize,
        visitor: V,
    ) -> Result<V::Value, Problem> {
        visitor.visit_seq(Pair { key: Some(self.0), value: Some(self.1) })
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit
        unit_struct newtype_struct seq tuple_struct map struct enum identifier ignored_any
    }
}

/// Key and value as a sequence of two elements.
struct Pair<'a> {
    key: Option<&'a Key>,
    value: Option<&'a Node>,
}

impl<'de> SeqAccess<'de> for Pair<'_> {
    type Error = Problem;

    fn next_element_seed<S: DeserializeSeed<'de>>(
        &mut self,
        seed: S,
    ) -> Result<Option<S::Value>, Problem> {
        if let Some(key) = self.key.take() {
            let name: StrDeserializer<'_, Problem> = key.text.as_str().into_deserializer();
            return seed.deserialize(name).map(Some).map_err(|problem| problem.at(key.at));
        }
        let Some(value) = self.value.take() else { return Ok(None) };
        seed.deserialize(Reader(value)).map(Some).map_err(|problem| problem.at(value.at))
    }
}

/// Chosen enum variant with its value.
struct Choice<'a> {
    name: &'a str,
    value: Option<&'a Node>,
}

impl<'de, 'a> EnumAccess<'de> for Choice<'a> {
    type Error = Problem;
    type Variant = Self;

    fn variant_seed<S: DeserializeSeed<'de>>(self, seed: S) -> Result<(S::Value, Self), Problem> {
        let name: StrDeserializer<'_, Problem> = self.name.into_deserializer();
        Ok((seed.deserialize(name)?, self))
    }
}

impl Choice<'_> {
    fn held(&self) -> Result<Reader<'_>, Problem> {
        let missing = || Problem::new(format!("`{0}` needs a value: `{0}: …`", self.name));
        self.value.map(Reader).ok_or_else(missing)
    }
}

impl<'de> VariantAccess<'de> for Choice<'_> {
    type Error = Problem;

    fn unit_variant(self) -> Result<(), Problem> {
        match self.value {
            None => Ok(()),
            Some(value) => Err(unfit(value, &format!("`{}` alone", self.name))),
        }
    }

    fn newtype_variant_seed<S: DeserializeSeed<'de>>(self, seed: S) -> Result<S::Value, Problem> {
        let held = self.held()?;
        seed.deserialize(held).map_err(|problem| problem.at(held.0.at).within(self.name))
    }

    fn tuple_variant<V: Visitor<'de>>(
        self,
        _length: usize,
        visitor: V,
    ) -> Result<V::Value, Problem> {
        let held = self.held()?;
        held.list(visitor).map_err(|problem| problem.at(held.0.at).within(self.name))
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        _fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Problem> {
        let held = self.held()?;
        held.map(visitor).map_err(|problem| problem.at(held.0.at).within(self.name))
    }
}
