//! Reads from one snapshot of a database, in pages on one connection: for copying a store's tables,
//! and for tables of other programs. Nothing is written, so a standby may be used.

use crate::connection::Connection;
use crate::dialect::{Dialect, Purpose};
use crate::failure::Failure;
use crate::options::SqlOptions;
use crate::packets::{ENTRY_COLUMNS, entry_tables, to_entry};
use crate::schema;
use std::fmt;
use tollhouse_store::{Clock, Entry, Revision, StoreError};

/// A read-only transaction with a single snapshot.
pub struct Snapshot {
    connection: Connection,
    dialect: Dialect,
    place: Box<str>,
}

impl fmt::Debug for Snapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Snapshot").field("place", &self.place).finish_non_exhaustive()
    }
}

impl Snapshot {
    /// Begins the transaction; all later reads see this instant.
    ///
    /// # Errors
    /// If the database is unreachable or refuses.
    pub async fn open(options: &SqlOptions) -> Result<Self, StoreError> {
        let place = options.place();
        let begin = async {
            let dialect =
                Dialect { engine: options.engine, tables: options.tables.as_str().into() };
            let mut connection = Connection::open(options, &dialect, Purpose::Looking).await?;
            connection.run(dialect.begin_reading().to_owned()).await?;
            Ok::<_, Failure>((connection, dialect))
        };
        let (connection, dialect) = begin.await.map_err(|failure| failure.to_error(&place))?;
        Ok(Self { connection, dialect, place })
    }

    /// Runs a query and returns its rows, each value as text; `None` is NULL.
    ///
    /// # Errors
    /// If the connection is lost, or the database refuses.
    pub async fn rows(&mut self, sql: String) -> Result<Vec<Vec<Option<String>>>, StoreError> {
        let read = self.connection.run_one(sql).await;
        let rows = read.and_then(|set| set.rows.iter().map(|row| row.texts()).collect());
        rows.map_err(|failure| failure.to_error(&self.place))
    }

    /// Returns the revision of the store in the database's tables.
    ///
    /// # Errors
    /// If the tables are missing or of a newer format, or the connection is lost.
    pub async fn revision(&mut self) -> Result<Revision, StoreError> {
        let Self { connection, dialect, place } = self;
        let read = async {
            if schema::format(connection, dialect).await?.is_none() {
                let reason = format!("it has no table {}", dialect.table("meta"));
                return Err(Failure::Declined(reason, REMEDY_NONE));
            }
            let sql = format!("SELECT rev FROM {} WHERE id = 1", dialect.table("counter"));
            let set = connection.run_one(sql).await?;
            set.rows.first().map_or(Ok(0), |row| row.count(0))
        };
        read.await.map(Revision).map_err(|failure| failure.to_error(place))
    }

    /// Returns at most `entries_max` entries of the store after this key, in key order.
    ///
    /// # Errors
    /// If the connection is lost, or a row cannot be decoded.
    pub async fn page(
        &mut self,
        after: &str,
        entries_max: usize,
    ) -> Result<Vec<Entry>, StoreError> {
        let mut condition = String::from("o.k > ");
        self.dialect.push_key(&mut condition, after.as_bytes());
        let tables = entry_tables(&self.dialect);
        let sql = format!(
            "SELECT {ENTRY_COLUMNS} FROM {tables} WHERE {condition} ORDER BY o.k LIMIT {entries_max}"
        );
        let now_ms = Clock::System.now_ms();
        let read = self.connection.run_one(sql).await;
        let entries =
            read.and_then(|set| set.rows.iter().map(|row| to_entry(row, now_ms)).collect());
        entries.map_err(|failure| failure.to_error(&self.place))
    }
}

const REMEDY_NONE: &str =
    "look at the name of the database and at registry.store.tables: no node has served from it yet";
