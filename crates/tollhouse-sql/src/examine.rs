//! What a server says about itself to whoever looks for what is wrong with it. Judging is done elsewhere; nothing
//! is written, and no table made.

use crate::connection::Connection;
use crate::dialect::{Dialect, Purpose};
use crate::failure::Failure;
use crate::options::{Engine, SqlOptions};
use crate::schema;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tollhouse_store::StoreError;

/// A server as it was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Examined {
    /// What it says it is: `10.11.6-MariaDB`, `15.4 (Debian)`.
    pub version: String,
    /// Whether it refuses changes: a standby, or set so.
    pub is_read_only: bool,
    /// Whether several servers of its cluster take changes at a time.
    pub has_several_writers: bool,
    /// Whether what it confirms is on its disk.
    pub is_durable: bool,
    /// How far its clock is ahead of the one here, in milliseconds.
    pub clock_ahead_ms: i64,
    /// Bytes of the largest packet that it takes; none where it has no bound of the kind.
    pub packet_bytes_max: Option<u64>,
    /// What this user may not do that a node does.
    pub lacks: Option<&'static str>,
    /// The tables of the store.
    pub tables: Tables,
}

/// The tables that a store would use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Tables {
    /// Not there: the first node makes them.
    Absent,
    /// As this version has them.
    Ours,
    /// Somebody else's, or of a newer version: why, and what helps.
    Unusable(String, &'static str),
}

/// Looks at one server, the first that is named.
///
/// # Errors
/// It cannot be reached, or does not let this user in.
pub async fn examine(options: &SqlOptions) -> Result<Examined, StoreError> {
    let examined = look(options).await;
    examined.map_err(|failure| failure.to_error(&options.place()))
}

async fn look(options: &SqlOptions) -> Result<Examined, Failure> {
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
    Ok(Examined {
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

/// Version, read-only, durability, milliseconds of Unix time, largest packet; then whether it is one of several.
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

/// What this user may not do that a node does. Rights that come by a role, or of a server that asks for none, are
/// not told apart from none at all, so that only some of them without the others count.
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

/// How far a clock is ahead that was read at some time between two of the one here.
fn ahead(theirs: i64, asked_at: i64, answered_at: i64) -> i64 {
    if theirs < asked_at { theirs - asked_at } else { (theirs - answered_at).max(0) }
}
