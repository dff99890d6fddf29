//! Space for removals in a full database. A removal deletes rows but also appends one to the log;
//! deleting old log rows makes space for it.
//!
//! This fails if the log is young and short: InnoDB splits no page of a file without some free
//! extents of 1 MiB, and PostgreSQL reuses only space that was vacuumed while there was space to
//! record it.

use crate::connection::Connection;
use crate::dialect::Dialect;
use crate::failure::Failure;
use crate::follower::bounds;
use crate::limits::LOG_COMMITS_KEPT_FULL;
use crate::options::Engine;
use crate::schema::format_condition;

/// Shortens the log. Claims are kept, because the commits they forbid may still be in progress.
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
