//! The file of one kept answer: a mark, the length of a JSON head, the head, the body.
//!
//! Files of another version, cut short or damaged, are as if they were not there.

use std::fs::File;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::item::{Stored, VaryIndex};

/// Begins every file; the digit is the version.
const MARK: &[u8; 8] = b"TOLLCCH1";
/// Mark and length.
const PREFIX_BYTES: usize = 12;

/// What a file holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Item {
    Answer(Arc<Stored>),
    /// Answers differ by request headers, and have files of their own.
    Index(VaryIndex),
}

impl Item {
    /// What it costs to hold, roughly.
    pub fn bytes(&self) -> u64 {
        match self {
            Item::Answer(stored) => stored.bytes(),
            Item::Index(index) => index.names.iter().map(|name| name.len() as u64).sum::<u64>() + 64,
        }
    }
}

#[derive(Default, Serialize, Deserialize)]
struct Head {
    status: u16,
    /// Names and values; a character a byte, since values need not be UTF-8.
    headers: Vec<(String, String)>,
    stored_unix_ms: u64,
    ttl_ms: u64,
    body_bytes: u64,
    /// Not empty in an index.
    vary: Vec<String>,
    generation: u64,
}

/// A file that is written and not yet in its place.
#[derive(Debug)]
pub(super) struct Draft {
    /// Where it is for now.
    pub(super) unfinished: PathBuf,
    /// Its size.
    pub(super) bytes: u64,
}

/// Writes a file beside its place, so that it comes there whole or not at all.
pub(super) fn draft(path: &Path, item: &Item) -> io::Result<Draft> {
    let mut nothing: &[u8] = &[];
    let (head, body) = match item {
        Item::Answer(stored) => (head_of(stored), &mut &stored.body[..]),
        Item::Index(index) => {
            let VaryIndex { names, generation } = index.clone();
            (Head { vary: names, generation, ..Head::default() }, &mut nothing)
        }
    };
    let head = serde_json::to_vec(&head)?;
    let head_bytes = u32::try_from(head.len()).map_err(io::Error::other)?;
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)?;
    }
    // Two writers of one answer must not share the file that becomes it.
    let unfinished = path.with_extension(format!("{:?}", std::thread::current().id()));
    let mut file = File::create(&unfinished)?;
    file.write_all(&[&MARK[..], &head_bytes.to_le_bytes(), &head].concat())?;
    file.write_all(body)?;
    Ok(Draft { unfinished, bytes: (PREFIX_BYTES + head.len() + body.len()) as u64 })
}

/// Reads a file of at most `bytes_max` bytes; returns its size as well.
pub(super) fn read(path: &Path, bytes_max: u64) -> Option<(Item, u64)> {
    let mut content = Vec::new();
    File::open(path).ok()?.take(bytes_max.saturating_mul(2)).read_to_end(&mut content).ok()?;
    let bytes = content.len() as u64;
    let rest = content.strip_prefix(MARK)?;
    let (head_bytes, rest) = rest.split_at_checked(PREFIX_BYTES - MARK.len())?;
    let head_bytes = u32::from_le_bytes(head_bytes.try_into().ok()?) as usize;
    let (head, body) = rest.split_at_checked(head_bytes)?;
    let head: Head = serde_json::from_slice(head).ok()?;
    if head.body_bytes != body.len() as u64 {
        return None;
    }
    if !head.vary.is_empty() {
        let index = VaryIndex { names: head.vary, generation: head.generation };
        return Some((Item::Index(index), bytes));
    }
    let headers = head.headers.iter();
    let stored = Stored {
        status: head.status,
        headers: headers.map(|(name, value)| (name.as_str().into(), from_text(value))).collect(),
        body: body.into(),
        stored_unix_ms: head.stored_unix_ms,
        ttl_ms: head.ttl_ms,
    };
    Some((Item::Answer(Arc::new(stored)), bytes))
}

fn head_of(stored: &Stored) -> Head {
    let headers = stored.headers.iter();
    Head {
        status: stored.status,
        headers: headers.map(|(name, value)| (name.to_string(), to_text(value))).collect(),
        stored_unix_ms: stored.stored_unix_ms,
        ttl_ms: stored.ttl_ms,
        body_bytes: stored.body.len() as u64,
        ..Head::default()
    }
}

fn to_text(value: &[u8]) -> String {
    value.iter().map(|byte| char::from(*byte)).collect()
}

fn from_text(text: &str) -> Box<[u8]> {
    text.chars().map(|letter| u8::try_from(letter).unwrap_or(b'?')).collect()
}

/// Two digits a byte.
pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The bytes that a text of 64 digits means.
pub(super) fn from_hex(text: &str) -> Option<[u8; 32]> {
    let mut bytes = [0; 32];
    if text.len() != 2 * bytes.len() || !text.is_ascii() {
        return None;
    }
    for (index, byte) in bytes.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&text[2 * index..][..2], 16).ok()?;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_and_what_is_damaged_is_not() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("ab/file");
        let stored = Stored {
            status: 404,
            headers: vec![("X-A".into(), b"\xff\"1".as_slice().into())],
            body: b"hello\0".as_slice().into(),
            stored_unix_ms: 7,
            ttl_ms: 8,
        };
        let index = VaryIndex { names: vec!["accept".into()], generation: 9 };
        for item in [Item::Answer(Arc::new(stored)), Item::Index(index)] {
            let Draft { unfinished, bytes } = draft(&path, &item).unwrap();
            std::fs::rename(unfinished, &path).unwrap();
            assert_eq!(read(&path, 1_000), Some((item, bytes)));
            let whole = std::fs::read(&path).unwrap();
            for end in 0..whole.len() {
                std::fs::write(&path, &whole[..end]).unwrap();
                assert_eq!(read(&path, 1_000), None, "{end}");
            }
        }
        assert_eq!(read(&dir.path().join("none"), 1_000), None);
        assert_eq!(std::fs::read_dir(dir.path().join("ab")).unwrap().count(), 1);
    }

    #[test]
    fn digests_have_names() {
        let digest = std::array::from_fn(|index| index as u8 * 8);
        assert_eq!(from_hex(&hex(&digest)), Some(digest));
        assert_eq!(from_hex("00"), None);
        assert_eq!(from_hex(&"x".repeat(64)), None);
    }
}
