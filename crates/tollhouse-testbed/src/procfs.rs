//! Access to the `/proc` directory. Only reads; the parsers are elsewhere.

use std::fs;
use std::path::{Path, PathBuf};

/// Maximum number of descriptor entries counted individually, because walking a million would cost
/// more than the measured work. Kernels since 6.2 report the number directly.
const DESCRIPTORS_WALKED_MAX: usize = 65_536;

/// Folder `/proc`, or a recorded copy for tests.
#[derive(Debug, Clone)]
pub struct Procfs {
    root: PathBuf,
    /// Whether the size of a descriptor directory is the number of its entries.
    size_is_count: bool,
}

impl Procfs {
    /// Returns access to the system's `/proc`.
    pub fn system() -> Self {
        let own = fs::metadata("/proc/self/fd").map_or(0, |entry| entry.len());
        Self { root: PathBuf::from("/proc"), size_is_count: own > 0 }
    }

    /// Returns access to a recorded copy of `/proc`.
    pub fn at(root: &Path) -> Self {
        Self { root: root.to_owned(), size_is_count: false }
    }

    /// Reads a file; empty if it is missing or unreadable, for example for an ended process.
    pub fn text(&self, path: &str) -> String {
        let bytes = fs::read(self.root.join(path)).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// Returns the numeric names in a directory: processes, or threads of a process.
    pub fn numbers(&self, path: &str) -> impl Iterator<Item = u32> {
        let entries = fs::read_dir(self.root.join(path)).into_iter().flatten().flatten();
        entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
    }

    /// Returns the link targets of a process's descriptors, such as `socket:[4711]`.
    pub fn descriptor_links(&self, pid: u32) -> impl Iterator<Item = PathBuf> {
        let path = self.root.join(format!("{pid}/fd"));
        let entries = fs::read_dir(path).into_iter().flatten().flatten();
        entries.take(DESCRIPTORS_WALKED_MAX).filter_map(|entry| fs::read_link(entry.path()).ok())
    }

    /// Returns the number of open descriptors of a process; 0 if access is denied.
    pub fn descriptors(&self, pid: u32) -> u64 {
        let path = self.root.join(format!("{pid}/fd"));
        if self.size_is_count {
            return fs::metadata(path).map_or(0, |entry| entry.len());
        }
        fs::read_dir(path).map_or(0, |entries| entries.take(DESCRIPTORS_WALKED_MAX).count() as u64)
    }
}
