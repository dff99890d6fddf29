//! Archives in the zip format (APPNOTE 6.3), as `java.util.zip` writes and reads them: stored and
//! deflated entries with a central directory. Encrypted, split and larger than 4 GiB archives are
//! not supported.

use std::io::{Read, Write};

use flate2::Crc;
use flate2::read::DeflateDecoder;
use flate2::write::DeflateEncoder;

/// Maximum number of entries of an archive; an export has a dozen.
const ENTRIES_MAX: usize = 256;

/// Maximum size of all entries together in bytes, unpacked: about a hundred thousand rules.
/// Deflated text can be a thousandth of that.
const UNPACKED_BYTES_MAX: u64 = 128 << 20;

const LOCAL_HEADER: u32 = 0x0403_4b50;
const CENTRAL_HEADER: u32 = 0x0201_4b50;
const END: u32 = 0x0605_4b50;
const LOCAL_HEADER_BYTES: usize = 30;
const CENTRAL_HEADER_BYTES: usize = 46;
const END_BYTES: usize = 22;
/// Version 2.0 of the format, which deflated entries need.
const VERSION: u16 = 20;
/// Flag of entries whose names are UTF-8.
const UTF8: u16 = 1 << 11;
const ENCRYPTED: u16 = 1;
const STORED: u16 = 0;
const DEFLATED: u16 = 8;
/// First of January 1980, the format's earliest date. A fixed date makes archives of equal objects
/// equal.
const DATE: u16 = (1 << 5) | 1;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct File {
    pub(crate) name: String,
    pub(crate) content: Vec<u8>,
}

/// Why an archive cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ArchiveError {
    /// The end record with the position of the directory is missing.
    #[error("not a zip archive, or its end is missing")]
    NoArchive,
    /// An offset or a length points outside the archive.
    #[error("the zip archive is broken at byte {0}")]
    Broken(usize),
    /// The archive has more entries than an export has.
    #[error("the archive has {0} files; at most {ENTRIES_MAX} are allowed")]
    TooMany(usize),
    /// The unpacked entries exceed the limit.
    #[error("the unpacked files have more than {UNPACKED_BYTES_MAX} bytes")]
    TooLarge,
    /// The entry is encrypted or uses an unsupported compression method.
    #[error("`{0}` is encrypted or uses an unsupported compression method")]
    Unknown(String),
    /// The checksum or the compressed data of the entry is wrong.
    #[error("`{0}` is damaged")]
    Damaged(String),
}

/// Unpacks the files of an archive; folders are left out.
///
/// # Errors
///
/// If the archive is malformed, damaged or too large.
pub(crate) fn read(bytes: &[u8]) -> Result<Vec<File>, ArchiveError> {
    read_bounded(bytes, UNPACKED_BYTES_MAX)
}

fn read_bounded(bytes: &[u8], unpacked_bytes_max: u64) -> Result<Vec<File>, ArchiveError> {
    let end = find_end(bytes).ok_or(ArchiveError::NoArchive)?;
    let count = usize::from(u16_at(bytes, end + 10)?);
    if count > ENTRIES_MAX {
        return Err(ArchiveError::TooMany(count));
    }
    let mut at = offset(u32_at(bytes, end + 16)?);
    let mut left = unpacked_bytes_max;
    let mut files = Vec::with_capacity(count);
    for _ in 0..count {
        if u32_at(bytes, at)? != CENTRAL_HEADER {
            return Err(ArchiveError::Broken(at));
        }
        let entry = Entry::read(bytes, at)?;
        at = entry.next;
        if entry.name.ends_with('/') {
            continue;
        }
        let content = entry.unpack(bytes, left)?;
        left = left.saturating_sub(u64::try_from(content.len()).unwrap_or(u64::MAX));
        let name = entry.name.rsplit(['/', '\\']).next().unwrap_or_default().to_owned();
        files.push(File { name, content });
    }
    Ok(files)
}

/// Entry of the central directory. Sizes are read from here because the local header may lack them.
struct Entry {
    name: String,
    flags: u16,
    method: u16,
    sum: u32,
    packed: usize,
    local: usize,
    /// Position of the next entry in the directory.
    next: usize,
}

