//! Rows to write to Polaris' database, and their SQL statements. A row is updated only if it is
//! still as it was read. The conversion of objects to rows is elsewhere.

use std::fmt::Write as _;

use tollhouse_registry::Object;

use super::{Column, Columns, ImportRefusal, Part, Row, push_text};
use crate::registration::hex_digest;

/// Value that a statement writes to a column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Cell {
    Text(String),
    Number(i64),
    /// Time in seconds of Unix time.
    Time(u64),
    /// The database's current time, by which Polaris' servers find changed rows.
    Now,
}

pub(super) type Cells = Vec<(&'static str, Cell)>;

/// A row to write, with its dependent rows.
#[derive(Debug, Default)]
pub(super) struct Record {
    pub(super) table: &'static str,
    pub(super) key: &'static str,
    /// Cells written on insert and on update.
    pub(super) cells: Cells,
    /// Cells that are only written when the row is inserted.
    pub(super) born: Cells,
    /// Columns with a unique index, which deleted rows occupy too.
    pub(super) unique: &'static [&'static str],
    pub(super) belongings: Vec<DependentRows>,
    /// Joined columns of the query for such rows, with their expected values.
    pub(super) joined: Vec<(&'static str, String)>,
}

/// The complete set of dependent rows in another table; other rows that match `by` are deleted.
#[derive(Debug)]
pub(super) struct DependentRows {
    pub(super) table: &'static str,
    pub(super) by: Cells,
    pub(super) rows: Vec<Cells>,
}

/// Identity and version of a row as it was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RowVersion {
    /// Value of the key column.
    pub(super) key: String,
    /// Time of the last change, in seconds of Unix time.
    pub(super) modified_at: u64,
    /// Revision; `None` for tables without one.
    revision: Option<String>,
}

/// An SQL statement of a change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Statement {
    /// Text of the statement, without a semicolon.
    pub sql: String,
    /// Whether the statement must affect exactly one row; any other number means that another
    /// writer was faster.
    pub finds_one: bool,
}

pub(super) fn text(name: &'static str, text: impl Into<String>) -> (&'static str, Cell) {
    (name, Cell::Text(text.into()))
}

pub(super) fn number(name: &'static str, number: impl Into<i64>) -> (&'static str, Cell) {
    (name, Cell::Number(number.into()))
}

/// Returns the column with the time of the last change.
pub(super) fn time_of_change(table: &str) -> &'static str {
    if table.starts_with("config_file") { "modify_time" } else { "mtime" }
}

/// Whether rows of a table are marked as deleted, and purged later.
pub(super) fn has_flag(table: &str) -> bool {
    !matches!(table, "config_file_template" | "config_file_release_history")
}

impl RowVersion {
    pub(super) fn from_row(part: &Part, row: &Row) -> Result<Self, ImportRefusal> {
        let has_revision = part.columns.iter().any(|column| column.name == "revision");
        Ok(Self {
            key: part.key_of(row).to_owned(),
            modified_at: row.time("mtime")?,
            revision: has_revision.then(|| row.text("revision").to_owned()),
        })
    }

    /// Appends a condition that matches the row only while it is unchanged.
    fn push_condition(&self, sql: &mut String, table: &str, key: &str) {
        let _ = write!(sql, " WHERE `{key}` = ");
        push_text(sql, &self.key);
        if has_flag(table) {
            sql.push_str(" AND flag = 0");
        }
        let time = time_of_change(table);
        let _ = write!(sql, " AND FLOOR(UNIX_TIMESTAMP(`{time}`)) = {}", self.modified_at);
        if let Some(revision) = &self.revision {
            sql.push_str(" AND `revision` = ");
            push_text(sql, revision);
        }
    }
}

impl Record {
    /// Returns the value of the key column.
    pub(super) fn key_value(&self) -> &str {
        match self.cells.iter().find(|(name, _)| *name == self.key) {
            Some((_, Cell::Text(text))) => text,
            _ => "",
        }
    }

    /// Returns the condition that finds the row by its unique columns.
    pub(super) fn name_condition(&self) -> String {
        let mut sql = String::new();
        let named = self.cells.iter().filter(|(name, _)| self.unique.contains(name));
        for (place, (name, cell)) in named.enumerate() {
            let _ = write!(sql, "{}`{name}` = ", if place == 0 { "" } else { " AND " });
            cell.push(&mut sql);
        }
        sql
    }

