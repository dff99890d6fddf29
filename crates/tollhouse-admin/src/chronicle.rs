//! Rows of the list of changes (change rows) for writes outside the store of objects: to the
//! registry, or to a document in memory. The row is stored after the change, because one commit
//! cannot contain both. A write to the store of objects contains its row in the same commit.

use std::time::Duration;

use aws_lc_rs::rand;
use tollhouse_model::change_row::{self, ChangeRow};
use tollhouse_store::{Operation, Transaction};

use crate::context::Admin;

/// Maximum time to wait until a row is stored; a healthy store needs milliseconds.
const KEEP_MAX: Duration = Duration::from_secs(1);

/// Number of random bytes in a row's name, which keep the names of rows of several gateways in the
/// same millisecond apart.
const NAME_BYTES: usize = 4;

/// Stores a change row. A failure is only logged, because the change has already been made.
pub(crate) async fn keep(admin: &Admin, row: ChangeRow) {
    let path = row.path.clone();
    let limits = admin.parts.store.limits();
    // A quote in embedded JSON is escaped, which at worst doubles the size.
    let row = row.within(limits.value_bytes_max / 2);
    let Some(suffix) = suffix() else {
        tracing::warn!(path, "a change has no row: no random numbers are available");
        return;
    };
    let name = change_row::key_of(row.at_ms, &suffix);
    let transaction = room(admin).then(Operation::put(
        admin.key_of(&format!("{}{name}", change_row::FOLDER)),
        row.to_text(),
    ));
    // The caller's write went elsewhere and must not wait for an unreachable store.
    match tokio::time::timeout(KEEP_MAX, admin.parts.store.commit(transaction)).await {
        Ok(Ok(committed)) => admin.index.expect(committed.revision),
        Ok(Err(error)) => tracing::warn!(path, %error, "a change is not in the list of changes"),
        Err(_) => tracing::warn!(path, "a change is perhaps not in the list of changes"),
    }
}

/// Returns a transaction that deletes old change rows if a new one would exceed the limits.
pub(crate) fn room(admin: &Admin) -> Transaction {
    let folder = change_row::FOLDER;
    let gone = admin.index.contents().changes().let_go();
    let delete = |all: Transaction, name| all.delete(admin.key_of(&format!("{folder}{name}")));
    gone.into_iter().fold(Transaction::new(), delete)
}

/// Returns a random suffix for the name of a change row, which distinguishes rows of the same
/// millisecond; `None` if no random numbers are available.
pub(crate) fn suffix() -> Option<String> {
    let mut random = [0; NAME_BYTES];
    rand::fill(&mut random).ok()?;
    Some(random.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Returns the current time in milliseconds since 1970.
pub(crate) fn now_ms() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    u64::try_from(since.unwrap_or_default().as_millis()).unwrap_or(u64::MAX)
}
