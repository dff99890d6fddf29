//! Where a store in this process lives, and how it is opened.

use crate::clock::Clock;
use std::path::PathBuf;

/// Where a store lives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Location {
    /// In memory, gone with the process.
    Memory,
    /// In the file `store.db` of this data directory, which is made if need be.
    Directory(PathBuf),
}

/// How much of the newest commits stays in memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HistoryKept {
    /// As much as watchers need to catch up.
    #[default]
    ForWatchers,
    /// Nothing: nobody watches, but perhaps for the end of the store.
    Nothing,
}

/// How a store is opened; the default is what a gateway wants.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The time by which entries expire.
    pub clock: Clock,
    /// Whether commits are kept for who watches from before them.
    pub history: HistoryKept,
    /// Room on the disk that is kept for transactions that only take away, in bytes.
    pub reserve_bytes: usize,
    /// Pages past which the file cannot grow: a full disk at a known place.
    #[cfg(test)]
    pub(crate) pages_max: Option<u32>,
    /// Pages of the log after which it is folded into the file.
    #[cfg(test)]
    pub(crate) checkpoint_pages: Option<u32>,
}
