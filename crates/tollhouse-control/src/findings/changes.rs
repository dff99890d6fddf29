//! The last change of the configuration before a finding: from the change rows of the store, or
//! from the time at which a document went into service. Nothing is read while nothing is wrong.

use std::collections::VecDeque;
use std::time::Duration;

use tollhouse_model::change_row::{ChangeRow, FOLDER};
use tollhouse_store::Store;

use super::finding::{EarlierChange, Finding};
use crate::configuration::{Configuration, ObjectSource};

/// Number of changes that are remembered.
const CHANGES_MAX: usize = 200;

/// Rows per read; a row has between a few hundred bytes and 256 KiB.
const ROWS_PER_PAGE: usize = 50;

/// Period before the first finding for which changes are read, in milliseconds.
const BEFORE_MS: u64 = 24 * 3600 * 1000;

/// Limit of a read. The store may be away, and the findings do not wait for it.
const READ_TIME_MAX: Duration = Duration::from_secs(1);

/// Time in which changes are as near to a finding as the last one.
const NEAR_MS: u64 = 5_000;

/// Tolerance for the data plane's clock, which is read once a second.
const CLOCK_MS: u64 = 100;

/// Latest changes, oldest first.
#[derive(Debug, Default)]
pub(super) struct ChangeLog {
    changes: VecDeque<EarlierChange>,
    /// Key of the last row that was read.
    after: Option<String>,
}

impl ChangeLog {
    /// Reads the changes since the last call, if there are findings to explain.
    pub(super) async fn follow(&mut self, configuration: &Configuration, findings: &[Finding]) {
        let Some(first_ms) = findings.iter().filter_map(|finding| finding.since_ms).min() else {
            return;
        };
        match configuration.objects() {
            ObjectSource::Store(store, prefix) => {
                let folder = format!("{prefix}/{FOLDER}");
                let read = self.read(&*store, &folder, first_ms);
                // What was read before stays.
                let _ = tokio::time::timeout(READ_TIME_MAX, read).await;
            }
            ObjectSource::Document(_) => self.note_document(configuration),
            ObjectSource::None => {}
        }
    }

    async fn read(&mut self, store: &dyn Store, folder: &str, first_ms: u64) {
        let start = || format!("{folder}{:013}", first_ms.saturating_sub(BEFORE_MS));
        loop {
            let after = self.after.get_or_insert_with(start).clone();
            let Ok(page) = store.list_page(folder, &after, ROWS_PER_PAGE).await else { return };
            for entry in &page.entries {
                let Some(row) = ChangeRow::parse(&entry.value) else { continue };
                self.push(EarlierChange {
                    at_ms: row.at_ms,
                    name: entry.key.strip_prefix(folder).unwrap_or_default().to_owned(),
                    path: row.path,
                    deed: row.deed.name(),
                    actor: row.actor,
                });
            }
            match page.entries.last() {
                Some(last) => self.after = Some(last.key.to_string()),
                None => return,
            }
        }
    }

    /// Records the last revision of a document as its last change, because documents have no change
    /// rows.
    fn note_document(&mut self, configuration: &Configuration) {
        let Some((revision, at_ms)) = configuration.last_change() else { return };
        if self.changes.back().is_none_or(|last| last.at_ms < at_ms) {
            let path = format!("revision {revision}");
            let name = revision.to_string();
            self.push(EarlierChange { at_ms, name, path, deed: "replace", actor: None });
        }
    }

    fn push(&mut self, change: EarlierChange) {
        if self.changes.len() == CHANGES_MAX {
            self.changes.pop_front();
        }
        self.changes.push_back(change);
    }

    /// The last change before `unix_ms`; one of the finding's own object is preferred to others of
    /// the same seconds, because findings are made once a second. Changes of the gateway's objects
    /// explain no finding about the registry.
    pub(super) fn before(&self, unix_ms: u64, subject: &str) -> Option<&EarlierChange> {
        let is_of_registry = subject.starts_with("registry ");
        let is_before = |it: &&EarlierChange| {
            it.at_ms <= unix_ms.saturating_add(CLOCK_MS)
                && (!is_of_registry || it.path.starts_with("registry/"))
        };
        let mut earlier = self.changes.iter().rev().filter(is_before).peekable();
        let last = *earlier.peek()?;
        let mut near = earlier.take_while(|change| change.at_ms + NEAR_MS >= last.at_ms);
        Some(near.find(|change| is_about(subject, &change.path)).unwrap_or(last))
    }
}

/// Whether the subject of a finding begins with the path of an object.
fn is_about(subject: &str, path: &str) -> bool {
    let rest = subject.strip_prefix(path);
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with([' ', '.', '[']))
}

#[cfg(test)]
mod tests {
    use super::super::finding::{Kind, Severity};
    use super::*;
    use tollhouse_model::change_row::{self, ChangeKind, Way};
    use tollhouse_store::{Location, Operation, Transaction};

    fn row(at_ms: u64, path: &str) -> (String, String) {
        let row = ChangeRow {
            at_ms,
            actor: Some("night shift".to_owned()),
            way: Way::Api,
            deed: ChangeKind::Replace,
            path: path.to_owned(),
            before: None,
            after: None,
            below: Vec::new(),
            was_to_end: false,
            is_cut: false,
            undoes: None,
        };
        let name = change_row::key_of(at_ms, "00000000");
        (format!("/apisix/{}{name}", change_row::FOLDER), row.to_text())
    }

    #[tokio::test]
    async fn the_last_change_before_a_finding_is_found_in_the_store() {
        let store = tollhouse_store::open(&Location::Memory).expect("a store");
        let now_ms = 1_764_000_000_000;
        for (at_ms, path) in [(now_ms - 5_000, "routes/1"), (now_ms - 1_000, "routes/2")] {
            let (key, text) = row(at_ms, path);
            store.commit(Transaction::new().then(Operation::put(key, text))).await.expect("a row");
        }
        let configuration = Configuration::default();
        configuration.set_objects(ObjectSource::Store(store, "/apisix".to_owned()));
        let finding =
            Finding::about(Severity::Problem, Kind::NodeFailing, String::new(), String::new());
        let mut log = ChangeLog::default();
        log.follow(&configuration, &[finding.since(now_ms - 2_000)]).await;
        let path = |log: &ChangeLog, at_ms| log.before(at_ms, "").map(|it| it.path.clone());
        assert_eq!(path(&log, now_ms - 2_000).as_deref(), Some("routes/1"));
        assert_eq!(path(&log, now_ms).as_deref(), Some("routes/2"));
        assert_eq!(path(&log, now_ms - 6_000), None);
        for (subject, expected) in [
            ("routes/1.uri", "routes/1"),
            ("routes/1 10.0.0.7:80", "routes/1"),
            ("routes/10", "routes/2"),
            ("routes/2", "routes/2"),
        ] {
            let change = log.before(now_ms, subject).map(|change| change.path.as_str());
            assert_eq!(change, Some(expected), "{subject}");
        }
        assert_eq!(log.before(now_ms, "registry default/orders").map(|it| &it.path), None);
    }
}