impl Entry {
    fn read(bytes: &[u8], at: usize) -> Result<Self, ArchiveError> {
        let length = |offset: usize| u16_at(bytes, at + offset).map(usize::from);
        let (name_length, extra, comment) = (length(28)?, length(30)?, length(32)?);
        let start = at + CENTRAL_HEADER_BYTES;
        let name = part(bytes, start, name_length)?;
        Ok(Self {
            name: String::from_utf8_lossy(name).into_owned(),
            flags: u16_at(bytes, at + 8)?,
            method: u16_at(bytes, at + 10)?,
            sum: u32_at(bytes, at + 16)?,
            packed: offset(u32_at(bytes, at + 20)?),
            local: offset(u32_at(bytes, at + 42)?),
            next: start + name_length + extra + comment,
        })
    }

    fn unpack(&self, bytes: &[u8], bytes_max: u64) -> Result<Vec<u8>, ArchiveError> {
        if u32_at(bytes, self.local)? != LOCAL_HEADER {
            return Err(ArchiveError::Broken(self.local));
        }
        let name = usize::from(u16_at(bytes, self.local + 26)?);
        let extra = usize::from(u16_at(bytes, self.local + 28)?);
        let packed = part(bytes, self.local + LOCAL_HEADER_BYTES + name + extra, self.packed)?;
        let content = match self.method {
            _ if self.flags & ENCRYPTED != 0 => {
                return Err(ArchiveError::Unknown(self.name.clone()));
            }
            STORED => read_within(packed, bytes_max),
            DEFLATED => read_within(DeflateDecoder::new(packed), bytes_max),
            _ => return Err(ArchiveError::Unknown(self.name.clone())),
        };
        let content = content.map_err(|_| ArchiveError::Damaged(self.name.clone()))?;
        if u64::try_from(content.len()).unwrap_or(u64::MAX) > bytes_max {
            return Err(ArchiveError::TooLarge);
        }
        if checksum(&content) != self.sum {
            return Err(ArchiveError::Damaged(self.name.clone()));
        }
        Ok(content)
    }
}

/// Reads at most one byte more than allowed, so that the caller notices an entry that is too large.
fn read_within(packed: impl Read, bytes_max: u64) -> std::io::Result<Vec<u8>> {
    let mut content = Vec::new();
    packed.take(bytes_max.saturating_add(1)).read_to_end(&mut content)?;
    Ok(content)
}

/// Returns the position of the end record, which a comment of up to 65,535 bytes may follow.
fn find_end(bytes: &[u8]) -> Option<usize> {
    let last = bytes.len().checked_sub(END_BYTES)?;
    let first = last.saturating_sub(usize::from(u16::MAX));
    (first..=last).rev().find(|at| u32_at(bytes, *at) == Ok(END))
}

/// Packs files into an archive.
///
/// # Errors
///
/// If the archive would exceed 4 GiB, the limit of the format.
pub(crate) fn write(files: &[File]) -> std::io::Result<Vec<u8>> {
    let too_large = || std::io::Error::other("the archive would be larger than 4 GiB");
    let (mut archive, mut directory) = (Vec::new(), Vec::new());
    for file in files {
        let mut encoder = DeflateEncoder::new(Vec::new(), flate2::Compression::default());
        encoder.write_all(&file.content)?;
        let packed = encoder.finish()?;
        let size = |length: usize| u32::try_from(length).map_err(|_| too_large());
        let local = size(archive.len())?;
        let name_length = u16::try_from(file.name.len()).map_err(|_| too_large())?;
        // Fields shared by the local header and the directory: version, flags, method, time, date,
        // checksum, sizes, lengths.
        let mut head = Vec::new();
        for word in [VERSION, UTF8, DEFLATED, 0, DATE] {
            head.extend(word.to_le_bytes());
        }
        for word in [checksum(&file.content), size(packed.len())?, size(file.content.len())?] {
            head.extend(word.to_le_bytes());
        }
        for word in [name_length, 0] {
            head.extend(word.to_le_bytes());
        }
        archive.extend(LOCAL_HEADER.to_le_bytes());
        archive.extend(&head);
        archive.extend(file.name.as_bytes());
        archive.extend(packed);
        directory.extend(CENTRAL_HEADER.to_le_bytes());
        directory.extend(VERSION.to_le_bytes());
        directory.extend(head);
        // Comment length, disk number and attributes, all zero.
        directory.extend([0; 10]);
        directory.extend(local.to_le_bytes());
        directory.extend(file.name.as_bytes());
    }
    let at = u32::try_from(archive.len()).map_err(|_| too_large())?;
    let length = u32::try_from(directory.len()).map_err(|_| too_large())?;
    let count = u16::try_from(files.len()).map_err(|_| too_large())?;
    archive.extend(directory);
    archive.extend(END.to_le_bytes());
    for word in [0, 0, count, count] {
        archive.extend(word.to_le_bytes());
    }
    archive.extend(length.to_le_bytes());
    archive.extend(at.to_le_bytes());
    archive.extend([0; 2]);
    Ok(archive)
}

