//! Polaris' own database: queries that read it as registry objects, and statements that write
//! objects to it. This module does no IO: the caller runs the queries and statements, and passes
//! the rows in.
//!
//! The tables are those of Polaris 1.12 to 1.19. Later columns are used if they exist.

mod config_records;
mod config_rows;
mod identities;
mod identity_records;
mod limits;
mod plan;
mod record;
mod registered;
mod registered_rows;
mod row;
mod rule_rows;
mod rules;

use std::collections::BTreeMap;
use std::fmt::Write as _;

use tollhouse_registry::{Object, Refusal};

pub use plan::{Changes, ExportRefusal, ExtraObject, NewerRows, Plan, WriteOutcome};
pub use record::{RowVersion, Statement};
pub use row::Row;

use crate::code::Code;
use limits::Limit;
use record::Cell;

/// A kind of objects in the database; see [`PARTS`].
#[derive(Debug)]
pub struct Part {
    /// Name of the objects in the plural, for progress messages.
    pub name: &'static str,
    /// Tables of the query, with their joins.
    from: &'static str,
    /// Condition for rows that are not deleted.
    condition: &'static str,
    /// Unique column by which the pages of rows are ordered.
    key: &'static str,
    columns: &'static [Column],
    /// Rows of another table that belong to the objects.
    details: Option<Details>,
    read: fn(&Row, &[Row]) -> Result<Object, ImportRefusal>,
    /// Whether a database may lack these tables, because a later version added them.
    is_optional: bool,
}

/// A table whose rows belong to the objects of a part, such as metadata.
#[derive(Debug)]
struct Details {
    table: &'static str,
    /// The referring column, and the column of the part that it refers to.
    by: (&'static str, &'static str),
    condition: &'static str,
    columns: &'static [Column],
}

/// A column: its name in rows, its SQL expression, and the table and column that must exist.
#[derive(Debug)]
struct Column {
    name: &'static str,
    expression: &'static str,
    table: &'static str,
    column: &'static str,
    /// Expression to use if the database lacks the column; `None` if the column is required.
    otherwise: Option<&'static str>,
}

/// Reason for which a row is not imported.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ImportRefusal {
    /// The row refers to a service that does not exist.
    #[error("its service is not there")]
    NoService,
    /// The service is one by which Polaris' servers find each other.
    #[error("it belongs to Polaris' own servers")]
    OwnServer,
    /// A column has a malformed value.
    #[error("its {column} cannot be read: {reason}")]
    Unreadable { column: &'static str, reason: String },
    /// The registry does not accept the rule.
    #[error("{}", .0.info())]
    Rule(Code),
    /// The registry does not accept the object.
    #[error("{0}")]
    Refused(Refusal),
}

/// All parts in the order of import: an object comes after the objects that it refers to.
pub const PARTS: [&Part; 19] = [
    &registered::NAMESPACES,
    &registered::SERVICES,
    &registered::ALIASES,
    &registered::INSTANCES,
    &rules::ROUTING_FIRST,
    &rules::ROUTING,
    &rules::RATE_LIMITS,
    &rules::CIRCUIT_BREAKERS,
    &rules::FAULT_DETECTORS,
    &rules::LANES,
    &config_rows::GROUPS,
    &config_rows::FILES,
    &config_rows::RELEASES,
    &config_rows::HISTORY,
    &config_rows::TEMPLATES,
    &identities::USERS,
    &identities::USER_GROUPS,
    &identities::ROLES,
    &identities::POLICIES,
];

/// Tables that are not imported: table, condition for rows that count, and a note for the operator.
pub const NOT_TAKEN: [(&str, &str, &str); 4] = [
    (
        "circuitbreaker_rule",
        "flag = 0",
        "circuit breakers of the first generation, which clients since 2022 do not read",
    ),
    (
        "service_contract",
        "flag = 0",
        "service contracts: clients report them again when they start",
    ),
    (
        "user",
        "flag = 0",
        "passwords of users, which are hashed in another way: set new ones; tokens stay valid",
    ),
    ("client", "flag = 0", "clients: they report themselves again every two minutes"),
];

/// Tables and columns of a database, with their limits.
#[derive(Debug, Default, Clone)]
pub struct Columns(BTreeMap<(String, String), Limit>);

impl Columns {
    /// SQL query for the tables, columns and types that the database has.
    pub const QUERY: &str = "SELECT LOWER(table_name), LOWER(column_name), LOWER(data_type), \
                             character_maximum_length, character_octet_length FROM information_schema.columns WHERE \
                             table_schema = DATABASE()";

    /// Adds a column without a known limit.
    pub fn add(&mut self, table: String, column: String) {
        self.0.insert((table, column), Limit::Unknown);
    }

    /// Adds the column of a row of [`Columns::QUERY`].
    pub fn add_row(&mut self, row: Vec<Option<String>>) {
        let mut values = row.into_iter();
        let mut next = || values.next().flatten();
        let (Some(table), Some(column)) = (next(), next()) else { return };
        let data_type = next().unwrap_or_default();
        let mut length = || next().and_then(|text| text.parse().ok());
        let limit = Limit::from_type(&data_type, length(), length());
        self.0.insert((table, column), limit);
    }

