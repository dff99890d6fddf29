//! `tollhouse export polaris`: writes the registry to the database of a Polaris, in one
//! transaction. The changes are counted first, and the user confirms them. Rows that changed later
//! in the database than in the registry are not replaced.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use clap::Args;
use tokio::runtime::Builder;
use tollhouse_config::Bootstrap;
use tollhouse_control::registry::offline::StoredEntries;
use tollhouse_polaris::database::{Changes, ExtraObject, NewerRows, Plan, Statement};
use tollhouse_registry::{ForeignEntry, KEY_PREFIXES, Object};
use tollhouse_sql::{Exchange, SqlOptions};
use tollhouse_stdx::plural::counted;

use super::polaris::{PolarisSource, options};
use super::polaris_database::DatabaseArguments;
use super::source::{LeftOut, Source};
use super::tally::Tally;
use crate::cli::configuration::Configuration;
use crate::cli::import::agreed;
use crate::cli::{problems, stdout};

/// Maximum duration of the transaction before its rows get a later modification time. Polaris'
/// servers look for rows modified in the last five seconds (ten in older versions), and would miss
/// rows that are committed too late.
const CHANGE_SECONDS: Duration = Duration::from_secs(2);

/// Maximum number of listed objects that only the database has; further ones are counted.
const NAMED_MAX: usize = 20;

const EXIT: &str = "Exit code: 0 when the database has everything afterwards; 1 when something was left out that should \
                    not be, each with its reason, or when writing failed, after which nothing is changed.";

/// Arguments of `export polaris`.
#[derive(Debug, Args)]
#[command(after_help = EXIT)]
pub struct PolarisExportArguments {
    #[command(flatten)]
    configuration: Configuration,
    #[command(flatten)]
    database: DatabaseArguments,
    /// Print the changes without making them.
    #[arg(long)]
    dry_run: bool,
    /// Do not ask before writing.
    #[arg(short, long)]
    yes: bool,
    /// Also replace rows that changed later in the database than here.
    #[arg(long)]
    overwrite: bool,
    /// Mark objects as deleted that the database has and the registry does not.
    #[arg(long)]
    prune: bool,
}

/// Planned changes, with their summary.
struct ExportPlan {
    name: String,
    tally: Tally,
    only_there: Vec<ExtraObject>,
    changes: Changes,
}

/// Writes the registry to the database of a Polaris.
///
/// # Errors
/// If the store or the database cannot be read, or the database cannot be written.
pub fn export_polaris(arguments: &PolarisExportArguments) -> anyhow::Result<ExitCode> {
    let loaded = match problems::load(&arguments.configuration) {
        Ok(loaded) => loaded,
        Err(code) => return Ok(code),
    };
    let settings = arguments.database.settings()?;
    let planned = plan(arguments, &loaded.bootstrap, PolarisSource::open(&settings)?)?;
    let pruning = if arguments.prune { Pruning::Delete } else { Pruning::Keep };
    stdout::print(&text(&planned, pruning))?;
    let code = if planned.tally.has_faults() { ExitCode::FAILURE } else { ExitCode::SUCCESS };
    if arguments.dry_run {
        stdout::print("nothing was written: --dry-run\n")?;
        return Ok(code);
    }
    if planned.changes.statements.is_empty() {
        return Ok(code);
    }
    if !arguments.yes && !agreed()? {
        stdout::print("nothing was written\n")?;
        return Ok(ExitCode::FAILURE);
    }
    let hint = write(&options(&settings)?, &planned.changes)?;
    let removed = if arguments.prune { planned.only_there.len() as u64 } else { 0 };
    let count = planned.tally.writes() + removed;
    let count = counted(count, "object");
    stdout::print(&format!("{count} written to {}{hint}\n", planned.name))?;
    Ok(code)
}

