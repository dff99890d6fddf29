//! Reserve of disk space: a file of some megabytes beside the store, deleted when the disk is full,
//! so that removals can still be written. Its content has no meaning.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Name of the file in the data directory.
const RESERVE_FILE: &str = "store.reserve";

/// Interval between attempts to create the reserve again; a full disk usually stays full for a
/// while.
const RETRY: Duration = Duration::from_secs(60);

/// Number of bytes per write.
const PIECE_BYTES: usize = 64 * 1024;

pub(super) struct Reserve {
    path: PathBuf,
    bytes: usize,
    is_held: bool,
    tried_at: Option<Instant>,
}

impl Reserve {
    /// Describes a reserve of `bytes` bytes beside this store's file, without creating it. With 0
    /// bytes it is never created.
    pub(super) fn beside(store: &Path, bytes: usize) -> Self {
        let path = store.with_file_name(RESERVE_FILE);
        let is_held = bytes > 0 && fs::metadata(&path).is_ok_and(|file| file.len() == bytes as u64);
        Self { path, bytes, is_held, tried_at: None }
    }

    /// Deletes the reserve beside a store that cannot be opened for lack of space; returns whether
    /// it existed.
    pub(super) fn release_beside(store: &Path) -> bool {
        fs::remove_file(store.with_file_name(RESERVE_FILE)).is_ok()
    }

    /// Creates the reserve if space allows and the last attempt was not too recent.
    pub(super) fn keep(&mut self) {
        let is_early = self.tried_at.is_some_and(|at| at.elapsed() < RETRY);
        if self.is_held || self.bytes == 0 || is_early {
            return;
        }
        self.tried_at = Some(Instant::now());
        self.is_held = has_room(&self.path, self.bytes) && fill(&self.path, self.bytes).is_ok();
        if !self.is_held {
            // A partial reserve would take space without being of use. If it cannot be removed,
            // nothing more can be done.
            let _ = fs::remove_file(&self.path);
        }
    }

    /// Deletes the reserve; returns whether it existed.
    pub(super) fn release(&mut self) -> bool {
        let was_held = std::mem::take(&mut self.is_held);
        self.tried_at = Some(Instant::now());
        was_held && fs::remove_file(&self.path).is_ok()
    }
}

/// Whether the file system has space for twice as many bytes. A reserve that took the last space
/// would make other writers fail, if only until it is deleted.
fn has_room(path: &Path, bytes: usize) -> bool {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let free = rustix::fs::statvfs(folder.unwrap_or(Path::new(".")));
    // If the system does not report the free space, the write itself will tell.
    free.map_or(true, |free| free.f_bavail.saturating_mul(free.f_frsize) >= 2 * bytes as u64)
}

/// Writes noise, so that no file system compresses it.
fn fill(path: &Path, bytes: usize) -> io::Result<()> {
    let mut file =
        OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path)?;
    // Xorshift; its quality is sufficient here.
    let mut noise = 0x9e37_79b9_7f4a_7c15_u64;
    let mut next = || {
        noise ^= noise << 13;
        noise ^= noise >> 7;
        noise ^= noise << 17;
        noise.to_le_bytes()
    };
    let mut left = bytes;
    while left > 0 {
        let piece: Vec<u8> = (0..PIECE_BYTES / size_of::<u64>()).flat_map(|_| next()).collect();
        let count = left.min(piece.len());
        file.write_all(&piece[..count])?;
        left -= count;
    }
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reserve_is_kept_given_up_once_and_found_again() {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let store = directory.path().join("store.db");
        let mut reserve = Reserve::beside(&store, 100_000);
        assert!(!reserve.is_held && !reserve.release());
        reserve.tried_at = None;
        reserve.keep();
        let length = || fs::metadata(directory.path().join(RESERVE_FILE)).map(|file| file.len());
        assert_eq!((reserve.is_held, length().ok()), (true, Some(100_000)));
        assert!(Reserve::beside(&store, 100_000).is_held);
        assert!(reserve.release() && !reserve.release());
        assert!(length().is_err());
        reserve.keep();
        assert!(!reserve.is_held, "not at once");
        let mut none = Reserve::beside(&store, 0);
        none.keep();
        assert!(!none.is_held);
    }
}
