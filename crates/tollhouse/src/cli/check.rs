//! `tollhouse check`: checks files without serving them.
//!
//! `check/kind.rs` tells bootstrap files from resource files by their keys. The model checks single
//! resources; `check/resources.rs` adds checks that need the whole document, such as references to
//! missing objects. The report is in `check/report.rs`.

mod kind;
mod references;
mod report;
mod resources;

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use tollhouse_config::{Bootstrap, Document, EnvironmentSecrets, Format, Loaded};
use tollhouse_control::settings;
use tollhouse_model::{Problem, Problems};

use self::kind::FileKind;
use self::report::Report;
use super::configuration::Configuration;
use super::explain::problems_of_shenyu;
use super::problems::UNUSABLE;
use super::run::log_filter;
use super::{problems, stdout};

/// Maximum size of a checked file in bytes, equal to the limit of the gateway.
const FILE_BYTES_MAX: u64 = 256 << 20;

/// Arguments of `check`.
#[derive(Debug, Args)]
pub struct CheckArguments {
    #[command(flatten)]
    configuration: Configuration,
    /// Print every effective bootstrap key with the source of its value.
    #[arg(long)]
    show: bool,
    /// Files to check: bootstrap files and resource files, distinguished by their keys. Without
    /// files, the configured bootstrap and its resources are checked.
    #[arg(value_name = "FILE")]
    files: Vec<PathBuf>,
}

/// Function that looks up an environment variable.
type Environment<'e> = &'e dyn Fn(&str) -> Option<String>;

/// Checks the files and prints the problems; the exit code is 0 without errors.
///
/// # Errors
/// If the report cannot be written.
pub fn run(arguments: &CheckArguments) -> anyhow::Result<ExitCode> {
    let environment = |name: &str| std::env::var(name).ok();
    let report = check(arguments, Report::new(problems::paint(&std::io::stdout())), &environment);
    stdout::print(&report.text())?;
    Ok(if report.has_errors() { ExitCode::from(UNUSABLE) } else { ExitCode::SUCCESS })
}

/// Checks the files, and returns the report without printing it.
fn check(arguments: &CheckArguments, report: Report, environment: Environment<'_>) -> Report {
    let mut check = Check { arguments, environment, report, has_shown_keys: false };
    let configured = &arguments.configuration.config;
    if configured.is_some() || arguments.files.is_empty() {
        check.configured();
    }
    for path in &arguments.files {
        check.file(path);
    }
    if arguments.show && !check.has_shown_keys {
        check.configured();
    }
    check.report
}

struct Check<'a> {
    arguments: &'a CheckArguments,
    environment: Environment<'a>,
    report: Report,
    /// Whether the effective settings were printed already.
    has_shown_keys: bool,
}

