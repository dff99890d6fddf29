//! `tollhouse import shenyu` and `tollhouse export shenyu`: ShenYu's objects between the configured store
//! and the archive that ShenYu's admin exports, or an admin that runs.
//!
//! What an object becomes is decided in `tollhouse-shenyu-admin`, for the REST interface and for here; asking
//! a running admin is in `shenyu/remote.rs`.

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

/// Largest archive that is read, in bytes: ShenYu's own takes 10 MiB.
const ARCHIVE_BYTES_MAX: u64 = 256 << 20;

/// Arguments of `import shenyu`.
#[derive(Debug, Args)]
pub struct ImportArguments {
    #[command(flatten)]
    configuration: Configuration,
    /// The archive that ShenYu's admin exported.
    #[arg(value_name = "EXPORT.ZIP", required_unless_present = "admin")]
    file: Option<PathBuf>,
    /// Take what this admin of ShenYu's has now, such as `http://127.0.0.1:9095`, instead of an archive.
    #[arg(long, value_name = "URL", conflicts_with = "file")]
    admin: Option<String>,
    /// The user at that admin; who may export.
    #[arg(long, value_name = "NAME", requires = "admin", default_value = "admin")]
    user: String,
    /// A file with the password of that user; without it, the one that ShenYu begins with.
    #[arg(long, value_name = "FILE", requires = "admin")]
    password_file: Option<PathBuf>,
    /// Put everything into this namespace of ShenYu's instead of each object into its own.
    #[arg(long, value_name = "ID")]
    namespace: Option<String>,
    /// Say what would become of each object, and change nothing.
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
    /// Where the archive goes, replacing what is there. It holds secrets of applications.
    #[arg(value_name = "EXPORT.ZIP")]
    file: PathBuf,
    /// Only what is in this namespace of ShenYu's.
    #[arg(long, value_name = "ID")]
    namespace: Option<String>,
}

/// What is taken over.
enum Taken {
    Archive(Vec<u8>),
    Groups(serde_json::Value),
}

impl Taken {
    fn as_source(&self) -> Source<'_> {
        match self {
            Self::Archive(bytes) => Source::Archive(bytes),
            Self::Groups(groups) => Source::Groups(groups),
        }
    }
}

/// Brings what ShenYu has into the store. What has the same id is replaced, everything else stays.
///
/// # Errors
/// Nothing can be read, or the store is in use or cannot be written.
pub fn import(arguments: &ImportArguments) -> anyhow::Result<ExitCode> {
    let loaded = match problems::load(&arguments.configuration) {
        Ok(loaded) => loaded,
        Err(code) => return Ok(code),
    };
    let taken = take(arguments)?;
    let namespace = arguments.namespace.as_deref();
    let plan = |listing: &Listing| {
        tollhouse_shenyu_admin::plan_import(listing, taken.as_source(), namespace)
    };
    if arguments.dry_run {
        let (report, _) = plan(&look(&loaded.bootstrap)?)?;
        stdout::print(&render(&report))?;
        stdout::print("nothing was written: --dry-run\n")?;
        return Ok(ExitCode::SUCCESS);
    }
    // Held from before it is compared until all is written.
    let store = OpenStore::open(&loaded.bootstrap).map_err(in_use)?;
    let kept = store.shenyu();
    let listing = store.wait(kept.list(tollhouse_shenyu::KEY_PREFIX));
    let (report, operations) = plan(&listing.context("failed to read the store")?)?;
    stdout::print(&render(&report))?;
    if operations.is_empty() {
        stdout::print("there is nothing to write\n")?;
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

fn take(arguments: &ImportArguments) -> anyhow::Result<Taken> {
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
    Ok(Taken::Archive(bytes))
}

/// A store in use is written through the gateway that uses it.
fn in_use(error: anyhow::Error) -> anyhow::Error {
    if !matches!(error.downcast_ref(), Some(StoreError::InUse { .. })) {
        return error;
    }
    anyhow::anyhow!(
        "a gateway runs with this data directory: stop it first, or send the archive to its own \
         /configs/import at listen.shenyu"
    )
}

/// What is in the store now; nothing where there is none yet.
fn look(bootstrap: &Bootstrap) -> anyhow::Result<Listing> {
    match configured_store::read_shenyu(bootstrap) {
        Err(error) if matches!(error.downcast_ref(), Some(StoreError::Missing { .. })) => {
            Ok(Listing { entries: Vec::new(), revision: Revision::default() })
        }
        listing => listing.context("failed to read the store"),
    }
}

/// As few transactions as the store's limits allow.
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

/// A line for each kind of objects, and one for each that was not taken as it is.
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
        text.push_str(&format!("{name} is no file of an export; it was left out\n"));
    }
    text
}

/// Writes the archive; a gateway may run meanwhile.
///
/// # Errors
/// The store cannot be read, or the archive not be written.
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
             x.txt is no file of an export; it was left out\n"
        );
    }
}
