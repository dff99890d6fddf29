//! A driver connection that sends packets of statements and receives result sets.

use crate::dialect::{Dialect, Purpose};
use crate::failure::Failure;
use crate::options::{Engine, SqlOptions, SqlServer};
use bytes::Bytes;
use sqlx::mysql::{MySqlConnectOptions, MySqlConnection, MySqlRow, MySqlSslMode};
use sqlx::postgres::{PgConnectOptions, PgConnection, PgRow, PgSslMode};
use sqlx::{AssertSqlSafe, ConnectOptions as _, Either, Row as _};
use std::time::Duration;
use tokio_stream::StreamExt as _;

/// A connection. Must be dropped after a failure.
pub(crate) struct Connection {
    driver: Driver,
    timeout: Duration,
}

enum Driver {
    MySql(Box<MySqlConnection>),
    PostgreSql(Box<PgConnection>),
}

/// Rows and number of changed rows of one statement.
#[derive(Default)]
pub(crate) struct ResultSet {
    pub(crate) rows: Vec<Row>,
    /// Number of rows changed, or found in the desired state.
    pub(crate) affected: u64,
}

pub(crate) enum Row {
    MySql(MySqlRow),
    PostgreSql(PgRow),
}

impl Row {
    /// Reads a number; `None` for NULL.
    pub(crate) fn number(&self, column: usize) -> Result<Option<i64>, Failure> {
        let number = match self {
            Self::MySql(row) => row.try_get_unchecked(column),
            Self::PostgreSql(row) => row.try_get_unchecked(column),
        };
        Ok(number?)
    }

    /// Reads a number that must be present and not negative.
    pub(crate) fn count(&self, column: usize) -> Result<u64, Failure> {
        let number = self.number(column)?.and_then(|number| u64::try_from(number).ok());
        number.ok_or_else(|| unexpected("a missing or negative number"))
    }

    /// Reads all values as text; `None` for NULL.
    pub(crate) fn texts(&self) -> Result<Vec<Option<String>>, Failure> {
        let texts = match self {
            Self::MySql(row) => {
                (0..row.len()).map(|column| row.try_get_unchecked(column)).collect::<Result<_, _>>()
            }
            Self::PostgreSql(row) => {
                (0..row.len()).map(|column| row.try_get_unchecked(column)).collect::<Result<_, _>>()
            }
        };
        Ok(texts?)
    }

    /// Reads bytes that must be present.
    pub(crate) fn bytes(&self, column: usize) -> Result<Bytes, Failure> {
        let bytes: Vec<u8> = match self {
            Self::MySql(row) => row.try_get_unchecked(column)?,
            Self::PostgreSql(row) => row.try_get_unchecked(column)?,
        };
        Ok(bytes.into())
    }
}

/// Returns the failure for a table that contains data this program never writes.
pub(crate) fn unexpected(what: &str) -> Failure {
    let reason = format!("a table holds {what}, which this program never writes");
    Failure::Declined(reason, "check what else writes to these tables, and restore a backup")
}

impl Connection {
    /// Connects to the first server that is suitable for the purpose.
    pub(crate) async fn open(
        options: &SqlOptions,
        dialect: &Dialect,
        purpose: Purpose,
    ) -> Result<Self, Failure> {
        let mut first_failure = None;
        for server in &options.servers {
            match Self::open_one(options, server, dialect, purpose).await {
                Ok(connection) => return Ok(connection),
                Err(failure) => first_failure = first_failure.or(Some(failure)),
            }
        }
        Err(first_failure.unwrap_or_else(|| Failure::Lost("no server is named".to_owned())))
    }

    async fn open_one(
        options: &SqlOptions,
        server: &SqlServer,
        dialect: &Dialect,
        purpose: Purpose,
    ) -> Result<Self, Failure> {
        let connect = async {
            Ok::<_, Failure>(match options.engine {
                Engine::MySql => {
                    Driver::MySql(Box::new(mysql_options(options, server).connect().await?))
                }
                Engine::PostgreSql => {
                    let options = postgres_options(options, server);
                    Driver::PostgreSql(Box::new(options.connect().await?))
                }
            })
        };
        let driver = match tokio::time::timeout(options.timeout, connect).await {
            Ok(driver) => driver?,
            Err(_) => return Err(overdue(options.timeout)),
        };
        let mut connection = Self { driver, timeout: options.timeout };
        let sets = connection.run(dialect.session(purpose)).await?;
        let is_read_only = sets.last().and_then(|set| set.rows.first()).map(|row| row.number(0));
        if is_read_only.transpose()?.flatten() != Some(0) {
            return Err(Failure::ReadOnly(format!("{server} takes no changes: a standby")));
        }
        Ok(connection)
    }

