//! The backends, one file or folder each, and the one place where a location chooses among them.

mod apply;
mod memory;
mod sqlite;
#[cfg(test)]
mod tests;

use crate::clock::Clock;
use crate::error::StoreError;
use crate::store::Store;
use std::path::PathBuf;
use std::sync::Arc;

/// Where a store lives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Location {
    /// In memory, gone with the process.
    Memory,
    /// In the file `store.db` of this data directory, which is made if need be.
    Directory(PathBuf),
}

/// How a store is opened; the default is what a gateway wants.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The time by which entries expire.
    pub clock: Clock,
    /// Pages past which the file cannot grow: a full disk at a known place.
    #[cfg(test)]
    pub(crate) pages_max: Option<u32>,
    /// Pages of the log after which it is folded into the file.
    #[cfg(test)]
    pub(crate) checkpoint_pages: Option<u32>,
}

/// Opens a store. It closes when the last reference to it goes.
///
/// Opening and closing a file block the calling thread, for a fraction of a second at most; nothing
/// else does. A process that hands over to a successor must close its store before that one opens it.
///
/// # Errors
///
/// Nothing is overwritten when this fails: see [`StoreError`] for what each failure asks for.
pub fn open(location: &Location) -> Result<Arc<dyn Store>, StoreError> {
    open_with(location, &Options::default())
}

/// Opens a store in another way than the default.
///
/// # Errors
///
/// As for [`open`].
pub fn open_with(location: &Location, options: &Options) -> Result<Arc<dyn Store>, StoreError> {
    match location {
        Location::Memory => Ok(Arc::new(memory::MemoryStore::open(options)?)),
        Location::Directory(directory) => {
            Ok(Arc::new(sqlite::SqliteStore::open(directory, options)?))
        }
    }
}
