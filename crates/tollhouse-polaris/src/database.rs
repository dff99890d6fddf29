//! What Polaris keeps in its own database, read as objects of the registry and written from them: which tables and
//! columns are asked for, and what their rows mean. Does no IO: whoever has a connection runs the queries and the
//! statements, and gives the rows back.
//!
//! The tables are those of Polaris 1.12 to 1.19. Columns that came later are read where they are there.

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

pub use plan::{Changes, NotMoved, OnlyThere, Plan, Written};
pub use record::{Seen, Statement};
pub use row::Row;

use crate::code::Code;
use limits::Limit;
use record::Cell;

/// A kind of objects in the database; [`PARTS`] has all of them.
#[derive(Debug)]
pub struct Part {
    /// What people call its objects.
    pub name: &'static str,
    /// The tables, joined.
    from: &'static str,
    /// Which rows are still there.
    condition: &'static str,
    /// The column that rows are in order of, and each has a value of its own in.
    key: &'static str,
    columns: &'static [Column],
    /// Further rows that belong to these.
    details: Option<Details>,
    read: fn(&Row, &[Row]) -> Result<Object, LeftOut>,
    /// Whether a database may be without these tables: they came with a later version.
    is_optional: bool,
}

/// Rows of another table that belong to those of a part.
#[derive(Debug)]
struct Details {
    table: &'static str,
    /// The column that says to which, and that of the part.
    by: (&'static str, &'static str),
    condition: &'static str,
    columns: &'static [Column],
}

/// A column: how a row calls it, what is asked for, and in which table it must be.
#[derive(Debug)]
struct Column {
    name: &'static str,
    expression: &'static str,
    place: (&'static str, &'static str),
    /// What stands in for it in databases that do not have it.
    otherwise: Option<&'static str>,
}

/// Why a row is not taken over.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LeftOut {
    /// It names a service that is not there any more.
    #[error("its service is not there")]
    NoService,
    /// It is how Polaris' servers find each other.
    #[error("it belongs to Polaris' own servers")]
    OwnServer,
    /// A column holds what cannot be read.
    #[error("its {column} cannot be read: {reason}")]
    Unreadable {
        /// The column.
        column: &'static str,
        /// What is wrong with it.
        reason: String,
    },
    /// The rule is none that the registry takes.
    #[error("{}", .0.info())]
    Rule(Code),
    /// The registry takes no such object.
    #[error("{0}")]
    Refused(Refusal),
}

/// All that is read, in the order in which it is put: names before what stands under them.
pub const PARTS: [&Part; 10] = [
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
];

/// What a registry of ours has no place for: a table, and what whoever moves should know of its rows.
pub const NOT_TAKEN: [(&str, &str, &str); 6] = [
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
        "config_file_release",
        "flag = 0",
        "released configuration files: the configuration centre is not part of this registry",
    ),
    (
        "user",
        "flag = 0",
        "users: give the registry's account a password with registry.auth instead",
    ),
    ("auth_strategy", "flag = 0", "policies of who may do what"),
    ("client", "flag = 0", "clients: they report themselves again every two minutes"),
];

/// The tables and columns that a database has, and what they can hold.
#[derive(Debug, Default, Clone)]
pub struct Columns(BTreeMap<(String, String), Limit>);

impl Columns {
    /// What asks for them.
    pub const QUERY: &str = "SELECT LOWER(table_name), LOWER(column_name), LOWER(data_type), \
                             character_maximum_length, character_octet_length FROM information_schema.columns WHERE \
                             table_schema = DATABASE()";

    /// Adds one, of which nothing else is known.
    pub fn add(&mut self, table: String, column: String) {
        self.0.insert((table, column), Limit::Unknown);
    }

    /// Adds the one of a row of [`Columns::QUERY`].
    pub fn add_row(&mut self, row: Vec<Option<String>>) {
        let mut values = row.into_iter();
        let mut next = || values.next().flatten();
        let (Some(table), Some(column)) = (next(), next()) else { return };
        let data_type = next().unwrap_or_default();
        let mut length = || next().and_then(|text| text.parse().ok());
        let limit = Limit::from_type(&data_type, length(), length());
        self.0.insert((table, column), limit);
    }

