//! Tables of the file, and the statements on them.
//!
//! Keys are compared by their bytes, as Rust compares strings. Rows are located through an index
//! and are not ordered by key, because values are often larger than SQLite stores in an index page.

use super::error::from_sqlite;
use crate::backend::apply::{Table, end_of_prefix};
use crate::entry::{Entry, Listing, Revision};
use crate::error::StoreError;
use bytes::Bytes;
use rusqlite::types::Value;
use rusqlite::{Connection, OptionalExtension, Row, params};
use std::path::Path;

/// SQL that creates the tables, which are equal in all formats.
pub(super) const SCHEMA: &str = "
    CREATE TABLE entries (
        key TEXT PRIMARY KEY NOT NULL,
        value BLOB NOT NULL,
        create_revision INTEGER NOT NULL,
        mod_revision INTEGER NOT NULL,
        expires_at_ms INTEGER
    ) STRICT;
    CREATE INDEX entries_by_expiry ON entries (expires_at_ms) WHERE expires_at_ms IS NOT NULL;
    CREATE TABLE meta (name TEXT PRIMARY KEY NOT NULL, value INTEGER NOT NULL) STRICT;
    INSERT INTO meta (name, value) VALUES ('revision', 0);
";

const GET: &str = "SELECT key, value, create_revision, mod_revision, expires_at_ms
    FROM entries WHERE key = ?1";
const LIST: &str = "SELECT key, value, create_revision, mod_revision, expires_at_ms
    FROM entries WHERE key >= ?1 AND key < ?2 ORDER BY key";
const PAGE: &str = "SELECT key, value, create_revision, mod_revision, expires_at_ms
    FROM entries WHERE key >= ?1 AND key < ?2 ORDER BY key LIMIT ?3";
const PUT: &str = "INSERT INTO entries (key, value, create_revision, mod_revision, expires_at_ms)
    VALUES (?1, ?2, ?3, ?4, ?5)
    ON CONFLICT (key) DO UPDATE SET value = excluded.value,
        create_revision = excluded.create_revision, mod_revision = excluded.mod_revision,
        expires_at_ms = excluded.expires_at_ms";
const REMOVE: &str = "DELETE FROM entries WHERE key = ?1";
const KEYS: &str = "SELECT key FROM entries WHERE key >= ?1 AND key < ?2 ORDER BY key";
const REMOVE_PREFIX: &str = "DELETE FROM entries WHERE key >= ?1 AND key < ?2";
const EXPIRED: &str = "SELECT key FROM entries
    WHERE expires_at_ms IS NOT NULL AND expires_at_ms <= ?1 ORDER BY expires_at_ms LIMIT ?2";
const SET_EXPIRY: &str = "UPDATE entries SET expires_at_ms = ?2 WHERE key = ?1";
const FIRST_EXPIRY: &str = "SELECT min(expires_at_ms) FROM entries WHERE expires_at_ms IS NOT NULL";
const REVISION: &str = "SELECT value FROM meta WHERE name = 'revision'";
const SET_REVISION: &str = "UPDATE meta SET value = ?1 WHERE name = 'revision'";

pub(super) fn get(connection: &Connection, key: &str) -> rusqlite::Result<Option<Entry>> {
    connection.prepare_cached(GET)?.query_row([key], entry_of).optional()
}

/// Returns the entries under a prefix, with their revision.
pub(super) fn list(connection: &mut Connection, prefix: &str) -> rusqlite::Result<Listing> {
    // Inside a transaction both statements read the same snapshot.
    let transaction = connection.transaction()?;
    let revision = revision(&transaction)?;
    let mut statement = transaction.prepare_cached(LIST)?;
    let rows = statement.query_map(params![prefix, end_after(prefix)], entry_of)?;
    let entries = rows.collect::<rusqlite::Result<Vec<Entry>>>()?;
    Ok(Listing { revision, entries })
}

/// Returns at most `entries_max` entries under a prefix after the key `after`, with their revision.
pub(super) fn page(
    connection: &mut Connection,
    prefix: &str,
    after: &str,
    entries_max: usize,
) -> rusqlite::Result<Listing> {
    let transaction = connection.transaction()?;
    let revision = revision(&transaction)?;
    let mut statement = transaction.prepare_cached(PAGE)?;
    let limit = i64::try_from(entries_max).unwrap_or(i64::MAX);
    // The smallest greater key. An empty `after` starts at the beginning.
    let next = if after.is_empty() { String::new() } else { format!("{after}\0") };
    let first = prefix.max(&*next);
    let rows = statement.query_map(params![first, end_after(prefix), limit], entry_of)?;
    let entries = rows.collect::<rusqlite::Result<Vec<Entry>>>()?;
    Ok(Listing { revision, entries })
}

