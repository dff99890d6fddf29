//! The objects of a shared store as they were read last, in a file of the data folder: what a gateway
//! serves that starts while the store is away.
//!
//! Lines of JSON: what the copy is of, each entry, and a checksum of all before it. A file that is not
//! whole is as good as none. Secrets in it are sealed as they are in the store.

use std::io::{self, BufRead, BufReader, BufWriter, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use aws_lc_rs::digest::{Context, SHA256};
use serde::{Deserialize, Serialize};
use tokio::sync::watch;
use tokio::time::Instant;
use tollhouse_store::{Listing, Revision, Store, StoreError};
use tollhouse_telemetry::Metrics;

use super::cluster_id::{self, ClusterId};
use super::import_marker::ImportMarker;

/// The format of the file that this version writes and reads.
const FORMAT: u32 = 1;

/// What gateways keep for themselves under the prefix, which is no configuration.
const OWN_KEYS: &str = "tollhouse/";

/// Shortest rest between two copies: changes of seconds ago may be missing after a loss of both this
/// machine and the store.
const REST_MIN: Duration = Duration::from_secs(5);

/// How many times as long as reading the store took is rested at least, which is a load for it.
const REST_FACTOR: u32 = 20;

/// Where a copy is kept, and of which part of a store.
#[derive(Debug, Clone)]
pub struct StoreCopy {
    path: PathBuf,
    /// What its keys begin with, without a slash at the end.
    prefix: String,
    /// The cluster that the store is of, for copies that are made.
    cluster: Option<ClusterId>,
}

/// What a copy says of itself.
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
}

/// The last line.
#[derive(Debug, Serialize, Deserialize)]
struct Trailer {
    sha256: String,
}

/// A copy that was read.
#[derive(Debug, PartialEq, Eq)]
pub struct Copied {
    /// Keys with their values.
    pub entries: Vec<(String, String)>,
    /// When it was made, in seconds since 1970.
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
    /// The copy in a data folder of what stands under `prefix`.
    pub fn new(data_dir: &Path, prefix: &str) -> Self {
        Self { path: data_dir.join("store-copy"), prefix: prefix.to_owned(), cluster: None }
    }

    /// The same, of a store that is of this cluster.
    pub fn for_cluster(self, cluster: ClusterId) -> Self {
        Self { cluster: Some(cluster), ..self }
    }

    /// Which cluster the last copy is of; nothing where none says so. Whether the rest of it is whole is not
    /// looked at.
    pub fn cluster(&self) -> Option<ClusterId> {
        let mut first = String::new();
        BufReader::new(std::fs::File::open(&self.path).ok()?).read_line(&mut first).ok()?;
        let header: Header = parse(&first).ok()?;
        (header.prefix == self.prefix).then_some(header.cluster).flatten()
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn folder(&self) -> String {
        format!("{}/", self.prefix)
    }

    /// Puts a listing in the place of the last copy: whole or not at all, whatever happens meanwhile.
    ///
    /// # Errors
    /// The folder cannot be written; the last copy is still there then.
    pub fn write(&self, listing: &Listing, written_at: u64) -> io::Result<()> {
        let draft = self.path.with_extension("new");
        let written = self.write_draft(&draft, listing, written_at);
        match written {
            Ok(()) => std::fs::rename(&draft, &self.path)?,
            Err(error) => {
                // Room on a full disk is worth more than half a copy.
                let _ = std::fs::remove_file(&draft);
                return Err(error);
            }
        }
        // A name is there after a loss of power once its folder was flushed.
        match self.path.parent() {
            Some(folder) => std::fs::File::open(folder)?.sync_all(),
            None => Ok(()),
        }
    }

    fn write_draft(&self, draft: &Path, listing: &Listing, written_at: u64) -> io::Result<()> {
        let own = format!("{}{OWN_KEYS}", self.folder());
        let entries: Vec<(&str, &str)> = listing
            .entries
            .iter()
            .filter(|entry| !entry.key.starts_with(&own))
            // What is no text is no object either.
            .filter_map(|entry| Some((&*entry.key, std::str::from_utf8(&entry.value).ok()?)))
            .collect();
        let header = Header {
            format: FORMAT,
            prefix: self.prefix.clone(),
            cluster: self.cluster.clone(),
            revision: listing.revision.0,
            written_at,
            entries: entries.len(),
        };
        let file = std::fs::OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .open(draft)?;
        let mut lines = Lines { out: BufWriter::new(file), checksum: Context::new(&SHA256) };
        lines.write(&header)?;
        for entry in entries {
            lines.write(&entry)?;
        }
        lines.finish()?.sync_all()
    }

    /// The last copy; `None` where there is none.
    ///
    /// # Errors
    /// There is one, and it is of no use.
    pub fn read(&self) -> Result<Option<Copied>, UnusableCopy> {
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
        let mut entries = Vec::new();
        for _ in 0..header.entries {
            let line = lines.next().ok_or(UnusableCopy::Damaged)??;
            note_line(&mut checksum, &line);
            entries.push(parse(&line)?);
        }
        let trailer: Trailer = parse(&lines.next().ok_or(UnusableCopy::Damaged)??)?;
        if trailer.sha256 != hex(checksum) || lines.next().is_some() {
            return Err(UnusableCopy::Damaged);
        }
        Ok(Some(Copied { entries, written_at: header.written_at }))
    }

    /// Keeps the copy up to date: makes one now, and another a while after the revision has risen, until
    /// nobody tells revisions any more.
    pub async fn keep(
        self,
        store: Arc<dyn Store>,
        mut revisions: watch::Receiver<Revision>,
        metrics: Arc<Metrics>,
    ) {
        loop {
            revisions.mark_unchanged();
            let began = Instant::now();
            let mut took = None;
            match self.renew(store.as_ref(), &mut took).await {
                Ok(written_at) => {
                    let written_at = i64::try_from(written_at).unwrap_or(i64::MAX);
                    metrics.process().store_copy_written.set(written_at);
                }
                // Said by whoever follows the store, too. The next change is a reason to look again.
                Err(RenewError::Doubtful) => {
                    tracing::debug!(
                        "the store is not copied: it is half of an import, or another's"
                    );
                }
                Err(RenewError::Store(error)) => tracing::debug!(%error, "the store is not copied"),
                Err(RenewError::File(error)) => {
                    let path = self.path.display();
                    tracing::warn!(
                        %error,
                        "{path} cannot be written: a gateway that starts while the store is away \
                         serves what was copied before"
                    );
                }
            }
            tokio::time::sleep(REST_MIN.max(took.unwrap_or_else(|| began.elapsed()) * REST_FACTOR))
                .await;
            if revisions.changed().await.is_err() {
                return;
            }
        }
    }

    /// Whether a listing may take the place of the last copy: it is of this cluster, and no half of anything.
    fn is_to_be_kept(&self, listing: &Listing) -> bool {
        let find = |key: &str| listing.entries.iter().find(|entry| *entry.key == *key);
        let there = find(&cluster_id::key(&self.prefix));
        let there = there.and_then(|entry| ClusterId::parse(&entry.value));
        let is_ours = self.cluster.is_none() || self.cluster == there;
        is_ours && find(&ImportMarker::new(&self.prefix).alive).is_none()
    }

    /// Makes one, and says how long the store took to be read.
    async fn renew(
        &self,
        store: &dyn Store,
        took: &mut Option<Duration>,
    ) -> Result<u64, RenewError> {
        let began = Instant::now();
        let listing = store.list(&self.folder()).await.map_err(RenewError::Store)?;
        *took = Some(began.elapsed());
        if !self.is_to_be_kept(&listing) {
            return Err(RenewError::Doubtful);
        }
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        let copy = self.clone();
        let written = tokio::task::spawn_blocking(move || copy.write(&listing, now)).await;
        written.map_err(io::Error::other).flatten().map_err(RenewError::File)?;
        Ok(now)
    }
}

/// Why a copy was not made.
enum RenewError {
    Doubtful,
    Store(StoreError),
    File(io::Error),
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
mod tests {
    use tollhouse_store::{Location, Transaction};