    /// Whether there is such a table.
    pub fn has_table(&self, table: &str) -> bool {
        let behind = (table.to_owned(), String::new());
        self.0.range(behind..).next().is_some_and(|((it, _), _)| it == table)
    }

    fn has(&self, (table, column): (&str, &str)) -> bool {
        self.0.contains_key(&(table.to_owned(), column.to_owned()))
    }

    /// What of a cell a column is too small for.
    fn misfit(&self, table: &str, column: &str, cell: &Cell) -> Option<String> {
        let limit = self.0.get(&(table.to_owned(), column.to_owned())).copied();
        limit.unwrap_or_default().misfit(column, cell)
    }
}

impl Part {
    /// Whether the database has these objects at all.
    pub fn is_there(&self, known: &Columns) -> bool {
        !self.is_optional || known.has_table(self.table())
    }

    /// The table that has a row for each of them.
    fn table(&self) -> &'static str {
        self.columns[0].place.0
    }

    /// The columns that it lacks, as `table.column`.
    pub fn missing(&self, known: &Columns) -> Vec<String> {
        let details = self.details.iter().flat_map(|details| details.columns);
        let needed = self.columns.iter().chain(details).filter(|it| it.otherwise.is_none());
        let missing = needed.filter(|column| !known.has(column.place));
        missing.map(|Column { place: (table, column), .. }| format!("{table}.{column}")).collect()
    }

    /// Asks for rows behind the one with this key, at most so many.
    pub fn query(&self, known: &Columns, after: Option<&str>, rows_max: usize) -> String {
        let Self { from, condition, key, .. } = self;
        let mut sql = format!("SELECT {} FROM {from} WHERE {condition}", list(self.columns, known));
        if let Some(after) = after {
            sql.push_str(&format!(" AND {key} > "));
            push_text(&mut sql, after);
        }
        let _ = write!(sql, " ORDER BY {key} LIMIT {rows_max}");
        sql
    }

    /// Asks for the rows that belong to these; none where no others do.
    pub fn details_query(&self, known: &Columns, rows: &[Row]) -> Option<String> {
        let details =
            self.details.as_ref().filter(|it| !rows.is_empty() && known.has_table(it.table))?;
        let Details { table, by: (by, of), condition, columns } = details;
        let columns = list(columns, known);
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

    /// The names of the columns that a row of [`Part::query`] has.
    pub fn names(&self) -> Vec<&'static str> {
        self.columns.iter().map(|column| column.name).collect()
    }

    /// The names of those that a row of [`Part::details_query`] has.
    pub fn details_names(&self) -> Vec<&'static str> {
        let columns = self.details.iter().flat_map(|details| details.columns);
        columns.map(|column| column.name).collect()
    }

    /// The rows that belong to one.
    pub fn details<'a>(&self, row: &Row, all: &'a [Row]) -> &'a [Row] {
        let Some(Details { by: (by, of), .. }) = &self.details else { return &[] };
        let own = row.text(of);
        // They came in order, and those of one row stand together.
        let Some(first) = all.iter().position(|it| it.text(by) == own) else { return &[] };
        let count = all[first..].iter().take_while(|it| it.text(by) == own).count();
        &all[first..first + count]
    }

    /// The object that a row and those that belong to it are.
    ///
    /// # Errors
    /// Why it is not taken over.
    pub fn read(&self, row: &Row, details: &[Row]) -> Result<Object, LeftOut> {
        (self.read)(row, details)
    }

    /// The value that the next page begins behind.
    pub fn key_of<'a>(&self, row: &'a Row) -> &'a str {
        row.text(self.key.rsplit('.').next().unwrap_or(self.key))
    }
}

/// What a query names its columns by.
fn list(columns: &[Column], known: &Columns) -> String {
    let expression = |column: &Column| match column.otherwise {
        Some(otherwise) if !known.has(column.place) => otherwise,
        _ => column.expression,
    };
    columns.iter().map(expression).collect::<Vec<_>>().join(", ")
}

/// A text that no content breaks out of.
fn push_text(sql: &mut String, text: &str) {
    sql.push_str("_utf8mb4 x'");
    for byte in text.bytes() {
        let _ = write!(sql, "{byte:02x}");
    }
    sql.push('\'');
}

#[cfg(test)]
mod tests;
