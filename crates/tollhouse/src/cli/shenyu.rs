//! `tollhouse import shenyu` and `tollhouse export shenyu`: transfer ShenYu's objects between the
//! configured store and an archive of ShenYu's admin, or a running admin.
//!
//! The crate `tollhouse-shenyu-admin` converts the objects, also for the REST interface;
//! `shenyu/remote.rs` reads from a running admin.

mod remote;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use clap::Args;
use tollhouse_config::Bootstrap;
use tollhouse_shenyu_admin::{Report, Source};
use tollhouse_store::Batches;
use tollhouse_store::{Listing, Operation, Revision, Store, StoreError};

use self::remote::Remote;
use super::configuration::Configuration;
use super::configured_store::{self, OpenStore};
use super::{export, import, problems, stdout};

/// Maximum size of an imported archive in bytes; ShenYu's own limit is 10 MiB.
const ARCHIVE_BYTES_MAX: u64 = 256 << 20;

/// Arguments of `import shenyu`.
#[derive(Debug, Args)]
pub struct ImportArguments {
    #[command(flatten)]
    configuration: Configuration,
    /// The archive that ShenYu's admin exported.
    #[arg(value_name = "EXPORT.ZIP", required_unless_present = "admin")]
    file: Option<PathBuf>,
    /// Import the present objects of this admin of ShenYu, such as `http://127.0.0.1:9095`, instead
    /// of an archive.
    #[arg(long, value_name = "URL", conflicts_with = "file")]
    admin: Option<String>,
    /// User of that admin, with permission to export.
    #[arg(long, value_name = "NAME", requires = "admin", default_value = "admin")]
    user: String,
    /// File with the password of that user; by default ShenYu's initial password.
    #[arg(long, value_name = "FILE", requires = "admin")]
    password_file: Option<PathBuf>,
    /// Put all objects into this namespace of ShenYu instead of each into its own.
    #[arg(long, value_name = "ID")]
    namespace: Option<String>,
    /// Print the effect on each object without changing anything.
    #[arg(long)]
    dry_run: bool,
    /// Do not ask before writing.
    #[arg(short, long)]
    yes: bool,
}

/// Arguments of `export shenyu`.
#[derive(Debug, Args)]
pub struct ExportArguments {
    #[command(flatten)]
    configuration: Configuration,
    /// File for the archive; an existing file is replaced. It contains secrets of applications.
    #[arg(value_name = "EXPORT.ZIP")]
    file: PathBuf,
    /// Only objects of this namespace of ShenYu.
    #[arg(long, value_name = "ID")]
    namespace: Option<String>,
}

/// Source of an import.
enum ImportSource {
    Archive(Vec<u8>),
    Groups(serde_json::Value),
}

impl ImportSource {
    fn as_source(&self) -> Source<'_> {
        match self {
            Self::Archive(bytes) => Source::Archive(bytes),
            Self::Groups(groups) => Source::Groups(groups),
        }
    }
}

/// Imports ShenYu's objects into the store. An existing object with an imported id is replaced, all
/// others stay.
///
/// # Errors
/// If the source cannot be read, or the store is in use or cannot be written.
pub fn import(arguments: &ImportArguments) -> anyhow::Result<ExitCode> {
    let loaded = match problems::load(&arguments.configuration) {
        Ok(loaded) => loaded,
        Err(code) => return Ok(code),
    };
    let source = take(arguments)?;
    let namespace = arguments.namespace.as_deref();
    let plan = |listing: &Listing| {
        tollhouse_shenyu_admin::plan_import(listing, source.as_source(), namespace)
    };
    if arguments.dry_run {
        let (report, _) = plan(&look(&loaded.bootstrap)?)?;
        stdout::print(&render(&report))?;
        stdout::print("nothing was written: --dry-run\n")?;
        return Ok(ExitCode::SUCCESS);
    }
    // The store is locked from before the comparison until everything is written.
    let store = OpenStore::open(&loaded.bootstrap).map_err(in_use)?;
    let objects = store.shenyu();
    let listing = store.wait(objects.list(tollhouse_shenyu::KEY_PREFIX));
    let (report, operations) = plan(&listing.context("failed to read the store")?)?;
    stdout::print(&render(&report))?;
    if operations.is_empty() {
        stdout::print("nothing to write\n")?;
        return Ok(ExitCode::SUCCESS);
    }
    if !arguments.yes && !import::agreed()? {
        stdout::print("nothing was written\n")?;
        return Ok(ExitCode::FAILURE);
    }
    write(&store, operations)?;
    let name = configured_store::name(&loaded.bootstrap);
    stdout::print(&format!("written to {name}\n"))?;
    Ok(ExitCode::SUCCESS)
}

