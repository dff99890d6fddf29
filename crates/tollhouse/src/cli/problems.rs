//! Problems and failures as an operator reads them in a terminal, and the exit codes.
//!
//! The rule for all commands: [`UNUSABLE`] if the command line, a configuration or a document
//! cannot be used, so that nothing was tried; [`FAILED`] if it was tried and failed.

use std::fmt::{Display, Write};
use std::process::ExitCode;

use tollhouse_config::{Bootstrap, Loaded};
use tollhouse_load::report::paint::Paint;
use tollhouse_model::problem::Severity;
use tollhouse_model::{Problem, Problems};

use super::configuration::Configuration;

/// Exit code if something was tried and failed: a port in use, a store that cannot be opened.
pub const FAILED: u8 = 1;

/// Exit code if nothing was tried: the command line, a configuration or a document cannot be used.
pub const UNUSABLE: u8 = 2;

/// Returns the colours for text on a stream; none unless the stream is a terminal.
pub fn paint(stream: &impl std::io::IsTerminal) -> Paint {
    let variable = |name: &str| std::env::var(name).ok();
    let (no_color, term) = (variable("NO_COLOR"), variable("TERM"));
    Paint::for_stream(stream, no_color.as_deref(), term.as_deref())
}

/// Prints a failure as one line on standard error.
pub fn print_failure(failure: impl Display) {
    let stream = std::io::stderr();
    eprintln!("{} {failure}", paint(&stream).bad("error:"));
}

/// Prints every problem to standard error.
pub fn print(source: &str, problems: &Problems) {
    let paint = paint(&std::io::stderr());
    for problem in problems.iter() {
        eprint!("{}", text(source, problem, paint));
    }
}

/// Prints every problem, and returns the exit code for unusable input.
pub fn refuse(source: &str, problems: &Problems) -> ExitCode {
    print(source, problems);
    ExitCode::from(UNUSABLE)
}

/// Formats a problem: place, reason and hint.
pub fn text(source: &str, problem: &Problem, paint: Paint) -> String {
    let severity = match problem.severity {
        Severity::Error => paint.bad("error:"),
        Severity::Warning => paint.doubtful("warning:"),
    };
    // A problem of a whole file has its name as the path.
    let within = if problem.path == source { String::new() } else { format!("{}: ", problem.path) };
    let mut text = format!("{severity} {source}: {within}{}\n", problem.reason);
    for (label, line) in [("value:", &problem.value), ("hint: ", &problem.hint)] {
        if !line.is_empty() {
            writeln!(text, "    {} {line}", paint.faint(label))
                .expect("a string can be written to");
        }
    }
    text
}

/// Returns the name under which problems of the bootstrap configuration are printed.
pub fn source_name(configuration: &Configuration) -> String {
    let file = configuration.config.as_deref();
    file.map_or_else(|| "configuration".to_owned(), |path| path.display().to_string())
}

/// Loads the bootstrap configuration, and prints its problems.
///
/// # Errors
/// The exit code, if the configuration cannot be used.
pub fn load(configuration: &Configuration) -> Result<Loaded, ExitCode> {
    let environment = |name: &str| std::env::var(name).ok();
    let file = configuration.config.as_deref();
    let source = source_name(configuration);
    match Bootstrap::load(file, &environment, &configuration.overrides) {
        Ok(loaded) => {
            print(&source, &loaded.problems);
            Ok(loaded)
        }
        Err(problems) => Err(refuse(&source, &problems)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_problem_is_shown_with_its_place_once() {
        let whole = Problem::error("a.yaml", "cannot be read").with_hint("check the path");
        let inside = Problem::warning("routes[0].uri", "is odd").with_value(&"/".into());
        for (problem, paint, expected) in [
            (&whole, Paint::Plain, "error: a.yaml: cannot be read\n    hint:  check the path\n"),
            (&inside, Paint::Plain, "warning: a.yaml: routes[0].uri: is odd\n    value: \"/\"\n"),
            (
                &inside,
                Paint::Colour,
                "\x1b[33mwarning:\x1b[0m a.yaml: routes[0].uri: is odd\n    \
                 \x1b[2mvalue:\x1b[0m \"/\"\n",
            ),
        ] {
            assert_eq!(text("a.yaml", problem, paint), expected);
        }
    }
}
