//! Files of a package, and their forms: a tar archive, and the cpio archive inside of an RPM.
//!
//! Names are sorted, and all files have one time, so that equal files result in equal bytes.

use anyhow::{Context, Result, bail};
use std::collections::BTreeMap;
use std::path::Path;
use std::rc::Rc;

/// Longest path in a tar header.
const PATH_BYTES_MAX: usize = 100;
const BLOCK_BYTES: usize = 512;

/// Purpose of a file, which package managers treat differently.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    Program,
    /// Kept when an operator has changed it.
    Configuration,
    Documentation,
    License,
}

#[derive(Clone)]
pub(super) enum Content {
    File { bytes: Rc<[u8]>, purpose: Purpose },
    Folder,
}

#[derive(Clone)]
pub(super) struct Entry {
    /// Permissions.
    pub(super) mode: u32,
    /// User and group by their number.
    pub(super) owner: u32,
    pub(super) content: Content,
}

impl Entry {
    pub(super) fn bytes(&self) -> &[u8] {
        match &self.content {
            Content::File { bytes, .. } => bytes,
            Content::Folder => &[],
        }
    }

    /// Permissions with the bits of the file type.
    pub(super) fn full_mode(&self) -> u32 {
        match self.content {
            Content::File { .. } => 0o100_000 | self.mode,
            Content::Folder => 0o040_000 | self.mode,
        }
    }

    pub(super) fn purpose(&self) -> Option<Purpose> {
        match self.content {
            Content::File { purpose, .. } => Some(purpose),
            Content::Folder => None,
        }
    }

    pub(super) fn is_folder(&self) -> bool {
        matches!(self.content, Content::Folder)
    }
}

/// Files by their paths without a leading slash.
#[derive(Clone, Default)]
pub(super) struct Tree {
    pub(super) entries: BTreeMap<String, Entry>,
}

impl Tree {
    /// Adds a file with the folders above it; programs can be executed.
    pub(super) fn put(&mut self, path: &str, bytes: impl Into<Rc<[u8]>>, purpose: Purpose) {
        let mode = if purpose == Purpose::Program { 0o755 } else { 0o644 };
        let content = Content::File { bytes: bytes.into(), purpose };
        self.add(path, Entry { mode, owner: 0, content });
    }

    pub(super) fn put_text(&mut self, path: &str, text: &str, purpose: Purpose) {
        self.put(path, text.as_bytes(), purpose);
    }

    /// Adds a copy of a file of this machine.
    pub(super) fn copy(&mut self, from: &Path, path: &str, purpose: Purpose) -> Result<()> {
        let bytes = std::fs::read(from).with_context(|| from.display().to_string())?;
        self.put(path, bytes, purpose);
        Ok(())
    }

    pub(super) fn add(&mut self, path: &str, entry: Entry) {
        for (end, _) in path.match_indices('/') {
            let folder = Entry { mode: 0o755, owner: 0, content: Content::Folder };
            self.entries.entry(path[..end].to_owned()).or_insert(folder);
        }
        self.entries.insert(path.to_owned(), entry);
    }

    /// Entries that are not folders.
    pub(super) fn files(&self) -> impl Iterator<Item = (&str, &Entry)> {
        self.entries.iter().filter(|(_, it)| !it.is_folder()).map(|(path, it)| (path.as_str(), it))
    }

    /// Sum of the sizes of all files in bytes.
    pub(super) fn total_bytes(&self) -> usize {
        self.files().map(|(_, entry)| entry.bytes().len()).sum()
    }

    /// Returns a tar archive in the format of POSIX (ustar), whose paths begin with `prefix`.
    pub(super) fn tar(&self, prefix: &str, time: u64) -> Result<Vec<u8>> {
        let mut archive = Vec::with_capacity(self.total_bytes() + BLOCK_BYTES * 128);
        for (path, entry) in &self.entries {
            let end = if entry.is_folder() { "/" } else { "" };
            archive.extend(tar_header(&format!("{prefix}{path}{end}"), entry, time)?);
            archive.extend_from_slice(entry.bytes());
            pad(&mut archive, BLOCK_BYTES);
        }
        archive.extend([0; 2 * BLOCK_BYTES]);
        Ok(archive)
    }