    /// Runs statements, separated by semicolons, in one packet; returns their results in order.
    pub(crate) async fn run(&mut self, sql: String) -> Result<Vec<ResultSet>, Failure> {
        let timeout = self.timeout;
        let run = async {
            match &mut self.driver {
                Driver::MySql(connection) => {
                    let mut results =
                        sqlx::raw_sql(AssertSqlSafe(sql)).fetch_many(&mut **connection);
                    let mut sets = Sets::default();
                    while let Some(result) = results.next().await {
                        match result? {
                            Either::Left(done) => sets.end(done.rows_affected()),
                            Either::Right(row) => sets.add(Row::MySql(row)),
                        }
                    }
                    Ok(sets.done)
                }
                Driver::PostgreSql(connection) => {
                    let mut results =
                        sqlx::raw_sql(AssertSqlSafe(sql)).fetch_many(&mut **connection);
                    let mut sets = Sets::default();
                    while let Some(result) = results.next().await {
                        match result? {
                            Either::Left(done) => sets.end(done.rows_affected()),
                            Either::Right(row) => sets.add(Row::PostgreSql(row)),
                        }
                    }
                    Ok(sets.done)
                }
            }
        };
        // The caller drops the connection after this failure, so the cancelled driver future does
        // no harm.
        tokio::time::timeout(timeout, run).await.unwrap_or_else(|_| Err(overdue(timeout)))
    }

    /// Runs one statement and returns its result.
    pub(crate) async fn run_one(&mut self, sql: String) -> Result<ResultSet, Failure> {
        Ok(self.run(sql).await?.pop().unwrap_or_default())
    }
}

#[derive(Default)]
struct Sets {
    done: Vec<ResultSet>,
    open: Vec<Row>,
}

impl Sets {
    fn add(&mut self, row: Row) {
        self.open.push(row);
    }

    fn end(&mut self, affected: u64) {
        self.done.push(ResultSet { rows: std::mem::take(&mut self.open), affected });
    }
}

fn overdue(timeout: Duration) -> Failure {
    Failure::Lost(format!("no answer within {timeout:?}"))
}

fn mysql_options(options: &SqlOptions, server: &SqlServer) -> MySqlConnectOptions {
    let mut connect = MySqlConnectOptions::new()
        .host(&server.host)
        .port(server.port)
        .username(&options.user)
        .database(&options.database)
        .statement_cache_capacity(0)
        .ssl_mode(MySqlSslMode::Disabled);
    if !options.password.is_empty() {
        connect = connect.password(&options.password);
    }
    if let Some(tls) = &options.tls {
        connect = connect.ssl_mode(MySqlSslMode::VerifyIdentity);
        if let Some(authorities) = &tls.authorities {
            connect = connect.ssl_ca_from_pem(authorities.clone());
        }
    }
    // Statements contain whole objects, with keys and secrets.
    connect.disable_statement_logging()
}

/// Returns the driver options for connections and for the listener.
pub(crate) fn postgres_options(options: &SqlOptions, server: &SqlServer) -> PgConnectOptions {
    let mut connect = PgConnectOptions::new_without_pgpass()
        .host(&server.host)
        .port(server.port)
        .username(&options.user)
        .database(&options.database)
        .application_name("tollhouse")
        .statement_cache_capacity(0)
        .ssl_mode(PgSslMode::Disable);
    if !options.password.is_empty() {
        connect = connect.password(&options.password);
    }
    if let Some(tls) = &options.tls {
        connect = connect.ssl_mode(PgSslMode::VerifyFull);
        if let Some(authorities) = &tls.authorities {
            connect = connect.ssl_root_cert_from_pem(authorities.clone());
        }
    }
    connect.disable_statement_logging()
}
