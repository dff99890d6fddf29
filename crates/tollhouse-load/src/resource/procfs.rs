//! The directory that the kernel shows processes in. Only reading; what the texts mean is not known here.

use std::fs;
use std::path::{Path, PathBuf};

/// More entries of a descriptor directory than this are not counted one by one: walking a million of
/// them would cost more than what is measured. Kernels since 6.2 give the number at once.
const DESCRIPTORS_WALKED_MAX: usize = 65_536;

/// `/proc`, or a directory that looks like it.
#[derive(Debug, Clone)]
pub struct Procfs {
    root: PathBuf,
    /// Whether the size of a descriptor directory is the number of its entries.
    size_is_count: bool,
}

impl Procfs {
    /// The system's own.
    pub fn system() -> Self {
        let own = fs::metadata("/proc/self/fd").map_or(0, |entry| entry.len());
        Self { root: PathBuf::from("/proc"), size_is_count: own > 0 }
    }

    /// A copy, such as one recorded elsewhere.
    pub fn at(root: &Path) -> Self {
        Self { root: root.to_owned(), size_is_count: false }
    }

    /// A file's text; empty when it is not there or may not be read, as for a process that has ended.
    pub fn text(&self, path: &str) -> String {
        let bytes = fs::read(self.root.join(path)).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// The numeric names in a directory: processes, or the threads of one.
    pub fn numbers(&self, path: &str) -> impl Iterator<Item = u32> {
        let entries = fs::read_dir(self.root.join(path)).into_iter().flatten().flatten();
        entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
    }

    /// Where the descriptors of a process lead, such as `socket:[4711]`.
    pub fn descriptor_links(&self, pid: u32) -> impl Iterator<Item = PathBuf> {
        let path = self.root.join(format!("{pid}/fd"));
        let entries = fs::read_dir(path).into_iter().flatten().flatten();
        entries.take(DESCRIPTORS_WALKED_MAX).filter_map(|entry| fs::read_link(entry.path()).ok())
    }

    /// How many descriptors a process has open; 0 when they may not be looked at.
    pub fn descriptors(&self, pid: u32) -> u64 {
        let path = self.root.join(format!("{pid}/fd"));
        if self.size_is_count {
            return fs::metadata(path).map_or(0, |entry| entry.len());
        }
        fs::read_dir(path).map_or(0, |entries| entries.take(DESCRIPTORS_WALKED_MAX).count() as u64)
    }
}