    use super::*;

    async fn listing() -> Listing {
        let store = tollhouse_store::open(&Location::Memory).expect("memory");
        for (key, value) in [
            ("/apisix/routes/1", "{\"uri\": \"/a\\n\"}"),
            ("/apisix/tollhouse/keyring", "{}"),
            ("/apisix/upstreams/1", "broken\nin two lines"),
        ] {
            store.commit(Transaction::new().put(key, value)).await.expect("memory takes it");
        }
        store.list("/apisix/").await.expect("memory")
    }

    #[tokio::test]
    async fn a_copy_holds_the_configuration_for_this_user_alone() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().expect("a folder");
        let copy = StoreCopy::new(folder.path(), "/apisix");
        assert_eq!(copy.read().expect("there is none"), None);
        copy.write(&listing().await, 17).expect("the folder takes it");
        let expected = [
            ("/apisix/routes/1", "{\"uri\": \"/a\\n\"}"),
            ("/apisix/upstreams/1", "broken\nin two lines"),
        ];
        let entries = expected.map(|(key, value)| (key.to_owned(), value.to_owned())).to_vec();
        let read = copy.read().expect("it is whole");
        assert_eq!(read, Some(Copied { entries, written_at: 17 }));
        let mode = std::fs::metadata(copy.path()).expect("the file").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }

    #[tokio::test]
    async fn what_is_not_whole_or_of_another_prefix_is_not_used() {
        let folder = tempfile::tempdir().expect("a folder");
        let copy = StoreCopy::new(folder.path(), "/apisix");
        copy.write(&listing().await, 17).expect("the folder takes it");
        let other = StoreCopy::new(folder.path(), "/other");
        assert!(matches!(other.read(), Err(UnusableCopy::Foreign(prefix)) if prefix == "/apisix"));
        let whole = std::fs::read(copy.path()).expect("the file");
        for cut in 0..whole.len() - 1 {
            std::fs::write(copy.path(), &whole[..cut]).expect("the folder takes it");
            assert!(copy.read().is_err(), "{cut} bytes of it");
        }
        for at in 0..whole.len() - 1 {
            let mut bytes = whole.clone();
            bytes[at] ^= 1;
            std::fs::write(copy.path(), &bytes).expect("the folder takes it");
            assert!(copy.read().is_err(), "byte {at} of it changed");
        }
        let newer = String::from_utf8(whole).expect("text").replace("\"format\":1", "\"format\":2");
        std::fs::write(copy.path(), newer).expect("the folder takes it");
        assert!(matches!(copy.read(), Err(UnusableCopy::Newer(2))));
    }

    #[tokio::test]
    async fn a_folder_that_cannot_be_written_keeps_the_last_copy() {
        let folder = tempfile::tempdir().expect("a folder");
        let copy = StoreCopy::new(folder.path(), "/apisix");
        copy.write(&listing().await, 17).expect("the folder takes it");
        std::fs::create_dir(folder.path().join("store-copy.new")).expect("a folder");
        copy.write(&listing().await, 18).expect_err("something is in the way");
        assert_eq!(copy.read().expect("it is whole").expect("it is there").written_at, 17);
    }
}
