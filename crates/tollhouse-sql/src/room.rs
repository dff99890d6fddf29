//! Room for deletions in a database that has none left: they take rows away and yet add one, to the log. What is old in
//! the log makes room for it.
//!
//! It does not where the log is young and short: InnoDB divides no page of a file in which not some extents of 1 MiB are
//! free, and PostgreSQL reuses what it has vacuumed before, when it had room to note so.

use crate::connection::Connection;
use crate::dialect::Dialect;
use crate::failure::Failure;
use crate::follower::bounds;
use crate::limits::LOG_COMMITS_KEPT_FULL;
use crate::options::Engine;
use crate::schema::format_condition;

/// Shortens the log. Claims stay: what they forbid may still be under way.
pub(crate) async fn make(connection: &mut Connection, dialect: &Dialect) -> Result<(), Failure> {
    let (_, newest) = bounds(connection, dialect).await?;
    let until = newest.revision.0.saturating_sub(LOG_COMMITS_KEPT_FULL);
    let commits = dialect.table("commits");
    let sql = format!(
        "DELETE FROM {commits} WHERE last_rev BETWEEN 1 AND {until} AND {}",
        format_condition(dialect)
    );
    connection.run(sql).await?;
    if dialect.engine == Engine::PostgreSql {
        connection.run(format!("VACUUM (TRUNCATE FALSE) {commits}")).await?;
    }
    Ok(())
}
