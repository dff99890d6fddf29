//! Source of an import: the database of a Polaris, read in pages from one snapshot, so that its
//! servers may go on writing. The crate `tollhouse-polaris` interprets the rows.

use std::collections::VecDeque;

use anyhow::{Context, bail};
use tokio::runtime::{Builder, Runtime};
use tollhouse_config::bootstrap::RegistryStore;
use tollhouse_control::registry::database;
use tollhouse_polaris::database::{Columns, ImportRefusal as Reason, NOT_TAKEN, PARTS, Part, Row};
use tollhouse_sql::{Snapshot, SqlOptions};

use super::source::{Item, LeftOut, Source};

/// Number of rows per page. A page usually has some hundred kilobytes, and some 60 MB if all rows
/// have the maximum of metadata.
const PAGE_ROWS: usize = 256;

/// Timeout of one query; instances are read by primary key, and other rows are few.
const TIMEOUT: std::time::Duration = std::time::Duration::from_secs(60);

/// Returns the connection options for these settings.
pub fn options(settings: &RegistryStore) -> anyhow::Result<SqlOptions> {
    let options = database::options_from_settings(settings).context("--database")?;
    let options = options.context("--database: it names no database")?;
    Ok(SqlOptions { timeout: TIMEOUT, ..options })
}

/// Database of a Polaris as a source; see the module documentation.
pub struct PolarisSource {
    runtime: Runtime,
    snapshot: Snapshot,
    name: String,
    columns: Columns,
    parts: Vec<&'static Part>,
    /// Index in `parts` of the table being read; `after` is the key of the last row read from it.
    part: usize,
    after: Option<String>,
    /// Notes on tables that are not imported, returned as the first page.
    notes: VecDeque<LeftOut>,
}

impl PolarisSource {
    /// Connects, and checks that the database is one of Polaris.
    pub fn open(settings: &RegistryStore) -> anyhow::Result<Self> {
        let parts = PARTS.to_vec();
        let options = options(settings)?;
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let mut snapshot = runtime.block_on(Snapshot::open(&options))?;
        let mut columns = Columns::default();
        for row in runtime.block_on(snapshot.rows(Columns::QUERY.to_owned()))? {
            columns.add_row(row);
        }
        // Only later versions of Polaris have some of the tables. Columns of a table that does not
        // exist do not count as missing.
        let there = parts.iter().filter(|part| part.is_there(&columns));
        let missing: Vec<String> = there.flat_map(|part| part.missing(&columns)).collect();
        if !missing.is_empty() {
            bail!(
                "{} is not a database of Polaris 1.12 or later: it has no {}; check the name of the database, or make \
                 its tables with the script that comes with your Polaris",
                options.database,
                missing.join(", ")
            );
        }
        let name = format!("the Polaris in {}", options.database);
        let notes = VecDeque::new();
        let mut source =
            Self { runtime, snapshot, name, columns, parts, part: 0, after: None, notes };
        source.take_notes()?;
        Ok(source)
    }

    /// Counts the rows of tables that are not imported.
    fn take_notes(&mut self) -> anyhow::Result<()> {
        for (table, condition, what) in NOT_TAKEN {
            if !self.columns.has_table(table) {
                continue;
            }
            let sql = format!("SELECT COUNT(*) FROM `{table}` WHERE {condition}");
            let rows = self.runtime.block_on(self.snapshot.rows(sql))?;
            let count = rows.into_iter().flatten().next().flatten().unwrap_or_default();
            if count != "0" {
                self.notes.push_back(LeftOut {
                    what: format!("{count} of table {table}"),
                    reason: what.to_owned(),
                    is_expected: true,
                });
            }
        }
        Ok(())
    }

    fn rows(&mut self, sql: String, names: &[&'static str]) -> anyhow::Result<Vec<Row>> {
        let rows = self.runtime.block_on(self.snapshot.rows(sql))?;
        Ok(rows.into_iter().map(|values| Row::new(names, values)).collect())
    }

    /// Returns the tables of the database with their columns.
    pub fn columns(&self) -> &Columns {
        &self.columns
    }

    /// Returns the next page of rows with their details; `None` at the end.
    pub fn next_rows(&mut self) -> anyhow::Result<Option<Rows>> {
        while let Some(part) = self.parts.get(self.part).copied() {
            if part.is_there(&self.columns) {
                let rows =
                    self.rows_of(part).with_context(|| format!("failed to read {}", part.name))?;
                if !rows.rows.is_empty() {
                    return Ok(Some(rows));
                }
            }
            (self.part, self.after) = (self.part + 1, None);
        }
        Ok(None)
    }

    fn rows_of(&mut self, part: &'static Part) -> anyhow::Result<Rows> {
        let sql = part.query(&self.columns, self.after.as_deref(), PAGE_ROWS);
        let rows = self.rows(sql, &part.names())?;
        let details = match part.details_query(&self.columns, &rows) {
            Some(sql) => self.rows(sql, &part.details_names())?,
            None => Vec::new(),
        };
        self.after = rows.last().map(|row| part.key_of(row).to_owned());
        Ok(Rows { part, rows, details })
    }
}

/// Page of rows of one table, with their details.
pub struct Rows {
    /// Table of `rows`.
    pub part: &'static Part,
    pub rows: Vec<Row>,
    /// Rows of the table with details, such as metadata, that belong to `rows`.
    pub details: Vec<Row>,
}

impl Rows {
    fn item(&self, row: &Row) -> Item {
        let part = self.part;
        match part.read(row, part.details(row, &self.details)) {
            Ok(object) => Item::Object(object),
            Err(reason) => Item::LeftOut(LeftOut {
                what: format!("{} {}", part.name, part.key_of(row)),
                is_expected: reason == Reason::OwnServer,
                reason: reason.to_string(),
            }),
        }
    }
}

impl Source for PolarisSource {
    fn name(&self) -> String {
        self.name.clone()
    }

    fn rewind(&mut self) -> anyhow::Result<()> {
        (self.part, self.after) = (0, None);
        Ok(())
    }

    fn next_page(&mut self) -> anyhow::Result<Vec<Item>> {
        if !self.notes.is_empty() {
            return Ok(self.notes.drain(..).map(Item::LeftOut).collect());
        }
        let rows = self.next_rows()?;
        Ok(rows.iter().flat_map(|page| page.rows.iter().map(|row| page.item(row))).collect())
    }
}
