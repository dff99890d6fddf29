//! `tollhouse backup`: copies the store, whether or not a gateway runs.
//!
//! The store does the copying. This module handles arguments and progress, and leaves out the
//! keyring, without which the secrets in the copy cannot be read, unless it is requested.

use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, bail};
use clap::Args;
use tollhouse_config::Bootstrap;
use tollhouse_stdx::bytes_size;
use tollhouse_store::Progress;

use super::configuration::Configuration;
use super::{configured_store, problems, registry_moves, stdout};
use tollhouse_control::{registry, secrets};

/// Suffix of the file to which the registry's store is copied.
const REGISTRY_SUFFIX: &str = ".registry";

/// Suffix of the file to which the keyring is copied.
const KEYRING_SUFFIX: &str = ".keyring";

/// Arguments of `backup`.
#[derive(Debug, Args)]
pub struct BackupArguments {
    #[command(flatten)]
    configuration: Configuration,
    /// File for the copy; an existing file is never replaced. To restore, put it into an empty data
    /// directory as `store.db`, with the `keyring` of the old one beside it. The registry is copied
    /// to FILE.registry, to be restored as `registry/store.db` with `registry.keyring`; a registry that nodes share in a
    /// database is restored with `tollhouse restore`.
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Copy the keyrings too, to FILE.keyring and FILE.registry.keyring, readable by this user only:
    /// the files together reveal every secret of the stores.
    #[arg(long)]
    with_keyring: bool,
}

/// Copies the stores of the data directory and of the registry, each at one revision.
///
/// # Errors
/// If a store is missing or cannot be read, or the copy cannot be written.
pub fn run(arguments: &BackupArguments) -> anyhow::Result<ExitCode> {
    let loaded = match problems::load(&arguments.configuration) {
        Ok(loaded) => loaded,
        Err(code) => return Ok(code),
    };
    let bootstrap = &loaded.bootstrap;
    let data_dir = &bootstrap.data_dir;
    let elsewhere = kept_elsewhere(bootstrap);
    let registry_file = with_suffix(&arguments.file, REGISTRY_SUFFIX);
    let keyrings = [
        (secrets::keyring_path(bootstrap), with_suffix(&arguments.file, KEYRING_SUFFIX)),
        (registry::keyring_path(bootstrap), with_suffix(&registry_file, KEYRING_SUFFIX)),
    ];
    let keyrings = keyrings.into_iter().filter(|(keyring, _)| keyring.exists());
    let keyrings: Vec<_> = keyrings.collect();
    // Checked before anything is copied, because a copy without the requested keys is worse than
    // none.
    if arguments.with_keyring
        && let Some((_, copy)) = keyrings.iter().find(|(_, copy)| copy.exists())
    {
        bail!("failed to copy the keyring: {} is there already", copy.display());
    }
    let mut text = match &elsewhere {
        None => copy(data_dir, &arguments.file)?,
        Some(_) => String::new(),
    };
    let registry = data_dir.join(registry::FOLDER);
    if registry::is_shared(bootstrap) {
        text.push_str(&registry_moves::back_up(bootstrap, &registry_file)?);
    } else if registry.exists() {
        text.push_str(&copy(&registry, &registry_file)?);
    }
    if let Some(place) = elsewhere {
        if text.is_empty() {
            bail!("{place}; there is nothing else to copy in {}", data_dir.display());
        }
        text.push_str(&format!("{place}\n"));
    }
    for (keyring, copy) in keyrings {
        if arguments.with_keyring {
            text.push_str(&copy_keyring(&keyring, &copy)?);
        } else {
            let hint = "secrets in it are sealed; keep a copy of the keys too, in another place";
            text.push_str(&format!("{hint}: {}\n", keyring.display()));
        }
    }
    stdout::print(&text)?;
    Ok(ExitCode::SUCCESS)
}

/// Returns a note on where the configuration is stored, if not in the data directory, and how to
/// copy it there.
fn kept_elsewhere(bootstrap: &Bootstrap) -> Option<String> {
    if let Some(file) = &bootstrap.resources {
        return Some(format!(
            "the configuration is the file {}, which is not copied",
            file.display()
        ));
    }
    configured_store::is_shared(bootstrap).then(|| {
        format!(
            "the configuration is kept in {}, of which etcdctl snapshot save makes copies; tollhouse export writes \
             its objects to a file",
            configured_store::name(bootstrap)
        )
    })
}

fn with_suffix(file: &Path, suffix: &str) -> PathBuf {
    let mut name = file.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

/// Copies the keyring to `copy`, and returns the line to print about it.
fn copy_keyring(keyring: &Path, copy: &Path) -> anyhow::Result<String> {
    let text = std::fs::read_to_string(keyring).with_context(|| {
        format!("failed to copy the keyring: {} cannot be read", keyring.display())
    })?;
    secrets::keep(copy, text.trim_end())?;
    Ok(format!("{}: the keys of {}\n", copy.display(), keyring.display()))
}

/// Copies the store of a folder, and returns the line to print about it.
fn copy(folder: &Path, file: &Path) -> anyhow::Result<String> {
    let mut meter = Meter { shown: false, to_terminal: std::io::stderr().is_terminal() };
    let mut last = Progress { done_bytes: 0, total_bytes: 0 };
    let copied = tollhouse_store::backup_directory(folder, file, &mut |progress| {
        meter.show(progress);
        last = progress;
    });
    meter.end();
    copied.context("failed to back the store up")?;
    let size = bytes_size::format(last.total_bytes);
    Ok(format!("{}: {size} of the store in {}\n", file.display(), folder.display()))
}

/// Progress meter on standard error; prints only if that is a terminal.
struct Meter {
    shown: bool,
    to_terminal: bool,
}

impl Meter {
    fn show(&mut self, progress: Progress) {
        let is_over = progress.done_bytes >= progress.total_bytes;
        if !self.to_terminal || (is_over && !self.shown) {
            return;
        }
        self.shown = true;
        let percent = progress.done_bytes * 100 / progress.total_bytes.max(1);
        let total = bytes_size::format(progress.total_bytes);
        // Ignored, because a closed terminal must not stop the backup.
        let _ = write!(std::io::stderr(), "\rcopying {total}: {percent} %");
    }

    fn end(&self) {
        if self.shown {
            let _ = writeln!(std::io::stderr());
        }
    }
}
