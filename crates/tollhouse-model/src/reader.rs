//! Typed access to a JSON value that tracks the current path and collects every problem.
//!
//! This file reads objects and their fields; `reader/scalar.rs` reads the other kinds of values,
//! and `reader/shared.rs` parts that several objects share. A reading function that finds an
//! invalid value reports it and returns `None`. The caller continues, so that all problems are
//! reported at once.

use std::fmt::Write;
use std::sync::LazyLock;

use serde_json::{Map, Value};
use tollhouse_stdx::nearest;

use crate::{Problem, Problems};

mod scalar;
mod shared;

pub(crate) use scalar::{FLOAT_INTEGER_MAX, pattern_reason, type_name};
pub(crate) use shared::host_is_valid;

pub(crate) type Fields = Map<String, Value>;

/// Fields with the time of creation and of the last change of an object, in seconds of Unix time.
pub const TIME_FIELDS: [&str; 2] = ["create_time", "update_time"];

/// Revisions that APISIX tools write into every object of a document. They have no effect, because
/// documents are compared as a whole.
pub const REVISION_FIELDS: [&str; 2] = ["createdIndex", "modifiedIndex"];

/// Treatment of fields that the schema does not define.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unknown {
    Refused,
    /// The schema allows the field, but it has no effect.
    Ignored,
}

/// Current path in a document, and the problems found so far.
pub(crate) struct Reader<'p> {
    path: String,
    problems: &'p mut Problems,
}

impl<'p> Reader<'p> {
    pub(crate) fn new(path: &str, problems: &'p mut Problems) -> Self {
        Self { path: path.to_owned(), problems }
    }

    /// Returns the path and the problems, for parsers that track their own position.
    pub(crate) fn parts(&mut self) -> (&str, &mut Problems) {
        (&self.path, self.problems)
    }

    /// Reports an error in `value`, at the current path.
    pub(crate) fn error(&mut self, value: &Value, reason: impl Into<String>, hint: &str) {
        let problem = Problem::error(self.path.as_str(), reason);
        self.problems.push(problem.with_value(value).with_hint(hint));
    }

    /// Reports an error at the current path without quoting the value, which is missing, secret, or
    /// an object that may contain a secret.
    pub(crate) fn error_unquoted(&mut self, reason: impl Into<String>, hint: &str) {
        self.problems.push(Problem::error(self.path.as_str(), reason).with_hint(hint));
    }

    /// Reports a warning: the value at the current path is accepted but has no effect.
    pub(crate) fn warning(&mut self, value: &Value, reason: impl Into<String>, hint: &str) {
        let problem = Problem::warning(self.path.as_str(), reason);
        self.problems.push(problem.with_value(value).with_hint(hint));
    }

    /// Runs `read` with the path extended by a field.
    pub(crate) fn in_field<T>(&mut self, name: &str, read: impl FnOnce(&mut Self) -> T) -> T {
        let length = self.path.len();
        push_field(&mut self.path, name);
        let result = read(self);
        self.path.truncate(length);
        result
    }

    /// Runs `read` with the path extended by a list index.
    pub(crate) fn in_item<T>(&mut self, index: usize, read: impl FnOnce(&mut Self) -> T) -> T {
        let length = self.path.len();
        write!(self.path, "[{index}]").expect("writing to a string cannot fail");
        let result = read(self);
        self.path.truncate(length);
        result
    }

