//! Index of the change rows, without the objects in them, which are read from the store on demand.
//! It also contains rows of other gateways that share the store.

use std::collections::{BTreeMap, HashMap};

use tollhouse_model::change_row::{ChangeKind, ChangeRow, Way};
use tollhouse_store::{Entry, Revision};

/// Maximum number of stored change rows, and maximum of their total size in bytes: about a month of
/// changes by a busy team, which are read quickly at a start.
pub(crate) const ROWS_MAX: usize = 10_000;
pub(crate) const BYTES_MAX: usize = 64 * 1024 * 1024;

/// Maximum number of change rows that one commit deletes. Two would suffice for a single gateway;
/// more are needed if several gateways write simultaneously.
const LET_GO_MAX: usize = 8;

/// Summaries of change rows by revision and name.
#[derive(Default)]
pub(crate) struct Changes {
    rows: BTreeMap<(Revision, Box<str>), Summary>,
    revisions: HashMap<Box<str>, Revision>,
    bytes: usize,
}

/// Summary of a change row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Summary {
    /// Time of the change, in milliseconds of Unix time.
    pub at_ms: u64,
    /// Name of the API key that the caller presented.
    pub actor: Option<Box<str>>,
    pub way: Way,
    pub deed: ChangeKind,
    /// Path of the changed object.
    pub path: Box<str>,
    /// Paths of all objects that an import changed; empty for other changes.
    also: Box<[Box<str>]>,
    /// Size of the row in bytes.
    bytes: usize,
}

/// Facts about a change of one object.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ChangeFacts<'a> {
    pub at_ms: u64,
    pub actor: &'a str,
    pub way: Way,
    pub deed: ChangeKind,
    pub path: &'a str,
}

impl Summary {
    /// Returns the summary of a change that has no row in this store.
    pub(crate) fn without_row(change: ChangeFacts<'_>) -> Self {
        let ChangeFacts { at_ms, actor, way, deed, path } = change;
        Self {
            at_ms,
            actor: Some(actor.into()),
            way,
            deed,
            path: path.into(),
            also: Box::default(),
            bytes: 0,
        }
    }

    /// Iterates over the paths of all changed objects.
    pub(crate) fn paths(&self) -> impl Iterator<Item = &str> {
        std::iter::once(&*self.path).chain(self.also.iter().map(|path| &**path))
    }
}

impl Changes {
    /// Adds a row; invalid rows are ignored.
    pub(super) fn put(&mut self, name: &str, entry: &Entry) {
        self.remove(name);
        let Some(row) = ChangeRow::parse(&entry.value) else { return };
        let summary = Summary {
            at_ms: row.at_ms,
            also: row.imported().into_iter().map(String::into_boxed_str).collect(),
            actor: row.actor.map(String::into_boxed_str),
            way: row.way,
            deed: row.deed,
            path: row.path.into(),
            bytes: entry.value.len(),
        };
        self.bytes += summary.bytes;
        self.revisions.insert(name.into(), entry.mod_revision);
        self.rows.insert((entry.mod_revision, name.into()), summary);
    }

    pub(super) fn remove(&mut self, name: &str) {
        let Some((name, revision)) = self.revisions.remove_entry(name) else { return };
        if let Some(gone) = self.rows.remove(&(revision, name)) {
            self.bytes -= gone.bytes;
        }
    }

    /// Iterates over all rows, newest first, each with its revision and name.
    pub(crate) fn newest(&self) -> impl Iterator<Item = (Revision, &str, &Summary)> {
        self.rows.iter().rev().map(|((revision, name), row)| (*revision, &**name, row))
    }

    /// Finds a row by name, or the first row of a commit by revision.
    pub(crate) fn find(&self, text: &str) -> Option<(Revision, &str)> {
        if let Some((name, revision)) = self.revisions.get_key_value(text) {
            return Some((*revision, name));
        }
        let revision = Revision(text.parse().ok()?);
        let first = self.rows.range((revision, Box::from(""))..).next()?;
        (first.0.0 == revision).then_some((revision, &*first.0.1))
    }

