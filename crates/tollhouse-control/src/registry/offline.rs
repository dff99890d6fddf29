//! The registry for commands that read or write it beside or without a running gateway: its keeper without
//! listeners, as a node for as long as the command takes where others share the database, and its entries as of one
//! revision.

use std::path::PathBuf;
use std::sync::mpsc;
use std::thread::JoinHandle;

use anyhow::Context;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::watch;
use tollhouse_config::Bootstrap;
use tollhouse_registry::{KEY_PREFIXES, Keeper, Options, Registry};
use tollhouse_sql::Snapshot;
use tollhouse_store::{Entry, Revision, StoreError};

use super::database::{self, SharedDatabase};
use super::{FOLDER, is_shared, open_either, thread, until_stopped};
use crate::process::handover::Predecessor;

/// Entries of a page: some megabytes.
const PAGE_ENTRIES: usize = 1_024;

/// A registry that nobody but this process asks.
pub struct OfflineRegistry {
    /// Takes commands.
    pub handle: Registry,
    stop: watch::Sender<bool>,
    keeper: JoinHandle<()>,
}

impl OfflineRegistry {
    /// Opens the registry that the configuration names. That of a data folder is then held: no gateway may run
    /// with it. One in a database has one node more until [`Self::close`].
    ///
    /// # Errors
    /// It is in use, or cannot be reached or read.
    pub fn open(bootstrap: &Bootstrap) -> anyhow::Result<Self> {
        let bootstrap = bootstrap.clone();
        let (stop, stopped) = watch::channel(false);
        let (opened, is_open) = mpsc::sync_channel(1);
        let keeper = thread("registry", move || async move {
            match open_keeper(&bootstrap).await {
                Ok((keeper, handle)) => {
                    // Whoever opened it waits for the answer.
                    let _ = opened.send(Ok(handle));
                    keeper.run(until_stopped(stopped)).await;
                }
                Err(error) => drop(opened.send(Err(error))),
            }
        })?;
        let handle = is_open.recv().context("the registry's thread ended at once")??;
        Ok(Self { handle, stop, keeper })
    }

    /// Ends it: a node that shares a database tells the others that it leaves.
    pub fn close(self) {
        let _ = self.stop.send(true);
        super::join(self.keeper);
    }
}

async fn open_keeper(bootstrap: &Bootstrap) -> anyhow::Result<(Keeper, Registry)> {
    let name = format!("a command (process {})", std::process::id());
    let database = SharedDatabase::named(name);
    let (store, cluster) = open_either(bootstrap, &database, Predecessor::None).await?;
    let options =
        Options { memory_max: bootstrap.registry.memory_max, cluster, ..Options::default() };
    Keeper::open(store, options).await.context("the registry's store cannot be read")
}

/// What the registry's store holds, as of one revision: a page after the other. Gateways may run meanwhile.
pub struct StoredEntries {
    source: Source,
    /// The revision of all that is read.
    pub revision: Revision,
}

enum Source {
    /// Read already: a file is small enough that a registry holds it in memory.
    Read(std::vec::IntoIter<Entry>),
    Database {
        runtime: Runtime,
        snapshot: Box<Snapshot>,
        after: String,
    },
}

impl StoredEntries {
    /// Begins to read the store that the configuration names; a data folder without one has nothing.
    ///
    /// # Errors
    /// It cannot be reached or read.
    pub fn open(bootstrap: &Bootstrap) -> anyhow::Result<Self> {
        if let Some(options) = database::options(bootstrap)? {
            let runtime = Builder::new_current_thread().enable_all().build()?;
            let opened = runtime.block_on(async {
                let mut snapshot = Snapshot::open(&options).await?;
                let revision = snapshot.revision().await?;
                Ok::<_, StoreError>((snapshot, revision))
            });
            let (snapshot, revision) = opened.context("the registry's store")?;
            let (snapshot, after) = (Box::new(snapshot), String::new());
            return Ok(Self { source: Source::Database { runtime, snapshot, after }, revision });
        }
        let (entries, revision) = match tollhouse_store::read_directory(&folder(bootstrap), "") {
            Ok(listing) => (listing.entries, listing.revision),
            Err(StoreError::Missing { .. }) => (Vec::new(), Revision::ZERO),
            Err(error) => return Err(error).context("the registry's store"),
        };
        Ok(Self { source: Source::Read(entries.into_iter()), revision })
    }

    /// The next entries in the order of their keys; none at the end.
    ///
    /// # Errors
    /// The connection is lost.
    pub fn next_page(&mut self) -> anyhow::Result<Vec<Entry>> {
        match &mut self.source {
            Source::Read(entries) => Ok(entries.by_ref().take(PAGE_ENTRIES).collect()),
            Source::Database { runtime, snapshot, after } => {
                let page = runtime.block_on(snapshot.page(after, PAGE_ENTRIES));
                let page = page.context("the registry's store")?;
                if let Some(last) = page.last() {
                    *after = last.key.to_string();
                }
                Ok(page)
            }
        }
    }
}

/// The folder that the registry's store is in, where it is in none that is shared.
pub fn folder(bootstrap: &Bootstrap) -> PathBuf {
    bootstrap.data_dir.join(FOLDER)
}

/// What people call the place of the registry.
pub fn name(bootstrap: &Bootstrap) -> String {
    match database::options(bootstrap) {
        Ok(Some(options)) if is_shared(bootstrap) => {
            let servers = options.servers.iter().map(|(host, port)| format!("{host}:{port}"));
            let servers: Vec<String> = servers.collect();
            format!("{} at {}/{}", options.engine, servers.join(","), options.database)
        }
        _ => folder(bootstrap).display().to_string(),
    }
}

/// Whether an entry is something that was registered, rather than what nodes tell each other.
pub fn is_registered(entry: &Entry) -> bool {
    KEY_PREFIXES.iter().any(|prefix| entry.key.starts_with(prefix))
}