    pub fn has_table(&self, table: &str) -> bool {
        let behind = (table.to_owned(), String::new());
        self.0.range(behind..).next().is_some_and(|((it, _), _)| it == table)
    }

    fn has(&self, table: &str, column: &str) -> bool {
        self.0.contains_key(&(table.to_owned(), column.to_owned()))
    }

    /// Returns why a cell does not fit into its column; `None` if it fits.
    fn misfit(&self, table: &str, column: &str, cell: &Cell) -> Option<String> {
        let limit = self.0.get(&(table.to_owned(), column.to_owned())).copied();
        limit.unwrap_or_default().misfit(column, cell)
    }
}

impl Part {
    /// Whether the database has this part; always true for required parts.
    pub fn is_there(&self, schema: &Columns) -> bool {
        !self.is_optional || schema.has_table(self.table())
    }

    /// Returns the main table, which has one row per object.
    fn table(&self) -> &'static str {
        self.columns[0].table
    }

    /// Returns the required columns that the database lacks, as `table.column`.
    pub fn missing(&self, schema: &Columns) -> Vec<String> {
        let details = self.details.iter().flat_map(|details| details.columns);
        let needed = self.columns.iter().chain(details).filter(|it| it.otherwise.is_none());
        let missing = needed.filter(|it| !schema.has(it.table, it.column));
        missing.map(|Column { table, column, .. }| format!("{table}.{column}")).collect()
    }

    /// Returns the query for a page of at most `rows_max` rows after the key `after`.
    pub fn query(&self, schema: &Columns, after: Option<&str>, rows_max: usize) -> String {
        let Self { from, condition, key, .. } = self;
        let mut sql =
            format!("SELECT {} FROM {from} WHERE {condition}", list(self.columns, schema));
        if let Some(after) = after {
            sql.push_str(&format!(" AND {key} > "));
            push_text(&mut sql, after);
        }
        let _ = write!(sql, " ORDER BY {key} LIMIT {rows_max}");
        sql
    }

    /// Returns the query for the detail rows of a page; `None` if the part has none.
    pub fn details_query(&self, schema: &Columns, rows: &[Row]) -> Option<String> {
        let details =
            self.details.as_ref().filter(|it| !rows.is_empty() && schema.has_table(it.table))?;
        let Details { table, by: (by, of), condition, columns } = details;
        let columns = list(columns, schema);
        let mut sql = format!("SELECT {columns} FROM {table} d WHERE {condition} AND d.{by} IN (");
        for (number, row) in rows.iter().enumerate() {
            if number > 0 {
                sql.push(',');
            }
            push_text(&mut sql, row.text(of));
        }
        sql.push_str(&format!(") ORDER BY d.{by}"));
        Some(sql)
    }

    /// Returns the column names of [`Part::query`], in order.
    pub fn names(&self) -> Vec<&'static str> {
        self.columns.iter().map(|column| column.name).collect()
    }

    /// Returns the column names of [`Part::details_query`], in order.
    pub fn details_names(&self) -> Vec<&'static str> {
        let columns = self.details.iter().flat_map(|details| details.columns);
        columns.map(|column| column.name).collect()
    }

    /// Returns the detail rows of one row.
    pub fn details<'a>(&self, row: &Row, all: &'a [Row]) -> &'a [Row] {
        let Some(Details { by: (by, of), .. }) = &self.details else { return &[] };
        let own = row.text(of);
        // The details are sorted, so that those of one row are consecutive.
        let Some(first) = all.iter().position(|it| it.text(by) == own) else { return &[] };
        let count = all[first..].iter().take_while(|it| it.text(by) == own).count();
        &all[first..first + count]
    }

    /// Converts a row and its details to an object.
    ///
    /// # Errors
    /// If the row cannot be imported.
    pub fn read(&self, row: &Row, details: &[Row]) -> Result<Object, ImportRefusal> {
        (self.read)(row, details)
    }

    /// Returns the key of a row, after which the next page starts.
    pub fn key_of<'a>(&self, row: &'a Row) -> &'a str {
        row.text(self.key.rsplit('.').next().unwrap_or(self.key))
    }
}

/// Returns the column list of a query.
fn list(columns: &[Column], schema: &Columns) -> String {
    let expression = |column: &Column| match column.otherwise {
        Some(otherwise) if !schema.has(column.table, column.column) => otherwise,
        _ => column.expression,
    };
    columns.iter().map(expression).collect::<Vec<_>>().join(", ")
}

/// Appends a text as a hexadecimal SQL literal, which prevents SQL injection.
fn push_text(sql: &mut String, text: &str) {
    sql.push_str("_utf8mb4 x'");
    for byte in text.bytes() {
        let _ = write!(sql, "{byte:02x}");
    }
    sql.push('\'');
}

#[cfg(test)]
mod tests;
