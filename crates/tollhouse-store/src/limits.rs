//! The bounds of a store and the reason of each. What a backend bounds on its own account (threads,
//! pages) stands beside it.

use std::time::Duration;

/// What a store takes. Engines differ by orders of magnitude, so whoever makes large transactions asks
/// [`Store::limits`](crate::Store::limits) instead of assuming.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Longest key, in bytes.
    pub key_bytes_max: usize,
    /// Largest value, in bytes.
    pub value_bytes_max: usize,
    /// Most operations, and most conditions, of one transaction.
    pub operations_max: usize,
    /// Most bytes of keys and values in one transaction.
    pub transaction_bytes_max: usize,
}

impl Limits {
    /// Of stores inside of this process.
    pub const EMBEDDED: Self = Self {
        key_bytes_max: KEY_BYTES_MAX,
        value_bytes_max: VALUE_BYTES_MAX,
        operations_max: OPERATIONS_MAX,
        transaction_bytes_max: TRANSACTION_BYTES_MAX,
    };
}

/// Room on the disk that is kept beside a store in a file, so that a full disk takes deletions and a restart: some
/// thousand deletions, each of which lets another page of the file be used again.
pub const RESERVE_BYTES: usize = 4 * 1024 * 1024;

/// Longest key, in bytes. The longest that the Admin API makes (two identifiers of 64 bytes and a
/// namespace) is below 300; an index page holds a few keys of this size.
pub const KEY_BYTES_MAX: usize = 4 * 1024;

/// Largest value, in bytes. etcd refuses requests above 1.5 MiB, so that what fits there fits here
/// and can move; nothing that an operator writes by hand comes near.
pub const VALUE_BYTES_MAX: usize = 2 * 1024 * 1024;

/// Most operations, and most conditions, of one transaction. Enough to replace the objects of a large
/// file in a few commits; few enough that those waiting behind it do so for well under a second.
pub const OPERATIONS_MAX: usize = 10_000;

/// Most bytes of keys and values in one transaction: what a commit may hold in memory, several times
/// over, on its way to the disk and to the watchers.
pub const TRANSACTION_BYTES_MAX: usize = 64 * 1024 * 1024;

/// Commits kept in memory for watchers: eight seconds at the rate the store must sustain
/// (2,000 commits a second). A watcher that is further behind lists again, which is then cheaper.
pub const HISTORY_COMMITS_MAX: usize = 16 * 1024;

/// Bytes of keys and values that the commits kept for watchers may hold; what is older goes first.
/// The newest commit is kept whatever its size.
pub const HISTORY_BYTES_MAX: usize = 32 * 1024 * 1024;

/// Most leases that are held at a time: one for each entry that ends by itself, which are few.
pub const LEASES_MAX: usize = 64 * 1024;

/// Most entries that one expiry commit removes; the rest follow in the next, so that ordinary
/// commits come between.
pub const EXPIRED_PER_COMMIT_MAX: usize = 10_000;

/// Longest wait for the next expiry. The wall clock may be set forward meanwhile; an entry outlives
/// its time by no more than this then.
pub const EXPIRY_WAIT_MAX: Duration = Duration::from_secs(1);
