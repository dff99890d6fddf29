//! Rows of all tables in memory, with an index by name for registrations.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use tollhouse_shenyu::model::DEFAULT_NAMESPACE;
use tollhouse_store::{Entry, Listing, Revision};

use crate::row::{self, Row};
use crate::table::Table;

/// Row with the revision of its last change in the store.
#[derive(Debug, Clone)]
pub(crate) struct StoredRow {
    pub(crate) row: Arc<Row>,
    pub(crate) revision: Revision,
}

/// All rows, ordered by id, and their index.
#[derive(Debug, Default)]
pub(crate) struct Tables {
    rows: BTreeMap<Table, BTreeMap<String, StoredRow>>,
    names: HashMap<Name, BTreeSet<String>>,
}

/// Unique name by which a row is found instead of its id.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Name {
    pub(crate) table: Table,
    pub(crate) namespace: String,
    /// Owner of the row: a rule's selector, the plugin of a selector or form field, or the type of
    /// a dictionary entry.
    pub(crate) parent: String,
    pub(crate) name: String,
}

impl Name {
    /// Returns the name of a row, or `None` if its table has no names.
    pub(crate) fn from_row(table: Table, row: &Row) -> Option<Self> {
        let (parent, name) = match table {
            Table::Plugin => ("", "name"),
            Table::Selector => ("pluginName", "name"),
            Table::Rule => ("selectorId", "name"),
            Table::Metadata => ("", "path"),
            Table::User => ("", "userName"),
            Table::Role => ("", "roleName"),
            Table::Namespace => ("", "name"),
            Table::ProxySelector => ("pluginName", "name"),
            Table::PluginHandle => ("pluginId", "field"),
            Table::Dict => ("type", "dictCode"),
            Table::Tag => ("", "name"),
            Table::Api => ("rpcType", "apiPath"),
            _ => return None,
        };
        // Namespaces are not nested in a namespace.
        let namespace = match table {
            Table::Namespace => String::new(),
            _ => namespace(row),
        };
        let mut name = row::text(row, name)?;
        // A plugin may have fields of the same name in several forms, and a dictionary code may
        // have several values.
        let further = match table {
            Table::PluginHandle => Some("type"),
            Table::Dict => Some("dictName"),
            Table::Api => Some("httpMethod"),
            _ => None,
        };
        if let Some(further) = further.and_then(|further| row::text(row, further)) {
            name.push('/');
            name.push_str(&further);
        }
        let parent = row::text(row, parent).unwrap_or_default();
        Some(Self { table, namespace, parent, name })
    }
}

/// Returns the namespace of a row, or the default one if unset.
pub(crate) fn namespace(row: &Row) -> String {
    row::filled(row, "namespaceId").unwrap_or_else(|| DEFAULT_NAMESPACE.to_owned())
}

impl Tables {
    /// Reads the rows of a store.
    pub(crate) fn from_listing(listing: &Listing) -> Self {
        let mut tables = Self::default();
        for entry in &listing.entries {
            tables.put(entry);
        }
        tables
    }

    pub(crate) fn get(&self, table: Table, id: &str) -> Option<&StoredRow> {
        self.rows.get(&table)?.get(id)
    }

    pub(crate) fn rows(&self, table: Table) -> impl Iterator<Item = (&str, &Arc<Row>)> {
        let rows = self.rows.get(&table).into_iter().flatten();
        rows.map(|(id, stored)| (id.as_str(), &stored.row))
    }

    /// Lists the ids of the rows called `name`.
    pub(crate) fn ids(&self, name: &Name) -> impl Iterator<Item = &str> {
        self.names.get(name).into_iter().flatten().map(String::as_str)
    }

    /// Applies a store entry and returns the change. An entry that is not a JSON object is skipped,
    /// because other programs may write to the store.
    pub(crate) fn put(&mut self, entry: &Entry) -> Option<RowChange> {
        let (table, id) = Table::parse_key(&entry.key)?;
        let before = self.remove(table, id);
        let row = match serde_json::from_slice::<Row>(&entry.value) {
            Ok(row) => Arc::new(row),
            Err(error) => {
                tracing::warn!(key = &*entry.key, %error, "an object of ShenYu cannot be read");
                return None;
            }
        };
        if let Some(name) = Name::from_row(table, &row) {
            self.names.entry(name).or_default().insert(id.to_owned());
        }
        let stored = StoredRow { row: Arc::clone(&row), revision: entry.mod_revision };
        self.rows.entry(table).or_default().insert(id.to_owned(), stored);
        Some(RowChange { table, before, after: Some(row) })
    }

    /// Removes the row with that store key and returns the change.
    pub(crate) fn delete(&mut self, key: &str) -> Option<RowChange> {
        let (table, id) = Table::parse_key(key)?;
        let before = self.remove(table, id)?;
        Some(RowChange { table, before: Some(before), after: None })
    }

    fn remove(&mut self, table: Table, id: &str) -> Option<Arc<Row>> {
        let stored = self.rows.get_mut(&table)?.remove(id)?;
        if let Some(name) = Name::from_row(table, &stored.row)
            && let Some(ids) = self.names.get_mut(&name)
        {
            ids.remove(id);
            if ids.is_empty() {
                self.names.remove(&name);
            }
        }
        Some(stored.row)
    }
}

/// Change of one row by a commit.
#[derive(Debug, Clone)]
pub(crate) struct RowChange {
    pub(crate) table: Table,
    pub(crate) before: Option<Arc<Row>>,
    pub(crate) after: Option<Arc<Row>>,
}
