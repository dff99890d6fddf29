//! File of one stored answer: a mark, the length of a JSON head, the head, the body.
//!
//! Files of another version and truncated or damaged files count as missing.

use std::fs::File;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};
use tollhouse_stdx::MemoryBudget;

use super::conditional::Validators;
use super::freshness::{Life, StaleUse};
use super::item::{CachedResponse, VaryIndex, shared_body};

/// First bytes of every file; the digit is the version.
const MARK: &[u8; 8] = b"TOLLCCH1";
const PREFIX_BYTES: usize = 12;
/// Maximum length of a file's head in bytes; heads of answers are bounded well below.
const HEAD_BYTES_MAX: usize = 1 << 20;
/// Block size of the disk in bytes: a file takes a multiple of it.
const BLOCK_BYTES: u64 = 4096;
/// Lifetime of an index in seconds: long enough to lead to answers that follow one another.
const INDEX_LIFE_S: u32 = 86_400;

/// Seconds for which an expired answer stays if it can be revalidated, like `inactive` of APISIX's
/// zones.
const STALE_LIFE_S: u64 = 86_400;

/// Content of a cache file: an answer, or the index of answers that vary.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Item {
    Answer(Arc<CachedResponse>),
    /// Index of answers that differ by request headers; each answer has a separate file.
    Index(VaryIndex),
}

impl Item {
    /// Returns the approximate cost in memory, in bytes.
    pub fn bytes(&self) -> u64 {
        match self {
            Item::Answer(stored) => stored.bytes(),
            Item::Index(index) => {
                index.names.iter().map(|name| name.len() as u64).sum::<u64>() + 64
            }
        }
    }

    /// Returns the expiry time of the item in seconds since 1970, if it is written at `now_unix_s`.
    pub fn expires_unix_s(&self, now_unix_s: u32) -> u32 {
        match self {
            Item::Answer(stored) => {
                let until_s = stored.expires_unix_ms().div_ceil(1_000);
                let until_s = until_s.saturating_add(stale_kept_s(stored));
                u32::try_from(until_s).unwrap_or(u32::MAX)
            }
            Item::Index(_) => now_unix_s.saturating_add(INDEX_LIFE_S),
        }
    }
}

#[derive(Default, Serialize, Deserialize)]
struct Head {
    status: u16,
    /// Names and values, with one character per byte, because values need not be UTF-8.
    headers: Vec<(String, String)>,
    stored_unix_ms: u64,
    ttl_ms: u64,
    #[serde(default)]
    age_ms: u64,
    #[serde(default)]
    is_stale_prohibited: bool,
    #[serde(default)]
    stale_if_error_s: u64,
    body_bytes: u64,
    #[serde(default)]
    left_out_bytes: Option<u64>,
    /// Names of the request headers by which answers vary; not empty in an index.
    vary: Vec<String>,
    generation: u64,
}

/// Written file that is not in its final place yet.
#[derive(Debug)]
pub(super) struct Draft {
    /// Temporary path, beside the final one.
    pub(super) unfinished: PathBuf,
    /// Bytes on the disk, in whole blocks.
    pub(super) bytes: u64,
    /// Expiry time of the file in seconds since 1970, which is also the file's modification time.
    pub(super) expires_unix_s: u32,
}

/// Writes a file beside its final place, so that it is moved there completely or not at all.
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
    // Two writers of one answer must not share the temporary file.
    let unfinished = path.with_extension(format!("{:?}", std::thread::current().id()));
    let expires_unix_s = item.expires_unix_s(unix_s(SystemTime::now()));
    let mut file = File::create(&unfinished)?;
    file.write_all(&[&MARK[..], &head_bytes.to_le_bytes(), &head].concat())?;
    file.write_all(body)?;
    file.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(expires_unix_s.into()))?;
    let bytes = on_disk((PREFIX_BYTES + head.len() + body.len()) as u64);
    Ok(Draft { unfinished, bytes, expires_unix_s })
}

/// Rounds the length of a file up to whole blocks of the disk.
pub(super) fn on_disk(bytes: u64) -> u64 {
    bytes.next_multiple_of(BLOCK_BYTES)
}

/// Converts a time to seconds since 1970.
pub(super) fn unix_s(time: SystemTime) -> u32 {
    let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u32::try_from(since.as_secs()).unwrap_or(u32::MAX)
}

