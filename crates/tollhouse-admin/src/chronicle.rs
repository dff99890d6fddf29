//! Rows about writes that go elsewhere than into the store of objects: to the registry, or to a document in memory. They
//! follow their write, since no commit holds both; what the store of objects itself takes has its row in its own commit.

use std::time::Duration;

use aws_lc_rs::rand;
use tollhouse_model::change_row::{self, ChangeRow};
use tollhouse_store::{Operation, Transaction};

use crate::context::Admin;

/// Longest wait for a row to be kept: a store that is well answers within milliseconds.
const KEEP_MAX: Duration = Duration::from_secs(1);

/// Random bytes in the name of a row: several gateways write in one millisecond.
const NAME_BYTES: usize = 4;

/// Keeps a row. What it tells of has happened: where it cannot be kept, the log says so.
pub(crate) async fn keep(admin: &Admin, row: ChangeRow) {
    let path = row.path.clone();
    let limits = admin.parts.store.limits();
    // JSON within JSON: each quote of an object is escaped, which at worst doubles it.
    let row = row.within(limits.value_bytes_max / 2);
    let Some(suffix) = suffix() else {
        tracing::warn!(path, "a change is not in the list of changes: there are no random numbers");
        return;
    };
    let name = change_row::key_of(row.at_ms, &suffix);
    let transaction = room(admin).then(Operation::put(
        admin.key_of(&format!("{}{name}", change_row::FOLDER)),
        row.to_text(),
    ));
    // Whoever wrote elsewhere does not wait for a store that is away.
    match tokio::time::timeout(KEEP_MAX, admin.parts.store.commit(transaction)).await {
        Ok(Ok(committed)) => admin.index.expect(committed.revision),
        Ok(Err(error)) => tracing::warn!(path, %error, "a change is not in the list of changes"),
        Err(_) => tracing::warn!(path, "a change is perhaps not in the list of changes"),
    }
}

/// A transaction that makes room for one more row.
pub(crate) fn room(admin: &Admin) -> Transaction {
    let folder = change_row::FOLDER;
    let gone = admin.index.known().changes().let_go();
    let delete = |all: Transaction, name| all.delete(admin.key_of(&format!("{folder}{name}")));
    gone.into_iter().fold(Transaction::new(), delete)
}

/// What tells rows of one millisecond apart.
pub(crate) fn suffix() -> Option<String> {
    let mut random = [0; NAME_BYTES];
    rand::fill(&mut random).ok()?;
    Some(random.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Now, in milliseconds of Unix time.
pub(crate) fn now_ms() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    u64::try_from(since.unwrap_or_default().as_millis()).unwrap_or(u64::MAX)
}
