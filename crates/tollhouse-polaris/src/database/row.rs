//! A database row: texts by column name. The interpretation of columns is up to the kinds of
//! objects.

use tollhouse_registry::{Metadata, Revision};

use super::ImportRefusal;
use crate::registration::hex_digest;

/// A database row; see the module.
#[derive(Debug, Clone, Default)]
pub struct Row {
    names: Vec<&'static str>,
    values: Vec<Option<String>>,
}

impl Row {
    /// Creates a row from column names and values; `None` is NULL.
    pub fn new(names: &[&'static str], values: Vec<Option<String>>) -> Self {
        debug_assert_eq!(names.len(), values.len(), "each column has a value");
        Self { names: names.to_vec(), values }
    }

    fn find(&self, name: &str) -> Option<&str> {
        let place = self.names.iter().position(|it| *it == name)?;
        self.values.get(place)?.as_deref()
    }

    /// Returns the text of a column; empty for NULL.
    pub(super) fn text(&self, name: &str) -> &str {
        self.find(name).unwrap_or_default()
    }

    /// Returns the integer of a column, without its fraction; 0 for NULL.
    pub(super) fn number(&self, name: &'static str) -> Result<i64, ImportRefusal> {
        let Some(text) = self.find(name) else { return Ok(0) };
        // Times can have a fraction.
        let whole = text.split('.').next().unwrap_or_default();
        let read = whole.parse::<i64>();
        read.map_err(|error| ImportRefusal::Unreadable { column: name, reason: error.to_string() })
    }

    /// Returns an integer that must fit into `T`.
    pub(super) fn small<T: TryFrom<i64>>(&self, name: &'static str) -> Result<T, ImportRefusal> {
        let number = self.number(name)?;
        T::try_from(number).map_err(|_| ImportRefusal::Unreadable {
            column: name,
            reason: format!("{number} is out of range"),
        })
    }

    /// Whether the flag in a column is set.
    pub(super) fn flag(&self, name: &'static str) -> Result<bool, ImportRefusal> {
        Ok(self.number(name)? != 0)
    }

    /// Returns a time in seconds of Unix time.
    pub(super) fn time(&self, name: &'static str) -> Result<u64, ImportRefusal> {
        self.small(name)
    }

    /// Returns Polaris' revision of the row. A malformed one is replaced by a revision derived from
    /// id and time, so that it stays equal between imports.
    pub(super) fn revision(&self) -> Revision {
        let text = self.text("revision");
        let own = text.parse().ok().filter(|_| text.len() == 32);
        own.unwrap_or_else(|| {
            let name = format!("{}##{text}##{}", self.text("id"), self.text("mtime"));
            let digest = hex_digest(name.as_bytes());
            digest.get(..32).and_then(|digits| digits.parse::<Revision>().ok()).unwrap_or_default()
        })
    }

    /// Decodes a JSON column; the default value if it is empty or `null`.
    pub(super) fn json<T: serde::de::DeserializeOwned + Default>(
        &self,
        name: &'static str,
    ) -> Result<T, ImportRefusal> {
        let text = self.text(name).trim();
        if text.is_empty() || text == "null" {
            return Ok(T::default());
        }
        serde_json::from_str(text)
            .map_err(|error| ImportRefusal::Unreadable { column: name, reason: error.to_string() })
    }
}

/// Converts rows of a metadata table to pairs.
pub(super) fn metadata(rows: &[Row]) -> Metadata {
    rows.iter().map(|row| (row.text("mkey").into(), row.text("mvalue").into())).collect()
}
