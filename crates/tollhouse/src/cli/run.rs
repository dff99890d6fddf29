//! `tollhouse run`: starts the gateway, serves until a signal, drains.

use std::io::IsTerminal;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use clap::Args;
use tollhouse_config::Bootstrap;
use tollhouse_control::process::handover::Predecessor;
use tollhouse_control::process::{HURRY_TIME, Process, StartError, cores};
use tollhouse_control::process_log::{self, BufferedStderr};
use tollhouse_model::{Problem, Problems};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::LevelFilter;

use super::configuration::Configuration;
use super::problems;

/// Arguments of `run`.
#[derive(Debug, Args, Default)]
pub struct RunArguments {
    #[command(flatten)]
    configuration: Configuration,
    /// Declarative file of resources, which is watched (APISIX's standalone format: YAML ending in
    /// #END, or JSON), instead of the store; the Admin API is then read-only. Short for `--set
    /// resources=FILE`.
    #[arg(short, long, value_name = "FILE")]
    resources: Option<PathBuf>,
    /// Take over the listening sockets of the tollhouse that runs with the same data_dir; it drains
    /// and exits once this one serves. No connection is lost.
    #[arg(long)]
    upgrade: bool,
}

/// Runs the gateway until it ends.
///
/// # Errors
/// If the gateway cannot start although its configuration is valid: a port in use, no permission, a
/// store that cannot be opened. Problems of the configuration are printed, not returned.
pub fn run(arguments: &RunArguments) -> anyhow::Result<ExitCode> {
    let mut loaded = match problems::load(&arguments.configuration) {
        Ok(loaded) => loaded,
        Err(code) => return Ok(code),
    };
    if let Some(resources) = &arguments.resources {
        loaded.bootstrap.resources = Some(resources.clone());
    }
    let filter = match log_filter(&loaded.bootstrap) {
        Ok(filter) => filter,
        Err(problem) => {
            let name = problems::source_name(&arguments.configuration);
            return Ok(problems::refuse(&name, &Problems::from_iter([problem])));
        }
    };
    start_log(filter);
    let settings = loaded.bootstrap.clone();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .thread_name("control")
        .on_thread_start(move || cores::lower_priority(&settings))
        .enable_all()
        .build()
        .context("the control runtime cannot be started")?;
    let ended = runtime.block_on(serve(&loaded.bootstrap, arguments));
    // All remaining tasks were told to stop. None of them has data to store, so that they may be
    // aborted after this time.
    runtime.shutdown_timeout(HURRY_TIME);
    ended
}

async fn serve(bootstrap: &Bootstrap, arguments: &RunArguments) -> anyhow::Result<ExitCode> {
    let predecessor = if arguments.upgrade { Predecessor::Leaving } else { Predecessor::None };
    let process = match Process::start(bootstrap, predecessor).await {
        Ok(process) => process,
        Err(StartError::Configuration(found)) => {
            return Ok(problems::refuse(&problems::source_name(&arguments.configuration), &found));
        }
        Err(StartError::Resources { name, problems: found }) => {
            return Ok(problems::refuse(&name, &found));
        }
        Err(StartError::Failed(error)) => return Err(error),
    };
    process.banner().print();
    process.log_start();
    // About half of the resident memory belongs to file pages of the program that only the start
    // needed.
    tollhouse_stdx::resident::release_file_pages();
    process.run().await?;
    Ok(ExitCode::SUCCESS)
}

/// Parses the filter of the process' own log.
pub(super) fn log_filter(bootstrap: &Bootstrap) -> Result<EnvFilter, Problem> {
    EnvFilter::try_new(&bootstrap.log).map_err(|error| {
        Problem::error("log", error.to_string())
            .with_value(&bootstrap.log.as_str().into())
            .with_hint("try info, warn or debug")
    })
}

fn start_log(filter: EnvFilter) {
    // Colours only on a terminal, because in a file the codes would break searches.
    let colours = std::io::stderr().is_terminal();
    // The module that logs a line is shown only if the level is below `info`.
    let has_targets = filter.max_level_hint().is_none_or(|level| level > LevelFilter::INFO);
    let configured = filter.to_string();
    let log = tracing_subscriber::fmt().with_env_filter(filter).with_ansi(colours);
    let log = log.with_target(has_targets).with_writer(BufferedStderr::default);
    let log = log.with_filter_reloading();
    let filters = log.reload_handle();
    let set_filter = move |text: &str| {
        let filter = EnvFilter::try_new(text).map_err(|error| error.to_string())?;
        filters.reload(filter).map_err(|error| error.to_string())
    };
    process_log::process_log().begin(&configured, Box::new(set_filter));
    log.init();
}
