//! Where objects come from, a page after the other, as often as asked for.
//! Where they go to, and what is done to them there, is not known here.

use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};

use anyhow::Context;
use tollhouse_registry::{ForeignEntry, KEY_PREFIXES, Object};

use super::file::Reader;

/// Objects of a page: enough that they are committed together.
const PAGE_OBJECTS: usize = 256;

/// Something that was found.
pub enum Item {
    /// An object.
    Object(Object),
    /// What is not taken over.
    LeftOut(LeftOut),
}

/// What is not taken over, and why.
pub struct LeftOut {
    /// What people call it.
    pub what: String,
    /// The reason.
    pub reason: String,
    /// Whether it was to be expected: nobody has to do anything about it.
    pub is_expected: bool,
}

/// See the module.
pub trait Source {
    /// What people call it.
    fn name(&self) -> String;

    /// Begins with the first page again.
    fn rewind(&mut self) -> anyhow::Result<()>;

    /// The next page; empty at the end.
    fn next_page(&mut self) -> anyhow::Result<Vec<Item>>;
}

/// A file. It is read once for each kind of object, so that names come before what stands under them whatever
/// order its lines are in.
pub struct FileSource {
    path: PathBuf,
    reader: Reader<BufReader<File>>,
    /// Which kind is read.
    part: usize,
}

impl FileSource {
    /// Opens it, and reads it to its end: half a file is not taken for a whole one.
    pub fn open(path: &Path) -> anyhow::Result<Self> {
        let mut reader = open(path)?;
        while reader.next_entry().with_context(|| unreadable(path))?.is_some() {}
        Ok(Self { path: path.to_owned(), reader: open(path)?, part: 0 })
    }

    /// The object of an entry, if it is of the part that is read; what is none is told with the first part.
    fn item(&self, key: &str, value: &[u8]) -> Option<Item> {
        let place = KEY_PREFIXES.iter().position(|prefix| key.starts_with(prefix));
        if place.unwrap_or_default() != self.part {
            return None;
        }
        Some(match Object::from_entry(key, value) {
            Ok(object) => Item::Object(object),
            Err(foreign) => Item::LeftOut(LeftOut {
                what: format!("line {} ({key})", self.reader.line()),
                // What nodes tell each other is no object of any registry.
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
