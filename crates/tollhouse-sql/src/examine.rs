//! Properties of a database server, for diagnosis. The caller evaluates them. Nothing is written,
//! and no table is created.

use crate::connection::Connection;
use crate::dialect::{Dialect, Purpose};
use crate::failure::Failure;
use crate::options::{Engine, SqlOptions};
use crate::schema;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tollhouse_store::StoreError;

/// Properties of a database server that matter to the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerReport {
    /// Version as reported: `10.11.6-MariaDB`, `15.4 (Debian)`.
    pub version: String,
    /// Whether the server refuses writes, as a standby or by configuration.
    pub is_read_only: bool,
    /// Whether several servers of its cluster accept writes simultaneously.
    pub has_several_writers: bool,
    /// Whether confirmed commits are on disk.
    pub is_durable: bool,
    /// Difference of the server's clock to the local one, in milliseconds; positive if it is ahead.
    pub clock_ahead_ms: i64,
    /// Largest packet that the server accepts, in bytes; `None` if it has no such limit.
    pub packet_bytes_max: Option<u64>,
    /// Required rights that the user lacks.
    pub lacks: Option<&'static str>,
    /// State of the store's tables on the server.
    pub tables: Tables,
}

/// State of the tables that a store would use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Tables {
    /// The tables are missing; the first node creates them.
    Absent,
    /// The tables are usable by this version.
    Ours,
    /// The tables belong to another program or a newer version; holds the reason and the remedy.
    Unusable(String, &'static str),
}

/// Examines the first server listed.
///
/// # Errors
/// If the server is unreachable or refuses the login.
pub async fn examine(options: &SqlOptions) -> Result<ServerReport, StoreError> {
    let examined = look(options).await;
    examined.map_err(|failure| failure.to_error(&options.place()))
}

async fn look(options: &SqlOptions) -> Result<ServerReport, Failure> {
    let dialect = Dialect { engine: options.engine, tables: options.tables.as_str().into() };
    let mut connection = Connection::open(options, &dialect, Purpose::Looking).await?;
    let asked_at = now_ms();
    let mut sets = connection.run(query(options.engine).to_owned()).await?.into_iter();
    let answered_at = now_ms();
    let set = sets.next().unwrap_or_default();
    let row = set.rows.first().ok_or_else(|| Failure::Lost("it answered nothing".to_owned()))?;
    let values = row.texts()?;
    let text = |place: usize| values.get(place).cloned().flatten().unwrap_or_default();
    let theirs = text(3).parse().unwrap_or(asked_at);
    let several = sets.next().and_then(|set| set.rows.into_iter().next());
    let several = several.map(|row| row.texts()).transpose()?.unwrap_or_default();
    Ok(ServerReport {
        version: text(0),
        is_read_only: text(1) == "1",
        has_several_writers: several.get(1).cloned().flatten().as_deref() == Some("ON"),
        is_durable: text(2) == "1",
        clock_ahead_ms: ahead(theirs, asked_at, answered_at),
        packet_bytes_max: text(4).parse().ok(),
        lacks: lacks(&mut connection, options.engine).await?,
        tables: tables(&mut connection, &dialect).await?,
    })
}

/// Returns the query for version, read-only, durability, milliseconds of Unix time, and largest
/// packet; then for cluster membership.
fn query(engine: Engine) -> &'static str {
    match engine {
        Engine::MySql => {
            "SELECT VERSION(), @@global.read_only + 0, (@@global.innodb_flush_log_at_trx_commit = 1) + 0, \
             CAST(UNIX_TIMESTAMP(NOW(3)) * 1000 AS SIGNED), @@global.max_allowed_packet + 0; SHOW GLOBAL \
             VARIABLES LIKE 'wsrep_on'"
        }
        Engine::PostgreSql => {
            "SELECT current_setting('server_version'), pg_is_in_recovery()::int::text, \
             (current_setting('fsync')::bool AND current_setting('synchronous_commit') <> 'off')::int::text, \
             (extract(epoch from clock_timestamp()) * 1000)::bigint::text, NULL"
        }
    }
}

async fn tables(connection: &mut Connection, dialect: &Dialect) -> Result<Tables, Failure> {
    match schema::look(connection, dialect).await {
        Ok(Some(_)) => Ok(Tables::Ours),
        Ok(None) => Ok(Tables::Absent),
        Err(Failure::Declined(reason, remedy)) => Ok(Tables::Unusable(reason, remedy)),
        Err(failure) => Err(failure),
    }
}

/// Returns the required rights that the user lacks. Rights granted by a role, or by a server
/// without access control, look like none at all, so only an incomplete set is reported.
async fn lacks(
    connection: &mut Connection,
    engine: Engine,
) -> Result<Option<&'static str>, Failure> {
    let sql = match engine {
        Engine::MySql => {
            "SELECT COUNT(DISTINCT PRIVILEGE_TYPE) FROM (SELECT PRIVILEGE_TYPE FROM \
             information_schema.USER_PRIVILEGES UNION ALL SELECT PRIVILEGE_TYPE FROM \
             information_schema.SCHEMA_PRIVILEGES WHERE DATABASE() LIKE TABLE_SCHEMA) p WHERE PRIVILEGE_TYPE IN \
             ('CREATE', 'SELECT', 'INSERT', 'UPDATE', 'DELETE')"
        }
        Engine::PostgreSql => {
            "SELECT CASE WHEN has_schema_privilege(current_schema(), 'CREATE') THEN 5 ELSE 1 END"
        }
    };
    let set = connection.run_one(sql.to_owned()).await?;
    let count = set.rows.first().map(|row| row.number(0)).transpose()?.flatten();
    let is_partly = count.is_some_and(|count| (1..5).contains(&count));
    Ok(is_partly.then_some(match engine {
        Engine::MySql => "some of CREATE, SELECT, INSERT, UPDATE and DELETE on the database",
        Engine::PostgreSql => "CREATE on its schema",
    }))
}

fn now_ms() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
    i64::try_from(now.as_millis()).unwrap_or(i64::MAX)
}

/// Estimates how far a clock is ahead, given that it was read between two local times.
fn ahead(theirs: i64, asked_at: i64, answered_at: i64) -> i64 {
    if theirs < asked_at { theirs - asked_at } else { (theirs - answered_at).max(0) }
}