    /// Returns a cpio archive in the format "newc" with checked sizes, as RPM unpacks it. It has the
    /// files alone: packages of systems own the folders.
    pub(super) fn cpio(&self, time: u64) -> Result<Vec<u8>> {
        let mut archive = Vec::with_capacity(self.total_bytes() + BLOCK_BYTES * 128);
        for (index, (path, entry)) in self.files().enumerate() {
            let inode = u32::try_from(index + 1)?;
            let name = format!("./{path}");
            push_cpio(&mut archive, &name, entry, CpioNumbers { inode, time })?;
        }
        let end = Entry { mode: 0, owner: 0, content: Content::Folder };
        push_cpio(&mut archive, "TRAILER!!!", &end, CpioNumbers { inode: 0, time: 0 })?;
        Ok(archive)
    }
}

struct CpioNumbers {
    inode: u32,
    time: u64,
}

fn push_cpio(archive: &mut Vec<u8>, name: &str, entry: &Entry, numbers: CpioNumbers) -> Result<()> {
    let mode = if numbers.inode == 0 { 0 } else { entry.full_mode() };
    let CpioNumbers { inode, time } = numbers;
    let size = u32::try_from(entry.bytes().len())?;
    let name_bytes = name.len() + 1;
    let header = format!(
        "070701{inode:08x}{mode:08x}{:08x}{:08x}{:08x}{time:08x}{size:08x}{:08x}{:08x}{:08x}{:08x}{name_bytes:08x}{:08x}",
        0, 0, 1, 0, 0, 0, 0, 0
    );
    archive.extend_from_slice(header.as_bytes());
    archive.extend_from_slice(name.as_bytes());
    archive.push(0);
    pad(archive, 4);
    archive.extend_from_slice(entry.bytes());
    pad(archive, 4);
    Ok(())
}

fn tar_header(path: &str, entry: &Entry, time: u64) -> Result<[u8; BLOCK_BYTES]> {
    if path.len() > PATH_BYTES_MAX {
        bail!("the path {path} is longer than the {PATH_BYTES_MAX} bytes of a tar header");
    }
    let mut header = [0; BLOCK_BYTES];
    let mut set =
        |at: usize, text: &str| header[at..at + text.len()].copy_from_slice(text.as_bytes());
    set(0, path);
    set(100, &format!("{:07o}", entry.mode));
    set(108, &format!("{:07o}", entry.owner));
    set(116, &format!("{:07o}", entry.owner));
    set(124, &format!("{:011o}", entry.bytes().len()));
    set(136, &format!("{time:011o}"));
    // The sum is taken with spaces in its own field.
    set(148, "        ");
    set(156, if entry.is_folder() { "5" } else { "0" });
    set(257, "ustar\x0000");
    let sum: u32 = header.iter().map(|byte| u32::from(*byte)).sum();
    header[148..155].copy_from_slice(format!("{sum:06o}\0").as_bytes());
    Ok(header)
}

/// Appends zeros up to the next multiple of `unit`.
pub(super) fn pad(bytes: &mut Vec<u8>, unit: usize) {
    bytes.resize(bytes.len().next_multiple_of(unit), 0);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Tree {
        let mut tree = Tree::default();
        tree.put_text("usr/bin/program", "#!/bin/sh\n", Purpose::Program);
        tree.put_text("etc/program.yaml", "a: 1\n", Purpose::Configuration);
        tree
    }

    #[test]
    fn archives_are_sorted_and_have_the_folders_above_a_file() {
        let paths: Vec<String> = sample().entries.into_keys().collect();
        assert_eq!(paths, ["etc", "etc/program.yaml", "usr", "usr/bin", "usr/bin/program"]);
    }

    #[test]
    fn the_tar_program_reads_the_archive() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("a.tar");
        std::fs::write(&file, sample().tar("./", 86_400).unwrap()).unwrap();
        let mut command = std::process::Command::new("tar");
        command.args(["--utc", "--full-time", "--numeric-owner", "-tvf"]).arg(&file);
        let listing = crate::shell::capture(&mut command).unwrap();
        let lines: Vec<String> =
            listing.lines().map(|it| it.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
        assert_eq!(lines[0], "drwxr-xr-x 0/0 0 1970-01-02 00:00:00 ./etc/");
        assert_eq!(lines[4], "-rwxr-xr-x 0/0 10 1970-01-02 00:00:00 ./usr/bin/program");
        assert_eq!(lines.len(), 5);
    }

    #[test]
    fn a_path_that_no_header_holds_is_refused() {
        let mut tree = Tree::default();
        tree.put_text(&"a".repeat(101), "", Purpose::Documentation);
        assert!(tree.tar("", 0).is_err());
    }
}
