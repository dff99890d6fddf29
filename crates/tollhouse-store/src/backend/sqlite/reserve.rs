//! Room kept for bad times: a file of some megabytes beside the store, given up when the disk is full, so
//! that what takes entries away can still be written. Its contents mean nothing.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// The file in the data directory.
const RESERVE_FILE: &str = "store.reserve";

/// Time between two tries to have it again: a full disk stays full for a while.
const RETRY: Duration = Duration::from_secs(60);

/// Bytes written at once.
const PIECE_BYTES: usize = 64 * 1024;

pub(super) struct Reserve {
    path: PathBuf,
    bytes: usize,
    is_held: bool,
    tried_at: Option<Instant>,
}

impl Reserve {
    /// A reserve of so many bytes beside this store's file, not held yet; of none, it never is.
    pub(super) fn beside(store: &Path, bytes: usize) -> Self {
        let path = store.with_file_name(RESERVE_FILE);
        let is_held = bytes > 0 && fs::metadata(&path).is_ok_and(|file| file.len() == bytes as u64);
        Self { path, bytes, is_held, tried_at: None }
    }

    /// Gives up the reserve beside a store that cannot be opened without room; tells whether there was one.
    pub(super) fn release_beside(store: &Path) -> bool {
        fs::remove_file(store.with_file_name(RESERVE_FILE)).is_ok()
    }

    /// Takes the room, if there is any, and it was not tried just now.
    pub(super) fn keep(&mut self) {
        let is_early = self.tried_at.is_some_and(|at| at.elapsed() < RETRY);
        if self.is_held || self.bytes == 0 || is_early {
            return;
        }
        self.tried_at = Some(Instant::now());
        self.is_held = has_room(&self.path, self.bytes) && fill(&self.path, self.bytes).is_ok();
        if !self.is_held {
            // Half of it would take room and give none; where it cannot be removed, nor could more be.
            let _ = fs::remove_file(&self.path);
        }
    }

    /// Gives the room up; tells whether there was any.
    pub(super) fn release(&mut self) -> bool {
        let was_held = std::mem::take(&mut self.is_held);
        self.tried_at = Some(Instant::now());
        was_held && fs::remove_file(&self.path).is_ok()
    }
}

/// Whether the file system has room for twice as many bytes. A reserve that took the last room would make other writers
/// fail, if only until it is removed again.
fn has_room(path: &Path, bytes: usize) -> bool {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let free = rustix::fs::statvfs(folder.unwrap_or(Path::new(".")));
    // Where the system does not say, writing shows it.
    free.map_or(true, |free| free.f_bavail.saturating_mul(free.f_frsize) >= 2 * bytes as u64)
}

/// Writes bytes that no file system compresses.
fn fill(path: &Path, bytes: usize) -> io::Result<()> {
    let mut file =
        OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path)?;
    // A xorshift: noise enough.
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
