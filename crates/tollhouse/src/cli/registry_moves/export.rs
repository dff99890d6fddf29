//! `tollhouse export registry`: writes the registry to one file, at one revision, whether or not
//! gateways run. The backup of a registry that nodes share has this format too, and also contains
//! the keys that identify its cluster.

use std::fs::{self, File, OpenOptions};
use std::io::{BufWriter, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;
use clap::Args;
use tollhouse_config::Bootstrap;
use tollhouse_control::registry::offline::{self, StoredEntries};
use tollhouse_stdx::plural::counted;
use tollhouse_store::Entry;

use super::file::Writer;
use crate::cli::configuration::Configuration;
use crate::cli::{problems, stdout};

/// Arguments of `export registry`.
#[derive(Debug, Args)]
pub struct ExportArguments {
    #[command(flatten)]
    configuration: Configuration,
    /// File for the export; an existing file is replaced. Standard output by default. The file
    /// contains tokens of services and namespaces and is readable by this user only.
    #[arg(value_name = "FILE")]
    file: Option<PathBuf>,
}

/// File mode of the export. Only the owner may read it, because it contains tokens.
const FILE_MODE: u32 = 0o600;

/// Writes the registry to the file.
///
/// # Errors
/// If the store cannot be read, or the file cannot be written.
pub fn export(arguments: &ExportArguments) -> anyhow::Result<ExitCode> {
    let loaded = match problems::load(&arguments.configuration) {
        Ok(loaded) => loaded,
        Err(code) => return Ok(code),
    };
    let bootstrap = &loaded.bootstrap;
    match &arguments.file {
        None => drop(write(bootstrap, std::io::stdout().lock(), offline::is_registered)?),
        Some(path) => {
            let count = replace(path, |file| write(bootstrap, file, offline::is_registered))?;
            stdout::print(&format!(
                "{}: {} of the registry in {}\n",
                path.display(),
                counted(count, "object"),
                offline::name(bootstrap)
            ))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Copies a registry that nodes share to a new file, and returns the line to print.
///
/// # Errors
/// If the store cannot be read, or the file exists or cannot be written.
pub fn back_up(bootstrap: &Bootstrap, path: &Path) -> anyhow::Result<String> {
    let name = offline::name(bootstrap);
    if path.exists() {
        anyhow::bail!("failed to back the registry up: {} is there already", path.display());
    }
    let count = replace(path, |file| write(bootstrap, file, is_backed_up))?;
    Ok(format!("{}: {} of the registry in {name}\n", path.display(), counted(count, "entry")))
}

/// Whether a backup contains an entry. A backup contains the registered objects, and the keys that
/// identify the cluster, so that its nodes recognise a restored database. Short-lived entries of
/// nodes are left out.
fn is_backed_up(entry: &Entry) -> bool {
    offline::is_registered(entry)
        || (entry.key.starts_with("/tollhouse/") && entry.expires_at_ms.is_none())
}

fn write<W: Write>(
    bootstrap: &Bootstrap,
    out: W,
    is_written: fn(&Entry) -> bool,
) -> anyhow::Result<(W, u64)> {
    let mut stored = StoredEntries::open(bootstrap)?;
    let mut writer = Writer::new(out, stored.revision.0)?;
    loop {
        let page = stored.next_page()?;
        if page.is_empty() {
            return Ok(writer.finish()?);
        }
        for entry in page.iter().filter(|entry| is_written(entry)) {
            writer.write(entry)?;
        }
    }
}

/// Replaces a file atomically, and returns the number of entries written.
fn replace(
    path: &Path,
    fill: impl FnOnce(BufWriter<File>) -> anyhow::Result<(BufWriter<File>, u64)>,
) -> anyhow::Result<u64> {
    let mut unfinished = path.as_os_str().to_owned();
    unfinished.push(format!(".unfinished-{}", std::process::id()));
    let unfinished = PathBuf::from(unfinished);
    let mut options = OpenOptions::new();
    options.write(true).create_new(true).mode(FILE_MODE);
    let written = options.open(&unfinished).map_err(anyhow::Error::from).and_then(|file| {
        let (file, count) = fill(BufWriter::new(file))?;
        file.into_inner()?.sync_all()?;
        fs::rename(&unfinished, path)?;
        Ok(count)
    });
    if written.is_err() {
        // Ignored, because the first error is the one to report.
        let _ = fs::remove_file(&unfinished);
    }
    written.with_context(|| format!("failed to write {}", path.display()))
}
