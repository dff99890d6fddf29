//! Limits of a store, with their reasons. Internal limits of a backend (threads, pages) are defined
//! beside it.

use std::time::Duration;

/// Limits of a transaction. Engines differ by orders of magnitude, so builders of large
/// transactions must use [`Store::limits`](crate::Store::limits).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    pub key_bytes_max: usize,
    pub value_bytes_max: usize,
    /// Maximum number of operations, and of conditions, in one transaction.
    pub operations_max: usize,
    /// Maximum size of keys and values in one transaction, in bytes.
    pub transaction_bytes_max: usize,
}

impl Limits {
    /// Limits of stores inside this process.
    pub const EMBEDDED: Self = Self {
        key_bytes_max: KEY_BYTES_MAX,
        value_bytes_max: VALUE_BYTES_MAX,
        operations_max: OPERATIONS_MAX,
        transaction_bytes_max: TRANSACTION_BYTES_MAX,
    };
}

/// Disk reserve of a store in a file, in bytes, so that removals and a restart work on a full disk.
/// Suffices for some thousand removals, each of which frees another page of the file.
pub const RESERVE_BYTES: usize = 4 * 1024 * 1024;

/// Maximum length of a key in bytes. The longest key of the Admin API (two identifiers of 64 bytes
/// and a namespace) is below 300; an index page holds a few keys of this size.
pub const KEY_BYTES_MAX: usize = 4 * 1024;

/// Largest value, in bytes. etcd refuses requests above 1.5 MiB, so that everything stored there
/// can be moved here. Handwritten objects are far smaller.
pub const VALUE_BYTES_MAX: usize = 2 * 1024 * 1024;

/// Maximum number of operations, and of conditions, in one transaction. Enough to replace the
/// objects of a large file in a few commits; few enough to delay the transactions behind it by well
/// under a second.
pub const OPERATIONS_MAX: usize = 10_000;

/// Maximum size of keys and values in one transaction, in bytes. A commit may hold several copies
/// in memory on its way to the disk and to the watchers.
pub const TRANSACTION_BYTES_MAX: usize = 64 * 1024 * 1024;

/// Maximum number of commits kept in memory for watchers: eight seconds at the required rate of
/// 2,000 commits a second. A watcher that is further behind lists again, which is then cheaper.
pub const HISTORY_COMMITS_MAX: usize = 16 * 1024;

/// Maximum size of keys and values in the commits kept for watchers, in bytes; the oldest are
/// dropped first. The newest commit is kept whatever its size.
pub const HISTORY_BYTES_MAX: usize = 32 * 1024 * 1024;

/// Maximum number of concurrent leases: one per entry that can expire, which are few.
pub const LEASES_MAX: usize = 64 * 1024;

/// Maximum number of entries that one expiry commit removes. The rest follow in the next one, with
/// ordinary commits between.
pub const EXPIRED_PER_COMMIT_MAX: usize = 10_000;

/// Maximum wait for the next expiry. If the wall clock is set forward meanwhile, an entry outlives
/// its time by at most this.
pub const EXPIRY_WAIT_MAX: Duration = Duration::from_secs(1);