fn take(arguments: &ImportArguments) -> anyhow::Result<ImportSource> {
    if let Some(url) = &arguments.admin {
        let password = arguments.password_file.as_deref();
        return Remote::log_in(url, &arguments.user, password)?
            .take(arguments.namespace.as_deref());
    }
    let file = arguments.file.as_deref().context("an archive or --admin is needed")?;
    let read = || {
        let length = std::fs::metadata(file)?.len();
        if length > ARCHIVE_BYTES_MAX {
            let text = format!("it has {length} bytes, at most {ARCHIVE_BYTES_MAX} are read");
            return Err(std::io::Error::other(text));
        }
        std::fs::read(file)
    };
    let bytes = read().with_context(|| format!("failed to read {}", file.display()))?;
    Ok(ImportSource::Archive(bytes))
}

/// Adds a hint to the error for a store in use: write through its gateway.
fn in_use(error: anyhow::Error) -> anyhow::Error {
    if !matches!(error.downcast_ref(), Some(StoreError::InUse { .. })) {
        return error;
    }
    anyhow::anyhow!(
        "a gateway runs with this data directory: stop it first, or send the archive to its own \
         /configs/import at listen.shenyu"
    )
}

/// Reads ShenYu's objects in the store; a missing store counts as empty.
fn look(bootstrap: &Bootstrap) -> anyhow::Result<Listing> {
    match configured_store::read_shenyu(bootstrap) {
        Err(error) if matches!(error.downcast_ref(), Some(StoreError::Missing { .. })) => {
            Ok(Listing { entries: Vec::new(), revision: Revision::default() })
        }
        listing => listing.context("failed to read the store"),
    }
}

/// Writes the operations in as few transactions as the store's limits allow.
fn write(store: &OpenStore, operations: Vec<Operation>) -> anyhow::Result<()> {
    let count = operations.len();
    let kept = store.shenyu();
    let mut batches = Batches::new(kept.limits());
    operations.into_iter().for_each(|operation| batches.add(operation));
    let mut written = 0;
    for transaction in batches.finish() {
        let size = transaction.operations.len();
        store.wait(kept.commit(transaction)).with_context(|| {
            format!(
                "failed to write to the store; {written} of {count} objects were written: repeat the import \
                 once the reason is gone"
            )
        })?;
        written += size;
    }
    Ok(())
}

/// Formats the report of an import: one line per kind of object, and one per object that was
/// changed or left out.
fn render(report: &Report) -> String {
    let mut text = String::new();
    for part in &report.parts {
        text.push_str(&format!("{:<18}{:>7} taken over\n", part.name, part.taken));
        for problem in &part.problems {
            text.push_str(&format!("  {problem}\n"));
        }
        if part.more_problems > 0 {
            text.push_str(&format!("  and {} more like these\n", part.more_problems));
        }
    }
    for name in &report.unknown {
        text.push_str(&format!("{name} is not a file of an export; it was left out\n"));
    }
    text
}

/// Writes ShenYu's objects as an archive; a gateway may run meanwhile.
///
/// # Errors
/// If the store cannot be read, or the archive cannot be written.
pub fn export(arguments: &ExportArguments) -> anyhow::Result<ExitCode> {
    let loaded = match problems::load(&arguments.configuration) {
        Ok(loaded) => loaded,
        Err(code) => return Ok(code),
    };
    let listing =
        configured_store::read_shenyu(&loaded.bootstrap).context("failed to read the store")?;
    let namespace = arguments.namespace.as_deref();
    let archive = tollhouse_shenyu_admin::export_archive(&listing, namespace)?;
    let file = &arguments.file;
    export::replace(file, &archive)
        .with_context(|| format!("failed to write {}", file.display()))?;
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use tollhouse_shenyu_admin::Part;

    use super::*;

    #[test]
    fn a_report_names_what_was_not_taken() {
        let problems = vec!["`a`: it has no name".to_owned()];
        let part = Part { name: "selector", taken: 2, problems, more_problems: 3 };
        let report = Report { parts: vec![part], unknown: vec!["x.txt".to_owned()] };
        assert_eq!(
            render(&report),
            "selector                2 taken over\n  `a`: it has no name\n  and 3 more like these\n\
             x.txt is not a file of an export; it was left out\n"
        );
    }
}
