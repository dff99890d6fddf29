//! `tollhouse doctor`: reports problems of the configured engines (etcd, MySQL, MariaDB,
//! PostgreSQL, Redis), with remedies. The control crate examines them. The command changes nothing,
//! and needs no running gateway.

use std::process::ExitCode;
use tollhouse_control::terminal::printable_lines;

use clap::Args;
use tokio::runtime::Builder;
use tollhouse_control::doctor::{Examination, Finding, Severity, examine};

use super::configuration::Configuration;
use super::{problems, stdout};

/// Arguments of `doctor`.
#[derive(Debug, Args)]
#[command(
    after_help = "Exit code: 0 when nothing is wrong, 1 when something is. Notes do not count. What is wrong with the \
                  instances of a running registry is told by tollhouse registry doctor."
)]
pub struct DoctorArguments {
    #[command(flatten)]
    configuration: Configuration,
    /// Print the findings as a JSON array.
    #[arg(long)]
    json: bool,
}

/// Prints the findings; the exit code tells whether there is a problem.
///
/// # Errors
/// If the configuration of an engine is invalid.
pub fn run(arguments: &DoctorArguments) -> anyhow::Result<ExitCode> {
    let loaded = match problems::load(&arguments.configuration) {
        Ok(loaded) => loaded,
        Err(code) => return Ok(code),
    };
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let examination = runtime.block_on(examine(&loaded.bootstrap))?;
    let text = if arguments.json {
        let values: Vec<_> = examination.findings.iter().map(Finding::to_json).collect();
        serde_json::to_string_pretty(&values)? + "\n"
    } else {
        render(&examination)
    };
    stdout::print(&text)?;
    let is_well = examination.findings.iter().all(|finding| finding.severity == Severity::Note);
    Ok(if is_well { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn render(examination: &Examination) -> String {
    let mut text = String::new();
    for line in &examination.looked_at {
        text.push_str(&format!("{line}\n"));
    }
    text.push_str(&render_findings(&examination.findings));
    text
}

/// Formats findings as lines; control characters from outside are made harmless.
pub(super) fn render_findings(findings: &[Finding]) -> String {
    let mut text = String::new();
    for finding in findings {
        text.push_str(&format!("{}: {}\n", finding.severity.name(), finding.what));
        if !finding.remedy.is_empty() {
            text.push_str(&format!("    {}\n", finding.remedy));
        }
    }
    if findings.is_empty() {
        text.push_str("nothing is wrong\n");
    }
    printable_lines(&text)
}