    /// Returns the names of the rows to delete for a new one: the oldest rows of the actor whose
    /// rows take most space, so that no actor can displace the rows about others. Costs nothing
    /// while there is space; otherwise a pass over all rows.
    pub(crate) fn let_go(&self) -> Vec<Box<str>> {
        let has_room = |count, bytes| count < ROWS_MAX && bytes < BYTES_MAX;
        let (mut count, mut bytes) = (self.rows.len(), self.bytes);
        if has_room(count, bytes) {
            return Vec::new();
        }
        let share = |row: &Summary| row.bytes + BYTES_MAX / ROWS_MAX;
        let mut shares: HashMap<Option<&str>, usize> = HashMap::new();
        for row in self.rows.values() {
            *shares.entry(row.actor.as_deref()).or_default() += share(row);
        }
        let greatest = shares.iter().max_by_key(|(actor, share)| (**share, **actor));
        let greatest = greatest.map(|(actor, _)| *actor);
        let own = self.rows.iter().filter(|(_, row)| Some(row.actor.as_deref()) == greatest);
        let mut gone = Vec::new();
        for ((_, name), row) in own {
            if has_room(count, bytes) || gone.len() == LET_GO_MAX {
                break;
            }
            gone.push(name.clone());
            bytes -= row.bytes;
            count -= 1;
        }
        gone
    }

    pub(crate) fn len(&self) -> usize {
        self.rows.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(revision: u64, path: &str) -> Entry {
        let row = ChangeRow {
            at_ms: revision,
            actor: None,
            way: Way::Api,
            deed: ChangeKind::Create,
            path: path.into(),
            before: None,
            after: None,
            below: Vec::new(),
            was_to_end: false,
            is_cut: false,
            undoes: None,
        };
        Entry {
            key: "k".into(),
            value: row.to_text().into(),
            create_revision: Revision(revision),
            mod_revision: Revision(revision),
            expires_at_ms: None,
        }
    }

    #[test]
    fn rows_are_found_by_name_and_by_revision() {
        let mut changes = Changes::default();
        changes.put("a", &entry(3, "routes/1"));
        changes.put("b", &entry(7, "routes/2"));
        let paths: Vec<&str> = changes.newest().map(|(_, _, row)| &*row.path).collect();
        assert_eq!(paths, ["routes/2", "routes/1"]);
        assert_eq!(changes.find("a"), Some((Revision(3), "a")));
        assert_eq!(changes.find("7"), Some((Revision(7), "b")));
        assert_eq!(changes.find("4"), None);
        changes.remove("a");
        changes.remove("b");
        assert_eq!((changes.len(), changes.bytes), (0, 0));
    }

    #[test]
    fn the_rows_of_one_actor_push_out_no_others() {
        let mut changes = Changes::default();
        let by = |revision: u64, actor: &str| {
            let mut entry = entry(revision, "routes/1");
            let mut row = ChangeRow::parse(&entry.value).expect("a row");
            row.actor = Some(actor.to_owned());
            entry.value = row.to_text().into();
            entry
        };
        changes.put("first", &by(1, "admin"));
        for number in 1..ROWS_MAX {
            changes.put(&format!("{number:06}"), &by(number as u64 + 1, "night shift"));
        }
        assert_eq!(changes.let_go(), [Box::from("000001")]);
    }

    #[test]
    fn the_oldest_make_room_for_the_newest() {
        let mut changes = Changes::default();
        for number in 0..ROWS_MAX {
            changes.put(&format!("{number:06}"), &entry(number as u64, "routes/1"));
        }
        assert_eq!(changes.let_go(), [Box::from("000000")]);
        changes.remove("000000");
        assert!(changes.let_go().is_empty());
        changes.bytes = BYTES_MAX + 1;
        assert!(!changes.let_go().is_empty(), "bytes count too");
        changes.bytes = usize::MAX;
        assert_eq!(changes.let_go().len(), LET_GO_MAX);
    }
}
