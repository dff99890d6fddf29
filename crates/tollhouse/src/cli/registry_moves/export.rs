//! `tollhouse export registry`: what is registered as one file, as of one revision, while gateways run or not. A
//! backup of a registry that nodes share is the same file, with what says which cluster's it is.

use std::fs::{self, File, OpenOptions};
use std::io::{BufWriter, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;
use clap::Args;
use tollhouse_config::Bootstrap;
use tollhouse_control::registry::offline::{self, StoredEntries};
use tollhouse_store::Entry;

use super::file::Writer;
use crate::cli::configuration::Configuration;
use crate::cli::{problems, stdout};

/// Arguments of `export registry`.
#[derive(Debug, Args)]
pub struct ExportArguments {
    #[command(flatten)]
    configuration: Configuration,
    /// Where the file goes, replacing what is there; the standard output when not given. It holds the tokens of
    /// services and namespaces, and only this user may read it.
    #[arg(value_name = "FILE")]
    file: Option<PathBuf>,
}

/// Only the owner may read what holds tokens.
const FILE_MODE: u32 = 0o600;

/// Writes the file.
///
/// # Errors
/// The store cannot be read, or the file not be written.
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
                "{}: {count} objects of the registry in {}\n",
                path.display(),
                offline::name(bootstrap)
            ))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Copies a registry that nodes share to a file that must not be there yet; what there is to say about it.
///
/// # Errors
/// The store cannot be read, or the file is there or cannot be written.
pub fn back_up(bootstrap: &Bootstrap, path: &Path) -> anyhow::Result<String> {
    let name = offline::name(bootstrap);
    if path.exists() {
        anyhow::bail!("failed to back the registry up: {} is there already", path.display());
    }
    let count = replace(path, |file| write(bootstrap, file, is_backed_up))?;
    Ok(format!("{}: {count} entries of the registry in {name}\n", path.display()))
}

/// What a backup has besides: which cluster's it is, so that its nodes know a restored database again. What nodes
/// say of themselves from second to second is left behind.
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

/// Puts a whole new file in the place of an old one; how many entries it has.
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
        // It is incomplete, and the error that counts is the one above.
        let _ = fs::remove_file(&unfinished);
    }
    written.with_context(|| format!("failed to write {}", path.display()))
}
