//! Contents of a store: entries with their revisions, and listings of entries.

use bytes::Bytes;
use std::fmt;

/// Number of a commit. Revisions of a store rise with every commit, perhaps by more than one, and
/// are never reused.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Revision(pub u64);

impl Revision {
    /// The revision of a store without any commit.
    pub const ZERO: Self = Self(0);

    /// Returns the next number. Only in stores that number nothing but commits is it the revision
    /// of the next commit.
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

/// A key with its value and revisions.
#[derive(Clone, PartialEq, Eq)]
pub struct Entry {
    pub key: Box<str>,
    pub value: Bytes,
    /// Revision of the commit that created the key. A deleted key that is put again counts as
    /// created anew.
    pub create_revision: Revision,
    /// Revision of the commit that put the value.
    pub mod_revision: Revision,
    /// Expiry time in milliseconds of Unix time; `None` never expires.
    pub expires_at_ms: Option<u64>,
}

// Hides the value, because values contain credentials and private keys.
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

/// The entries under a prefix at one revision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listing {
    /// Revision of the whole store, from which [`watch`](crate::Store::watch) continues.
    pub revision: Revision,
    /// The entries, ordered by the bytes of their keys.
    pub entries: Vec<Entry>,
}
