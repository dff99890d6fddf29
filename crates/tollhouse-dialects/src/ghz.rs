//! Command line of ghz and its configuration files (JSON, TOML, YAML), converted to a [`Case`] and
//! the options of its output.
//!
//! One table of keys serves both: a key of the file is a long flag of the command line. Flags
//! override the file. [`output`] prints ghz's reports.

mod call;
mod command;
mod file;
mod keys;
mod line;
mod load;
mod options;
pub mod output;
mod quantity;
mod settings;

use std::path::{Path, PathBuf};

use tollhouse_load::case::Case;
use tollhouse_load::error::BenchError;

use crate::Action;

pub use command::run;
pub use options::{Format, GhzOptions, Options};

#[derive(Debug, Clone, PartialEq)]
pub struct GhzCommand {
    pub case: Case,
    /// Options of the output, including those that ghz repeats in its report.
    pub options: GhzOptions,
    /// Differences to ghz's behaviour, one sentence each.
    pub notes: Vec<String>,
}

/// Parses a command line, without the tool's name, and the files that it names.
///
/// # Errors
/// If the command line or a file is invalid. For an unknown key, the text suggests the nearest
/// known one.
pub fn parse(arguments: &[String]) -> Result<Action<GhzCommand>, BenchError> {
    let line = line::parse(arguments)?;
    match line.asked {
        Some(line::Text::Help) => return Ok(Action::Print(keys::usage())),
        Some(line::Text::Version) => {
            let version = env!("CARGO_PKG_VERSION");
            return Ok(Action::Print(format!("ghz options, read by tollhouse {version}\n")));
        }
        None => {}
    }
    let mut settings = match &line.config {
        Some(path) => file::load(path)?,
        None => settings::Settings::default(),
    };
    settings.merge(line.settings);
    command(&settings).map(Action::Run)
}

/// Parses the text of a configuration file, without flags. The path determines the format and
/// appears in errors.
///
/// # Errors
/// If the file is invalid, as in [`parse`].
pub fn parse_config(path: &Path, text: &str) -> Result<GhzCommand, BenchError> {
    command(&file::parse(path, text)?)
}

fn command(settings: &settings::Settings) -> Result<GhzCommand, BenchError> {
    let mut notes = Vec::new();
    let call = call::read(settings)?;
    let format = options::format(settings)?;
    let skip_first = settings.count("skipFirst")?.unwrap_or(0);
    let count_errors = settings.toggle("count-errors")?;
    let planned = load::read(settings, &mut notes)?;
    settings.refuse_unsupported(&mut notes)?;
    let mut case = Case::new(call.target);
    case.name = settings.text("name")?.unwrap_or_else(|| call.grpc.call.clone());
    case.connect_to = call.connect_to;
    case.tls = call.tls;
    case.load = planned.load.clone();
    // Samples are needed to list or skip single requests.
    case.load.keep_samples = format.lists_requests() || skip_first > 0 || count_errors;
    let options = GhzOptions {
        format,
        output: settings.text("output")?.map(PathBuf::from),
        name: settings.text("name")?.unwrap_or_default(),
        tags: settings.texts_by_name("tags")?.unwrap_or_default(),
        count_errors,
        skip_first,
        echo: options::echo(settings, &planned, &call.grpc)?,
    };
    if skip_first > u64::from(options.echo.total) {
        return Err(settings.error(
            "skipFirst",
            format!("{skip_first} of {} requests cannot be left out", options.echo.total),
        ));
    }
    case.grpc = Some(call.grpc);
    Ok(GhzCommand { case, options, notes })
}

#[cfg(test)]
mod tests;
