//! The backends, one file or folder each, and their selection by location.

pub mod apply;
pub mod history;
mod leases;
mod memory;
mod sqlite;
#[cfg(test)]
mod tests;

pub use sqlite::Progress;

use crate::entry::Listing;
use crate::error::StoreError;
use crate::options::{Location, Options};
use crate::store::Store;
use std::path::Path;
use std::sync::Arc;

/// Opens a store. It closes when the last reference is dropped.
///
/// Opening and closing a file block the calling thread for a fraction of a second at most; nothing
/// else blocks. A process that hands over to a successor must close its store before the successor
/// opens it.
///
/// # Errors
///
/// If the store cannot be opened; nothing is overwritten. Each variant of [`StoreError`] names its
/// remedy.
pub fn open(location: &Location) -> Result<Arc<dyn Store>, StoreError> {
    open_with(location, &Options::default())
}

/// Opens a store with options.
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

/// Reads the entries under a prefix from the store of a data directory, at one revision, even if
/// another process has it open. Writes nothing and delays no other process.
///
/// # Errors
///
/// If the store is missing, unreadable, damaged or of another version.
pub fn read_directory(directory: &Path, prefix: &str) -> Result<Listing, StoreError> {
    sqlite::read(directory, prefix)
}

/// Like [`read_directory`], for a store on a disk without space to open it, which no other process
/// may have open.
///
/// # Errors
///
/// As for [`read_directory`], and if another process has the store open.
pub fn read_directory_alone(directory: &Path, prefix: &str) -> Result<Listing, StoreError> {
    sqlite::read_alone(directory, prefix)
}

/// Copies the store of a data directory, at one revision, to a file that must not exist, even if
/// another process has the store open. As `store.db` in an empty data directory, the copy opens as
/// a store. Calls `progress` every 16 MiB.
///
/// # Errors
///
/// As for [`read_directory`], and if the file exists or cannot be written.
pub fn backup_directory(
    directory: &Path,
    file: &Path,
    progress: &mut dyn FnMut(Progress),
) -> Result<(), StoreError> {
    sqlite::copy(directory, file, progress)
}
