//! The backends, one file or folder each, and the one place where a location chooses among them.

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

/// Reads the entries under a prefix from the store of a data directory, as of one revision, whether
/// or not another process has it open. Nothing is written, and nothing that runs is held up.
///
/// # Errors
///
/// There is no store, it may not be read, or it is damaged or of another version.
pub fn read_directory(directory: &Path, prefix: &str) -> Result<Listing, StoreError> {
    sqlite::read(directory, prefix)
}

/// The same for a store that no other process has open, on a disk that has no room to open it.
///
/// # Errors
///
/// As for [`read_directory`]; and another process has it open.
pub fn read_directory_alone(directory: &Path, prefix: &str) -> Result<Listing, StoreError> {
    sqlite::read_alone(directory, prefix)
}

/// Copies the store of a data directory, as of one revision, to a file that must not exist yet,
/// whether or not another process has it open. As `store.db` in an empty data directory, the copy
/// opens as a store. Every 16 MiB `progress` is called.
///
/// # Errors
///
/// As for [`read_directory`]; and the file exists, or cannot be written.
pub fn backup_directory(
    directory: &Path,
    file: &Path,
    progress: &mut dyn FnMut(Progress),
) -> Result<(), StoreError> {
    sqlite::copy(directory, file, progress)
}
