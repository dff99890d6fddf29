//! Limits of this store, with their reasons.

use std::time::Duration;
use tollhouse_store::Limits;

/// Limits of a transaction. An InnoDB index allows keys of 3,072 bytes, a PostgreSQL index 2,704. A
/// transaction becomes one row of the log, in base64 during transfer, and MariaDB accepts packets
/// of 16 MiB by default.
pub(crate) const LIMITS: Limits = Limits {
    key_bytes_max: 2048,
    value_bytes_max: 2 * 1024 * 1024,
    operations_max: 10_000,
    transaction_bytes_max: 10 * 1024 * 1024,
};

/// Maximum number of transactions that share an engine transaction; each waits for the statements
/// of the others.
pub(crate) const GROUP_TRANSACTIONS_MAX: usize = 256;

/// Size from which a group accepts no further transaction, in bytes of keys and values. Including
/// the last one, the body then fits into a row of the log.
pub(crate) const GROUP_BYTES_MAX: usize = 512 * 1024;

/// Maximum size of transactions queued for the writer in bytes; further callers wait outside the
/// queue.
pub(crate) const QUEUE_BYTES_MAX: usize = 32 * 1024 * 1024;

/// Maximum number of requests queued for the writer.
pub(crate) const QUEUE_REQUESTS_MAX: usize = 4096;

/// Largest body of a log row, in bytes; a third more during transfer, and below 16 MiB. A larger
/// commit (the removal of a prefix with very many keys) is logged without a body, and followers
/// list again.
pub(crate) const BODY_BYTES_MAX: usize = 11 * 1024 * 1024;

/// Largest packet of statements, in bytes. MariaDB accepts 16 MiB.
pub(crate) const PACKET_BYTES_MAX: usize = 6 * 1024 * 1024;

/// Maximum number of rows of the log that are read at once; this bounds memory to as many bodies.
pub(crate) const LOG_ROWS_MAX: usize = 32;

/// Maximum number of connections for reads.
pub(crate) const READERS_MAX: usize = 4;

/// Commits kept in the log regardless of their age.
pub(crate) const LOG_COMMITS_KEPT: u64 = 10_000;

/// Duration for which every commit is kept in the log, in seconds of the engine's clock.
pub(crate) const LOG_SECONDS_KEPT: u64 = 600;

/// Commits kept in the log while the engine has no space for the next one. Nodes follow within
/// milliseconds; one that is further behind lists again.
pub(crate) const LOG_COMMITS_KEPT_FULL: u64 = 64;

/// Maximum number of attempts to remove rows after space was made, because InnoDB frees it with a
/// short delay.
pub(crate) const ROOM_TRIES_MAX: u32 = 6;

/// Interval between removals of old commits from the log.
pub(crate) const PRUNE_INTERVAL: Duration = Duration::from_secs(60);

/// Interval between reads of the log without a hint: a fifth of the time within which another node
/// must see a change.
pub(crate) const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Interval between reads of the renewals of leases.
pub(crate) const LEASES_INTERVAL: Duration = Duration::from_millis(500);

/// Timeout for a lock, in seconds; longer than any group takes.
pub(crate) const LOCK_WAIT_SECONDS: u64 = 2;

/// Duration in seconds after which the engine aborts the idle transaction of a stopped process,
/// because it blocks all other writers.
pub(crate) const RESTING_TRANSACTION_SECONDS: u64 = 5;

/// Maximum number of attempts for a group whose transaction the engine aborts. If all fail, the
/// cause is not a deadlock.
pub(crate) const TRIES_MAX: u32 = 4;

/// Maximum wait of a commit until its own node has read it from the log; on timeout it is answered
/// anyway.
pub(crate) const OWN_READ_WAIT: Duration = Duration::from_secs(1);

/// Maximum wait between attempts to reach a database that is down.
pub(crate) const OUTAGE_WAIT_MAX: Duration = Duration::from_secs(2);
