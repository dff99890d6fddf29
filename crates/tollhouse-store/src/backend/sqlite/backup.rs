//! Writing of a copy of a store to a new file.
//!
//! The copy is written beside its destination under a temporary name, flushed, and then renamed. It
//! never replaces an existing file.

use super::error::from_sqlite;
use super::file;
use crate::error::StoreError;
use rusqlite::Connection;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};
use tollhouse_stdx::files::sync_parent;

/// Creates a file with the content that `fill` writes. The file must not exist; it appears complete
/// or not at all.
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
    // The lock is held to the end, so that the file is not taken for a leftover.
    handle.try_lock().map_err(|error| StoreError::from_io(&unfinished, &error.into()))?;
    let written = write_into(&unfinished, fill).and_then(|()| {
        handle.sync_all().map_err(|error| StoreError::from_io(&unfinished, &error))?;
        move_into_place(&unfinished, file)
    });
    if written.is_err() {
        // The file is incomplete or could not be moved; only the error above is reported.
        let _ = fs::remove_file(&unfinished);
    }
    written
}

fn write_into(
    path: &Path,
    fill: impl FnOnce(&mut Connection, &Path) -> Result<(), StoreError>,
) -> Result<(), StoreError> {
    let mut target = file::connect(path)?;
    // Flushing is not needed here: the file is deleted if anything fails, and flushed as a whole at
    // the end.
    target
        .execute_batch("PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF;")
        .map_err(|error| from_sqlite(path, &error))?;
    fill(&mut target, path)?;
    target.close().map_err(|(_, error)| from_sqlite(path, &error))
}

/// Removes temporary files of killed backups to `file`, which are recognised by a missing lock.
/// Failures to remove are harmless and ignored.
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

/// Part of a temporary name between the name of the backup and a number.
const UNFINISHED: &str = ".unfinished-";

/// Returns a name beside the file that no other backup uses, in this process or another. Includes
/// the time, because in a container each process has the same number after a restart.
fn unfinished_name(file: &Path) -> PathBuf {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let mut name = file.as_os_str().to_owned();
    name.push(format!("{UNFINISHED}{}-{}", std::process::id(), since.as_nanos()));
    PathBuf::from(name)
}

/// Moves a file without replacing another: creates a hard link and removes the old name.
fn move_into_place(from: &Path, to: &Path) -> Result<(), StoreError> {
    let to_error = |error: io::Error| StoreError::from_io(to, &error);
    match fs::hard_link(from, to) {
        Ok(()) => fs::remove_file(from).map_err(to_error)?,
        // Some file systems have no hard links; checking first is the best possible there.
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