pub(super) fn revision(connection: &Connection) -> rusqlite::Result<Revision> {
    connection.prepare_cached(REVISION)?.query_row([], |row| row.get(0).map(to_revision))
}

pub(super) fn set_revision(connection: &Connection, revision: Revision) -> rusqlite::Result<()> {
    connection.prepare_cached(SET_REVISION)?.execute([to_integer(revision.0)]).map(|_| ())
}

pub(super) fn put(connection: &Connection, entry: &Entry) -> rusqlite::Result<()> {
    let values = params![
        &entry.key,
        &entry.value[..],
        to_integer(entry.create_revision.0),
        to_integer(entry.mod_revision.0),
        entry.expires_at_ms.map(to_integer),
    ];
    connection.prepare_cached(PUT)?.execute(values).map(|_| ())
}

/// Sets the expiry of entries; keys without an entry are skipped.
pub(super) fn set_expiry(
    connection: &Connection,
    keys: &[Box<str>],
    expires_at_ms: u64,
) -> rusqlite::Result<()> {
    let mut statement = connection.prepare_cached(SET_EXPIRY)?;
    keys.iter()
        .try_for_each(|key| statement.execute(params![key, to_integer(expires_at_ms)]).map(|_| ()))
}

/// Returns up to `limit` expired keys, longest expired first.
pub(super) fn expired(
    connection: &Connection,
    now_ms: u64,
    limit: usize,
) -> rusqlite::Result<Vec<Box<str>>> {
    let mut statement = connection.prepare_cached(EXPIRED)?;
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    statement.query_map([to_integer(now_ms), limit], |row| row.get(0))?.collect()
}

/// Returns the earliest expiry time of all entries in milliseconds.
pub(super) fn first_expiry_ms(connection: &Connection) -> rusqlite::Result<Option<u64>> {
    let at_ms: Option<i64> =
        connection.prepare_cached(FIRST_EXPIRY)?.query_row([], |row| row.get(0))?;
    Ok(at_ms.map(to_unsigned))
}

fn entry_of(row: &Row<'_>) -> rusqlite::Result<Entry> {
    Ok(Entry {
        key: row.get(0)?,
        value: Bytes::from(row.get::<_, Vec<u8>>(1)?),
        create_revision: to_revision(row.get(2)?),
        mod_revision: to_revision(row.get(3)?),
        expires_at_ms: row.get::<_, Option<i64>>(4)?.map(to_unsigned),
    })
}

/// Returns the upper bound of a prefix for comparison with keys. If no text can be the bound,
/// returns a blob, which SQLite orders after every text.
fn end_after(prefix: &str) -> Value {
    end_of_prefix(prefix).map_or(Value::Blob(Vec::new()), Value::Text)
}

fn to_revision(value: i64) -> Revision {
    Revision(to_unsigned(value))
}

fn to_unsigned(value: i64) -> u64 {
    u64::try_from(value).unwrap_or_default()
}

fn to_integer(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

/// Entries of the database, read and written within a transaction.
pub(super) struct Rows<'a> {
    /// The writer's connection, inside a transaction.
    pub(super) connection: &'a Connection,
    /// Path of the file, for error messages.
    pub(super) path: &'a Path,
}

impl Rows<'_> {
    fn wrap<T>(&self, result: rusqlite::Result<T>) -> Result<T, StoreError> {
        result.map_err(|error| from_sqlite(self.path, &error))
    }
}

impl Table for Rows<'_> {
    fn get(&mut self, key: &str) -> Result<Option<Entry>, StoreError> {
        self.wrap(get(self.connection, key))
    }

    fn put(&mut self, entry: &Entry) -> Result<(), StoreError> {
        self.wrap(put(self.connection, entry))
    }

    fn remove(&mut self, key: &str) -> Result<(), StoreError> {
        let remove = || self.connection.prepare_cached(REMOVE)?.execute([key]);
        self.wrap(remove().map(|_| ()))
    }

    fn remove_prefix(&mut self, prefix: &str) -> Result<Vec<Box<str>>, StoreError> {
        let range = params![prefix, end_after(prefix)];
        let remove = || {
            let mut statement = self.connection.prepare_cached(KEYS)?;
            let keys = statement.query_map(range, |row| row.get(0))?;
            let keys = keys.collect::<rusqlite::Result<Vec<Box<str>>>>()?;
            self.connection.prepare_cached(REMOVE_PREFIX)?.execute(range)?;
            Ok(keys)
        };
        self.wrap(remove())
    }
}
