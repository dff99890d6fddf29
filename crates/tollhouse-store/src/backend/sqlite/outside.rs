//! Access to a store without its lock, for reading and copying while a gateway may have it open.
//!
//! Uses read-only connections that leave the log to its owner, so that a running gateway is not
//! affected. Each function sees a single revision of the store.

use super::error::from_sqlite;
use super::file::DirectoryLock;
use super::{backup, file, table};
use crate::entry::Listing;
use crate::error::StoreError;
use rusqlite::Connection;
use rusqlite::backup::{Backup, StepResult};
use std::path::{Path, PathBuf};

/// Pages copied between two progress reports: 16 MiB, which takes a fraction of a second.
const STEP_PAGES: i32 = 4096;

/// Progress of copying a store file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    pub done_bytes: u64,
    pub total_bytes: u64,
}

/// Reads the entries under a prefix from the store in this directory.
pub(in crate::backend) fn read(directory: &Path, prefix: &str) -> Result<Listing, StoreError> {
    let (path, mut connection) = open(directory)?;
    table::list(&mut connection, prefix).map_err(|error| from_sqlite(&path, &error))
}

/// Like `read`, for a store on a full disk that no other process has open: nothing is written that
/// takes space.
pub(in crate::backend) fn read_alone(
    directory: &Path,
    prefix: &str,
) -> Result<Listing, StoreError> {
    let _lock = DirectoryLock::take(directory)?;
    let path = directory.join(file::STORE_FILE);
    let mut connection = file::connect_alone(&path)?;
    table::list(&mut connection, prefix).map_err(|error| from_sqlite(&path, &error))
}

/// Copies the store in this directory to a file that must not exist.
pub(in crate::backend) fn copy(
    directory: &Path,
    target: &Path,
    progress: &mut dyn FnMut(Progress),
) -> Result<(), StoreError> {
    let (path, source) = open(directory)?;
    let to_error = |error| from_sqlite(&path, &error);
    let page_bytes: u32 =
        source.query_row("PRAGMA page_size", [], |row| row.get(0)).map_err(to_error)?;
    // The transaction makes all steps copy the same revision, whatever is committed meanwhile.
    let snapshot = source.unchecked_transaction().map_err(to_error)?;
    table::revision(&snapshot).map_err(to_error)?;
    backup::write_new(target, |target, target_path| {
        let to_error = |error| from_sqlite(target_path, &error);
        let copy = Backup::new(&snapshot, target).map_err(to_error)?;
        loop {
            let step = copy.step(STEP_PAGES).map_err(to_error)?;
            let pages = copy.progress();
            progress(progress_of(pages.pagecount, pages.remaining, page_bytes.into()));
            match step {
                StepResult::Done => return Ok(()),
                StepResult::More => {}
                _ => return Err(StoreError::InUse { path: path.clone() }),
            }
        }
    })
}

fn progress_of(pages: i32, remaining: i32, page_bytes: u64) -> Progress {
    let bytes = |pages: i32| u64::try_from(pages).unwrap_or_default() * page_bytes;
    Progress { done_bytes: bytes(pages - remaining), total_bytes: bytes(pages) }
}

fn open(directory: &Path) -> Result<(PathBuf, Connection), StoreError> {
    let path = directory.join(file::STORE_FILE);
    let connection = file::connect_to_read(&path)?;
    Ok((path, connection))
}