fn checksum(content: &[u8]) -> u32 {
    let mut sum = Crc::new();
    sum.update(content);
    sum.sum()
}

fn offset(value: u32) -> usize {
    usize::try_from(value).unwrap_or(usize::MAX)
}

fn part(bytes: &[u8], at: usize, length: usize) -> Result<&[u8], ArchiveError> {
    let end = at.checked_add(length).ok_or(ArchiveError::Broken(at))?;
    bytes.get(at..end).ok_or(ArchiveError::Broken(at))
}

fn u16_at(bytes: &[u8], at: usize) -> Result<u16, ArchiveError> {
    let part = part(bytes, at, 2)?.try_into().map_err(|_| ArchiveError::Broken(at))?;
    Ok(u16::from_le_bytes(part))
}

fn u32_at(bytes: &[u8], at: usize) -> Result<u32, ArchiveError> {
    let part = part(bytes, at, 4)?.try_into().map_err(|_| ArchiveError::Broken(at))?;
    Ok(u32::from_le_bytes(part))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files() -> Vec<File> {
        let file = |name: &str, text: &str| File { name: name.to_owned(), content: text.into() };
        vec![file("plugin.json", "[]"), file("rule.json", &"[{}]".repeat(100)), file("e", "")]
    }

    #[test]
    fn what_is_written_is_read() {
        let archive = write(&files()).unwrap();
        assert_eq!(read(&archive), Ok(files()));
        assert_eq!(read(&write(&[]).unwrap()), Ok(vec![]));
        // A comment at the end.
        let mut commented = archive.clone();
        let length = commented.len();
        commented[length - 2] = 3;
        commented.extend(b"abc");
        assert_eq!(read(&commented), Ok(files()));
    }

    #[test]
    fn an_archive_of_javas_is_read() {
        // `java.util.zip.ZipOutputStream` writes sizes after the content; those in the local header
        // are 0.
        let mut archive = write(&files()[..1]).unwrap();
        archive[14..26].fill(0);
        assert_eq!(read(&archive).unwrap()[0].content, b"[]");
    }

    #[test]
    fn broken_archives_are_refused_wherever_they_break() {
        let archive = write(&files()).unwrap();
        for length in 0..archive.len() {
            assert!(read(&archive[..length]).is_err(), "{length}");
        }
        for at in 0..archive.len() {
            let mut broken = archive.clone();
            broken[at] ^= 0xff;
            // Names, times and versions may differ, but reading must not panic or accept wrong
            // content.
            if let Ok(found) = read(&broken) {
                assert!(found.iter().zip(files()).all(|(it, file)| it.content == file.content));
            }
        }
        assert_eq!(read(b"hello, this is not an archive at all"), Err(ArchiveError::NoArchive));
    }

    #[test]
    fn what_unpacks_to_more_than_an_export_is_refused() {
        let file = |name: &str| File { name: name.to_owned(), content: vec![b' '; 1_000] };
        let archive = write(&[file("a"), file("b")]).unwrap();
        assert_eq!(read_bounded(&archive, 1_999), Err(ArchiveError::TooLarge));
        assert_eq!(read_bounded(&archive, 2_000).map(|files| files.len()), Ok(2));
    }
}