    /// Returns the first value that does not fit into its column.
    pub(super) fn misfit(&self, schema: &Columns) -> Option<String> {
        let own = self.cells.iter().chain(&self.born).map(|cell| (self.table, cell));
        let further = self.belongings.iter().flat_map(|belongings| {
            belongings.rows.iter().flatten().map(|cell| (belongings.table, cell))
        });
        own.chain(further).find_map(|(table, (name, cell))| schema.misfit(table, name, cell))
    }

    /// Returns the non-empty texts that the database has no column for, by column name.
    pub(super) fn without_column(&self, schema: &Columns) -> Vec<&'static str> {
        let says_something = |cell: &Cell| matches!(cell, Cell::Text(text) if !text.is_empty());
        // A revision is of use to the side that wrote it only.
        let lost = self.cells.iter().filter(|(name, cell)| {
            says_something(cell) && *name != "revision" && !schema.has(self.table, name)
        });
        lost.map(|(name, _)| *name).collect()
    }

    /// Returns the object that reading the written row would give.
    pub(super) fn read_back(&self, part: &Part, schema: &Columns) -> Result<Object, ImportRefusal> {
        let row = row(part.columns, schema, |column| {
            let joined = self.joined.iter().find(|(name, _)| *name == column.name);
            if let Some((_, text)) = joined {
                return Some(text.clone());
            }
            let (table, name) = (column.table, column.column);
            let own = (table == self.table).then(|| find(&self.cells, name)).flatten();
            let born = (table == self.table).then(|| find(&self.born, name)).flatten();
            own.or(born).or_else(|| {
                let belongings = self.belongings.iter().find(|it| it.table == table)?;
                find(belongings.rows.first()?, name)
            })
        });
        let mut details = Vec::new();
        if let Some(wanted) = &part.details {
            let belongings = self.belongings.iter().find(|it| it.table == wanted.table);
            for cells in belongings.iter().flat_map(|it| &it.rows) {
                details
                    .push(self::row(wanted.columns, schema, |column| find(cells, column.column)));
            }
        }
        part.read(&row, &details)
    }

    /// Returns the statements that insert the row. Deleted rows with an equal key are removed
    /// first, as Polaris does.
    pub(super) fn insert(&self, schema: &Columns) -> Vec<Statement> {
        let mut statements = Vec::new();
        let mut make_room = |columns: &[&'static str]| {
            let same: Vec<_> = columns
                .iter()
                .filter_map(|name| self.cells.iter().find(|(it, _)| it == name))
                .collect();
            // Rows that the database numbers have no key yet.
            if same.is_empty() || same.len() < columns.len() || !has_flag(self.table) {
                return;
            }
            let mut sql = format!("DELETE FROM `{}` WHERE flag <> 0", self.table);
            for (name, cell) in same {
                let _ = write!(sql, " AND `{name}` = ");
                cell.push(&mut sql);
            }
            statements.push(Statement { sql, finds_one: false });
        };
        make_room(&[self.key]);
        if !self.unique.is_empty() {
            make_room(self.unique);
        }
        let cells: Vec<_> = self.cells.iter().chain(&self.born).cloned().collect();
        statements.push(Statement {
            sql: insert(self.table, std::slice::from_ref(&cells), schema),
            finds_one: true,
        });
        self.push_belongings(schema, &mut statements);
        statements
    }

    /// Returns the statements that update the existing row `seen`.
    pub(super) fn update(&self, seen: &RowVersion, schema: &Columns) -> Vec<Statement> {
        let mut sql = format!("UPDATE `{}` SET ", self.table);
        let written = self.cells.iter().filter(|(name, _)| *name != self.key);
        for (place, (name, cell)) in
            written.filter(|(name, _)| schema.has(self.table, name)).enumerate()
        {
            let _ = write!(sql, "{}`{name}` = ", if place == 0 { "" } else { ", " });
            cell.push(&mut sql);
        }
        seen.push_condition(&mut sql, self.table, self.key);
        let mut statements = vec![Statement { sql, finds_one: true }];
        self.push_belongings(schema, &mut statements);
        statements
    }

    fn push_belongings(&self, schema: &Columns, statements: &mut Vec<Statement>) {
        for DependentRows { table, by, rows } in &self.belongings {
            if !schema.has_table(table) {
                continue;
            }
            let mut sql = format!("DELETE FROM `{table}` WHERE ");
            for (place, (name, cell)) in by.iter().enumerate() {
                let _ = write!(sql, "{}`{name}` = ", if place == 0 { "" } else { " AND " });
                cell.push(&mut sql);
            }
            statements.push(Statement { sql, finds_one: false });
            if !rows.is_empty() {
                statements.push(Statement { sql: insert(table, rows, schema), finds_one: false });
            }
        }
    }
}

