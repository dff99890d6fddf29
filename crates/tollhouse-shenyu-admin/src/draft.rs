//! Uncommitted writes of calls over a snapshot of the tables. A call reads its own writes; if it
//! fails, its writes are dropped.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use bytes::Bytes;
use tollhouse_store::{Condition, Operation, Transaction};

use crate::answer::Refusal;
use crate::row::Row;
use crate::table::Table;
use crate::tables::{Name, Tables};
use crate::warnings::Written;

type Changes = BTreeMap<(Table, String), Option<Arc<Row>>>;

/// Change of one row by the current call.
pub(crate) struct DraftChange<'d> {
    pub(crate) table: Table,
    pub(crate) id: &'d str,
    pub(crate) before: Option<&'d Row>,
    pub(crate) after: Option<&'d Row>,
}

pub(crate) struct Draft<'a> {
    base: &'a Tables,
    finished: Changes,
    /// Ids of the rows in `finished` by name, because a thousand services may register in one batch.
    finished_names: HashMap<Name, Vec<String>>,
    current: Changes,
    /// Ids of the rows in `current` by name, because an import writes tens of thousands of rows and
    /// looks each one up.
    current_names: HashMap<Name, Vec<String>>,
    /// Time of the draft for every row that it writes, as `yyyy-MM-dd HH:mm:ss`.
    pub(crate) now: String,
}

impl<'a> Draft<'a> {
    pub(crate) fn new(base: &'a Tables, now: String) -> Self {
        let (finished, current) = (Changes::new(), Changes::new());
        let (finished_names, current_names) = (HashMap::new(), HashMap::new());
        Self { base, finished, finished_names, current, current_names, now }
    }

    pub(crate) fn get(&self, table: Table, id: &str) -> Option<Arc<Row>> {
        let key = (table, id.to_owned());
        if let Some(change) = self.current.get(&key).or_else(|| self.finished.get(&key)) {
            return change.clone();
        }
        self.base.get(table, id).map(|stored| Arc::clone(&stored.row))
    }

    /// Returns the rows of a table that satisfy `is_meant`. Scans the whole table.
    pub(crate) fn find_all(
        &self,
        table: Table,
        is_meant: impl Fn(&Row) -> bool,
    ) -> Vec<(String, Arc<Row>)> {
        let mut rows: BTreeMap<String, Arc<Row>> = BTreeMap::new();
        for (id, row) in self.base.rows(table) {
            if is_meant(row) {
                rows.insert(id.to_owned(), Arc::clone(row));
            }
        }
        for changes in [&self.finished, &self.current] {
            for ((changed, id), row) in changes {
                if *changed != table {
                    continue;
                }
                match row {
                    Some(row) if is_meant(row) => rows.insert(id.clone(), Arc::clone(row)),
                    _ => rows.remove(id),
                };
            }
        }
        rows.into_iter().collect()
    }

    /// Finds a row by its unique name.
    pub(crate) fn find(&self, name: &Name) -> Option<(String, Arc<Row>)> {
        let written = [&self.current_names, &self.finished_names];
        let written = written.into_iter().flat_map(|names| names.get(name).into_iter().flatten());
        let ids = written.map(String::as_str).chain(self.base.ids(name));
        // The indexes may be outdated: a row may have been renamed or deleted since.
        let is_named = |row: &Row| Name::from_row(name.table, row).as_ref() == Some(name);
        let mut rows = ids.filter_map(|id| Some((id.to_owned(), self.get(name.table, id)?)));
        rows.find(|(_, row)| is_named(row))
    }

    /// Lists the changes of the current call: each row before and after it.
    pub(crate) fn changed(&self) -> impl Iterator<Item = DraftChange<'_>> {
        self.current.iter().map(|((table, id), after)| {
            let change = self.finished.get(&(*table, id.clone())).map(Option::as_ref);
            let before = change.unwrap_or_else(|| self.base.get(*table, id).map(|it| &it.row));
            DraftChange {
                table: *table,
                id,
                before: before.map(|row| &**row),
                after: after.as_deref(),
            }
        })
    }

    /// Returns the objects that the current call has changed and that gateways follow.
    pub(crate) fn written(&self) -> Written {
        self.current.keys().filter(|(table, _)| table.kind().is_some()).cloned().collect()
    }

    pub(crate) fn put(&mut self, table: Table, id: &str, row: Row) {
        if let Some(name) = Name::from_row(table, &row) {
            let ids = self.current_names.entry(name).or_default();
            // A row that is rewritten many times, such as the one that lists many nodes, is indexed
            // once.
            if ids.last().is_none_or(|last| last != id) {
                ids.push(id.to_owned());
            }
        }
        self.current.insert((table, id.to_owned()), Some(Arc::new(row)));
    }

    /// Deletes a row and returns it, if it exists.
    pub(crate) fn delete(&mut self, table: Table, id: &str) -> Option<Arc<Row>> {
        let before = self.get(table, id)?;
        self.current.insert((table, id.to_owned()), None);
        Some(before)
    }

    /// Ends a call: keeps its writes if it succeeded, drops them if it failed.
    pub(crate) fn end_call<T>(&mut self, outcome: Result<T, Refusal>) -> Result<T, Refusal> {
        let current = std::mem::take(&mut self.current);
        let names = std::mem::take(&mut self.current_names);
        if outcome.is_ok() {
            for (name, ids) in names {
                self.finished_names.entry(name).or_default().extend(ids);
            }
            self.finished.extend(current);
        }
        outcome
    }

    /// Builds the transaction that writes all kept rows. Each row carries a condition, so that the
    /// commit fails if the row has been changed in the meantime.
    pub(crate) fn into_transaction(self) -> serde_json::Result<Transaction> {
        let mut transaction = Transaction::new();
        for ((table, id), row) in self.finished {
            let before = self.base.get(table, &id);
            let key: Box<str> = table.key(&id).into();
            let operation = match (&row, before) {
                (None, None) => continue,
                (None, Some(_)) => Operation::delete(key.clone()),
                (Some(row), _) => {
                    Operation::put(key.clone(), Bytes::from(serde_json::to_vec(&**row)?))
                }
            };
            transaction = transaction.then(operation).when(match before {
                None => Condition::Absent { key },
                Some(stored) => Condition::ModifiedAt { key, revision: stored.revision },
            });
        }
        Ok(transaction)
    }
}
