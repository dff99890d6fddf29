//! The file that a copy of a store is written to.
//!
//! A copy is written beside its place under another name, flushed, and takes its place whole; it
//! never takes the place of a file that is there.

use super::error::from_sqlite;
use super::file;
use crate::error::StoreError;
use rusqlite::Connection;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};
use tollhouse_stdx::files::sync_parent;

/// Has a file written that must not exist yet; it appears whole or not at all.
pub(super) fn write_new(
    file: &Path,
    fill: impl FnOnce(&mut Connection, &Path) -> Result<(), StoreError>,
) -> Result<(), StoreError> {
    if fs::symlink_metadata(file).is_ok() {
        return Err(StoreError::FileExists { path: file.to_owned() });
    }
    remove_leftovers(file);
    let unfinished = unfinished_name(file);
    let handle = file::create_private(&unfinished)?;
    // Held to the end, so that nobody takes it for a leftover.
    handle.try_lock().map_err(|error| StoreError::from_io(&unfinished, &error.into()))?;
    let written = write_into(&unfinished, fill).and_then(|()| {
        handle.sync_all().map_err(|error| StoreError::from_io(&unfinished, &error))?;
        move_into_place(&unfinished, file)
    });
    if written.is_err() {
        // It is incomplete or could not be moved, and the error that counts is the one above.
        let _ = fs::remove_file(&unfinished);
    }
    written
}

fn write_into(
    path: &Path,
    fill: impl FnOnce(&mut Connection, &Path) -> Result<(), StoreError>,
) -> Result<(), StoreError> {
    let mut target = file::connect(path)?;
    // The file is thrown away if anything fails, and flushed as a whole when all is written.
    target
        .execute_batch("PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF;")
        .map_err(|error| from_sqlite(path, &error))?;
    fill(&mut target, path)?;
    target.close().map_err(|(_, error)| from_sqlite(path, &error))
}

/// Removes what backups to this file have left that were killed: nobody holds a lock on those. What
/// cannot be removed harms nobody.
fn remove_leftovers(file: &Path) {
    let (Some(name), Some(folder)) = (file.file_name(), file.parent()) else { return };
    let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    let mut start = name.to_owned();
    start.push(UNFINISHED);
    let Ok(entries) = fs::read_dir(folder) else { return };
    for entry in entries.flatten() {
        let is_ours = entry.file_name().as_encoded_bytes().starts_with(start.as_encoded_bytes());
        if !is_ours {
            continue;
        }
        let is_left = fs::File::open(entry.path()).is_ok_and(|left| left.try_lock().is_ok());
        if is_left {
            let _ = fs::remove_file(entry.path());
        }
    }
}

/// Stands between the name of a backup and a number, until it is whole.
const UNFINISHED: &str = ".unfinished-";

/// A name beside the file that no other backup uses, of this process or another. A process in a
/// container has the same number at each start, hence the time.
fn unfinished_name(file: &Path) -> PathBuf {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let mut name = file.as_os_str().to_owned();
    name.push(format!("{UNFINISHED}{}-{}", std::process::id(), since.as_nanos()));
    PathBuf::from(name)
}

/// Moves a file without replacing another: a second name, then the first one goes.
fn move_into_place(from: &Path, to: &Path) -> Result<(), StoreError> {
    let to_error = |error: io::Error| StoreError::from_io(to, &error);
    match fs::hard_link(from, to) {
        Ok(()) => fs::remove_file(from).map_err(to_error)?,
        // Some file systems know no second names; there, looking first is all that can be done.
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
            if fs::symlink_metadata(to).is_ok() {
                return Err(StoreError::FileExists { path: to.to_owned() });
            }
            fs::rename(from, to).map_err(to_error)?;
        }
        Err(error) => return Err(to_error(error)),
    }
    sync_parent(to).map_err(to_error)
}
