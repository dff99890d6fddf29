//! `tollhouse import registry` and `tollhouse import polaris`: write objects of a file or of a
//! Polaris to the registry. The changes are counted first, and the user confirms them. Objects that
//! exist unchanged are skipped.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use tollhouse_config::Bootstrap;
use tollhouse_control::registry::offline;
use tollhouse_registry::{Object, Rehearsal};
use tollhouse_stdx::plural::counted;

use super::absent::{self, Absent, RegisteredObjects};
use super::polaris::PolarisSource;
use super::polaris_database::DatabaseArguments;
use super::source::{FileSource, Source};
use super::tally::Tally;
use super::target::{self, OpenRegistry, RehearsalResult};
use crate::cli::admin_client::AdminClient;
use crate::cli::configuration::Configuration;
use crate::cli::import::agreed;
use crate::cli::{problems, stdout};

/// Arguments common to both commands.
#[derive(Debug, Args)]
struct Common {
    #[command(flatten)]
    configuration: Configuration,
    /// Print the changes without making them.
    #[arg(long, conflicts_with = "admin")]
    dry_run: bool,
    /// Do not ask before writing.
    #[arg(short, long)]
    yes: bool,
    /// Write through the Admin API of a running gateway, such as `http://127.0.0.1:9180`, instead of into the
    /// registry's store.
    #[arg(long, value_name = "URL")]
    admin: Option<String>,
    /// Key for the Admin API; by default the configured one, or the one in the data directory.
    #[arg(long, value_name = "KEY", requires = "admin", hide_env_values = true)]
    admin_key: Option<String>,
}

const EXIT: &str = "Exit code: 0 when everything is there afterwards; 1 when something was left out that should not \
                    be, each with its reason, or when writing failed.";

/// Arguments of `import registry`.
#[derive(Debug, Args)]
#[command(after_help = EXIT)]
pub struct FileArguments {
    #[command(flatten)]
    common: Common,
    /// File that `tollhouse export registry` wrote.
    #[arg(value_name = "FILE")]
    file: PathBuf,
}

/// Arguments of `import polaris`. The database is only read, at one instant; its servers may run
/// meanwhile.
#[derive(Debug, Args)]
#[command(after_help = EXIT)]
pub struct PolarisArguments {
    #[command(flatten)]
    common: Common,
    #[command(flatten)]
    database: DatabaseArguments,
    /// Remove the instances, services, aliases and rules that the registry has and the Polaris does
    /// not, including those registered here. Without it they are listed.
    #[arg(long, conflicts_with = "admin")]
    prune: bool,
}

/// Imports a file.
///
/// # Errors
/// If the file cannot be read, or the registry cannot be written.
pub fn import_file(arguments: &FileArguments) -> anyhow::Result<ExitCode> {
    let loaded = match problems::load(&arguments.common.configuration) {
        Ok(loaded) => loaded,
        Err(code) => return Ok(code),
    };
    let mut source = FileSource::open(&arguments.file)?;
    let (common, bootstrap) = (&arguments.common, &loaded.bootstrap);
    carry_out(&Import { common, bootstrap, absent: Absent::Ignored }, &mut source)
}

/// Imports from a Polaris.
///
/// # Errors
/// If its database cannot be read, or the registry cannot be written.
pub fn import_polaris(arguments: &PolarisArguments) -> anyhow::Result<ExitCode> {
    let loaded = match problems::load(&arguments.common.configuration) {
        Ok(loaded) => loaded,
        Err(code) => return Ok(code),
    };
    let mut source = PolarisSource::open(&arguments.database.settings()?)?;
    let absent = if arguments.prune { Absent::Removed } else { Absent::Named };
    let (common, bootstrap) = (&arguments.common, &loaded.bootstrap);
    carry_out(&Import { common, bootstrap, absent }, &mut source)
}

/// An import into the configured registry.
struct Import<'a> {
    common: &'a Common,
    bootstrap: &'a Bootstrap,
    absent: Absent,
}

/// Planned changes of an import, and the registered objects that its source lacks.
struct ImportPlan {
    tally: Tally,
    only_here: Vec<Object>,
}