/// Returns the statements that mark a row as deleted, as Polaris does; its servers purge it later.
pub(super) fn remove(table: &str, key: &str, seen: &RowVersion) -> Vec<Statement> {
    let mut statements = Vec::new();
    let mut first = |sql: String| statements.push(Statement { sql, finds_one: false });
    let mut value = String::new();
    push_text(&mut value, &seen.key);
    match table {
        "config_file" => first(format!(
            "DELETE t FROM `config_file_tag` t JOIN `config_file` f ON t.namespace = f.namespace AND \
             t.`group` = f.`group` AND t.file_name = f.name WHERE f.id = {value}"
        )),
        "user" => first(format!("DELETE FROM `user_group_relation` WHERE `user_id` = {value}")),
        "user_group" => {
            first(format!("DELETE FROM `user_group_relation` WHERE `group_id` = {value}"))
        }
        "lane_group" => first(format!(
            "UPDATE `lane_rule` SET flag = 1, `mtime` = CURRENT_TIMESTAMP WHERE `group_name` IN (SELECT `name` FROM \
             `lane_group` WHERE `id` = {value})"
        )),
        "ratelimit_config" => {
            // A changed revision tells clients that one of the service's limits was removed.
            let name = format!("{}##removed##{}", seen.key, seen.modified_at);
            let revision = hex_digest(name.as_bytes());
            first(format!(
                "UPDATE `ratelimit_revision` SET `last_revision` = '{}', `mtime` = CURRENT_TIMESTAMP WHERE \
                 `service_id` IN (SELECT `service_id` FROM `ratelimit_config` WHERE `id` = {value})",
                &revision[..32]
            ));
        }
        _ => {}
    }
    let time = time_of_change(table);
    let mut sql = format!("UPDATE `{table}` SET flag = 1, `{time}` = CURRENT_TIMESTAMP");
    seen.push_condition(&mut sql, table, key);
    statements.push(Statement { sql, finds_one: true });
    statements
}

/// Returns the statement that takes a release out of force.
pub(super) fn deactivate(seen: &RowVersion) -> Statement {
    let table = "config_file_release";
    let time = time_of_change(table);
    let mut sql = format!("UPDATE `{table}` SET `active` = 0, `{time}` = CURRENT_TIMESTAMP");
    seen.push_condition(&mut sql, table, "id");
    Statement { sql, finds_one: true }
}

fn insert(table: &str, rows: &[Cells], schema: &Columns) -> String {
    let names = rows.first().into_iter().flatten().map(|(name, _)| *name);
    let names: Vec<_> = names.filter(|name| schema.has(table, name)).collect();
    let list: Vec<_> = names.iter().map(|name| format!("`{name}`")).collect();
    let mut sql = format!("INSERT INTO `{table}` ({}) VALUES ", list.join(", "));
    for (place, cells) in rows.iter().enumerate() {
        sql.push_str(if place == 0 { "(" } else { ", (" });
        for (place, name) in names.iter().enumerate() {
            sql.push_str(if place == 0 { "" } else { ", " });
            match cells.iter().find(|(it, _)| it == name) {
                Some((_, cell)) => cell.push(&mut sql),
                None => sql.push_str("NULL"),
            }
        }
        sql.push(')');
    }
    sql
}

impl Cell {
    fn push(&self, sql: &mut String) {
        match self {
            Self::Text(text) => push_text(sql, text),
            Self::Number(number) => drop(write!(sql, "{number}")),
            // A `TIMESTAMP` column cannot hold second 0.
            Self::Time(seconds) => drop(write!(sql, "FROM_UNIXTIME({})", (*seconds).max(1))),
            Self::Now => sql.push_str("CURRENT_TIMESTAMP"),
        }
    }

    /// Returns the value as a query would return it.
    fn as_read(&self) -> String {
        match self {
            Self::Text(text) => text.clone(),
            Self::Number(number) => number.to_string(),
            Self::Time(seconds) => seconds.to_string(),
            // The value does not matter, because modification times are not compared.
            Self::Now => "0".to_owned(),
        }
    }
}

fn find(cells: &Cells, name: &str) -> Option<String> {
    cells.iter().find(|(it, _)| *it == name).map(|(_, cell)| cell.as_read())
}

fn row(columns: &[Column], schema: &Columns, value: impl Fn(&Column) -> Option<String>) -> Row {
    let names: Vec<_> = columns.iter().map(|column| column.name).collect();
    let is_there =
        |column: &&Column| column.otherwise.is_none() || schema.has(column.table, column.column);
    let values = columns.iter().map(|column| Some(column).filter(is_there).and_then(&value));
    Row::new(&names, values.collect())
}
