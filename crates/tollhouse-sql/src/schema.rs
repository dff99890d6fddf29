//! The tables and their creation, which happens under a lock and in idempotent steps.

use crate::connection::{Connection, Row};
use crate::dialect::Dialect;
use crate::failure::Failure;
use crate::options::Engine;

/// Version of the tables' layout.
const FORMAT: u64 = 1;

/// The tables, with the columns read from each.
const TABLES: [(&str, &str); 5] = [
    ("objects", "k, v, created, modified, lease"),
    ("commits", "last_rev, first_rev, id, at, body"),
    ("counter", "id, rev"),
    ("leases", "id, ttl_ms, renewals"),
    ("meta", "id, format"),
];

const REMEDY_FOREIGN: &str = "nothing was written there; choose another prefix for the tables, or another \
                              database";
const REMEDY_NEWER: &str = "nothing was written there; run that version on this node too";
const REMEDY_LOCK: &str = "check whether another node hangs while it creates the tables";

/// Creates missing tables, and refuses tables of another program.
pub(crate) async fn prepare(connection: &mut Connection, dialect: &Dialect) -> Result<(), Failure> {
    if format(connection, dialect).await? == Some(FORMAT) {
        return Ok(());
    }
    lock(connection, dialect).await?;
    // Another node may have created them while this one waited.
    if format(connection, dialect).await? == Some(FORMAT) {
        return Ok(());
    }
    check_owner(connection, dialect).await?;
    for step in steps(dialect) {
        connection.run(step).await?;
    }
    Ok(())
}

fn foreign(dialect: &Dialect, table: &str, failure: Failure) -> Failure {
    match failure {
        Failure::Declined(reason, _) => {
            let table = dialect.table(table);
            Failure::Declined(
                format!("table {table} is not of this program: {reason}"),
                REMEDY_FOREIGN,
            )
        }
        failure => failure,
    }
}

/// Returns the format of existing tables without creating any; refuses tables of another program.
pub(crate) async fn look(
    connection: &mut Connection,
    dialect: &Dialect,
) -> Result<Option<u64>, Failure> {
    let found = format(connection, dialect).await?;
    check_owner(connection, dialect).await?;
    Ok(found)
}

/// Refuses tables that have the store's names but other columns.
async fn check_owner(connection: &mut Connection, dialect: &Dialect) -> Result<(), Failure> {
    for (table, columns) in TABLES {
        if exists(connection, dialect, table).await? {
            let probe = format!("SELECT {columns} FROM {} WHERE 1 = 0", dialect.table(table));
            connection.run(probe).await.map_err(|failure| foreign(dialect, table, failure))?;
        }
    }
    Ok(())
}

/// Returns the format of existing tables.
pub(crate) async fn format(
    connection: &mut Connection,
    dialect: &Dialect,
) -> Result<Option<u64>, Failure> {
    if !exists(connection, dialect, "meta").await? {
        return Ok(None);
    }
    let sql = format_query(dialect);
    let rows =
        connection.run_one(sql).await.map_err(|failure| foreign(dialect, "meta", failure))?.rows;
    let Some(row) = rows.first() else { return Ok(None) };
    check_format(row).map(Some)
}

/// Returns the query for the format, for packets whose writes depend on it.
pub(crate) fn format_query(dialect: &Dialect) -> String {
    format!("SELECT format FROM {} WHERE id = 1", dialect.table("meta"))
}

/// Returns the condition for single writes that the format is not newer than this version.
pub(crate) fn format_condition(dialect: &Dialect) -> String {
    format!("(SELECT MAX(format) FROM {}) <= {FORMAT}", dialect.table("meta"))
}

/// Decodes the format and refuses an unknown one. A node of a newer version raises the format with
/// the counter locked. A node that locks the counter later and finds it raised stops writing.
pub(crate) fn check_format(row: &Row) -> Result<u64, Failure> {
    let found = row.count(0)?;
    if found > FORMAT {
        let reason = format!(
            "its tables have format {found}, of a newer version (this one reads up to {FORMAT})"
        );
        return Err(Failure::Declined(reason, REMEDY_NEWER));
    }
    Ok(found)
}

async fn exists(
    connection: &mut Connection,
    dialect: &Dialect,
    table: &str,
) -> Result<bool, Failure> {
    let schema = match dialect.engine {
        Engine::MySql => "DATABASE()",
        Engine::PostgreSql => "current_schema()",
    };
    let table = dialect.table(table);
    let sql = format!(
        "SELECT COUNT(*) FROM information_schema.tables WHERE table_schema = {schema} AND table_name \
         = '{table}'"
    );
    let rows = connection.run_one(sql).await?.rows;
    Ok(rows.first().map(|row| row.count(0)).transpose()?.is_some_and(|count| count > 0))
}

