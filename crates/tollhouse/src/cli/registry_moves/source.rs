//! Sources of objects for an import. A source is read in pages, and can be read several times.

use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};

use anyhow::Context;
use tollhouse_registry::{ForeignEntry, KEY_PREFIXES, Object};

use super::file::Reader;

/// Number of objects per page; the objects of a page are committed together.
const PAGE_OBJECTS: usize = 256;

/// Object of a page, or one that was left out.
pub enum Item {
    Object(Object),
    /// Object that is not imported.
    LeftOut(LeftOut),
}

/// Object that is not imported, and the reason.
pub struct LeftOut {
    /// Name of the object that was left out, for messages.
    pub what: String,
    pub reason: String,
    /// Whether leaving the object out is normal and needs no action by the operator.
    pub is_expected: bool,
}

/// Source of objects; see the module documentation.
pub trait Source {
    /// Returns the path or URL of the source for messages.
    fn name(&self) -> String;

    /// Starts again with the first page.
    fn rewind(&mut self) -> anyhow::Result<()>;

    /// Returns the next page; empty at the end.
    fn next_page(&mut self) -> anyhow::Result<Vec<Item>>;
}

/// File as a source. The file is read once per kind of object, so that an object comes after the
/// objects that it refers to, whatever the order of lines.
pub struct FileSource {
    path: PathBuf,
    reader: Reader<BufReader<File>>,
    /// Index of the kind being read.
    part: usize,
}

impl FileSource {
    /// Opens the file, and reads it to its end, so that a truncated file is detected.
    pub fn open(path: &Path) -> anyhow::Result<Self> {
        let mut reader = open(path)?;
        while reader.next_entry().with_context(|| unreadable(path))?.is_some() {}
        Ok(Self { path: path.to_owned(), reader: open(path)?, part: 0 })
    }

    /// Converts an entry if it belongs to the current kind; foreign entries are reported with the
    /// first kind.
    fn item(&self, key: &str, value: &[u8]) -> Option<Item> {
        let place = KEY_PREFIXES.iter().position(|prefix| key.starts_with(prefix));
        if place.unwrap_or_default() != self.part {
            return None;
        }
        Some(match Object::from_entry(key, value) {
            Ok(object) => Item::Object(object),
            Err(foreign) => Item::LeftOut(LeftOut {
                what: format!("line {} ({key})", self.reader.line()),
                // Internal keys of nodes are not objects of a registry.
                is_expected: foreign == ForeignEntry::Key,
                reason: foreign.to_string(),
            }),
        })
    }
}

fn open(path: &Path) -> anyhow::Result<Reader<BufReader<File>>> {
    let file = File::open(path).with_context(|| unreadable(path))?;
    Reader::new(BufReader::new(file)).with_context(|| unreadable(path))
}

fn unreadable(path: &Path) -> String {
    format!("failed to read {}", path.display())
}

impl Source for FileSource {
    fn name(&self) -> String {
        self.path.display().to_string()
    }

    fn rewind(&mut self) -> anyhow::Result<()> {
        self.reader = open(&self.path)?;
        self.part = 0;
        Ok(())
    }

    fn next_page(&mut self) -> anyhow::Result<Vec<Item>> {
        let mut page = Vec::new();
        while page.len() < PAGE_OBJECTS && self.part < KEY_PREFIXES.len() {
            match self.reader.next_entry().with_context(|| unreadable(&self.path))? {
                Some((key, value)) => page.extend(self.item(&key, &value)),
                None => {
                    self.part += 1;
                    self.reader = open(&self.path)?;
                }
            }
        }
        Ok(page)
    }
}
