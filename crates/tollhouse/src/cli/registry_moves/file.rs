//! File format of a registry: JSON, one object per line, as in the registry's store. The first line
//! names the format, the last has the number of objects, so that a truncated file is detected.

use std::io::{BufRead, Read, Write};

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tollhouse_store::{Entry, limits};

/// Format version that this build writes, and the newest that it reads.
pub const FORMAT: u64 = 1;

/// Maximum length of a line: the largest value of a store in base64, with its key.
const LINE_BYTES_MAX: usize = 2 * limits::VALUE_BYTES_MAX;

/// Key and value of a line.
pub type KeyValue = (Box<str>, Vec<u8>);

/// First line of the file: format and origin.
#[derive(Debug, Serialize, Deserialize)]
struct First {
    #[serde(rename = "tollhouse-registry")]
    format: u64,
    /// Version of the program that wrote the file, for information.
    #[serde(default)]
    version: String,
    /// Revision of the store, for information.
    #[serde(default)]
    revision: u64,
}

/// Last line of the file, which proves that it is complete.
#[derive(Debug, Serialize, Deserialize)]
struct Last {
    end: u64,
}

/// Line for one object, between first and last line: a JSON value, or base64 for other bytes.
#[derive(Debug, Serialize, Deserialize)]
struct Line {
    key: Box<str>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    value: Option<Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    base64: Option<String>,
}

/// Reason why a file cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// The first line is not that of an export.
    #[error("not a registry export: unexpected first line. tollhouse export registry writes one")]
    Foreign,
    /// A newer version wrote the file.
    #[error(
        "it has format {0}, of a newer version; this one reads up to {FORMAT}. Use that version, or export the \
         registry with this one"
    )]
    Newer(u64),
    #[error("line {line} cannot be read: {reason}")]
    Line {
        /// Number of the line, from 1.
        line: u64,
        reason: String,
    },
    /// The last line is missing, so the file is truncated.
    #[error("it is incomplete: its last line is missing. Copy or write it again")]
    Incomplete,
    /// Lines are missing, or were added.
    #[error("it says that it has {said} objects and has {found}; its last line counts them")]
    Count {
        /// Number of lines that the last line states.
        said: u64,
        /// Number of lines in the file.
        found: u64,
    },
    #[error("{0}")]
    Unreadable(#[from] std::io::Error),
}

/// Writer of an export file, line by line.
pub struct Writer<W: Write> {
    out: W,
    count: u64,
}

impl<W: Write> Writer<W> {
    /// Starts a file and writes its first line.
    pub fn new(mut out: W, revision: u64) -> std::io::Result<Self> {
        let first =
            First { format: FORMAT, version: env!("CARGO_PKG_VERSION").to_owned(), revision };
        serde_json::to_writer(&mut out, &first)?;
        out.write_all(b"\n")?;
        Ok(Self { out, count: 0 })
    }

    /// Writes an entry of the registry's store as a line.
    pub fn write(&mut self, entry: &Entry) -> std::io::Result<()> {
        self.out.write_all(line(&entry.key, &entry.value)?.as_bytes())?;
        self.count += 1;
        Ok(())
    }

    /// Writes the last line, and returns the number of objects.
    pub fn finish(mut self) -> std::io::Result<(W, u64)> {
        serde_json::to_writer(&mut self.out, &Last { end: self.count })?;
        self.out.write_all(b"\n")?;
        self.out.flush()?;
        Ok((self.out, self.count))
    }
}

/// Formats a key and its value as a line.
pub fn line(key: &str, value: &[u8]) -> std::io::Result<String> {
    let json: Option<Value> = serde_json::from_slice(value).ok();
    // JSON that a reader would not reproduce byte by byte is written as base64.
    let json = json.filter(|json| {
        !json.is_null() && serde_json::to_vec(json).is_ok_and(|bytes| bytes == value)
    });
    let base64 = json.is_none().then(|| BASE64.encode(value));
    let line = Line { key: key.into(), value: json, base64 };
    Ok(serde_json::to_string(&line)? + "\n")
}

/// Reader of an export file, line by line.
#[derive(Debug)]
pub struct Reader<R> {
    input: R,
    line: u64,
    count: u64,
    text: Vec<u8>,
    is_over: bool,
}

impl<R: BufRead> Reader<R> {
    /// Reads and checks the first line.
    pub fn new(input: R) -> Result<Self, FileError> {
        let mut reader = Self { input, line: 0, count: 0, text: Vec::new(), is_over: false };
        if !reader.next_line()? {
            return Err(FileError::Foreign);
        }
        let first: First = serde_json::from_slice(&reader.text).map_err(|_| FileError::Foreign)?;
        if first.format > FORMAT {
            return Err(FileError::Newer(first.format));
        }
        Ok(reader)
    }

    /// Returns the next key and value; `None` after the last line, which must be present.
    pub fn next_entry(&mut self) -> Result<Option<KeyValue>, FileError> {
        if self.is_over {
            return Ok(None);
        }
        if !self.next_line()? {
            return Err(FileError::Incomplete);
        }
        if let Ok(Last { end: said }) = serde_json::from_slice(&self.text) {
            let found = self.count;
            if said != found || self.next_line()? {
                return Err(FileError::Count { said, found });
            }
            self.is_over = true;
            return Ok(None);
        }
        self.count += 1;
        let (key, value) = entry(&self.text).map_err(|reason| self.unreadable(reason))?;
        Ok(Some((key, value)))
    }

