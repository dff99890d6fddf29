//! YAML document as a tree with source positions, so that every error in a plan names its line,
//! even after merging and multiplication.

use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::Value;
use serde_saphyr::{Location, Spanned};
use tollhouse_stdx::yaml::{self, Bounds};

use super::problem::Problem;

/// Limits of a plan document: nodes for a thousand cases of a hundred keys each; twice the depth of
/// any case; more aliases than a hand-written plan has.
const BOUNDS: Bounds =
    Bounds { parts_max: 200_000, depth_max: 32, aliases_max: 10_000, aliased_parts_max: 200_000 };

/// Position in the document; line and column count from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) line: u64,
    pub(super) column: u64,
}

impl Place {
    fn from_location(location: Location) -> Self {
        Self { line: location.line(), column: location.column() }
    }
}

/// Node of the parsed plan, with its position in the file.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Node {
    pub(super) at: Place,
    pub(super) kind: Kind,
}

/// Content of a node. Scalars keep their source text, because `1.10` may be meant as a version or
/// as a number.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Kind {
    Null,
    Bool(bool, String),
    Whole(i64, String),
    Number(f64, String),
    Text(String),
    List(Vec<Node>),
    Map(Vec<(Key, Node)>),
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Key {
    pub(super) at: Place,
    pub(super) text: String,
}

/// Parses a document. Only `true` and `false` are booleans, so that `off` and `no` remain text.
pub(super) fn read(text: &str) -> Result<Node, Problem> {
    if text.trim().is_empty() {
        return Err(Problem::new("the plan is empty; it needs `cases:` with at least one case"));
    }
    let parsed: Result<Spanned<Parsed>, _> = yaml::parse(text, BOUNDS);
    parsed.map(|parsed| node(parsed, text)).map_err(|error| Problem {
        at: error.at.map(|(line, column)| Place { line, column }),
        ..Problem::new(error.why)
    })
}

/// Document as returned by the YAML library, before the source text of scalars is added.
enum Parsed {
    Null,
    Bool(bool),
    Whole(i64),
    Number(f64),
    Text(String),
    List(Vec<Spanned<Parsed>>),
    Map(Vec<(Spanned<String>, Spanned<Parsed>)>),
}

fn node(parsed: Spanned<Parsed>, source: &str) -> Node {
    let written = || {
        let span = parsed.defined.span();
        let from = span.byte_offset().and_then(|offset| usize::try_from(offset).ok());
        let length = span.byte_len().and_then(|length| usize::try_from(length).ok());
        from.zip(length).and_then(|(from, length)| source.get(from..from + length))
    };
    // Numbers keep their source text: `1.10` is a version if text is expected, and `010` a name.
    let kind = match parsed.value {
        Parsed::Null => Kind::Null,
        Parsed::Bool(value) => Kind::Bool(value, value.to_string()),
        Parsed::Whole(value) => {
            Kind::Whole(value, written().map_or_else(|| value.to_string(), str::to_owned))
        }
        Parsed::Number(value) => {
            Kind::Number(value, written().map_or_else(|| value.to_string(), str::to_owned))
        }
        Parsed::Text(text) => Kind::Text(text),
        Parsed::List(items) => {
            Kind::List(items.into_iter().map(|item| node(item, source)).collect())
        }
        Parsed::Map(entries) => Kind::Map(
            entries
                .into_iter()
                .map(|(key, value)| {
                    let key = Key { at: Place::from_location(key.referenced), text: key.value };
                    (key, node(value, source))
                })
                .collect(),
        ),
    };
    Node { at: Place::from_location(parsed.referenced), kind }
}

impl<'de> Deserialize<'de> for Parsed {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Any;

        impl<'de> Visitor<'de> for Any {
            type Value = Parsed;

            fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                out.write_str("a value")
            }

            fn visit_unit<E>(self) -> Result<Parsed, E> {
                Ok(Parsed::Null)
            }

            fn visit_none<E>(self) -> Result<Parsed, E> {
                Ok(Parsed::Null)
            }

            fn visit_bool<E>(self, value: bool) -> Result<Parsed, E> {
                Ok(Parsed::Bool(value))
            }

            fn visit_i64<E>(self, value: i64) -> Result<Parsed, E> {
                Ok(Parsed::Whole(value))
            }

            fn visit_u64<E>(self, value: u64) -> Result<Parsed, E> {
                Ok(i64::try_from(value).map_or(Parsed::Number(value as f64), Parsed::Whole))
            }

