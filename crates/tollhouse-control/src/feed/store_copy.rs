//! Local copy of a shared store's objects, in the data folder. A gateway that starts while the
//! store is unreachable serves this copy.
//!
//! The file `store-copy` has lines of JSON: a header, the entries, and a checksum of all previous
//! lines. An incomplete file is unusable. A numbered journal beside it holds later changes
//! (`journal`). The copy's header names the first journal to replay; later journals may continue
//! it. Secrets are sealed as in the store. `keeper` keeps the files up to date.

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

/// Keys under the prefix that gateways use themselves and that are not configuration.
const OWN_KEYS: &str = "tollhouse/";

/// Path of a copy, and the part of the store that it covers.
#[derive(Debug, Clone)]
pub struct StoreCopy {
    path: PathBuf,
    /// Prefix of the covered keys, without a slash at the end.
    prefix: String,
    /// The store's cluster, for new copies.
    cluster: Option<ClusterId>,
}

/// First line of the copy file, as JSON.
#[derive(Debug, Serialize, Deserialize)]
struct Header {
    format: u32,
    prefix: String,
    /// Absent in copies from versions without cluster ids.
    #[serde(default)]
    cluster: Option<ClusterId>,
    revision: u64,
    written_at: u64,
    entries: usize,
    /// Number of the first journal to replay; 0 for none.
    #[serde(default)]
    journal: u64,
}

/// Last line of the copy file, with the checksum of the lines before.
#[derive(Debug, Serialize, Deserialize)]
struct Trailer {
    sha256: String,
}

/// Contents of a copy with its journal.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct CopyContents {
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
    #[error("it cannot be read: {0}")]
    Unreadable(#[from] io::Error),
    /// The file is incomplete or was changed.
    #[error("it is damaged")]
    Damaged,
    /// The file is a copy of another prefix, this one.
    #[error("it is of the objects under {0}")]
    Foreign(String),
    /// The file has the format of a newer version, with this number.
    #[error("a newer version of the gateway wrote it, in format {0}")]
    Newer(u32),
}

impl StoreCopy {
    /// Returns the copy in `data_dir` of the objects under `prefix`.
    pub fn new(data_dir: &Path, prefix: &str) -> Self {
        Self { path: data_dir.join("store-copy"), prefix: prefix.to_owned(), cluster: None }
    }

    /// Returns the copy for the store of this cluster.
    pub fn for_cluster(self, cluster: ClusterId) -> Self {
        Self { cluster: Some(cluster), ..self }
    }

    /// Returns the id of the cluster in the header of the local copy, if the header has one. The
    /// rest of the file is not checked.
    pub fn cluster(&self) -> Option<ClusterId> {
        self.header()?.cluster
    }

    /// Returns the highest revision in the copy and its journals; `None` without a copy.
    pub fn newest(&self) -> Option<Revision> {
        let header = self.header()?;
        let mut newest = header.revision;
        let note = &mut |record: Record| newest = record.revision;
        // An unreadable journal only lowers the result.
        let _ = journal::replay(self, header.journal..u64::MAX, note);
        Some(Revision(newest))
    }

    fn header(&self) -> Option<Header> {
        let mut first = String::new();
        BufReader::new(std::fs::File::open(&self.path).ok()?).read_line(&mut first).ok()?;
        let header: Header = parse(&first).ok()?;
        (header.prefix == self.prefix).then_some(header)
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    fn journal_path(&self, number: u64) -> PathBuf {
        self.path.with_extension(format!("journal-{number}"))
    }

    /// Whether the copy contains this key.
    fn is_copied(&self, key: &str) -> bool {
        let below = key.strip_prefix(&*self.prefix).and_then(|key| key.strip_prefix('/'));
        below.is_some_and(|key| !key.starts_with(OWN_KEYS))
    }

    /// Replaces the copy atomically. `journal` is the number of the journal that continues it.
    /// Returns the size in bytes.
    ///
    /// # Errors
    /// If the folder cannot be written. The previous copy remains.
    fn write(&self, copied: &CopyContents, journal: u64) -> io::Result<u64> {
        let draft = self.path.with_extension("new");
        let written = self.write_draft(&draft, copied, journal);
        let bytes = match written {
            Ok(bytes) => bytes,
            Err(error) => {
                // Frees the space of the incomplete copy on a full disk.
                let _ = std::fs::remove_file(&draft);
                return Err(error);
            }
        };
        std::fs::rename(&draft, &self.path)?;
        sync_parent(&self.path)?;
        Ok(bytes)
    }

    fn write_draft(&self, draft: &Path, copied: &CopyContents, journal: u64) -> io::Result<u64> {
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
    pub fn read(&self) -> Result<Option<CopyContents>, UnusableCopy> {
        self.read_before(u64::MAX)
    }

    /// Reads the copy with its journals below this number.
    fn read_before(&self, number: u64) -> Result<Option<CopyContents>, UnusableCopy> {
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

    fn read_snapshot(&self) -> Result<Option<(CopyContents, u64)>, UnusableCopy> {
        let file = match std::fs::File::open(&self.path) {
            Ok(file) => BufReader::new(file),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        let mut lines = file.lines();
        let mut checksum = Context::new(&SHA256);
        let first = lines.next().ok_or(UnusableCopy::Damaged)??;
        note_line(&mut checksum, &first);
        // Checked first, because a newer format may differ in everything else.
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
        Ok(Some((CopyContents { entries, revision, written_at }, journal)))
    }
}

/// Returns the options for a file that is created if missing and that only this user may access.
fn private_file() -> std::fs::OpenOptions {
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create(true).mode(0o600);
    options
}

/// Writer that adds each line to the checksum.
struct Lines {
    out: BufWriter<std::fs::File>,
    checksum: Context,
}

impl Lines {
    fn write(&mut self, line: &impl Serialize) -> io::Result<()> {
        // Serialised JSON contains no line feed.
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
