//! Location and options of a store in this process.

use crate::clock::Clock;
use std::path::PathBuf;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Location {
    /// The store is in memory; its content is lost with the process.
    Memory,
    /// The store is the file `store.db` of this data directory, which is created if missing.
    Directory(PathBuf),
}

/// Extent of the history kept in memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HistoryExtent {
    /// The history is as long as watchers need to catch up.
    #[default]
    ForWatchers,
    /// The history is empty, for stores whose only watchers wait for their end.
    Nothing,
}

/// Options of a store. The defaults are for a gateway.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Clock for the expiry of entries.
    pub clock: Clock,
    /// Extent of the history, which serves watches from earlier revisions.
    pub history: HistoryExtent,
    /// Disk space reserved for transactions that only remove, in bytes.
    pub reserve_bytes: usize,
    /// Page limit of the file, to simulate a full disk.
    #[cfg(test)]
    pub(crate) pages_max: Option<u32>,
    /// Pages of the log after which it is folded into the file.
    #[cfg(test)]
    pub(crate) checkpoint_pages: Option<u32>,
}