    /// Returns the fields of an object. Reports a value that is not an object, and every field that
    /// is not in `known`.
    pub(crate) fn object<'v>(
        &mut self,
        value: &'v Value,
        known: &[&str],
        unknown: Unknown,
    ) -> Option<&'v Fields> {
        let fields = self.map(value)?;
        self.check_names(fields.keys(), known, unknown);
        Some(fields)
    }

    /// Like `object`, for a whole configuration object, which may also contain `TIME_FIELDS` and
    /// `REVISION_FIELDS`.
    pub(crate) fn record<'v>(
        &mut self,
        value: &'v Value,
        known: &[&str],
        unknown: Unknown,
    ) -> Option<&'v Fields> {
        let fields = self.map(value)?;
        let own = |name: &&String| {
            TIME_FIELDS.contains(&name.as_str()) || REVISION_FIELDS.contains(&name.as_str())
        };
        self.check_names(fields.keys().filter(|name| !own(name)), known, unknown);
        Some(fields)
    }

    /// Returns the entries of an object with arbitrary keys. An empty list counts as an empty
    /// object, because languages such as Lua write either.
    pub(crate) fn map<'v>(&mut self, value: &'v Value) -> Option<&'v Fields> {
        static NO_FIELDS: LazyLock<Fields> = LazyLock::new(Fields::new);
        match value {
            Value::Object(fields) => Some(fields),
            Value::Array(items) if items.is_empty() => Some(&NO_FIELDS),
            _ => {
                self.wrong_type(value, "object");
                None
            }
        }
    }

    /// Returns the items of a list. An empty object counts as an empty list.
    pub(crate) fn list<'v>(&mut self, value: &'v Value) -> Option<&'v [Value]> {
        match value {
            Value::Array(items) => Some(items),
            Value::Object(fields) if fields.is_empty() => Some(&[]),
            _ => {
                self.wrong_type(value, "array");
                None
            }
        }
    }

    /// Reads a field if it is present.
    pub(crate) fn optional<'v, T>(
        &mut self,
        fields: &'v Fields,
        name: &str,
        read: impl FnOnce(&mut Self, &'v Value) -> Option<T>,
    ) -> Option<T> {
        let value = fields.get(name)?;
        self.in_field(name, |reader| read(reader, value))
    }

    /// Reads a required field; reports it if missing.
    pub(crate) fn required<'v, T>(
        &mut self,
        fields: &'v Fields,
        name: &str,
        read: impl FnOnce(&mut Self, &'v Value) -> Option<T>,
    ) -> Option<T> {
        if !fields.contains_key(name) {
            self.error_unquoted(format!("property \"{name}\" is required"), "");
            return None;
        }
        self.optional(fields, name, read)
    }

    /// Reads every item of a list; `None` unless all are valid.
    pub(crate) fn items<'v, T>(
        &mut self,
        items: &'v [Value],
        mut read: impl FnMut(&mut Self, &'v Value) -> Option<T>,
    ) -> Option<Vec<T>> {
        let mut results = Vec::with_capacity(items.len());
        for (index, item) in items.iter().enumerate() {
            results.extend(self.in_item(index, |reader| read(reader, item)));
        }
        (results.len() == items.len()).then_some(results)
    }

    fn check_names<'n>(
        &mut self,
        names: impl Iterator<Item = &'n String>,
        known: &[&str],
        unknown: Unknown,
    ) {
        for name in names {
            if !known.contains(&name.as_str()) {
                self.in_field(name, |reader| reader.unknown_field(name, known, unknown));
            }
        }
    }

    /// Reports an unknown field without its value, which may be a secret under a misspelt name.
    fn unknown_field(&mut self, name: &str, known: &[&str], unknown: Unknown) {
        let hint = match nearest(name, known.iter().copied()) {
            Some(near) => format!("did you mean \"{near}\"?"),
            None => format!("known fields: {}", known.join(", ")),
        };
        let reason = format!("unknown field \"{name}\"");
        let problem = match unknown {
            Unknown::Refused => Problem::error(self.path.as_str(), reason).with_hint(hint),
            Unknown::Ignored => Problem::warning(self.path.as_str(), reason)
                .with_hint(format!("it has no effect; {hint}")),
        };
        self.problems.push(problem);
    }
}

/// Appends `.name`, or `["na:me"]` for a name with other characters.
fn push_field(path: &mut String, name: &str) {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
    if !name.is_empty() && name.bytes().all(plain) {
        if !path.is_empty() {
            path.push('.');
        }
        path.push_str(name);
        return;
    }
    let shown = crate::problem::excerpt(&Value::from(name));
    write!(path, "[{shown}]").expect("writing to a string cannot fail");
}

#[cfg(test)]
mod tests;
