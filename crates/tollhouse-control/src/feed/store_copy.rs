//! The objects of a shared store as this gateway serves them, in files of the data folder: what a gateway serves that
//! starts while the store is away.
//!
//! `store-copy` has lines of JSON: its head, each entry, and a checksum of all before it. A file that is not whole is
//! as good as none. Beside it lies a journal of the changes since (`journal`), which the copy names by number; the
//! journal behind that one may go on from it. Secrets in all of them are sealed as they are in the store. `keeper` keeps
//! them up to date.

mod journal;
mod keeper;

use std::collections::BTreeMap;
use std::io::{self, BufRead, BufReader, BufWriter, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use aws_lc_rs::digest::{Context, SHA256};
use serde::{Deserialize, Serialize};
use tollhouse_stdx::files::sync_parent;
use tollhouse_store::Revision;

pub use self::keeper::CopyKeeper;

use self::journal::Record;
use super::cluster_id::ClusterId;

/// The format of the files that this version writes. Format 1 had no journal.
const FORMAT: u32 = 2;

/// Keys that gateways keep for themselves under the prefix; they are no configuration.
const OWN_KEYS: &str = "tollhouse/";

/// Place of a copy, and the part of a store that it is of.
#[derive(Debug, Clone)]
pub struct StoreCopy {
    path: PathBuf,
    /// What its keys begin with, without a slash at the end.
    prefix: String,
    /// The cluster that the store is of, for copies that are made.
    cluster: Option<ClusterId>,
}

/// The first line.
#[derive(Debug, Serialize, Deserialize)]
struct Header {
    format: u32,
    prefix: String,
    /// Copies of before there were ids have none.
    #[serde(default)]
    cluster: Option<ClusterId>,
    revision: u64,
    written_at: u64,
    entries: usize,
    /// Number of the journal that goes on from here; 0 for none.
    #[serde(default)]
    journal: u64,
}

/// The last line.
#[derive(Debug, Serialize, Deserialize)]
struct Trailer {
    sha256: String,
}

/// Contents of a copy with its journal.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Copied {
    /// Keys with their values.
    pub entries: BTreeMap<String, String>,
    /// Revision of the store up to which changes are in it.
    pub revision: u64,
    /// Time of the newest change in it, in seconds since 1970.
    pub written_at: u64,
}

/// Why a copy cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum UnusableCopy {
    /// It cannot be read.
    #[error("it cannot be read: {0}")]
    Unreadable(#[from] io::Error),
    /// Some of it is missing or changed.
    #[error("it is damaged")]
    Damaged,
    /// It is of another prefix.
    #[error("it is of the objects under {0}")]
    Foreign(String),
    /// A newer version wrote it.
    #[error("a newer version of the gateway wrote it, in format {0}")]
    Newer(u32),
}

impl StoreCopy {
    /// The copy in a data folder of what lies under `prefix`.
    pub fn new(data_dir: &Path, prefix: &str) -> Self {
        Self { path: data_dir.join("store-copy"), prefix: prefix.to_owned(), cluster: None }
    }

    /// The same, of a store that is of this cluster.
    pub fn for_cluster(self, cluster: ClusterId) -> Self {
        Self { cluster: Some(cluster), ..self }
    }

    /// The cluster that the last copy is of, if it names one. The rest of the file is not looked at.
    pub fn cluster(&self) -> Option<ClusterId> {
        self.header()?.cluster
    }

    /// The newest revision that is known to be in the copy or its journal; none without a copy.
    pub fn newest(&self) -> Option<Revision> {
        let header = self.header()?;
        let mut newest = header.revision;
        let note = &mut |record: Record| newest = record.revision;
        // A journal that cannot be read tells less, and nothing wrong.
        let _ = journal::replay(self, header.journal..u64::MAX, note);
        Some(Revision(newest))
    }

    fn header(&self) -> Option<Header> {
        let mut first = String::new();
        BufReader::new(std::fs::File::open(&self.path).ok()?).read_line(&mut first).ok()?;
        let header: Header = parse(&first).ok()?;
        (header.prefix == self.prefix).then_some(header)
    }

    /// Path of the copy.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Path of a journal.
    fn journal_path(&self, number: u64) -> PathBuf {
        self.path.with_extension(format!("journal-{number}"))
    }

    /// Whether a key is one of those that are copied.
    fn is_copied(&self, key: &str) -> bool {
        let below = key.strip_prefix(&*self.prefix).and_then(|key| key.strip_prefix('/'));
        below.is_some_and(|key| !key.starts_with(OWN_KEYS))
    }

