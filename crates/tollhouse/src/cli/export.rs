//! `tollhouse export`: writes the objects of the store as a document in APISIX's standalone format.
//!
//! A gateway may run meanwhile, because the store is read without its lock, or is an etcd that
//! gateways share. The document contains one revision of the store. Secrets stay sealed unless
//! `--reveal-secrets` is given. Sealed texts carry a mark, so that an import does not take the
//! sealed text for the secret.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, bail};
use clap::{Args, Subcommand, ValueEnum};
use tollhouse_config::{Bootstrap, Format, declarative};
use tollhouse_model::encryption::Form;
use tollhouse_plugin::sealing::{self, ObjectRef};

use super::configuration::Configuration;
use super::objects::{self, Objects};
use super::problems::UNUSABLE;
use super::{configured_store, problems, registry_moves, shenyu, stdout};
use tollhouse_control::secrets;

/// Arguments of `export`.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct ExportArguments {
    #[command(subcommand)]
    other: Option<OtherShape>,
    #[command(flatten)]
    configuration: Configuration,
    /// File for the document; an existing file is replaced. Standard output by default.
    #[arg(value_name = "FILE")]
    file: Option<PathBuf>,
    /// Format of the document; by default that of the file's extension.
    #[arg(long, value_enum)]
    format: Option<DocumentFormat>,
    /// Include creation and modification times.
    #[arg(long)]
    with_times: bool,
    /// Write secrets in the clear instead of sealed with the keys of the data directory.
    #[arg(long)]
    reveal_secrets: bool,
}

/// Formats other than APISIX's.
#[derive(Debug, Subcommand)]
enum OtherShape {
    /// Write ShenYu's objects as the archive that its admin exports and imports.
    Shenyu(shenyu::ExportArguments),
    /// Write the registry as one file, one line per object.
    Registry(registry_moves::ExportArguments),
    /// Write the registry into the database of a Polaris.
    Polaris(registry_moves::PolarisExportArguments),
}

/// Format of a document.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum DocumentFormat {
    /// YAML that ends in #END.
    Yaml,
    /// JSON.
    Json,
}

impl DocumentFormat {
    /// Returns the requested format, or that of the file's extension.
    pub fn chosen(asked: Option<Self>, file: Option<&Path>) -> Format {
        match asked {
            Some(Self::Yaml) => Format::Yaml,
            Some(Self::Json) => Format::Json,
            None => file.map_or(Format::Yaml, Format::from_path),
        }
    }
}

/// File mode of the exported document. Only the owner may read it, because it contains credentials.
const FILE_MODE: u32 = 0o600;

/// Writes the objects of the store as a document.
///
/// # Errors
/// If the store cannot be read, or the document cannot be written.
pub fn run(arguments: &ExportArguments) -> anyhow::Result<ExitCode> {
    match &arguments.other {
        Some(OtherShape::Shenyu(arguments)) => return shenyu::export(arguments),
        Some(OtherShape::Registry(arguments)) => return registry_moves::export(arguments),
        Some(OtherShape::Polaris(arguments)) => return registry_moves::export_polaris(arguments),
        None => {}
    }
    let loaded = match problems::load(&arguments.configuration) {
        Ok(loaded) => loaded,
        Err(code) => return Ok(code),
    };
    let (text, code) = document(arguments, &loaded.bootstrap)?;
    match &arguments.file {
        Some(file) => replace(file, text.as_bytes())
            .with_context(|| format!("failed to write {}", file.display()))?,
        None => stdout::print(&text)?,
    }
    Ok(code)
}

fn document(
    arguments: &ExportArguments,
    bootstrap: &Bootstrap,
) -> anyhow::Result<(String, ExitCode)> {
    let prefix = objects::prefix(bootstrap);
    let listing = configured_store::read(bootstrap).context("failed to read the store")?;
    let (mut found, wrong) = objects::from_listing(&listing, prefix);
    problems::print("store", &wrong);
    if arguments.reveal_secrets {
        reveal(&mut found, bootstrap)?;
    } else {
        mark(&mut found, bootstrap)?;
    }
    let items: Vec<_> = found
        .into_iter()
        .map(|((kind, _), object)| {
            let value = if arguments.with_times { object.with_times() } else { object.value };
            (kind, value)
        })
        .collect();
    let format = DocumentFormat::chosen(arguments.format, arguments.file.as_deref());
    let code = if wrong.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(UNUSABLE) };
    Ok((declarative::write(&items, format), code))
}

fn reveal(found: &mut Objects, bootstrap: &Bootstrap) -> anyhow::Result<()> {
    let Some(keyring) = secrets::keyring_if_any(bootstrap)? else {
        let path = secrets::keyring_path(bootstrap);
        bail!(
            "failed to reveal secrets: {} is not there; put it back, or export without \
               --reveal-secrets",
            path.display()
        );
    };
    let catalogue = tollhouse_control::plugins::catalogue();
    for ((kind, _), object) in found.iter_mut() {
        object.unseal(*kind, &catalogue, Some(&keyring));
    }
    Ok(())
}

/// Reseals secrets from APISIX's form, which cannot be distinguished from other text, to the new
/// form, which carries a mark.
fn mark(found: &mut Objects, bootstrap: &Bootstrap) -> anyhow::Result<()> {
    let Some(keyring) = secrets::keyring_if_any(bootstrap)? else { return Ok(()) };
    let keyring = keyring.with_form(Form::Marked);
    let catalogue = tollhouse_control::plugins::catalogue();
    for ((kind, id), object) in found.iter_mut() {
        sealing::reseal(
            ObjectRef::new(*kind, id.as_str()),
            &mut object.value,
            &catalogue,
            &keyring,
        );
    }
    Ok(())
}

/// Replaces a file by writing a temporary one and renaming it.
pub(super) fn replace(file: &Path, content: &[u8]) -> std::io::Result<()> {
    let mut unfinished = file.as_os_str().to_owned();
    unfinished.push(format!(".unfinished-{}", std::process::id()));
    let unfinished = PathBuf::from(unfinished);
    let mut options = OpenOptions::new();
    let made = options.write(true).create_new(true).mode(FILE_MODE).open(&unfinished);
    let written = made.and_then(|mut opened| {
        opened.write_all(content)?;
        opened.sync_all()?;
        fs::rename(&unfinished, file)
    });
    if written.is_err() {
        // Ignored, because the first error is the one to report.
        let _ = fs::remove_file(&unfinished);
    }
    written
}
