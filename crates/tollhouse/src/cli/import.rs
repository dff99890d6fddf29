//! `tollhouse import`: writes a document in APISIX's standalone format, or the contents of an
//! APISIX etcd, to the store.
//!
//! The document is read and checked as by `check`, and compared with the stored objects. The
//! difference is printed and confirmed before anything is written. Comparing is in
//! `tollhouse_admin::transfer`, which the console uses too; printing is in `import/render.rs`. The
//! targets are in `import/target.rs` (the store of this machine), `import/whole.rs` (a store that
//! gateways share) and `import/admin.rs` (an Admin API).

mod admin;
mod ngxway;
mod render;
mod target;
mod whole;

use std::io::{BufRead, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, bail};
use clap::{Args, Subcommand};
use tollhouse_admin::transfer::{Plan, Prune};
use tollhouse_config::bootstrap::Secret;
use tollhouse_config::{Bootstrap, Document, declarative};
use tollhouse_control::plugins;
use tollhouse_model::encryption::Keyring;
use tollhouse_model::{Problem, Problems};

use self::target::Target;
use super::configuration::Configuration;
use super::export::DocumentFormat;
use super::objects::{self, Objects};
use super::problems::UNUSABLE;
use super::{check, configured_store, problems, registry_moves, shenyu, stdout};

/// Arguments of `import`.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub struct ImportArguments {
    #[command(subcommand)]
    other: Option<OtherSource>,
    #[command(flatten)]
    destination: Destination,
    /// The document: YAML that ends in #END, or JSON.
    #[arg(value_name = "FILE", required_unless_present = "etcd")]
    file: Option<PathBuf>,
    #[command(flatten)]
    etcd: EtcdSource,
    /// Format of the document; by default that of the file's extension.
    #[arg(long, value_enum)]
    format: Option<DocumentFormat>,
    /// Delete objects that are not in the document.
    #[arg(long)]
    prune: bool,
}

/// Place to which objects are written, and how.
#[derive(Debug, Clone, Args)]
struct Destination {
    #[command(flatten)]
    configuration: Configuration,
    /// Print the changes without making them.
    #[arg(long)]
    dry_run: bool,
    /// Do not ask before writing.
    #[arg(short, long)]
    yes: bool,
    /// Write through the Admin API of a running gateway, such as `http://127.0.0.1:9180`, instead of
    /// into the store.
    #[arg(long, value_name = "URL")]
    admin: Option<String>,
    /// Key for the Admin API; by default the configured one, or the one in the data directory.
    #[arg(long, value_name = "KEY", requires = "admin", hide_env_values = true)]
    admin_key: Option<String>,
}

/// Sources in formats other than APISIX's.
#[derive(Debug, Subcommand)]
enum OtherSource {
    /// Import from ShenYu's admin: an archive that it exported, or its present objects.
    Shenyu(shenyu::ImportArguments),
    /// Import routes and upstreams of an ngxway from its upstream.conf and vhosts.conf, with the Lua
    /// programs that they name, their modules and the lists that those read. Routes whose protection
    /// is not carried over are switched off and listed; the exit code is 3 then.
    Ngxway(ngxway::NgxwayArguments),
    /// Import an exported registry: namespaces, services, aliases, instances, rules, contracts.
    Registry(registry_moves::FileArguments),
    /// Import from the MySQL database of a Polaris.
    Polaris(registry_moves::PolarisArguments),
}

/// An etcd as the source instead of a document.
#[derive(Debug, Args)]
struct EtcdSource {
    /// Import from an etcd instead of a document, such as APISIX's: the URLs of its members. The
    /// etcd is only read. User, password and TLS are those of `store.etcd`.
    #[arg(id = "etcd", long = "etcd", value_name = "URL", value_delimiter = ',')]
    #[arg(conflicts_with_all = ["file", "format"])]
    endpoints: Vec<String>,
    /// Prefix of the keys in that etcd.
    #[arg(long = "etcd-prefix", value_name = "PREFIX", requires = "etcd")]
    #[arg(default_value = "/apisix")]
    prefix: String,
    /// File with the keys that secrets in that etcd are sealed with, one per line: those of
    /// APISIX's `data_encryption.keyring`. By default the keys that APISIX is shipped with.
    #[arg(long = "etcd-keyring", value_name = "FILE", requires = "etcd")]
    keyring: Option<PathBuf>,
}

