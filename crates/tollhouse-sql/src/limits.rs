//! The bounds of this store and the reason of each.

use std::time::Duration;
use tollhouse_store::Limits;

/// What one transaction may hold. An index of InnoDB takes keys of 3,072 bytes, one of PostgreSQL 2,704. A
/// transaction becomes one row of the log, in base64 on its way, and MariaDB takes packets of 16 MiB unless it
/// was set otherwise.
pub(crate) const LIMITS: Limits = Limits {
    key_bytes_max: 2048,
    value_bytes_max: 2 * 1024 * 1024,
    operations_max: 10_000,
    transaction_bytes_max: 10 * 1024 * 1024,
};

/// Most transactions that share one of the engine's: each waits for the others' statements.
pub(crate) const GROUP_TRANSACTIONS_MAX: usize = 256;

/// Bytes of keys and values after which a group takes no further transaction: what is logged of it, the last
/// one included, fits into a row of the log.
pub(crate) const GROUP_BYTES_MAX: usize = 512 * 1024;

/// Bytes of all transactions that wait for the writer; who comes later waits outside.
pub(crate) const QUEUE_BYTES_MAX: usize = 32 * 1024 * 1024;

/// Requests that wait for the writer.
pub(crate) const QUEUE_REQUESTS_MAX: usize = 4096;

/// Bytes of a row of the log, which becomes a third more on its way, below 16 MiB. A larger commit (a prefix with
/// very many keys, deleted) is logged without what it did, and followers list again.
pub(crate) const BODY_BYTES_MAX: usize = 11 * 1024 * 1024;

/// Bytes of statements in one packet; MariaDB takes 16 MiB.
pub(crate) const PACKET_BYTES_MAX: usize = 6 * 1024 * 1024;

/// Rows of the log that are read at a time, so that what is held stays below so many bodies.
pub(crate) const LOG_ROWS_MAX: usize = 32;

/// Connections that read at a time.
pub(crate) const READERS_MAX: usize = 4;

/// Commits that always stay in the log, however old they are.
pub(crate) const LOG_COMMITS_KEPT: u64 = 10_000;

/// Seconds that every commit stays in the log, by the engine's clock.
pub(crate) const LOG_SECONDS_KEPT: u64 = 600;

/// Commits that stay in the log where the engine has no room for the next: nodes follow within milliseconds, and who does
/// not lists again.
pub(crate) const LOG_COMMITS_KEPT_FULL: u64 = 64;

/// How often a deletion is tried in room that was just made: InnoDB frees it a moment later.
pub(crate) const ROOM_TRIES_MAX: u32 = 6;

/// How often what is older is removed.
pub(crate) const PRUNE_INTERVAL: Duration = Duration::from_secs(60);

/// How often the log is read where no hint comes: a fifth of what another node may take to see a change.
pub(crate) const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// How often renewals of leases are read.
pub(crate) const LEASES_INTERVAL: Duration = Duration::from_millis(500);

/// How long a lock is waited for, in seconds: longer than any group takes.
pub(crate) const LOCK_WAIT_SECONDS: u64 = 2;

/// How long the engine lets a transaction of a process rest that was stopped in the middle of it, with every
/// other writer waiting behind it.
pub(crate) const RESTING_TRANSACTION_SECONDS: u64 = 5;

/// How often a group is tried whose transaction the engine gave up; what locks it then is no deadlock.
pub(crate) const TRIES_MAX: u32 = 4;

/// How long a commit waits until its own node has read it from the log, before it is answered all the same.
pub(crate) const OWN_READ_WAIT: Duration = Duration::from_secs(1);

/// The longest wait before a database that was away is looked for again.
pub(crate) const OUTAGE_WAIT_MAX: Duration = Duration::from_secs(2);
