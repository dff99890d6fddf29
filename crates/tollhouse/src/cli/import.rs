//! `tollhouse import`: a document in APISIX's standalone shape, or what an etcd of APISIX's holds, becomes
//! objects of the store.
//!
//! In order: the document is read and judged as `check` does it, compared with what is there, the
//! difference printed and agreed to, and only then anything written. Comparing is in
//! `tollhouse_admin::transfer`, as for the console; printing in `import/render.rs`; where objects are kept, in the store of this
//! machine, one that gateways share or behind an Admin API, is `import/target.rs`, `import/whole.rs` and
//! `import/admin.rs`.

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
    configuration: Configuration,
    /// The document: YAML that ends in #END, or JSON.
    #[arg(value_name = "FILE", required_unless_present = "etcd")]
    file: Option<PathBuf>,
    #[command(flatten)]
    etcd: EtcdSource,
    /// How the document is written; told by the file's ending when not given.
    #[arg(long, value_enum)]
    format: Option<DocumentFormat>,
    /// Print what would change, and change nothing.
    #[arg(long)]
    dry_run: bool,
    /// Delete the objects that the document does not have.
    #[arg(long)]
    prune: bool,
    /// Do not ask before writing.
    #[arg(short, long)]
    yes: bool,
    /// Write through the Admin API of a running gateway, such as `http://127.0.0.1:9180`, instead of
    /// into the store.
    #[arg(long, value_name = "URL")]
    admin: Option<String>,
    /// Key for the Admin API; the configured one, or the one in the data directory, when not given.
    #[arg(long, value_name = "KEY", requires = "admin", hide_env_values = true)]
    admin_key: Option<String>,
}

/// What is in another shape than APISIX's.
#[derive(Debug, Subcommand)]
enum OtherSource {
    /// Take over what ShenYu's admin has: an archive that it exported, or what it serves right now.
    Shenyu(shenyu::ImportArguments),
    /// Take over the routes and upstreams of an ngxway: its upstream.conf and vhosts.conf, and no other file of nginx's.
    /// Routes whose protection is not carried are switched off and listed; the exit code is 3 then.
    Ngxway(ngxway::NgxwayArguments),
    /// Take over what a registry exported: namespaces, services, aliases, instances, rules, contracts.
    Registry(registry_moves::FileArguments),
    /// Take over what a Polaris has in its MySQL database.
    Polaris(registry_moves::PolarisArguments),
}

/// An etcd in the place of a document.
#[derive(Debug, Args)]
struct EtcdSource {
    /// Take the objects from an etcd instead of a document, APISIX's for example: the addresses of its
    /// members. It is only read. User, password and TLS are those of `store.etcd`.
    #[arg(id = "etcd", long = "etcd", value_name = "URL", value_delimiter = ',')]
    #[arg(conflicts_with_all = ["file", "format"])]
    endpoints: Vec<String>,
    /// What the keys in that etcd begin with.
    #[arg(long = "etcd-prefix", value_name = "PREFIX", requires = "etcd")]
    #[arg(default_value = "/apisix")]
    prefix: String,
    /// A file with the keys that its secrets are sealed with, one a line: those of APISIX's
    /// `data_encryption.keyring`. Without it, the ones that APISIX is shipped with.
    #[arg(long = "etcd-keyring", value_name = "FILE", requires = "etcd")]
    keyring: Option<PathBuf>,
}

impl ImportArguments {
    /// Those with which what an ngxway has is brought into the store.
    fn from_ngxway(ngxway: &ngxway::NgxwayArguments) -> Self {
        let etcd = EtcdSource { endpoints: Vec::new(), prefix: String::new(), keyring: None };
        Self {
            other: None,
            configuration: ngxway.configuration.clone(),
            file: None,
            etcd,
            format: None,
            dry_run: ngxway.dry_run,
            prune: false,
            yes: ngxway.yes,
            admin: None,
            admin_key: None,
        }
    }
}

/// What secrets are sealed with where `data_encryption.keyring` of APISIX was left as it is shipped.
const APISIX_KEYS: [&str; 2] = ["qeddd145sfvddff3", "edd1c9f0985e76a2"];

impl EtcdSource {
    /// The configuration of a gateway that would serve from it.
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

/// Brings the store to what the document says.
///
/// # Errors
/// The store is in use or cannot be read or written.
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

/// The exit code of an import that has switched routes off, since what protected them could not be carried.
const UNPROTECTED: u8 = 3;

/// Brings what an ngxway has into the store, and says loudly what lost its protection.
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

/// What a document is called, and the document or what is wrong with it.
type Found = (String, Result<Document, Problems>);

/// Brings the store to what the document of a source says.
fn bring(
    arguments: &ImportArguments,
    source: impl FnOnce(&Bootstrap) -> anyhow::Result<Found>,
) -> anyhow::Result<ExitCode> {
    let loaded = match problems::load(&arguments.configuration) {
        Ok(loaded) => loaded,
        Err(code) => return Ok(code),
    };
    let (name, document) = match source(&loaded.bootstrap)? {
        (name, Ok(document)) => (name, document),
        (name, Err(found)) => {
            problems::print(&name, &found);
            return Ok(ExitCode::from(UNUSABLE));
        }
    };
    let mut target = Target::open(arguments, &loaded.bootstrap)?;
    let there = target.objects()?;
    // Sealed for a keyring that the target has; compared as they lie there, not as they were written.
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

/// Prints the difference, asks, and writes.
fn carry_out(
    arguments: &ImportArguments,
    plan: &Plan,
    target: &mut Target,
) -> anyhow::Result<ExitCode> {
    stdout::print(&render::plan(plan, problems::paint(&std::io::stdout()))?)?;
    if plan.changes.is_empty() {
        return Ok(ExitCode::SUCCESS);
    }
    if arguments.dry_run {
        stdout::print("nothing was written: --dry-run\n")?;
        return Ok(ExitCode::SUCCESS);
    }
    if !arguments.yes && !agreed()? {
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
        "left as they are, since somebody changed them after they were compared: {keys}; repeat the import to \
         compare them again"
    );
    Ok(ExitCode::FAILURE)
}

/// Asks whoever sits at the terminal.
pub(super) fn agreed() -> anyhow::Result<bool> {
    if !std::io::stdin().is_terminal() {
        bail!("not a terminal: confirm the changes with --yes, or look at them with --dry-run");
    }
    write!(std::io::stderr(), "write these changes? [y/N] ")?;
    let mut answer = String::new();
    std::io::stdin().lock().read_line(&mut answer)?;
    Ok(matches!(answer.trim().to_ascii_lowercase().as_str(), "y" | "yes"))
}

/// What the document is called, and the document or what is wrong with it.
fn source(arguments: &ImportArguments, bootstrap: &Bootstrap) -> anyhow::Result<Found> {
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

/// The document; variables in it are replaced as when a gateway reads it.
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

/// The document with its secrets in the clear, as they are judged and compared.
fn opened(mut document: Document, keyring: Option<&Keyring>) -> Document {
    if let Some(keyring) = keyring {
        let catalogue = tollhouse_control::plugins::catalogue();
        objects::open_document(&mut document, &catalogue, keyring);
    }
    document
}

/// What is there beside the document and stays: names in the document may lead to it.
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
