//! What is kept of a write: who changed which object, when, by which way, and what stood there before and after.
//! The row is put into the store by the commit that makes the change, so that no change is without one. Here is
//! what a row holds and how it is written down; who writes rows, and for how long they are kept, is said elsewhere.

use serde_json::{Map, Value, json};

/// Where rows lie, below the prefix of all objects.
pub const FOLDER: &str = "tollhouse/changes/";

/// Most bytes of an object before and after its change that a row keeps; of larger ones it tells that they are not
/// kept. Objects have a few KiB.
pub const BODIES_BYTES_MAX: usize = 256 * 1024;

/// By which way a change came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// A call of the Admin API.
    Api,
    /// The console's page.
    Console,
    /// `tollhouse import`.
    Import,
    /// Certificates that renew themselves.
    Acme,
}

/// What was done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Deed {
    /// An object came into being.
    Create,
    /// It was written whole.
    Replace,
    /// A part of it was.
    Patch,
    /// It went.
    Delete,
    /// A change was taken back.
    Undo,
}

impl Way {
    const ALL: [(Self, &'static str); 4] = [
        (Self::Api, "api"),
        (Self::Console, "console"),
        (Self::Import, "import"),
        (Self::Acme, "acme"),
    ];

    /// As it is written.
    pub fn name(self) -> &'static str {
        name_of(&Self::ALL, self)
    }
}

impl Deed {
    const ALL: [(Self, &'static str); 5] = [
        (Self::Create, "create"),
        (Self::Replace, "replace"),
        (Self::Patch, "patch"),
        (Self::Delete, "delete"),
        (Self::Undo, "undo"),
    ];

    /// As it is written.
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

/// What is kept of a write.
#[derive(Clone, PartialEq, Eq)]
pub struct ChangeRow {
    /// When, in milliseconds of Unix time.
    pub at_ms: u64,
    /// The name of the key that did it; none where no key is asked for.
    pub actor: Option<String>,
    /// By which way.
    pub way: Way,
    /// What was done.
    pub deed: Deed,
    /// The object: `routes/1`.
    pub path: String,
    /// What stood there before, as it was stored, if anything did.
    pub before: Option<String>,
    /// What stands there now.
    pub after: Option<String>,
    /// What went with it, by path: what lay below an object that was deleted.
    pub below: Vec<(String, String)>,
    /// Whether what stood there before was to end by itself.
    pub was_to_end: bool,
    /// Whether `before`, `after` and `below` were too large to be kept.
    pub is_cut: bool,
    /// The row of the change that this one takes back.
    pub undoes: Option<String>,
}

// Objects hold credentials.
impl std::fmt::Debug for ChangeRow {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "ChangeRow({}, {}, ***)", self.deed.name(), self.path)
    }
}

impl ChangeRow {
    /// Leaves out what stood and stands there where it is more than so many bytes.
    #[must_use]
    pub fn within(mut self, bytes_max: usize) -> Self {
        let text = |text: &Option<String>| text.as_ref().map_or(0, String::len);
        let below: usize = self.below.iter().map(|(path, value)| path.len() + value.len()).sum();
        if text(&self.before) + text(&self.after) + below > bytes_max.min(BODIES_BYTES_MAX) {
            (self.before, self.after) = (None, None);
            self.below.clear();
            self.is_cut = true;
        }
        self
    }

    /// As it is stored.
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

    /// Of what is stored; `None` where it is no row, or one of a later version.
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
            deed: find_name(&Deed::ALL, value.get("deed")?.as_str()?)?,
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

/// The key of a row below [`FOLDER`]: by time, and told from others of the same millisecond by `suffix`.
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
            deed: Deed::Delete,
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
    fn keys_go_by_time() {
        assert!(key_of(9, "z") < key_of(10, "a"));
    }
}