fn carry_out(import: &Import<'_>, source: &mut dyn Source) -> anyhow::Result<ExitCode> {
    let Import { common, bootstrap, .. } = import;
    if let Some(url) = &common.admin {
        return through(common, url, bootstrap, source);
    }
    if common.dry_run {
        let planned = import.plan(source, target::look(bootstrap)?)?;
        let text = import.text(&planned);
        stdout::print(&format!("{text}nothing was written: --dry-run\n"))?;
        return Ok(exit_code(&planned.tally));
    }
    let opened = OpenRegistry::open(bootstrap)?;
    let written = import.write(source, &opened);
    opened.registry.close();
    written
}

impl Import<'_> {
    fn plan(&self, source: &mut dyn Source, rehearsal: Rehearsal) -> anyhow::Result<ImportPlan> {
        let RehearsalResult { tally, keys } = target::rehearse(source, rehearsal)?;
        let only_here = match self.absent {
            Absent::Ignored => Vec::new(),
            Absent::Named | Absent::Removed => {
                RegisteredObjects::read(self.bootstrap)?.without(&keys)
            }
        };
        Ok(ImportPlan { tally, only_here })
    }

    /// Whether objects that only the registry has are removed. They stay if any object of the
    /// source could not be read, because that object would be mistaken for one deleted from the
    /// source.
    fn removes(&self, planned: &ImportPlan) -> bool {
        self.absent == Absent::Removed
            && !planned.tally.has_faults()
            && !planned.only_here.is_empty()
    }

    fn text(&self, planned: &ImportPlan) -> String {
        let head = match self.absent {
            Absent::Removed if planned.tally.has_faults() => {
                "only in the registry, and kept because something else is left out"
            }
            Absent::Removed => "only in the registry, to be removed",
            Absent::Named | Absent::Ignored => "only in the registry; --prune removes them",
        };
        planned.tally.text() + &absent::text(&planned.only_here, head)
    }

    fn write(&self, source: &mut dyn Source, opened: &OpenRegistry) -> anyhow::Result<ExitCode> {
        let state = opened.registry.handle.state_full();
        let planned = self.plan(source, Rehearsal::from_state(&state))?;
        drop(state);
        stdout::print(&self.text(&planned))?;
        let removes = self.removes(&planned);
        if planned.tally.writes() == 0 && !removes {
            return Ok(exit_code(&planned.tally));
        }
        if !self.common.yes && !agreed()? {
            stdout::print("nothing was written\n")?;
            return Ok(ExitCode::FAILURE);
        }
        let written = opened.write(source)?;
        let count = counted(written.writes(), "object");
        let place = offline::name(self.bootstrap);
        // Other nodes of the cluster may write at the same time, so that the result can differ from
        // the plan.
        let is_as_planned = written == planned.tally;
        let differs = if is_as_planned { "" } else { "; of what was said above, this changed:\n" };
        stdout::print(&format!("{count} written to {place}{differs}\n"))?;
        if !is_as_planned {
            stdout::print(&written.text())?;
        }
        if removes {
            let removed = opened.remove(&planned.only_here)?;
            stdout::print(&format!("{} removed from {place}\n", counted(removed, "object")))?;
        }
        Ok(exit_code(&written))
    }
}

fn through(
    common: &Common,
    url: &str,
    bootstrap: &Bootstrap,
    source: &mut dyn Source,
) -> anyhow::Result<ExitCode> {
    let mut client = AdminClient::open(url, common.admin_key.as_deref(), bootstrap)?;
    let place = format!("http://{}", client.authority());
    if !common.yes {
        stdout::print(&format!("{} is to be written to the registry of {place}\n", source.name()))?;
        if !agreed()? {
            stdout::print("nothing was written\n")?;
            return Ok(ExitCode::FAILURE);
        }
    }
    let tally = target::write_through(&mut client, source)?;
    let count = counted(tally.writes(), "object");
    let text = format!("{}{count} written to {place}\n", tally.text());
    stdout::print(&text)?;
    Ok(exit_code(&tally))
}

fn exit_code(tally: &Tally) -> ExitCode {
    if tally.has_faults() { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}
