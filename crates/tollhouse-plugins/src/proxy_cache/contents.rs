//! List of the files of a zone on the disk, with their sizes, last uses and expiry times. Bounded
//! in bytes of the disk and in bytes of memory.

use std::collections::{BTreeMap, HashMap};

/// Length of a name in bytes: half a SHA-256.
pub(super) const NAME_BYTES: usize = 16;

pub(super) type Name = [u8; NAME_BYTES];

/// Bytes of memory that a file costs: its places in two tables that are three quarters full.
const ENTRY_BYTES: u64 = 128;

#[derive(Debug, Clone, Copy)]
pub(super) struct File {
    used: u64,
    bytes: u64,
    expires_unix_s: u32,
}

impl File {
    /// Describes a file of `bytes` on the disk that expires at `expires_unix_s`.
    pub fn new(bytes: u64, expires_unix_s: u32) -> Self {
        Self { used: 0, bytes, expires_unix_s }
    }
}

pub(super) struct Contents {
    bytes_max: u64,
    files_max: usize,
    files: HashMap<Name, File>,
    /// Names of files in the order of their last use.
    order: BTreeMap<u64, Name>,
    bytes: u64,
    clock: u64,
}

impl Contents {
    /// Creates an empty list, limited to `bytes_max` of the disk and `names_bytes` of memory.
    pub fn new(bytes_max: u64, names_bytes: u64) -> Self {
        Self {
            bytes_max,
            files_max: usize::try_from(names_bytes / ENTRY_BYTES).unwrap_or(usize::MAX),
            files: HashMap::new(),
            order: BTreeMap::new(),
            bytes: 0,
            clock: 0,
        }
    }

    /// Adds a file, or replaces the file called `name`. Returns the names of files that must be
    /// removed to make room.
    pub fn put(&mut self, name: Name, file: File) -> Vec<Name> {
        self.remove(&name);
        self.clock += 1;
        self.bytes += file.bytes;
        self.order.insert(self.clock, name);
        self.files.insert(name, File { used: self.clock, ..file });
        let mut pushed_out = Vec::new();
        while self.bytes > self.bytes_max || self.files.len() > self.files_max {
            let Some((_, name)) = self.order.first_key_value() else { break };
            let name = *name;
            self.remove(&name);
            pushed_out.push(name);
        }
        pushed_out
    }

    /// Records a use of a file now.
    pub fn touch(&mut self, name: &Name) {
        let Some(file) = self.files.get_mut(name) else { return };
        self.order.remove(&file.used);
        self.clock += 1;
        file.used = self.clock;
        self.order.insert(self.clock, *name);
    }

    /// Removes a file from the index.
    pub fn remove(&mut self, name: &Name) {
        if let Some(file) = self.files.remove(name) {
            self.order.remove(&file.used);
            self.bytes -= file.bytes;
        }
    }

    /// Removes the files that have expired by `unix_s` from the list, and returns their names.
    pub fn take_expired(&mut self, unix_s: u32) -> Vec<Name> {
        let expired = self.files.iter().filter(|(_, file)| file.expires_unix_s < unix_s);
        let names: Vec<Name> = expired.map(|(name, _)| *name).collect();
        names.iter().for_each(|name| self.remove(name));
        names
    }

    /// Returns the number of bytes that all files take on the disk.
    #[cfg(test)]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.files.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_bounded_in_memory_and_what_was_asked_for_stays() {
        let mut contents = Contents::new(u64::MAX, 3 * ENTRY_BYTES);
        for name in 1..=3_u8 {
            assert!(contents.put([name; NAME_BYTES], File::new(1, 9)).is_empty());
        }
        contents.touch(&[1; NAME_BYTES]);
        assert_eq!(contents.put([4; NAME_BYTES], File::new(1, 9)), [[2; NAME_BYTES]]);
        assert_eq!((contents.len(), contents.bytes()), (3, 3));
    }

    #[test]
    fn a_file_that_is_written_again_counts_once() {
        let mut contents = Contents::new(10, 1 << 20);
        contents.put([1; NAME_BYTES], File::new(7, 9));
        assert!(contents.put([1; NAME_BYTES], File::new(8, 9)).is_empty());
        assert_eq!(contents.bytes(), 8);
        assert_eq!(contents.put([2; NAME_BYTES], File::new(11, 9)).len(), 2);
    }
}
