//! The declarative file in APISIX's standalone format: lists of objects under the names of their
//! kinds.
//!
//! A document is split into items without interpreting them. Each item keeps its JSON text, so that
//! unchanged ones are recognised by comparing text. Items are validated in `tollhouse-model`;
//! `diff` finds the changes since the previous document.

use std::path::Path;
use std::sync::Arc;

use serde_json::Value;
pub use tollhouse_model::Kind;
use tollhouse_model::{Id, Problem, Problems};

use crate::file;
use crate::substitute::Environment;

mod collect;
mod json;
mod key;
mod shenyu;
mod write;
mod yaml;

pub use shenyu::{SECTION as SHENYU_SECTION, ShenyuItem};
pub use write::write;

/// Keys of APISIX's documents that have no effect yet.
pub const NOT_SERVED: [&str; 2] = ["plugins", "stream_plugins"];

/// Format of a declarative document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// YAML: the document ends with a line `#END`; without it the file counts as incomplete.
    Yaml,
    /// JSON: the document is a single object.
    Json,
}

impl Format {
    /// Chooses the format by the file extension: JSON for `.json`, otherwise YAML.
    pub fn from_path(path: &Path) -> Self {
        let json = path.extension().is_some_and(|ending| ending.eq_ignore_ascii_case("json"));
        if json { Format::Json } else { Format::Yaml }
    }
}

/// An object of a document, not yet parsed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Item {
    pub kind: Kind,
    /// Id of the object; for a consumer the username. The default is `arr_<n>`, counted from 1.
    pub id: Id,
    /// Position in the document, such as `routes[3]`.
    pub path: String,
    /// JSON text of the object, with variables replaced.
    pub text: Arc<str>,
}

impl Item {
    /// Parses the text of the item. Time is linear in its length.
    ///
    /// # Errors
    /// If the text is nested too deeply or contains a number outside the range of all types. Other
    /// syntax errors were found when the document was split.
    pub fn value(&self) -> Result<Value, Problem> {
        serde_json::from_str(&self.text).map_err(|error| {
            let reason = format!("cannot be read: {error}");
            Problem::error(self.path.as_str(), reason)
        })
    }
}

/// An item that exists in the document but cannot be read completely.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Withheld {
    pub kind: Kind,
    pub id: Id,
    /// Number of items that precede this one in the document.
    pub position: usize,
    /// Position in the document, such as `routes[3]`.
    pub path: String,
    /// JSON text of the readable part, with `null` for unreadable values.
    pub rest: Arc<str>,
}

impl Withheld {
    /// Returns the readable part; `null` if there is nothing readable.
    pub fn rest(&self) -> Value {
        serde_json::from_str(&self.rest).unwrap_or_default()
    }
}

/// All items of a document in order, and the problems found in it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Document {
    /// Items in the order of the document; kind and id are unique.
    pub items: Vec<Item>,
    /// Items that exist but cannot be read completely, for example because a variable is not set.
    /// An object already in service under the id stays in service. Without one, requests for the
    /// item are refused.
    pub withheld: Vec<Withheld>,
    /// Kinds whose whole list is unreadable. Their objects stay in service.
    pub withheld_kinds: Vec<Kind>,
    /// ShenYu's objects in the order of the document; `None` if some are unreadable, so that the
    /// objects in service stay.
    pub shenyu: Option<Vec<ShenyuItem>>,
    /// Errors for withheld items, warnings for keys without effect.
    pub problems: Problems,
}

/// Reads a file in the format of its extension.
///
/// # Errors
/// If the document as a whole is unreadable, too large, incomplete, or not an object.
pub fn read(path: &Path, environment: Environment<'_>) -> Result<Document, Problems> {
    let text = read_text(path)?;
    parse(&text, Format::from_path(path), environment)
}

/// Reads a file without parsing it.
///
/// # Errors
/// If the file is unreadable or too large.
pub fn read_text(path: &Path) -> Result<String, Problems> {
    file::read(path).map_err(one)
}

/// Splits a document into items.
///
/// # Errors
/// If the document as a whole is incomplete, malformed, or not an object.
pub fn parse(
    text: &str,
    format: Format,
    environment: Environment<'_>,
) -> Result<Document, Problems> {
    match format {
        Format::Yaml => yaml::parse(text, environment).map_err(one),
        Format::Json => json::parse(text, Some(environment)).map_err(one),
    }
}

/// Splits a JSON document without replacing variables, because its author may not be allowed to
/// read the environment of this process.
///
/// # Errors
/// As [`parse`].
pub fn parse_literal(text: &str) -> Result<Document, Problems> {
    json::parse(text, None).map_err(one)
}

fn one(problem: Problem) -> Problems {
    let mut problems = Problems::new();
    problems.push(problem);
    problems
}

#[cfg(test)]
mod tests;
