//! Problems as an operator reads them in a terminal, and the exit code they lead to.

use std::process::ExitCode;

use tollhouse_config::{Bootstrap, Loaded};
use tollhouse_model::Problems;
use tollhouse_model::problem::Severity;

use super::Configuration;

/// Exit code for documents with errors; 1 stays for failures of the machine.
pub const BAD_DOCUMENT: u8 = 2;

/// Prints every problem to standard error: where, what, and what to do.
pub fn print(source: &str, problems: &Problems) {
    for problem in problems.iter() {
        let severity = match problem.severity {
            Severity::Error => "error",
            Severity::Warning => "warning",
        };
        // What is wrong with a file as a whole has its name for a path.
        let within =
            if problem.path == source { String::new() } else { format!(" {}:", problem.path) };
        eprintln!("{severity}: {source}:{within} {}", problem.reason);
        if !problem.value.is_empty() {
            eprintln!("    value: {}", problem.value);
        }
        if !problem.hint.is_empty() {
            eprintln!("    hint:  {}", problem.hint);
        }
    }
}

/// Loads the bootstrap configuration; problems are printed.
///
/// # Errors
/// The exit code when it cannot be used.
pub fn load(configuration: &Configuration) -> Result<Loaded, ExitCode> {
    let environment = |name: &str| std::env::var(name).ok();
    let file = configuration.config.as_deref();
    let source = file.map_or_else(|| "configuration".to_owned(), |path| path.display().to_string());
    match Bootstrap::load(file, &environment, &configuration.overrides) {
        Ok(loaded) => {
            print(&source, &loaded.problems);
            Ok(loaded)
        }
        Err(problems) => {
            print(&source, &problems);
            Err(ExitCode::from(BAD_DOCUMENT))
        }
    }
}
