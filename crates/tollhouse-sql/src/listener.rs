//! PostgreSQL notifications about new commits. They are only hints: they are lost with a
//! connection, and poolers in transaction mode do not forward them. Correctness relies on polling.

use crate::connection::postgres_options;
use crate::dialect::Dialect;
use crate::options::SqlOptions;
use sqlx::postgres::{PgListener, PgPoolOptions};
use std::sync::Arc;
use tokio::sync::Notify;
use tollhouse_stdx::Backoff;

/// Returns the name of the notification channel of these tables.
pub(crate) fn channel(dialect: &Dialect) -> String {
    dialect.table("commits")
}

/// Wakes the follower at every notification. Never returns.
pub(crate) async fn listen(options: SqlOptions, dialect: Dialect, hint: Arc<Notify>) {
    let mut backoff = Backoff::default();
    loop {
        for server in &options.servers {
            let pool = PgPoolOptions::new()
                .max_connections(1)
                .acquire_timeout(options.timeout)
                .connect_lazy_with(postgres_options(&options, server));
            let Ok(mut listener) = PgListener::connect_with(&pool).await else { continue };
            if listener.listen(&channel(&dialect)).await.is_err() {
                continue;
            }
            backoff.reset();
            while listener.recv().await.is_ok() {
                hint.notify_one();
            }
        }
        tokio::time::sleep(backoff.next_wait()).await;
    }
}
