//! Registry access for commands, without listeners. A command can change the registry, as its only
//! process or as one more node of a shared database, or read its stored entries at one revision.

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
use super::{FOLDER, is_shared, open_either, sealing, thread, until_stopped};
use crate::process::handover::Predecessor;

/// Number of entries per page: some megabytes.
const PAGE_ENTRIES: usize = 1_024;

/// A registry that only this process uses.
pub struct OfflineRegistry {
    /// Handle for reading and for commands.
    pub handle: Registry,
    stop: watch::Sender<bool>,
    keeper: JoinHandle<()>,
}

impl OfflineRegistry {
    /// Opens the configured registry. A store in the data folder is locked, so that no gateway can
    /// run with it meanwhile. In a shared database, this process is one more node until
    /// [`Self::close`].
    ///
    /// # Errors
    /// If the store is in use, cannot be reached or cannot be read.
    pub fn open(bootstrap: &Bootstrap) -> anyhow::Result<Self> {
        let bootstrap = bootstrap.clone();
        let (stop, stopped) = watch::channel(false);
        let (opened, is_open) = mpsc::sync_channel(1);
        let keeper = thread("registry", move || async move {
            match open_keeper(&bootstrap).await {
                Ok((keeper, handle)) => {
                    // `open` is waiting for this value.
                    let _ = opened.send(Ok(handle));
                    keeper.run(until_stopped(stopped)).await;
                }
                Err(error) => drop(opened.send(Err(error))),
            }
        })?;
        let handle = is_open.recv().context("the registry's thread ended at once")??;
        Ok(Self { handle, stop, keeper })
    }

    /// Closes the registry. A node that shares a database announces that it leaves.
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

/// Contents of the registry's store at one revision, read page by page. Gateways may be running
/// meanwhile.
pub struct StoredEntries {
    source: Source,
    bootstrap: Bootstrap,
    pub revision: Revision,
}

enum Source {
    /// All entries: a file is small enough to be read at once, because a registry holds it in
    /// memory.
    Read(std::vec::IntoIter<Entry>),
    Database {
        runtime: Runtime,
        snapshot: Box<Snapshot>,
        after: String,
    },
}

impl StoredEntries {
    /// Opens the configured store for reading. A data folder without a store is empty.
    ///
    /// # Errors
    /// If the store cannot be reached or read.
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
            let source = Source::Database { runtime, snapshot, after };
            return Ok(Self { source, bootstrap: bootstrap.clone(), revision });
        }
        let (entries, revision) = match tollhouse_store::read_directory(&folder(bootstrap), "") {
            Ok(listing) => {
                let listing = sealing::open_listing(listing, bootstrap)?;
                (listing.entries, listing.revision)
            }
            Err(StoreError::Missing { .. }) => (Vec::new(), Revision::ZERO),
            Err(error) => return Err(error).context("the registry's store"),
        };
        let source = Source::Read(entries.into_iter());
        Ok(Self { source, bootstrap: bootstrap.clone(), revision })
    }

    /// Returns the next entries in key order; empty at the end.
    ///
    /// # Errors
    /// If the connection is lost.
    pub fn next_page(&mut self) -> anyhow::Result<Vec<Entry>> {
        match &mut self.source {
            Source::Read(entries) => Ok(entries.by_ref().take(PAGE_ENTRIES).collect()),
            Source::Database { runtime, snapshot, after } => {
                let page = runtime.block_on(snapshot.page(after, PAGE_ENTRIES));
                let page = page.context("the registry's store")?;
                if let Some(last) = page.last() {
                    *after = last.key.to_string();
                }
                sealing::open_entries(page, &self.bootstrap)
            }
        }
    }
}

/// Returns the folder of the registry's store, if it is not in a shared database.
pub fn folder(bootstrap: &Bootstrap) -> PathBuf {
    bootstrap.data_dir.join(FOLDER)
}

/// Returns the path or address of the registry's store for error messages.
pub fn name(bootstrap: &Bootstrap) -> String {
    match database::options(bootstrap) {
        Ok(Some(options)) if is_shared(bootstrap) => {
            let servers: Vec<String> = options.servers.iter().map(ToString::to_string).collect();
            format!("{} at {}/{}", options.engine, servers.join(","), options.database)
        }
        _ => folder(bootstrap).display().to_string(),
    }
}

/// Whether an entry is registered data, rather than internal messages between nodes.
pub fn is_registered(entry: &Entry) -> bool {
    KEY_PREFIXES.iter().any(|prefix| entry.key.starts_with(prefix))
}
