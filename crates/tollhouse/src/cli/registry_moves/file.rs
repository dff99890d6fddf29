//! A registry as a file: JSON, one object a line, as the registry's store has them. The first line says which
//! format it is, the last how many objects there are, so that half a file is not taken for a whole one.

use std::io::{BufRead, Read, Write};

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tollhouse_store::{Entry, limits};

/// The format that this version writes, and the newest that it reads.
pub const FORMAT: u64 = 1;

/// Bytes of the longest line: the largest value that a store takes, in base64, with its key.
const LINE_BYTES_MAX: usize = 2 * limits::VALUE_BYTES_MAX;

/// What a line has: a key and its value.
pub type KeyValue = (Box<str>, Vec<u8>);

/// The first line.
#[derive(Debug, Serialize, Deserialize)]
struct First {
    #[serde(rename = "tollhouse-registry")]
    format: u64,
    /// Who wrote it, for people.
    #[serde(default)]
    version: String,
    /// The revision of the store that all of it is of, for people.
    #[serde(default)]
    revision: u64,
}

/// The last line.
#[derive(Debug, Serialize, Deserialize)]
struct Last {
    end: u64,
}

/// A line between them: a value that is JSON, as it is read, or any bytes.
#[derive(Debug, Serialize, Deserialize)]
struct Line {
    key: Box<str>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    value: Option<Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    base64: Option<String>,
}

/// Why a file cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// It has another beginning.
    #[error(
        "it is no registry's file: its first line is not that of one. tollhouse export registry writes one"
    )]
    Foreign,
    /// A newer version wrote it.
    #[error(
        "it has format {0}, of a newer version; this one reads up to {FORMAT}. Use that version, or export the \
         registry with this one"
    )]
    Newer(u64),
    /// A line is none.
    #[error("line {line} cannot be read: {reason}")]
    Line {
        /// Which, from 1.
        line: u64,
        /// What is wrong with it.
        reason: String,
    },
    /// The end is missing.
    #[error("it is incomplete: its last line is missing. Copy or write it again")]
    Incomplete,
    /// Lines are missing, or were added.
    #[error("it says that it has {said} objects and has {found}; its last line counts them")]
    Count {
        /// By its last line.
        said: u64,
        /// As counted.
        found: u64,
    },
    /// It cannot be read.
    #[error("{0}")]
    Unreadable(#[from] std::io::Error),
}

/// Writes a file, an object after the other.
pub struct Writer<W: Write> {
    out: W,
    count: u64,
}

impl<W: Write> Writer<W> {
    /// Begins it.
    pub fn new(mut out: W, revision: u64) -> std::io::Result<Self> {
        let first =
            First { format: FORMAT, version: env!("CARGO_PKG_VERSION").to_owned(), revision };
        serde_json::to_writer(&mut out, &first)?;
        out.write_all(b"\n")?;
        Ok(Self { out, count: 0 })
    }

    /// Adds an entry of a store.
    pub fn write(&mut self, entry: &Entry) -> std::io::Result<()> {
        self.out.write_all(line(&entry.key, &entry.value)?.as_bytes())?;
        self.count += 1;
        Ok(())
    }

    /// Ends it; how many objects it has.
    pub fn finish(mut self) -> std::io::Result<(W, u64)> {
        serde_json::to_writer(&mut self.out, &Last { end: self.count })?;
        self.out.write_all(b"\n")?;
        self.out.flush()?;
        Ok((self.out, self.count))
    }
}

/// The line of a key and its value.
pub fn line(key: &str, value: &[u8]) -> std::io::Result<String> {
    let json: Option<Value> = serde_json::from_slice(value).ok();
    // What would not be read back byte by byte is no text for people.
    let json = json.filter(|json| {
        !json.is_null() && serde_json::to_vec(json).is_ok_and(|bytes| bytes == value)
    });
    let base64 = json.is_none().then(|| BASE64.encode(value));
    let line = Line { key: key.into(), value: json, base64 };
    Ok(serde_json::to_string(&line)? + "\n")
}

/// Reads a file, an object after the other.
#[derive(Debug)]
pub struct Reader<R> {
    input: R,
    line: u64,
    count: u64,
    text: Vec<u8>,
    is_over: bool,
}

impl<R: BufRead> Reader<R> {
    /// Begins; refuses what is no such file.
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

    /// The next key and value; none at the end, which must be there.
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

    /// The line that was read last, from 1.
    pub fn line(&self) -> u64 {
        self.line
    }

    fn unreadable(&self, reason: LineError) -> FileError {
        FileError::Line { line: self.line, reason: reason.to_string() }
    }

    /// Reads a line that is not blank; `false` at the end.
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

/// Why a line is none.
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
        // Every length, and bytes that are JSON, text, or neither: by a fixed series of numbers.
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
            (String::new(), "no registry's file"),
            ("routes: []\n".to_owned(), "no registry's file"),
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
