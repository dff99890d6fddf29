//! Row of the change history: time, author and interface of a change, and the object before and
//! after it. A row is stored in the commit of its change, so that every change has a row. This file
//! defines the content and the stored form; writing and expiry of rows are implemented elsewhere.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

/// Prefix of the keys of change rows, relative to the prefix of all objects.
pub const FOLDER: &str = "tollhouse/changes/";

/// Maximum size in bytes of an object's texts before and after a change, together, that a row
/// stores. Larger texts are left out, which `is_cut` records. Objects have a few KiB.
pub const BODIES_BYTES_MAX: usize = 256 * 1024;

/// `path` of a row about an import. Such a row covers many objects, with their former values in
/// `below`.
pub const IMPORTED: &str = "import/objects";

/// Interface by which a change was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    Api,
    Console,
    Import,
    Acme,
    /// The declarative file that contains all objects.
    File,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChangeKind {
    Create,
    /// The object was written as a whole.
    Replace,
    /// A part of the object was changed.
    Patch,
    Delete,
    Undo,
}

impl Way {
    const ALL: [(Self, &'static str); 5] = [
        (Self::Api, "api"),
        (Self::Console, "console"),
        (Self::Import, "import"),
        (Self::Acme, "acme"),
        (Self::File, "file"),
    ];

    /// Returns the name of the interface in stored rows.
    pub fn name(self) -> &'static str {
        name_of(&Self::ALL, self)
    }
}

impl ChangeKind {
    const ALL: [(Self, &'static str); 5] = [
        (Self::Create, "create"),
        (Self::Replace, "replace"),
        (Self::Patch, "patch"),
        (Self::Delete, "delete"),
        (Self::Undo, "undo"),
    ];

    /// Returns the name of the operation in stored rows.
    pub fn name(self) -> &'static str {
        name_of(&Self::ALL, self)
    }
}