    /// Puts a copy in the place of the last one, whole or not at all; the journal of this number goes on from it.
    /// Returns its bytes.
    ///
    /// # Errors
    /// The folder cannot be written; the last copy is still there then.
    fn write(&self, copied: &Copied, journal: u64) -> io::Result<u64> {
        let draft = self.path.with_extension("new");
        let written = self.write_draft(&draft, copied, journal);
        let bytes = match written {
            Ok(bytes) => bytes,
            Err(error) => {
                // Room on a full disk is worth more than half a copy.
                let _ = std::fs::remove_file(&draft);
                return Err(error);
            }
        };
        std::fs::rename(&draft, &self.path)?;
        sync_parent(&self.path)?;
        Ok(bytes)
    }

    fn write_draft(&self, draft: &Path, copied: &Copied, journal: u64) -> io::Result<u64> {
        let header = Header {
            format: FORMAT,
            prefix: self.prefix.clone(),
            cluster: self.cluster.clone(),
            revision: copied.revision,
            written_at: copied.written_at,
            entries: copied.entries.len(),
            journal,
        };
        let file = private_file().truncate(true).open(draft)?;
        let mut lines = Lines { out: BufWriter::new(file), checksum: Context::new(&SHA256) };
        lines.write(&header)?;
        for entry in &copied.entries {
            lines.write(&entry)?;
        }
        let file = lines.finish()?;
        file.sync_all()?;
        Ok(file.metadata()?.len())
    }

    /// Reads the last copy with all of its journals; `None` if no copy exists.
    ///
    /// # Errors
    /// If a copy exists but cannot be used.
    pub fn read(&self) -> Result<Option<Copied>, UnusableCopy> {
        self.read_before(u64::MAX)
    }

    /// The same without the journals from this number on.
    fn read_before(&self, number: u64) -> Result<Option<Copied>, UnusableCopy> {
        let Some((mut copied, journal)) = self.read_snapshot()? else { return Ok(None) };
        journal::replay(self, journal..number, &mut |record| {
            if record.revision <= copied.revision {
                return;
            }
            for (key, value) in record.changes {
                match value {
                    Some(value) => drop(copied.entries.insert(key, value)),
                    None => drop(copied.entries.remove(&key)),
                }
            }
            (copied.revision, copied.written_at) = (record.revision, record.at);
        })?;
        Ok(Some(copied))
    }

    fn read_snapshot(&self) -> Result<Option<(Copied, u64)>, UnusableCopy> {
        let file = match std::fs::File::open(&self.path) {
            Ok(file) => BufReader::new(file),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        let mut lines = file.lines();
        let mut checksum = Context::new(&SHA256);
        let first = lines.next().ok_or(UnusableCopy::Damaged)??;
        note_line(&mut checksum, &first);
        // Asked for before anything that a newer version may have changed.
        let header: Header = parse(&first)?;
        if header.format > FORMAT {
            return Err(UnusableCopy::Newer(header.format));
        }
        if header.prefix != self.prefix {
            return Err(UnusableCopy::Foreign(header.prefix));
        }
        let mut entries = BTreeMap::new();
        for _ in 0..header.entries {
            let line = lines.next().ok_or(UnusableCopy::Damaged)??;
            note_line(&mut checksum, &line);
            let (key, value) = parse(&line)?;
            entries.insert(key, value);
        }
        let trailer: Trailer = parse(&lines.next().ok_or(UnusableCopy::Damaged)??)?;
        if trailer.sha256 != hex(checksum) || lines.next().is_some() {
            return Err(UnusableCopy::Damaged);
        }
        let Header { revision, written_at, journal, .. } = header;
        Ok(Some((Copied { entries, revision, written_at }, journal)))
    }
}

/// For a file that only this user may read, made if need be.
fn private_file() -> std::fs::OpenOptions {
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create(true).mode(0o600);
    options
}

/// Lines on their way into the file.
struct Lines {
    out: BufWriter<std::fs::File>,
    checksum: Context,
}

impl Lines {
    fn write(&mut self, line: &impl Serialize) -> io::Result<()> {
        // JSON text has no line feed of its own.
        let line = serde_json::to_string(line)?;
        note_line(&mut self.checksum, &line);
        writeln!(self.out, "{line}")
    }

    fn finish(mut self) -> io::Result<std::fs::File> {
        let trailer = serde_json::to_string(&Trailer { sha256: hex(self.checksum) })?;
        writeln!(self.out, "{trailer}")?;
        Ok(self.out.into_inner()?)
    }
}

fn note_line(checksum: &mut Context, line: &str) {
    checksum.update(line.as_bytes());
    checksum.update(b"\n");
}

fn hex(checksum: Context) -> String {
    checksum.finish().as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}

fn parse<'l, T: Deserialize<'l>>(line: &'l str) -> Result<T, UnusableCopy> {
    serde_json::from_str(line).map_err(|_| UnusableCopy::Damaged)
}

#[cfg(test)]
mod tests;