/// Takes a lock that one node holds at a time; closing the connection releases it.
async fn lock(connection: &mut Connection, dialect: &Dialect) -> Result<(), Failure> {
    let tables = &dialect.tables;
    match dialect.engine {
        Engine::MySql => {
            // The timeout is explicit, because MariaDB treats a negative one as zero. The lock is
            // global on the server, so its name includes the database; names are truncated after 64
            // characters.
            let sql = format!("SELECT GET_LOCK(LEFT(CONCAT('{tables}', DATABASE()), 64), 2)");
            let rows = connection.run_one(sql).await?.rows;
            let is_taken = rows.first().map(|row| row.number(0)).transpose()?.flatten() == Some(1);
            if !is_taken {
                let reason = "another node has been creating the tables for a long time".to_owned();
                return Err(Failure::Declined(reason, REMEDY_LOCK));
            }
            Ok(())
        }
        // Waits as long as for any lock.
        Engine::PostgreSql => {
            let sql = format!("SELECT pg_advisory_lock(hashtext('{tables}migration'))");
            connection.run(sql).await.map(|_| ())
        }
    }
}

fn steps(dialect: &Dialect) -> Vec<String> {
    // Every step is idempotent, because two nodes may start at once, and MySQL's DDL is not
    // transactional.
    let [objects, commits, counter, leases, meta] = TABLES.map(|(table, _)| dialect.table(table));
    match dialect.engine {
        Engine::MySql => {
            let engine = "ENGINE = InnoDB ROW_FORMAT = DYNAMIC";
            vec![
                format!(
                    "CREATE TABLE IF NOT EXISTS {objects} (k VARBINARY(2048) NOT NULL PRIMARY KEY, \
                     v LONGBLOB NOT NULL, created BIGINT NOT NULL, modified BIGINT NOT NULL, \
                     lease BIGINT NULL, KEY by_lease (lease)) {engine}"
                ),
                format!(
                    "CREATE TABLE IF NOT EXISTS {commits} (last_rev BIGINT NOT NULL PRIMARY KEY, \
                     first_rev BIGINT NOT NULL, id VARBINARY(16) NOT NULL UNIQUE, at TIMESTAMP NOT \
                     NULL DEFAULT CURRENT_TIMESTAMP, body LONGBLOB NOT NULL) {engine}"
                ),
                format!(
                    "CREATE TABLE IF NOT EXISTS {counter} (id SMALLINT NOT NULL PRIMARY KEY, rev \
                     BIGINT NOT NULL) {engine}"
                ),
                format!(
                    "CREATE TABLE IF NOT EXISTS {leases} (id BIGINT NOT NULL PRIMARY KEY, ttl_ms \
                     BIGINT NOT NULL, renewals BIGINT NOT NULL) {engine}"
                ),
                format!(
                    "CREATE TABLE IF NOT EXISTS {meta} (id SMALLINT NOT NULL PRIMARY KEY, format \
                     BIGINT NOT NULL) {engine}"
                ),
                format!("INSERT IGNORE INTO {counter} (id, rev) VALUES (1, 0)"),
                format!("INSERT IGNORE INTO {meta} (id, format) VALUES (1, {FORMAT})"),
            ]
        }
        Engine::PostgreSql => vec![
            format!(
                "CREATE TABLE IF NOT EXISTS {objects} (k BYTEA NOT NULL PRIMARY KEY, v BYTEA NOT \
                 NULL, created BIGINT NOT NULL, modified BIGINT NOT NULL, lease BIGINT NULL)"
            ),
            format!(
                "CREATE INDEX IF NOT EXISTS {objects}_lease ON {objects} (lease) WHERE lease IS NOT \
                 NULL"
            ),
            format!(
                "CREATE TABLE IF NOT EXISTS {commits} (last_rev BIGINT NOT NULL PRIMARY KEY, \
                 first_rev BIGINT NOT NULL, id BYTEA NOT NULL UNIQUE, at TIMESTAMPTZ NOT NULL \
                 DEFAULT now(), body BYTEA NOT NULL)"
            ),
            format!(
                "CREATE TABLE IF NOT EXISTS {counter} (id SMALLINT NOT NULL PRIMARY KEY, rev BIGINT \
                 NOT NULL)"
            ),
            format!(
                "CREATE TABLE IF NOT EXISTS {leases} (id BIGINT NOT NULL PRIMARY KEY, ttl_ms BIGINT \
                 NOT NULL, renewals BIGINT NOT NULL)"
            ),
            format!(
                "CREATE TABLE IF NOT EXISTS {meta} (id SMALLINT NOT NULL PRIMARY KEY, format BIGINT \
                 NOT NULL)"
            ),
            format!("INSERT INTO {counter} (id, rev) VALUES (1, 0) ON CONFLICT DO NOTHING"),
            format!("INSERT INTO {meta} (id, format) VALUES (1, {FORMAT}) ON CONFLICT DO NOTHING"),
        ],
    }
}
