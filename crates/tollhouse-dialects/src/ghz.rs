//! The command line of ghz and its configuration files (JSON, TOML, YAML), read into a
//! [`Case`] and what its output needs beside it.
//!
//! One table of keys serves both: a key of the file is a long flag of the command line. Flags win over the
//! file. How ghz prints is in [`output`].

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

use crate::Asked;

pub use command::run;
pub use options::{Format, GhzOptions, Options};

/// What ghz was asked for.
#[derive(Debug, Clone, PartialEq)]
pub struct GhzCommand {
    /// What to measure.
    pub case: Case,
    /// How to print it, and what ghz echoes in its report.
    pub options: GhzOptions,
    /// What is done differently than ghz would, a sentence each.
    pub notes: Vec<String>,
}

/// Reads a command line, the tool's name not included, and the files that it names.
///
/// # Errors
/// What is wrong with the command line or with a file; unknown keys come with the nearest known one.
pub fn parse(arguments: &[String]) -> Result<Asked<GhzCommand>, BenchError> {
    let line = line::parse(arguments)?;
    match line.asked {
        Some(line::Text::Help) => return Ok(Asked::Print(keys::usage())),
        Some(line::Text::Version) => {
            let version = env!("CARGO_PKG_VERSION");
            return Ok(Asked::Print(format!("ghz options, read by tollhouse {version}\n")));
        }
        None => {}
    }
    let mut settings = match &line.config {
        Some(path) => file::load(path)?,
        None => settings::Settings::default(),
    };
    settings.merge(line.settings);
    command(&settings).map(Asked::Run)
}

/// Reads the text of a configuration file, without flags. The path tells its format and is named in errors.
///
/// # Errors
/// Like [`parse`].
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
    // Without them, what is listed one by one or left out one by one could not be.
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