            fn visit_f64<E>(self, value: f64) -> Result<Parsed, E> {
                Ok(Parsed::Number(value))
            }

            fn visit_str<E>(self, value: &str) -> Result<Parsed, E> {
                Ok(Parsed::Text(value.to_owned()))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Parsed, A::Error> {
                let mut list = Vec::new();
                while let Some(item) = items.next_element()? {
                    list.push(item);
                }
                Ok(Parsed::List(list))
            }

            fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Parsed, A::Error> {
                let mut map = Vec::new();
                while let Some(entry) = entries.next_entry()? {
                    map.push(entry);
                }
                Ok(Parsed::Map(map))
            }
        }

        from.deserialize_any(Any)
    }
}

impl Node {
    /// Returns the value of a key of this map.
    pub(super) fn get(&self, key: &str) -> Option<&Node> {
        match &self.kind {
            Kind::Map(entries) => {
                entries.iter().find(|(name, _)| name.text == key).map(|(_, value)| value)
            }
            _ => None,
        }
    }

    /// Removes a key from this map and returns its value.
    pub(super) fn take(&mut self, key: &str) -> Option<Node> {
        let Kind::Map(entries) = &mut self.kind else { return None };
        let at = entries.iter().position(|(name, _)| name.text == key)?;
        Some(entries.remove(at).1)
    }

    /// Returns the node at a dotted path such as `load.connections`, or its closest existing
    /// ancestor.
    pub(super) fn nearest(&self, path: &str) -> &Node {
        path.split(['.', '['])
            .try_fold(self, |node, step| node.get(step).ok_or(node))
            .unwrap_or_else(|node| node)
    }

    /// Returns the node at a dotted path.
    pub(super) fn get_mut(&mut self, path: &str) -> Option<&mut Node> {
        path.split('.').try_fold(self, |node, step| match &mut node.kind {
            Kind::Map(entries) => {
                entries.iter_mut().find(|(name, _)| name.text == step).map(|(_, value)| value)
            }
            _ => None,
        })
    }

    pub(super) fn to_json(&self) -> Value {
        match &self.kind {
            Kind::Null => Value::Null,
            Kind::Bool(value, _) => Value::from(*value),
            Kind::Whole(value, _) => Value::from(*value),
            Kind::Number(value, _) => Value::from(*value),
            Kind::Text(text) => Value::from(text.as_str()),
            Kind::List(items) => items.iter().map(Node::to_json).collect(),
            Kind::Map(entries) => {
                entries.iter().map(|(key, value)| (key.text.clone(), value.to_json())).collect()
            }
        }
    }

    /// Returns the source text of a scalar.
    pub(super) fn scalar(&self) -> Option<&str> {
        match &self.kind {
            Kind::Bool(_, text)
            | Kind::Whole(_, text)
            | Kind::Number(_, text)
            | Kind::Text(text) => Some(text),
            Kind::Null | Kind::List(_) | Kind::Map(_) => None,
        }
    }

    /// Describes the node for an error message.
    pub(super) fn described(&self) -> String {
        match &self.kind {
            Kind::Null => "empty".into(),
            Kind::List(_) => "a list".into(),
            Kind::Map(_) => "a map of keys".into(),
            Kind::Text(text) if text.is_empty() => "an empty text".into(),
            Kind::Bool(_, text)
            | Kind::Whole(_, text)
            | Kind::Number(_, text)
            | Kind::Text(text) => {
                format!("`{text}`")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scalars_keep_their_text_and_place() {
        let node = read("a: 1.10\nb: {c: 007, d: off, e: true}\n").expect("YAML");
        let a = node.get("a").expect("a");
        assert_eq!(a.scalar(), Some("1.10"));
        assert_eq!((a.at.line, a.at.column), (1, 4));
        assert_eq!(node.nearest("b.c").scalar(), Some("007"));
        assert_eq!(node.nearest("b.d").kind, Kind::Text("off".into()));
        assert_eq!(node.nearest("b.e").kind, Kind::Bool(true, "true".into()));
        assert_eq!(node.nearest("b.none").at.line, 2);
    }

    #[test]
    fn what_is_no_yaml_is_named_with_its_place() {
        let problem = read("a: [1,\nb: 2\n").expect_err("an open list");
        assert!(problem.at.is_some(), "{problem:?}");
        let twice = read("a: 1\na: 2\n").expect_err("a key written twice");
        assert_eq!(twice.at.map(|at| at.line), Some(2), "{twice:?}");
        assert!(read(" \n").expect_err("nothing").why.contains("empty"));
    }
}
