//! Takes JSON documents apart without building values: the path that a file with tens of thousands
//! of routes and fifty changes a second takes.
//!
//! One pass finds where items begin and end; a second, over each item, finds its `id` and stops.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::Value;
use serde_json::value::RawValue;
use tollhouse_model::{Problem, Problems};

use super::collect::{Collector, Key, path_of};
use super::{Document, Kind};
use crate::substitute::{self, Environment};

pub(super) fn parse(text: &str, environment: Environment<'_>) -> Result<Document, Problem> {
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

/// The document: an object of lists.
struct DocumentVisitor<'c, 'e> {
    collector: &'c mut Collector,
    environment: Environment<'e>,
}

impl<'de> Visitor<'de> for DocumentVisitor<'_, '_> {
    type Value = ();

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("an object with lists such as \"routes\"")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<(), A::Error> {
        while let Some(name) = entries.next_key::<Cow<'de, str>>()? {
            let Key::Items(kind) = self.collector.key(&name) else {
                entries.next_value::<IgnoredAny>()?;
                continue;
            };
            let value: &RawValue = entries.next_value()?;
            collect(self.collector, kind, value.get(), self.environment);
        }
        Ok(())
    }
}

fn collect(collector: &mut Collector, kind: Kind, text: &str, environment: Environment<'_>) {
    if text == "null" {
        return;
    }
    let mut reader = serde_json::Deserializer::from_str(text);
    let visitor = ItemsVisitor { collector: &mut *collector, kind, environment };
    // The text is JSON, so that the only error is another type than a list; `{}` is an empty one.
    let read = reader.deserialize_seq(visitor);
    if read.is_err() && !is_empty_object(text) {
        collector.no_list(kind);
    }
}

fn is_empty_object(text: &str) -> bool {
    text.strip_prefix('{')
        .and_then(|rest| rest.strip_suffix('}'))
        .is_some_and(|inside| inside.trim().is_empty())
}

/// A list of items.
struct ItemsVisitor<'c, 'e> {
    collector: &'c mut Collector,
    kind: Kind,
    environment: Environment<'e>,
}

impl<'de> Visitor<'de> for ItemsVisitor<'_, '_> {
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
}

fn add(
    collector: &mut Collector,
    kind: Kind,
    index: usize,
    text: &str,
    environment: Environment<'_>,
) {
    if !text.starts_with('{') {
        collector.no_object(kind, index);
        return;
    }
    if !substitute::is_needed(text) {
        let id = id_of(text);
        collector.item(kind, index, id.as_ref(), text);
        return;
    }
    let mut problems = Problems::new();
    match serde_json::from_str(text) {
        Ok(mut value) => {
            substitute::substitute(&mut value, &path_of(kind, index), environment, &mut problems);
            if problems.is_empty() {
                collector.item(kind, index, value.get("id"), &value.to_string());
            } else {
                collector.withhold(kind, index, value.get("id"));
            }
        }
        Err(error) => {
            problems.push(Problem::error(path_of(kind, index), format!("cannot be read: {error}")));
            collector.withhold(kind, index, id_of(text).as_ref());
        }
    }
    collector.problems(problems);
}

/// The `id` of an object, read no further than to it.
fn id_of(text: &str) -> Option<Value> {
    let mut found = None;
    let mut reader = serde_json::Deserializer::from_str(text);
    // Stopping early is an error to the reader and none to us: the text is known to be JSON.
    let _ = reader.deserialize_map(IdVisitor { found: &mut found });
    found
}

struct IdVisitor<'f> {
    found: &'f mut Option<Value>,
}

impl<'de> Visitor<'de> for IdVisitor<'_> {
    type Value = ();

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<(), A::Error> {
        while let Some(name) = entries.next_key::<Cow<'de, str>>()? {
            if name == "id" {
                *self.found = Some(entries.next_value()?);
                return Ok(());
            }
            entries.next_value::<IgnoredAny>()?;
        }
        Ok(())
    }
}