impl Check<'_> {
    /// Checks the bootstrap configuration of `--config`, and its resources if no file is named on
    /// the command line.
    fn configured(&mut self) {
        let file = self.arguments.configuration.config.as_deref();
        let name =
            file.map_or_else(|| "configuration".to_owned(), |path| path.display().to_string());
        let text = match file.map(read).transpose() {
            Ok(text) => text,
            Err(problem) => return self.report.unreadable(&name, problem),
        };
        let Some(loaded) = self.bootstrap(&name, text.as_deref()) else { return };
        match loaded.bootstrap.resources {
            Some(path) if self.arguments.files.is_empty() => self.resources_at(&path),
            _ => {}
        }
    }

    fn file(&mut self, path: &Path) {
        let name = path.display().to_string();
        let text = match read(path) {
            Ok(text) => text,
            Err(problem) => return self.report.unreadable(&name, problem),
        };
        match kind::guess(path, &text) {
            FileKind::Bootstrap => {
                self.bootstrap(&name, Some(&text));
            }
            FileKind::Resources => self.resources(&name, &text, Format::from_path(path)),
        }
    }

    fn resources_at(&mut self, path: &Path) {
        let name = path.display().to_string();
        match read(path) {
            Ok(text) => self.resources(&name, &text, Format::from_path(path)),
            Err(problem) => self.report.unreadable(&name, problem),
        }
    }

    fn resources(&mut self, name: &str, text: &str, format: Format) {
        let bootstrap = self.bootstrap_of_resources();
        let skipped = bootstrap.as_ref().map(|it| it.skip_plugins.as_slice()).unwrap_or_default();
        let names = bootstrap.as_ref().map(|it| it.secrets.env.as_slice()).unwrap_or_default();
        let secrets = EnvironmentSecrets::new(names, self.environment);
        let surrounding = resources::Surrounding {
            environment: self.environment,
            listed: &|name| secrets.variable(name),
            skipped_plugins: skipped,
        };
        let mut checked = resources::check(text, format, surrounding);
        if let Some(bootstrap) = &bootstrap
            && !checked.shenyu.is_empty()
        {
            let settings = settings::data_plane(bootstrap);
            match problems_of_shenyu(&checked.shenyu, &settings, skipped) {
                Ok(problems) => checked.problems.extend(problems),
                Err(error) => {
                    let reason = format!("the objects cannot be compiled: {error}");
                    checked.problems.push(Problem::error("shenyu", reason));
                }
            }
        }
        // The listeners are known only if a configuration is named.
        if let Some(bootstrap) = bootstrap.filter(|_| self.arguments.configuration.config.is_some())
        {
            let listened = settings::listened_ports(&bootstrap);
            let warnings = checked.stream_routes.iter();
            let warnings = warnings.filter_map(|(path, port)| listened.warning(*port, path));
            checked.problems.extend(warnings.collect());
        }
        self.report.resources(name, &checked);
    }

    /// Returns the bootstrap configuration of the gateway that will serve the resources; the
    /// default configuration if that one is invalid.
    fn bootstrap_of_resources(&self) -> Option<Bootstrap> {
        let configuration = &self.arguments.configuration;
        let text = configuration.config.as_deref().and_then(|path| read(path).ok());
        let overrides = &configuration.overrides;
        let loaded = Bootstrap::parse(text.as_deref(), &self.environment, overrides);
        let loaded = loaded.or_else(|_| Bootstrap::parse(None, &|_: &str| None, overrides));
        loaded.ok().map(|loaded| loaded.bootstrap)
    }

    /// Checks a bootstrap configuration as the gateway would read it, with environment variables
    /// and flags applied.
    fn bootstrap(&mut self, name: &str, text: Option<&str>) -> Option<Loaded> {
        let overrides = &self.arguments.configuration.overrides;
        match Bootstrap::parse(text, &self.environment, overrides) {
            Ok(loaded) => {
                let mut problems = loaded.problems.clone();
                problems.extend(settings::check(&loaded.bootstrap).err().unwrap_or_default());
                problems.extend(log_filter(&loaded.bootstrap).err().into_iter().collect());
                self.report.bootstrap(name, &problems);
                if self.arguments.show {
                    self.report.keys(&loaded);
                    self.has_shown_keys = true;
                }
                Some(loaded)
            }
            Err(problems) => {
                self.report.bootstrap(name, &problems);
                self.has_shown_keys = true;
                None
            }
        }
    }
}

/// Reads a text file of limited size.
///
/// # Errors
/// If the file is missing, too large, or not UTF-8.
pub fn read(path: &Path) -> Result<String, Problem> {
    let hint = "name a file that exists and may be read; without any, the configuration is checked";
    let name = path.display().to_string();
    let problem = |reason: String| Problem::error(name.as_str(), reason).with_hint(hint);
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(|error| problem(format!("cannot be opened: {error}")))?;
    file.take(FILE_BYTES_MAX + 1)
        .read_to_end(&mut bytes)
        .map_err(|error| problem(format!("cannot be read: {error}")))?;
    if bytes.len() as u64 > FILE_BYTES_MAX {
        return Err(problem(format!("larger than {} MiB", FILE_BYTES_MAX >> 20)));
    }
    String::from_utf8(bytes).map_err(|error| {
        problem(format!("not UTF-8 from byte {} on", error.utf8_error().valid_up_to()))
    })
}

/// Checks a document; its references may point to any object in `all`. Plugins in `skipped_plugins`
/// may be unknown.
pub fn check_beside(document: &Document, all: &Document, skipped_plugins: &[String]) -> Problems {
    resources::check_beside(document, all, skipped_plugins, None)
}

/// Returns the numbers of errors and of warnings.
fn count(problems: &Problems) -> (usize, usize) {
    let errors = problems
        .iter()
        .filter(|problem| problem.severity == tollhouse_model::problem::Severity::Error)
        .count();
    (errors, problems.len() - errors)
}

#[cfg(test)]
mod tests;
