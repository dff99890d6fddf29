//! What a store holds: entries, each at a revision, and lists of them.

use bytes::Bytes;
use std::fmt;

/// The number of a commit. Revisions of one store rise with every commit, perhaps by more than one, and are
/// never used again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Revision(pub u64);

impl Revision {
    /// The revision of a store that nothing was ever written to.
    pub const ZERO: Self = Self(0);

    /// The next number: that of the next commit in stores that count nothing else.
    #[must_use]
    pub const fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

impl fmt::Display for Revision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A key with its value and history.
#[derive(Clone, PartialEq, Eq)]
pub struct Entry {
    /// The key.
    pub key: Box<str>,
    /// The value.
    pub value: Bytes,
    /// The commit that created the key; a key that was deleted and put again is a new one.
    pub create_revision: Revision,
    /// The commit that put the value.
    pub mod_revision: Revision,
    /// When the entry ends, in milliseconds of Unix time; never when absent.
    pub expires_at_ms: Option<u64>,
}

// Values hold credentials and private keys, which have no business in a log.
impl fmt::Debug for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Entry")
            .field("key", &self.key)
            .field("value", &format_args!("*** ({} bytes)", self.value.len()))
            .field("create_revision", &self.create_revision.0)
            .field("mod_revision", &self.mod_revision.0)
            .field("expires_at_ms", &self.expires_at_ms)
            .finish()
    }
}

/// The entries under a prefix as they were at one revision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listing {
    /// The revision of the whole store, from which [`watch`](crate::Store::watch) goes on.
    pub revision: Revision,
    /// The entries, ordered by key (by its bytes).
    pub entries: Vec<Entry>,
}
