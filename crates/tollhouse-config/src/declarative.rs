//! The declarative file in APISIX's standalone shape: lists of objects under the kinds' names.
//!
//! A document is told apart into items without reading what an item says: each keeps its JSON
//! text, so that unchanged ones are recognised by comparing text. Judging an item is the model's
//! work, finding what changed since the last document is `diff`'s.

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

/// Keys of APISIX's documents that have no effect here yet.
pub const NOT_SERVED: [&str; 2] = ["plugins", "stream_plugins"];

/// How a document is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// Ends with a line `#END`; without it the file is still being written.
    Yaml,
    /// An object closed by its brace.
    Json,
}

impl Format {
    /// By the ending of a file's name: `.json`, else YAML.
    pub fn from_path(path: &Path) -> Self {
        let json = path.extension().is_some_and(|ending| ending.eq_ignore_ascii_case("json"));
        if json { Format::Json } else { Format::Yaml }
    }
}

/// One object of a document, not yet read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Item {
    /// What it is.
    pub kind: Kind,
    /// Its id; of a consumer the username; `arr_<n>`, counted from 1, where the document gives
    /// none.
    pub id: Id,
    /// Where it stands, such as `routes[3]`.
    pub path: String,
    /// Its JSON text, with variables replaced.
    pub text: Arc<str>,
}

impl Item {
    /// Reads the text; costs what the item is long.
    ///
    /// # Errors
    /// The text was found to be JSON when the document was taken apart, but may nest too deep or
    /// hold a number beyond any type.
    pub fn value(&self) -> Result<Value, Problem> {
        serde_json::from_str(&self.text).map_err(|error| {
            let reason = format!("cannot be read: {error}");
            Problem::error(self.path.as_str(), reason)
        })
    }
}

/// An item that is there but cannot be told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Withheld {
    /// What it is.
    pub kind: Kind,
    /// Its id.
    pub id: Id,
    /// How many items stand before it in the document.
    pub position: usize,
    /// Where it stands, such as `routes[3]`.
    pub path: String,
    /// JSON text of what can be told of it: `null` stands where something cannot.
    pub rest: Arc<str>,
}

impl Withheld {
    /// What can be told of it; `null` where that is nothing.
    pub fn rest(&self) -> Value {
        serde_json::from_str(&self.rest).unwrap_or_default()
    }
}

/// All items of a document in its order, and what was wrong on the way to them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Document {
    /// In the document's order; no two have one kind and id.
    pub items: Vec<Item>,
    /// Items that are there but cannot be told, such as those that name a variable which is not
    /// set: what serves under their ids goes on serving. Where nothing does, they refuse what is their own.
    pub withheld: Vec<Withheld>,
    /// Kinds whose list cannot be told at all: what serves of them goes on serving.
    pub withheld_kinds: Vec<Kind>,
    /// The objects of ShenYu, in the document's order; `None` where some of them cannot be told, so that
    /// what serves goes on serving.
    pub shenyu: Option<Vec<ShenyuItem>>,
    /// Items left out, with errors; keys without effect, with warnings.
    pub problems: Problems,
}

/// Reads a file, in the format that its name ends with.
///
/// # Errors
/// The document cannot be taken apart at all: unreadable, too large, unfinished, or no object.
pub fn read(path: &Path, environment: Environment<'_>) -> Result<Document, Problems> {
    let text = read_text(path)?;
    parse(&text, Format::from_path(path), environment)
}

/// Reads a file without taking it apart.
///
/// # Errors
/// It is unreadable, or too large.
pub fn read_text(path: &Path) -> Result<String, Problems> {
    file::read(path).map_err(one)
}

/// Takes a document apart.
///
/// # Errors
/// It cannot be taken apart at all: unfinished, not of the format, or no object.
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

/// Takes a JSON document apart whose texts stand for themselves: nothing in it is replaced, since
/// whoever wrote it may not read this process' environment.
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
