//! A store seen from outside: read and copied without its lock, while a gateway may have it open.
//!
//! Only through connections that cannot write, and that leave the log for its owner to fold: what
//! runs goes on as if nobody looked. Each function sees one revision of the store.

use super::error::from_sqlite;
use super::file::DirectoryLock;
use super::{backup, file, table};
use crate::entry::Listing;
use crate::error::StoreError;
use rusqlite::Connection;
use rusqlite::backup::{Backup, StepResult};
use std::path::{Path, PathBuf};

/// Pages copied between two reports of progress: 16 MiB, a fraction of a second.
const STEP_PAGES: i32 = 4096;

/// How far a copy has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Bytes copied.
    pub done_bytes: u64,
    /// Bytes there are to copy.
    pub total_bytes: u64,
}

/// The entries of the store in this directory whose key starts with the prefix.
pub(in crate::backend) fn read(directory: &Path, prefix: &str) -> Result<Listing, StoreError> {
    let (path, mut connection) = open(directory)?;
    table::list(&mut connection, prefix).map_err(|error| from_sqlite(&path, &error))
}

/// The same where no other process has the store open and its disk is full: nothing is written that takes room.
pub(in crate::backend) fn read_alone(
    directory: &Path,
    prefix: &str,
) -> Result<Listing, StoreError> {
    let _lock = DirectoryLock::take(directory)?;
    let path = directory.join(file::STORE_FILE);
    let mut connection = file::connect_alone(&path)?;
    table::list(&mut connection, prefix).map_err(|error| from_sqlite(&path, &error))
}

/// Copies the store in this directory to a file that must not exist yet.
pub(in crate::backend) fn copy(
    directory: &Path,
    target: &Path,
    progress: &mut dyn FnMut(Progress),
) -> Result<(), StoreError> {
    let (path, source) = open(directory)?;
    let to_error = |error| from_sqlite(&path, &error);
    let page_bytes: u32 =
        source.query_row("PRAGMA page_size", [], |row| row.get(0)).map_err(to_error)?;
    // All steps copy what this transaction sees, whatever is committed meanwhile.
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