fn name_of<T: Copy + PartialEq>(all: &[(T, &'static str)], wanted: T) -> &'static str {
    all.iter().find(|(one, _)| *one == wanted).map_or("", |(_, name)| name)
}

fn find_name<T: Copy>(all: &[(T, &'static str)], wanted: &str) -> Option<T> {
    all.iter().find(|(_, name)| *name == wanted).map(|(one, _)| *one)
}

/// Time, author and interface of a change, as in [`ChangeRow`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChangeOrigin {
    pub at_ms: u64,
    pub actor: Option<String>,
    pub way: Way,
}

/// Row of the change history: one recorded change.
#[derive(Clone, PartialEq, Eq)]
pub struct ChangeRow {
    /// Time of the change, in milliseconds of Unix time.
    pub at_ms: u64,
    /// Name of the admin key used; `None` if no key is required.
    pub actor: Option<String>,
    pub way: Way,
    pub deed: ChangeKind,
    /// Path of the object, such as `routes/1`.
    pub path: String,
    /// The stored text before the change; `None` if the object did not exist.
    pub before: Option<String>,
    /// The stored text after the change; `None` if the object was deleted.
    pub after: Option<String>,
    /// Path and stored text of the objects below a deleted object, which were deleted with it.
    pub below: Vec<(String, String)>,
    /// Whether the former object had an expiry time.
    pub was_to_end: bool,
    /// Whether `before`, `after` and `below` were left out because of their size.
    pub is_cut: bool,
    /// Key of the row that this change undoes.
    pub undoes: Option<String>,
}

// Hides the content, because objects contain credentials.
impl std::fmt::Debug for ChangeRow {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "ChangeRow({}, {}, ***)", self.deed.name(), self.path)
    }
}

/// Maximum number of objects that a row about several objects lists; further ones are only counted.
pub const OBJECTS_TOLD_MAX: usize = 500;

/// Stored text of an object before and after a change of many objects; `None` where it did not
/// exist.
pub type BothSides = (Option<String>, Option<String>);

impl ChangeRow {
    /// Builds the row for many objects that changed at once, such as by a reloaded document: the
    /// objects by path, and the number of further ones. If the texts are too large, only the paths
    /// are kept.
    pub fn about_many(
        ChangeOrigin { at_ms, actor, way }: ChangeOrigin,
        path: &str,
        changed: &BTreeMap<String, BothSides>,
        more: usize,
    ) -> Self {
        let side = |pick: fn(&BothSides) -> &Option<String>, is_short: bool| {
            let rows = changed.iter().filter_map(|(path, both)| {
                let text = pick(both).as_ref()?;
                let value = match is_short {
                    true => Value::from("…"),
                    false => serde_json::from_str(text).unwrap_or_else(|_| text.as_str().into()),
                };
                Some((path.clone(), value))
            });
            let mut rows: Map<String, Value> = rows.collect();
            if more > 0 {
                rows.insert("…".to_owned(), format!("and {more} more").into());
            }
            Value::Object(rows).to_string()
        };
        let both = |is_short| (side(|both| &both.0, is_short), side(|both| &both.1, is_short));
        let (mut before, mut after) = both(false);
        if before.len() + after.len() > BODIES_BYTES_MAX {
            (before, after) = both(true);
        }
        let row = Self {
            at_ms,
            actor,
            way,
            deed: ChangeKind::Replace,
            path: path.to_owned(),
            before: Some(before),
            after: Some(after),
            below: Vec::new(),
            was_to_end: false,
            is_cut: false,
            undoes: None,
        };
        row.within(BODIES_BYTES_MAX)
    }

    /// Returns the paths of the objects that the row of an import covers.
    pub fn imported(&self) -> Vec<String> {
        if self.path != IMPORTED {
            return Vec::new();
        }
        let after = self.after.as_deref().and_then(|text| serde_json::from_str::<Value>(text).ok());
        let after = after.as_ref().and_then(Value::as_object).into_iter().flat_map(Map::keys);
        let mut paths: Vec<String> = after.cloned().collect();
        paths.extend(self.below.iter().map(|(path, _)| path.clone()));
        paths.sort_unstable();
        paths.dedup();
        paths
    }

    /// Leaves out `before`, `after` and `below` if they exceed `bytes_max` together.
    #[must_use]
    pub fn within(mut self, bytes_max: usize) -> Self {
        if self.content_bytes() > bytes_max.min(BODIES_BYTES_MAX) {
            (self.before, self.after) = (None, None);
            self.below.clear();
            self.is_cut = true;
        }
        self
    }

    fn content_bytes(&self) -> usize {
        let text = |text: &Option<String>| text.as_ref().map_or(0, String::len);
        let below: usize = self.below.iter().map(|(path, value)| path.len() + value.len()).sum();
        text(&self.before) + text(&self.after) + below
    }

    /// Returns the memory of the row, without the unused parts of its allocations.
    pub fn bytes(&self) -> usize {
        let names = self.path.len() + self.actor.as_ref().map_or(0, String::len);
        size_of::<Self>() + names + self.content_bytes()
    }

    /// Encodes the row for the store.
    pub fn to_text(&self) -> String {
        let below: Map<String, Value> =
            self.below.iter().map(|(path, value)| (path.clone(), value.as_str().into())).collect();
        json!({
            "at_ms": self.at_ms,
            "actor": self.actor,
            "way": self.way.name(),
            "deed": self.deed.name(),
            "path": self.path,
            "before": self.before,
            "after": self.after,
            "below": below,
            "was_to_end": self.was_to_end,
            "is_cut": self.is_cut,
            "undoes": self.undoes,
        })
        .to_string()
    }

    /// Decodes a stored row; `None` if it is not a row or was written by a later version.
    pub fn parse(stored: &[u8]) -> Option<Self> {
        let value: Value = serde_json::from_slice(stored).ok()?;
        let text = |name: &str| value.get(name).and_then(Value::as_str).map(str::to_owned);
        let is = |name: &str| value.get(name).and_then(Value::as_bool).unwrap_or(false);
        let below = value.get("below").and_then(Value::as_object);
        let below = below.into_iter().flatten();
        let below = below.map(|(path, value)| Some((path.clone(), value.as_str()?.to_owned())));
        Some(Self {
            at_ms: value.get("at_ms")?.as_u64()?,
            actor: text("actor"),
            way: find_name(&Way::ALL, value.get("way")?.as_str()?)?,
            deed: find_name(&ChangeKind::ALL, value.get("deed")?.as_str()?)?,
            path: text("path")?,
            before: text("before"),
            after: text("after"),
            below: below.collect::<Option<_>>()?,
            was_to_end: is("was_to_end"),
            is_cut: is("is_cut"),
            undoes: text("undoes"),
        })
    }
}

/// Returns the key of a row below [`FOLDER`]. Keys sort by time; `suffix` distinguishes rows with
/// equal milliseconds.
pub fn key_of(at_ms: u64, suffix: &str) -> String {
    format!("{at_ms:013}-{suffix}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row() -> ChangeRow {
        ChangeRow {
            at_ms: 1_700_000_000_000,
            actor: Some("night shift".into()),
            way: Way::Console,
            deed: ChangeKind::Delete,
            path: "consumers/jack".into(),
            before: Some("{\"username\": \"jack\"}".into()),
            after: None,
            below: vec![("consumers/jack/credentials/1".into(), "{}".into())],
            was_to_end: true,
            is_cut: false,
            undoes: None,
        }
    }

    #[test]
    fn a_row_is_read_back_as_it_was_written() {
        assert_eq!(ChangeRow::parse(row().to_text().as_bytes()), Some(row()));
        for stored in
            ["", "{}", "{\"at_ms\": 1, \"way\": \"api\", \"deed\": \"x\", \"path\": \"a\"}"]
        {
            assert_eq!(ChangeRow::parse(stored.as_bytes()), None, "{stored}");
        }
    }

    #[test]
    fn what_is_too_large_is_left_out_and_the_row_says_so() {
        let large = ChangeRow { before: Some("x".repeat(BODIES_BYTES_MAX)), ..row() };
        let cut = large.within(usize::MAX);
        assert!(cut.is_cut && cut.before.is_none() && cut.below.is_empty());
        assert_eq!(row().within(usize::MAX), row());
        assert!(row().within(10).is_cut);
    }

    #[test]
    fn a_row_about_many_objects_tells_what_differs_or_else_their_names() {
        let text = |text: &str| Some(text.to_owned());
        let mut changed: BTreeMap<String, BothSides> = BTreeMap::new();
        changed.insert("routes/1".into(), (text("{\"uri\":\"/a\"}"), text("{\"uri\":\"/b\"}")));
        changed.insert("routes/2".into(), (None, text("{}")));
        let row = |changed: &BTreeMap<String, BothSides>| {
            let origin = ChangeOrigin { at_ms: 1, actor: text("file.yaml"), way: Way::File };
            ChangeRow::about_many(origin, "file/file.yaml", changed, 0)
        };
        let told = row(&changed);
        assert_eq!(told.before.as_deref(), Some("{\"routes/1\":{\"uri\":\"/a\"}}"));
        assert_eq!(told.after.as_deref(), Some("{\"routes/1\":{\"uri\":\"/b\"},\"routes/2\":{}}"));
        let long = format!("\"{}\"", "x".repeat(BODIES_BYTES_MAX));
        changed.insert("routes/3".into(), (Some(long), None));
        let told = row(&changed);
        assert_eq!(told.before.as_deref(), Some("{\"routes/1\":\"…\",\"routes/3\":\"…\"}"));
        assert!(!told.is_cut);
        let origin = ChangeOrigin { at_ms: 1, actor: None, way: Way::File };
        let told = ChangeRow::about_many(origin, "file/x", &BTreeMap::new(), 7);
        assert_eq!(told.after.as_deref(), Some("{\"…\":\"and 7 more\"}"));
    }

    #[test]
    fn keys_go_by_time() {
        assert!(key_of(9, "z") < key_of(10, "a"));
    }
}
