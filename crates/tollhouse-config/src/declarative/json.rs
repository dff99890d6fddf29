//! Splitting of JSON documents into items without building values, fast enough for files with tens
//! of thousands of routes and fifty changes a second.
//!
//! One pass finds the bounds of the items. A second pass over each item stops as soon as the id is
//! found, so that documents whose items begin with their id are read little more than once.

use std::borrow::Cow;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;
use tollhouse_model::{Problem, Problems};

use super::collect::{Collector, Key, path_of};
use super::key::Head;
use super::{Document, Kind, shenyu};
use crate::substitute::{self, Environment};

/// Parses a document; without an environment, variables are not replaced.
pub(super) fn parse(text: &str, environment: Option<Environment<'_>>) -> Result<Document, Problem> {
    let mut collector = Collector::default();
    let visitor = DocumentVisitor { collector: &mut collector, environment };
    let mut reader = serde_json::Deserializer::from_str(text);
    reader.deserialize_map(visitor).and_then(|()| reader.end()).map_err(|error| problem(&error))?;
    Ok(collector.finish())
}

fn problem(error: &serde_json::Error) -> Problem {
    let text = error.to_string();
    let place = format!(" at line {} column {}", error.line(), error.column());
    let reason = text.strip_suffix(&place).unwrap_or(&text);
    let path = format!("line {}, column {}", error.line(), error.column());
    let hint = if error.is_eof() { "the file seems to be written in part only" } else { "" };
    Problem::error(path, reason).with_hint(hint)
}

/// Visitor of the document: an object of lists.
struct DocumentVisitor<'c, 'e> {
    collector: &'c mut Collector,
    environment: Option<Environment<'e>>,
}

impl<'de> Visitor<'de> for DocumentVisitor<'_, '_> {
    type Value = ();

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("an object with lists such as \"routes\"")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<(), A::Error> {
        while let Some(name) = entries.next_key::<Cow<'de, str>>()? {
            let kind = match self.collector.key(&name) {
                Key::Items(kind) => kind,
                Key::Shenyu => {
                    let section = entries.next_value()?;
                    shenyu::collect(self.collector, section, self.environment);
                    continue;
                }
                Key::Ignored => {
                    entries.next_value::<IgnoredAny>()?;
                    continue;
                }
            };
            entries.next_value_seed(Items {
                collector: &mut *self.collector,
                kind,
                environment: self.environment,
            })?;
        }
        Ok(())
    }
}

/// Visitor of a list of items; reports and skips any other value.
struct Items<'c, 'e> {
    collector: &'c mut Collector,
    kind: Kind,
    environment: Option<Environment<'e>>,
}

impl Items<'_, '_> {
    fn refuse<E>(self) -> Result<(), E> {
        self.collector.no_list(self.kind);
        Ok(())
    }
}

impl<'de> DeserializeSeed<'de> for Items<'_, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, reader: D) -> Result<(), D::Error> {
        reader.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Items<'_, '_> {
    type Value = ();

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("a list")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        let mut index = 0;
        while let Some(item) = items.next_element::<&RawValue>()? {
            add(self.collector, self.kind, index, item.get(), self.environment);
            index += 1;
        }
        Ok(())
    }

    /// Accepts `{}` as an empty list, because some emitters write that.
    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<(), A::Error> {
        let mut empty = true;
        while entries.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {
            empty = false;
        }
        if empty { Ok(()) } else { self.refuse() }
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        self.refuse()
    }

    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        self.refuse()
    }

    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        self.refuse()
    }

    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        self.refuse()
    }

    fn visit_str<E>(self, _: &str) -> Result<(), E> {
        self.refuse()
    }
}

fn add(
    collector: &mut Collector,
    kind: Kind,
    index: usize,
    text: &str,
    environment: Option<Environment<'_>>,
) {
    if !text.starts_with('{') {
        collector.no_object(kind, index);
        return;
    }
    let Some(environment) = environment.filter(|_| substitute::is_needed(text)) else {
        collector.item(kind, index, &head_of(kind, text), text);
        return;
    };
    let mut problems = Problems::new();
    match serde_json::from_str(text) {
        Ok(mut value) => {
            substitute::substitute(&mut value, &path_of(kind, index), environment, &mut problems);
            if problems.is_empty() {
                collector.item(kind, index, &Head::from_item(&value), &value.to_string());
            } else {
                collector.withhold(kind, index, &Head::from_item(&value), &value.to_string());
            }
        }
        Err(error) => {
            problems.push(Problem::error(path_of(kind, index), format!("cannot be read: {error}")));
            collector.withhold(kind, index, &head_of(kind, text), "null");
        }
    }
    collector.problems(problems);
}

/// Reads the id fields of an item and nothing after them.
fn head_of(list: Kind, text: &str) -> Head {
    let mut head = Head::default();
    let mut reader = serde_json::Deserializer::from_str(text);
    // An error only means that reading stopped early, because the text is valid JSON.
    let _ = reader.deserialize_map(HeadVisitor { head: &mut head, list });
    head
}

struct HeadVisitor<'h> {
    head: &'h mut Head,
    list: Kind,
}

impl<'de> Visitor<'de> for HeadVisitor<'_> {
    type Value = ();

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<(), A::Error> {
        let named = self.list == Kind::Consumer;
        while let Some(name) = entries.next_key::<Cow<'de, str>>()? {
            match &*name {
                "id" => self.head.id = Some(entries.next_value()?),
                "username" if named => self.head.username = Some(entries.next_value()?),
                _ => {
                    entries.next_value::<IgnoredAny>()?;
                }
            }
            // The username of a consumer may follow its id.
            if self.head.id.is_some() && (!named || self.head.username.is_some()) {
                return Ok(());
            }
        }
        Ok(())
    }
}
