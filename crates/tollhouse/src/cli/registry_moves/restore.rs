//! `tollhouse restore`: writes the backup of a registry that nodes share to an empty database.
//! Objects that exist there are never replaced; `import registry` does that.

use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, bail};
use clap::Args;
use tokio::runtime::{Builder, Runtime};
use tollhouse_config::Bootstrap;
use tollhouse_control::registry::{database, offline};
use tollhouse_sql::{SqlOptions, SqlStore};
use tollhouse_stdx::plural::counted;
use tollhouse_store::{Store, StoreError, Transaction};

use super::file::Reader;
use crate::cli::configuration::Configuration;
use crate::cli::{problems, stdout};

/// Arguments of `restore`.
#[derive(Debug, Args)]
#[command(
    after_help = "Stop every node of the registry first, and start them afterwards. A registry in a data directory \
                  is restored by putting FILE.registry of its backup to registry/store.db there."
)]
pub struct RestoreArguments {
    #[command(flatten)]
    configuration: Configuration,
    /// File that `tollhouse backup` wrote of the registry: FILE.registry.
    #[arg(value_name = "FILE")]
    file: PathBuf,
}

/// Key that marks a restoration in progress, so that an interrupted restoration can be repeated.
const UNDER_WAY: &str = "/restoring";

/// Maximum number of entries per commit, far below the limit of the store.
const COMMIT_ENTRIES_MAX: usize = 512;
const COMMIT_BYTES_MAX: usize = 4 * 1024 * 1024;

/// Writes the file to the database.
///
/// # Errors
/// If the database is not empty or cannot be written, or the file cannot be read.
pub fn restore(arguments: &RestoreArguments) -> anyhow::Result<ExitCode> {
    let loaded = match problems::load(&arguments.configuration) {
        Ok(loaded) => loaded,
        Err(code) => return Ok(code),
    };
    let bootstrap = &loaded.bootstrap;
    let Some(options) = database::options(bootstrap)? else {
        bail!(
            "the registry is kept in {}, not in a database: to restore that, put the copy there as store.db",
            offline::folder(bootstrap).display()
        );
    };
    // The file is read to its end before anything is written, so that a truncated file is detected.
    let mut whole = open(&arguments.file)?;
    while whole.next_entry().with_context(|| unreadable(&arguments.file))?.is_some() {}
    let count = write(bootstrap, &options, &arguments.file)?;
    stdout::print(&format!(
        "{} restored to {}; start the nodes now\n",
        counted(count, "entry"),
        offline::name(bootstrap)
    ))?;
    Ok(ExitCode::SUCCESS)
}

fn open(path: &Path) -> anyhow::Result<Reader<BufReader<File>>> {
    let file = File::open(path).with_context(|| unreadable(path))?;
    Reader::new(BufReader::new(file)).with_context(|| unreadable(path))
}

fn unreadable(path: &Path) -> String {
    format!("failed to read {}", path.display())
}

fn write(bootstrap: &Bootstrap, options: &SqlOptions, path: &Path) -> anyhow::Result<u64> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let store = runtime.block_on(SqlStore::open(options)).context("the registry's store")?;
    let target = Target { runtime, store: Arc::new(store), name: offline::name(bootstrap) };
    target.begin()?;
    let mut reader = open(path)?;
    let (mut batch, mut bytes, mut count) = (Transaction::new(), 0, 0);
    while let Some((key, value)) = reader.next_entry().with_context(|| unreadable(path))? {
        count += 1;
        bytes += key.len() + value.len();
        batch = batch.put(key, value);
        if batch.operations.len() >= COMMIT_ENTRIES_MAX || bytes >= COMMIT_BYTES_MAX {
            target.commit(std::mem::take(&mut batch))?;
            bytes = 0;
        }
    }
    // The last commit removes the mark of the restoration.
    target.commit(batch.delete(UNDER_WAY))?;
    Ok(count)
}

struct Target {
    runtime: Runtime,
    store: Arc<dyn Store>,
    name: String,
}

impl Target {
    /// Marks the restoration. Refuses a database that is not empty, unless it is marked already.
    fn begin(&self) -> anyhow::Result<()> {
        let first = self.runtime.block_on(self.store.list_page("", "", 1))?.entries.pop();
        let is_under_way = self.runtime.block_on(self.store.get(UNDER_WAY))?.is_some();
        if let Some(first) = first.filter(|_| !is_under_way) {
            bail!(
                "{} is not empty: it has {}, for one. Restore into an empty database, or with another prefix of \
                 tables (registry.store.tables); tollhouse import registry adds to what is there. Nothing was \
                 written",
                self.name,
                first.key
            );
        }
        if is_under_way {
            return Ok(());
        }
        let begin = Transaction::new().put(UNDER_WAY, "{}").when_absent(UNDER_WAY);
        match self.runtime.block_on(self.store.commit(begin)) {
            Ok(_) => Ok(()),
            Err(StoreError::Conflict { .. }) => {
                bail!("another restoration to {} is in progress", self.name)
            }
            Err(error) => Err(error.into()),
        }
    }

    fn commit(&self, batch: Transaction) -> anyhow::Result<()> {
        let committed = self.runtime.block_on(self.store.commit(batch));
        committed.map(drop).with_context(|| {
            format!("restoring to {} was broken off; repeat it once the reason is gone", self.name)
        })
    }
}