    /// Returns the number of the last line read, from 1.
    pub fn line(&self) -> u64 {
        self.line
    }

    fn unreadable(&self, reason: LineError) -> FileError {
        FileError::Line { line: self.line, reason: reason.to_string() }
    }

    /// Reads the next line that is not blank. Returns `false` at the end.
    fn next_line(&mut self) -> Result<bool, FileError> {
        loop {
            self.text.clear();
            let mut bounded = self.input.by_ref().take(LINE_BYTES_MAX as u64 + 1);
            if bounded.read_until(b'\n', &mut self.text)? == 0 {
                return Ok(false);
            }
            self.line += 1;
            if self.text.len() > LINE_BYTES_MAX {
                return Err(self.unreadable(LineError::Long));
            }
            if !self.text.trim_ascii().is_empty() {
                return Ok(true);
            }
        }
    }
}

/// Reason why a line is malformed.
#[derive(Debug, thiserror::Error)]
enum LineError {
    #[error("it is longer than any object")]
    Long,
    #[error("{0}")]
    Json(#[from] serde_json::Error),
    #[error("{0}")]
    Base64(#[from] base64::DecodeError),
    #[error("it has no value")]
    NoValue,
}

fn entry(text: &[u8]) -> Result<KeyValue, LineError> {
    let line: Line = serde_json::from_slice(text)?;
    let value = match (line.value, line.base64) {
        (Some(value), None) => serde_json::to_vec(&value)?,
        (None, Some(text)) => BASE64.decode(text)?,
        _ => return Err(LineError::NoValue),
    };
    Ok((line.key, value))
}

#[cfg(test)]
mod tests {
    use tollhouse_store::Revision;

    use super::*;

    fn written(entries: &[(&str, &[u8])]) -> Vec<u8> {
        let mut writer = Writer::new(Vec::new(), 7).expect("memory");
        for (key, value) in entries {
            let entry = Entry {
                key: (*key).into(),
                value: value.to_vec().into(),
                create_revision: Revision(1),
                mod_revision: Revision(1),
                expires_at_ms: None,
            };
            writer.write(&entry).expect("memory");
        }
        writer.finish().expect("memory").0
    }

    fn read(bytes: &[u8]) -> Result<Vec<KeyValue>, FileError> {
        let mut reader = Reader::new(bytes)?;
        let mut found = Vec::new();
        while let Some(entry) = reader.next_entry()? {
            found.push(entry);
        }
        Ok(found)
    }

    #[test]
    fn what_is_written_is_read_whatever_the_bytes_are() {
        // Every length, with bytes that are JSON, text or neither, from a fixed series of numbers.
        let mut seed = 0x2545_f491_u32;
        let mut next = || {
            seed ^= seed << 13;
            seed ^= seed >> 17;
            seed ^= seed << 5;
            seed
        };
        for length in 0..200_usize {
            let bytes: Vec<u8> = (0..length).map(|_| next() as u8).collect();
            let json = format!("{{\"n\":{},\"t\":\"{}\"}}", next(), "ä\\n".repeat(length));
            let entries: [(&str, &[u8]); 3] =
                [("/a", &bytes), ("/ключ\n", json.as_bytes()), ("/c", b"null")];
            let read = read(&written(&entries)).expect("it is whole");
            let expected: Vec<(Box<str>, Vec<u8>)> =
                entries.iter().map(|(key, value)| ((*key).into(), value.to_vec())).collect();
            assert_eq!(read, expected, "{length}");
        }
    }

    #[test]
    fn half_a_file_and_a_foreign_one_are_refused_with_what_helps() {
        let whole = written(&[("/a", b"{}"), ("/b", b"{}")]);
        let text = String::from_utf8(whole.clone()).expect("it is text");
        let lines: Vec<&str> = text.lines().collect();
        let table = [
            (String::new(), "not a registry export"),
            ("routes: []\n".to_owned(), "not a registry export"),
            (text.replace("registry\":1", "registry\":2"), "has format 2, of a newer version"),
            (lines[..3].join("\n"), "it is incomplete"),
            (format!("{}\n{}\n{}\n", lines[0], lines[1], lines[3]), "2 objects and has 1"),
            (format!("{text}{}\n", lines[1]), "2 objects and has 2"),
            (text.replacen("{\"key", "key", 1), "line 2 cannot be read"),
            (text.replacen("\"value\":{}", "\"x\":1", 1), "line 2 cannot be read: it has no value"),
            (text.replacen("/a", &"a".repeat(LINE_BYTES_MAX), 1), "longer than any object"),
        ];
        for (text, expected) in table {
            let error = read(text.as_bytes()).expect_err("it is refused").to_string();
            assert!(error.contains(expected), "{expected}: {error}");
        }
        assert_eq!(read(&whole).map(|found| found.len()).ok(), Some(2));
    }
}