impl ImportArguments {
    /// Returns the import arguments that correspond to those of `import ngxway`.
    fn from_ngxway(ngxway: &ngxway::NgxwayArguments) -> Self {
        let etcd = EtcdSource { endpoints: Vec::new(), prefix: String::new(), keyring: None };
        let destination = ngxway.destination.clone();
        Self { other: None, destination, file: None, etcd, format: None, prune: false }
    }
}

/// Keys in the default of APISIX's `data_encryption.keyring`.
const APISIX_KEYS: [&str; 2] = ["qeddd145sfvddff3", "edd1c9f0985e76a2"];

impl EtcdSource {
    /// Returns a bootstrap configuration whose store is this etcd.
    fn bootstrap(&self, bootstrap: &Bootstrap) -> anyhow::Result<Bootstrap> {
        let mut source = bootstrap.clone();
        source.store.etcd.endpoints.clone_from(&self.endpoints);
        source.admin.prefix.clone_from(&self.prefix);
        source.encryption.keyring = match &self.keyring {
            None => APISIX_KEYS.map(|key| Secret::new(key.to_owned())).to_vec(),
            Some(file) => {
                let text = std::fs::read_to_string(file).with_context(|| {
                    format!("--etcd-keyring: {} cannot be read", file.display())
                })?;
                let keys = text.split_whitespace();
                keys.map(|key| Secret::new(key.to_owned())).collect()
            }
        };
        Ok(source)
    }
}

/// Imports a document into the store.
///
/// # Errors
/// If the store is in use, or cannot be read or written.
pub fn run(arguments: &ImportArguments) -> anyhow::Result<ExitCode> {
    match &arguments.other {
        Some(OtherSource::Shenyu(arguments)) => return shenyu::import(arguments),
        Some(OtherSource::Ngxway(ngxway)) => return bring_ngxway(ngxway),
        Some(OtherSource::Registry(arguments)) => return registry_moves::import_file(arguments),
        Some(OtherSource::Polaris(arguments)) => return registry_moves::import_polaris(arguments),
        None => {}
    }
    bring(arguments, |bootstrap| source(arguments, bootstrap))
}

/// Exit code of an import that disabled routes because their access control could not be imported.
const UNPROTECTED: u8 = 3;

/// Imports from an ngxway, and lists the routes that are disabled because their access control
/// could not be imported.
fn bring_ngxway(arguments: &ngxway::NgxwayArguments) -> anyhow::Result<ExitCode> {
    let import = ngxway::read(arguments)?;
    let source = |_: &Bootstrap| Ok((import.name, import.document));
    let code = bring(&ImportArguments::from_ngxway(arguments), source)?;
    if import.unprotected.is_empty() || code != ExitCode::SUCCESS {
        return Ok(code);
    }
    eprintln!(
        "\nPROTECTION IS MISSING: these routes are switched off, since what protected them is not carried:"
    );
    import.unprotected.iter().for_each(|route| eprintln!("  {route}"));
    eprintln!("give each plugins that do the same, and then set its status to 1");
    Ok(ExitCode::from(UNPROTECTED))
}

/// Name of a document, and the document or its problems.
type ParsedDocument = (String, Result<Document, Problems>);

/// Imports the document of a source into the store.
fn bring(
    arguments: &ImportArguments,
    source: impl FnOnce(&Bootstrap) -> anyhow::Result<ParsedDocument>,
) -> anyhow::Result<ExitCode> {
    let loaded = match problems::load(&arguments.destination.configuration) {
        Ok(loaded) => loaded,
        Err(code) => return Ok(code),
    };
    // Objects with scripts are checked as the gateway of this configuration checks them.
    plugins::enabled(&loaded.bootstrap).map_err(|problem| anyhow::anyhow!("{problem}"))?;
    let (name, document) = match source(&loaded.bootstrap)? {
        (name, Ok(document)) => (name, document),
        (name, Err(found)) => {
            problems::print(&name, &found);
            return Ok(ExitCode::from(UNUSABLE));
        }
    };
    let mut target = Target::open(arguments, &loaded.bootstrap)?;
    let there = target.objects()?;
    // Secrets that are sealed with the target's keyring are opened, because the stored objects are
    // compared with opened secrets too.
    let document = opened(document, target.keyring());
    let all = remaining(&there, &document, arguments);
    let found = check::check_beside(&document, &all, &loaded.bootstrap.skip_plugins);
    problems::print(&name, &found);
    if found.has_errors() {
        eprintln!("nothing was written");
        return Ok(ExitCode::from(UNUSABLE));
    }
    let prune = if arguments.prune { Prune::Absent } else { Prune::Nothing };
    let wanted =
        objects::from_document(&document).map_err(|problem| anyhow::anyhow!("{problem}"))?;
    let plan = Plan::make(there, wanted, prune, target.hides_private_keys());
    carry_out(arguments, &plan, &mut target)
}