fn plan(
    arguments: &PolarisExportArguments,
    bootstrap: &Bootstrap,
    mut polaris: PolarisSource,
) -> anyhow::Result<ExportPlan> {
    let mut tally = Tally::default();
    let newer_rows = if arguments.overwrite { NewerRows::Overwrite } else { NewerRows::Keep };
    let mut plan = Plan::new(polaris.columns().clone(), newer_rows);
    while let Some(page) = polaris.next_rows()? {
        for row in &page.rows {
            if let Err(reason) = plan.add_row(page.part, row, page.part.details(row, &page.details))
            {
                let what = format!("{} {} of the database", page.part.name, page.part.key_of(row));
                tally.leave_out(&LeftOut { what, reason: reason.to_string(), is_expected: false });
            }
        }
    }
    let objects = objects(bootstrap, &mut tally)?;
    objects.iter().for_each(|object| plan.expect(object));
    for object in objects {
        let (kind, name) = (object.kind(), object.name());
        let left_out = |reason: String, is_expected| LeftOut {
            what: format!("{kind} {name}"),
            reason,
            is_expected,
        };
        match plan.put(&object) {
            Ok(written) => {
                tally.add(kind, written.effect);
                if !written.stays_behind.is_empty() {
                    let columns = written.stays_behind.join(", ");
                    let reason = format!("the database has no column for its {columns}");
                    tally.leave_out(&left_out(reason, false));
                }
            }
            Err(reason) => tally.leave_out(&left_out(reason.to_string(), reason.is_expected())),
        }
    }
    let only_there = plan.only_there();
    if arguments.prune {
        only_there.iter().for_each(|it| plan.remove(it));
    }
    Ok(ExportPlan { name: polaris.name(), tally, only_there, changes: plan.into_changes() })
}

/// Returns all registered objects, each after the objects that it refers to.
fn objects(bootstrap: &Bootstrap, tally: &mut Tally) -> anyhow::Result<Vec<Object>> {
    let mut stored = StoredEntries::open(bootstrap)?;
    let mut parts: [Vec<Object>; KEY_PREFIXES.len()] = Default::default();
    loop {
        let page = stored.next_page()?;
        if page.is_empty() {
            return Ok(parts.into_iter().flatten().collect());
        }
        for entry in page {
            let part = KEY_PREFIXES.iter().position(|prefix| entry.key.starts_with(prefix));
            match Object::from_entry(&entry.key, &entry.value) {
                Ok(object) => parts[part.unwrap_or_default()].push(object),
                // Internal keys of nodes are not objects of a registry.
                Err(ForeignEntry::Key) => {}
                Err(foreign) => tally.leave_out(&LeftOut {
                    what: entry.key.to_string(),
                    reason: foreign.to_string(),
                    is_expected: false,
                }),
            }
        }
    }
}

/// Treatment of objects that the database has and the registry does not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Pruning {
    Delete,
    Keep,
}

fn text(planned: &ExportPlan, pruning: Pruning) -> String {
    let mut text = planned.tally.text();
    if planned.only_there.is_empty() {
        return text;
    }
    let mut kinds: BTreeMap<&str, u64> = BTreeMap::new();
    for it in &planned.only_there {
        *kinds.entry(it.kind).or_default() += 1;
    }
    let kinds: Vec<_> = kinds.iter().map(|(kind, count)| format!("{count} {kind}")).collect();
    let treatment = match pruning {
        Pruning::Delete => "marked as deleted",
        Pruning::Keep => "left as they are; --prune deletes them",
    };
    // Writing to a string never fails.
    let _ = writeln!(text, "only in the database, {treatment}: {}", kinds.join(", "));
    for it in planned.only_there.iter().take(NAMED_MAX) {
        let _ = writeln!(text, "  {} {}", it.kind, it.name);
    }
    let more = planned.only_there.len().saturating_sub(NAMED_MAX);
    if more > 0 {
        let _ = writeln!(text, "  and {more} more");
    }
    text
}

/// Makes all changes in one transaction. Returns a hint for the operator of the Polaris servers.
fn write(options: &SqlOptions, changes: &Changes) -> anyhow::Result<&'static str> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let begun = Instant::now();
        let mut exchange = Exchange::begin(options).await.context("nothing was written")?;
        run(&mut exchange, &changes.statements).await?;
        let mut visible_since = begun;
        if begun.elapsed() > CHANGE_SECONDS {
            visible_since = Instant::now();
            run(&mut exchange, &changes.touches()).await?;
        }
        exchange.commit().await.context(
            "the export may have been made or not; repeat it: what is there already is passed over",
        )?;
        let is_seen = visible_since.elapsed() <= CHANGE_SECONDS;
        Ok(if is_seen {
            "; its servers see them within seconds"
        } else {
            "; restart its servers, which may have looked for changes before these could be seen"
        })
    })
}

async fn run(exchange: &mut Exchange, statements: &[Statement]) -> anyhow::Result<()> {
    let texts: Vec<String> = statements.iter().map(|it| it.sql.clone()).collect();
    let found = exchange.run(&texts).await.context("nothing was written")?;
    let is_as_seen = |(statement, found): (&Statement, &u64)| !statement.finds_one || *found == 1;
    if !statements.iter().zip(&found).all(is_as_seen) {
        bail!("nothing was written: the database was changed meanwhile; repeat the export");
    }
    Ok(())
}
