//! Changes since a copy of the store was made, in a file that is only ever appended to: a change costs its own size, not
//! that of all objects.
//!
//! The first line says whether the journal goes on from the one before it. Each further line is a record behind its
//! checksum. A record that is not whole ends a journal: the process was killed while it wrote.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Write};
use std::ops::Range;
use std::sync::Arc;

use aws_lc_rs::digest::{Context, SHA256};
use serde::{Deserialize, Serialize};

use super::{StoreCopy, UnusableCopy, hex, parse, private_file};

/// Letters of a checksum.
const CHECKSUM_LETTERS: usize = 16;

/// The first line.
#[derive(Debug, Serialize, Deserialize)]
struct Header {
    /// Whether the journal continues the previous journal, rather than a copy that may be unfinished.
    continues: bool,
}

/// Changes that went into service together.
#[derive(Debug, Serialize, Deserialize, PartialEq, Eq)]
pub(super) struct Record {
    /// The store's revision with them.
    pub(super) revision: u64,
    /// Time, in seconds since 1970.
    pub(super) at: u64,
    /// Keys with their values; without one where the key is gone.
    pub(super) changes: Vec<(String, Option<String>)>,
}

/// State that a new journal continues.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Base {
    /// The journal before it.
    Journal,
    /// A copy that is being written.
    Copy,
}

/// A journal that is written.
#[derive(Debug)]
pub(super) struct Journal {
    file: Arc<File>,
    /// Bytes of whole records.
    pub(super) bytes: u64,
}

impl Journal {
    /// Begins one.
    ///
    /// # Errors
    /// The file cannot be made.
    pub(super) fn begin(copy: &StoreCopy, number: u64, base: Base) -> io::Result<Self> {
        let mut file = private_file().append(true).open(copy.journal_path(number))?;
        file.set_len(0)?;
        let header = serde_json::to_string(&Header { continues: base == Base::Journal })?;
        writeln!(file, "{header}")?;
        let bytes = file.metadata()?.len();
        Ok(Self { file: Arc::new(file), bytes })
    }

    /// Appends a record, whole or not at all. It outlasts the process; a loss of power only once it is flushed.
    ///
    /// # Errors
    /// The disk is full, or fails.
    pub(super) fn append(&mut self, record: &Record) -> io::Result<()> {
        let record = serde_json::to_string(record)?;
        let line = format!("{} {record}\n", checksum(&record));
        if let Err(error) = (&*self.file).write_all(line.as_bytes()) {
            // What is left of it would end the journal for whoever reads it, too.
            let _ = self.file.set_len(self.bytes);
            return Err(error);
        }
        self.bytes += line.len() as u64;
        Ok(())
    }

    /// The file, to be flushed.
    pub(super) fn file(&self) -> Arc<File> {
        Arc::clone(&self.file)
    }
}

/// Reads the journal that a copy names, and those that go on from it, as far as they are whole.
///
/// # Errors
/// One of them cannot be read.
pub(super) fn replay(
    copy: &StoreCopy,
    numbers: Range<u64>,
    take: &mut dyn FnMut(Record),
) -> Result<(), UnusableCopy> {
    let first = numbers.start;
    if first == 0 {
        // Copies of the first format have none.
        return Ok(());
    }
    for number in numbers {
        let file = match File::open(copy.journal_path(number)) {
            Ok(file) => BufReader::new(file),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(error.into()),
        };
        if replay_one(file, number == first, take)? == Ending::Broken {
            return Ok(());
        }
    }
    Ok(())
}

/// How a journal ends.
#[derive(PartialEq, Eq)]
enum Ending {
    Whole,
    /// Damaged or cut off: later journals may not continue it.
    Broken,
}

fn replay_one(
    mut file: BufReader<File>,
    is_first: bool,
    take: &mut dyn FnMut(Record),
) -> Result<Ending, UnusableCopy> {
    let mut line = Vec::new();
    let mut header: Option<Header> = None;
    loop {
        line.clear();
        if file.read_until(b'\n', &mut line)? == 0 {
            return Ok(if header.is_some() { Ending::Whole } else { Ending::Broken });
        }
        let text = line.strip_suffix(b"\n").and_then(|line| std::str::from_utf8(line).ok());
        let Some(text) = text else { return Ok(Ending::Broken) };
        if header.is_none() {
            let Ok(first) = parse::<Header>(text) else { return Ok(Ending::Broken) };
            if !is_first && !first.continues {
                return Ok(Ending::Broken);
            }
            header = Some(first);
            continue;
        }
        let record = text.split_once(' ').filter(|(sum, record)| *sum == checksum(record));
        let record = record.and_then(|(_, record)| parse(record).ok());
        let Some(record) = record else { return Ok(Ending::Broken) };
        take(record);
    }
}

fn checksum(record: &str) -> String {
    let mut checksum = Context::new(&SHA256);
    checksum.update(record.as_bytes());
    let mut letters = hex(checksum);
    letters.truncate(CHECKSUM_LETTERS);
    letters
}