/// Prints the difference between the store and the document, asks for confirmation, and writes the
/// changes.
fn carry_out(
    arguments: &ImportArguments,
    plan: &Plan,
    target: &mut Target,
) -> anyhow::Result<ExitCode> {
    stdout::print(&render::plan(plan, problems::paint(&std::io::stdout()))?)?;
    if plan.changes.is_empty() {
        return Ok(ExitCode::SUCCESS);
    }
    if arguments.destination.dry_run {
        stdout::print("nothing was written: --dry-run\n")?;
        return Ok(ExitCode::SUCCESS);
    }
    if !arguments.destination.yes && !agreed()? {
        stdout::print("nothing was written\n")?;
        return Ok(ExitCode::FAILURE);
    }
    let left = target.apply(&plan.changes)?;
    stdout::print(&format!("written to {}\n", target.name()))?;
    if left.is_empty() {
        return Ok(ExitCode::SUCCESS);
    }
    let keys = left.join(", ");
    eprintln!(
        "left as they are, since they were changed after they were compared: {keys}; repeat the import to \
         compare them again"
    );
    Ok(ExitCode::FAILURE)
}

/// Asks for confirmation at the terminal; returns whether the user agreed.
pub(super) fn agreed() -> anyhow::Result<bool> {
    if !std::io::stdin().is_terminal() {
        bail!("not a terminal: confirm the changes with --yes, or look at them with --dry-run");
    }
    write!(std::io::stderr(), "write these changes? [y/N] ")?;
    let mut answer = String::new();
    std::io::stdin().lock().read_line(&mut answer)?;
    Ok(matches!(answer.trim().to_ascii_lowercase().as_str(), "y" | "yes"))
}

/// Reads the document of the arguments.
fn source(arguments: &ImportArguments, bootstrap: &Bootstrap) -> anyhow::Result<ParsedDocument> {
    if let Some(file) = &arguments.file {
        return Ok((file.display().to_string(), read(file, arguments.format)));
    }
    let bootstrap = arguments.etcd.bootstrap(bootstrap)?;
    let name = configured_store::name(&bootstrap);
    let (mut document, wrong) =
        objects::document_of_store(&bootstrap).with_context(|| format!("failed to read {name}"))?;
    document.problems.extend(wrong);
    Ok((name, Ok(document)))
}

/// Reads a document; variables in it are replaced as by a gateway.
fn read(path: &Path, format: Option<DocumentFormat>) -> Result<Document, Problems> {
    let text = check::read(path).map_err(|problem| Problems::from_iter([problem]))?;
    let environment = |name: &str| std::env::var(name).ok();
    let format = DocumentFormat::chosen(format, Some(path));
    let mut document = declarative::parse(&text, format, &environment)?;
    for withheld in &document.withheld {
        let path = format!("{}/{}", withheld.kind, withheld.id);
        let problem = Problem::error(path, "cannot be told, so that nothing can be said of it");
        document.problems.push(problem.with_hint("see the problem with its place above"));
    }
    Ok(document)
}

/// Returns the document with its secrets unsealed, for checking and comparing.
fn opened(mut document: Document, keyring: Option<&Keyring>) -> Document {
    if let Some(keyring) = keyring {
        let catalogue = tollhouse_control::plugins::catalogue();
        objects::open_document(&mut document, &catalogue, keyring);
    }
    document
}

/// Returns the document together with the stored objects that will stay. References of the document
/// are checked against both.
fn remaining(there: &Objects, document: &Document, arguments: &ImportArguments) -> Document {
    let mut all = document.clone();
    if arguments.prune {
        return all;
    }
    let named: std::collections::BTreeSet<_> =
        document.items.iter().map(|item| (item.kind, item.id.clone())).collect();
    let staying = there.iter().filter(|(key, _)| !named.contains(*key));
    all.items.extend(staying.map(|((kind, id), object)| declarative::Item {
        kind: *kind,
        id: id.clone(),
        path: format!("{kind}/{id}"),
        text: Arc::from(object.value.to_string()),
    }));
    all
}

#[cfg(test)]
mod tests;