/// Reads a file. The body is read into the memory from which it is sent, reserved from `memory`. If
/// that is exhausted, the file counts as missing.
pub(super) fn read(path: &Path, memory: &Arc<MemoryBudget>) -> Option<Item> {
    let mut file = File::open(path).ok()?;
    let mut prefix = [0; PREFIX_BYTES];
    file.read_exact(&mut prefix).ok()?;
    let head_bytes = u32::from_le_bytes(prefix.strip_prefix(MARK)?.try_into().ok()?) as usize;
    if head_bytes > HEAD_BYTES_MAX {
        return None;
    }
    let mut head = vec![0; head_bytes];
    file.read_exact(&mut head).ok()?;
    let head: Head = serde_json::from_slice(&head).ok()?;
    let body_bytes = file.metadata().ok()?.len().checked_sub((PREFIX_BYTES + head_bytes) as u64)?;
    // The file was written by a process that was killed, or changed by another program; it counts
    // as missing.
    if head.body_bytes != body_bytes {
        return None;
    }
    if !head.vary.is_empty() {
        let index = VaryIndex { names: head.vary, generation: head.generation };
        return Some(Item::Index(index));
    }
    // Memory is reserved before the body is read, because a file may be larger than the rest of the
    // budget.
    let reservation = memory.take(body_bytes)?;
    let mut body = vec![0; usize::try_from(body_bytes).ok()?];
    file.read_exact(&mut body).ok()?;
    let headers = head.headers.iter();
    let stored = CachedResponse {
        status: head.status,
        headers: headers.map(|(name, value)| (name.as_str().into(), from_text(value))).collect(),
        body: shared_body(body, reservation),
        left_out_bytes: head.left_out_bytes,
        stored_unix_ms: head.stored_unix_ms,
        life: Life { ttl_ms: head.ttl_ms, age_ms: head.age_ms },
        stale_use: StaleUse {
            is_prohibited: head.is_stale_prohibited,
            if_error_s: head.stale_if_error_s,
        },
    };
    Some(Item::Answer(Arc::new(stored)))
}

/// Returns the seconds for which an answer stays that is no longer fresh, to be revalidated or used
/// while nodes fail.
fn stale_kept_s(stored: &CachedResponse) -> u64 {
    let is_revalidated = Validators::from_stored(stored).are_usable();
    stored.stale_use.if_error_s.max(if is_revalidated { STALE_LIFE_S } else { 0 })
}

fn head_of(stored: &CachedResponse) -> Head {
    let headers = stored.headers.iter();
    Head {
        status: stored.status,
        headers: headers.map(|(name, value)| (name.to_string(), to_text(value))).collect(),
        stored_unix_ms: stored.stored_unix_ms,
        ttl_ms: stored.life.ttl_ms,
        age_ms: stored.life.age_ms,
        is_stale_prohibited: stored.stale_use.is_prohibited,
        stale_if_error_s: stored.stale_use.if_error_s,
        body_bytes: stored.body.len() as u64,
        left_out_bytes: stored.left_out_bytes,
        ..Head::default()
    }
}

fn to_text(value: &[u8]) -> String {
    value.iter().map(|byte| char::from(*byte)).collect()
}

fn from_text(text: &str) -> Box<[u8]> {
    text.chars().map(|letter| u8::try_from(letter).unwrap_or(b'?')).collect()
}

/// Formats bytes as hexadecimal, two digits per byte.
pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Decodes a text of two hexadecimal digits per byte; `None` for any other text.
pub(super) fn from_hex<const BYTES: usize>(text: &str) -> Option<[u8; BYTES]> {
    let mut bytes = [0; BYTES];
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
        let stored = CachedResponse {
            status: 404,
            headers: [("X-A".into(), b"\xff\"1".as_slice().into())].into(),
            body: b"hello\0".as_slice().into(),
            left_out_bytes: Some(6),
            stored_unix_ms: 7,
            life: Life { ttl_ms: 8, age_ms: 9 },
            stale_use: StaleUse { is_prohibited: true, if_error_s: 10 },
        };
        let index = VaryIndex { names: vec!["accept".into()], generation: 9 };
        let memory = MemoryBudget::unlimited();
        for item in [Item::Answer(Arc::new(stored)), Item::Index(index)] {
            let draft = draft(&path, &item).unwrap();
            assert_eq!(draft.bytes, BLOCK_BYTES);
            std::fs::rename(draft.unfinished, &path).unwrap();
            assert_eq!(read(&path, &memory), Some(item));
            let whole = std::fs::read(&path).unwrap();
            for end in 0..whole.len() {
                std::fs::write(&path, &whole[..end]).unwrap();
                assert_eq!(read(&path, &memory), None, "{end}");
            }
        }
        assert_eq!(read(&dir.path().join("none"), &memory), None);
        assert_eq!(std::fs::read_dir(dir.path().join("ab")).unwrap().count(), 1);
    }

    #[test]
    fn digests_have_names() {
        let digest: [u8; 16] = std::array::from_fn(|index| index as u8 * 8);
        assert_eq!(from_hex(&hex(&digest)), Some(digest));
        assert_eq!(from_hex::<16>("00"), None);
        assert_eq!(from_hex::<16>(&"x".repeat(32)), None);
    }
}
