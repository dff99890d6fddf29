//! Append-only file of changes since a copy of the store, so that recording a change costs only its
//! own size.
//!
//! The first line says whether the journal continues the previous one. Each further line is a
//! checksum and a record. An incomplete record ends the journal: the process was killed while
//! writing it.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Write};
use std::ops::Range;
use std::sync::Arc;

use aws_lc_rs::digest::{Context, SHA256};
use serde::{Deserialize, Serialize};

use super::{StoreCopy, UnusableCopy, hex, parse, private_file};

/// Length of a checksum in hexadecimal digits.
const CHECKSUM_LETTERS: usize = 16;

/// First line of a journal, as JSON.
#[derive(Debug, Serialize, Deserialize)]
struct Header {
    /// Whether the journal continues the previous journal, rather than a copy that may be
    /// unfinished.
    continues: bool,
}

/// Changes that went into service together.
#[derive(Debug, Serialize, Deserialize, PartialEq, Eq)]
pub(super) struct Record {
    /// Revision of the store after the changes.
    pub(super) revision: u64,
    /// Time of the change in seconds since 1970.
    pub(super) at: u64,
    /// Keys with their new values; `None` for a deleted key.
    pub(super) changes: Vec<(String, Option<String>)>,
}

/// State that a new journal continues.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Base {
    /// Journal with the preceding number.
    Journal,
    /// A copy that is being written.
    Copy,
}

#[derive(Debug)]
pub(super) struct Journal {
    file: Arc<File>,
    /// Size of all complete records, including the header.
    pub(super) bytes: u64,
}

impl Journal {
    /// Creates a journal file.
    ///
    /// # Errors
    /// If the file cannot be created.
    pub(super) fn begin(copy: &StoreCopy, number: u64, base: Base) -> io::Result<Self> {
        let mut file = private_file().append(true).open(copy.journal_path(number))?;
        file.set_len(0)?;
        let header = serde_json::to_string(&Header { continues: base == Base::Journal })?;
        writeln!(file, "{header}")?;
        let bytes = file.metadata()?.len();
        Ok(Self { file: Arc::new(file), bytes })
    }

    /// Appends a record, completely or not at all. The record survives a crash of the process at
    /// once, and a power failure once the file is flushed.
    ///
    /// # Errors
    /// If the disk is full or fails.
    pub(super) fn append(&mut self, record: &Record) -> io::Result<()> {
        let record = serde_json::to_string(record)?;
        let line = format!("{} {record}\n", checksum(&record));
        if let Err(error) = (&*self.file).write_all(line.as_bytes()) {
            // Removes a partial record, because it would end the journal for readers.
            let _ = self.file.set_len(self.bytes);
            return Err(error);
        }
        self.bytes += line.len() as u64;
        Ok(())
    }

    pub(super) fn file(&self) -> Arc<File> {
        Arc::clone(&self.file)
    }
}

/// Replays the first journal in `numbers` and those that continue it, up to the first incomplete
/// record.
///
/// # Errors
/// If a journal cannot be read.
pub(super) fn replay(
    copy: &StoreCopy,
    numbers: Range<u64>,
    take: &mut dyn FnMut(Record),
) -> Result<(), UnusableCopy> {
    let first = numbers.start;
    if first == 0 {
        // Copies in format 1 have no journal.
        return Ok(());
    }
    for number in numbers {
        let file = match File::open(copy.journal_path(number)) {
            Ok(file) => BufReader::new(file),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(error.into()),
        };
        let position = if number == first { Position::First } else { Position::Later };
        if replay_one(file, position, take)? == Ending::Broken {
            return Ok(());
        }
    }
    Ok(())
}

/// Position of a journal among those to replay.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Position {
    First,
    /// Must continue the journal before it.
    Later,
}

/// State of a journal's last record.
#[derive(PartialEq, Eq)]
enum Ending {
    Whole,
    /// Damaged or cut off: later journals may not continue it.
    Broken,
}

fn replay_one(
    mut file: BufReader<File>,
    position: Position,
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
            if position == Position::Later && !first.continues {
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
