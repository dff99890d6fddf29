//! `tollhouse reference`: prints pages of the manual that are generated from the source.
//!
//! `cargo x gen` writes them to `docs/reference`. The pages on keys, codes and metrics are
//! generated next to their tables, those on plugins by `plugins`; this file generates the page on
//! the command line.

use std::fmt::Write as _;
use std::process::ExitCode;

use clap::{Args, Command, ValueEnum};
use tollhouse_config::bootstrap;
use tollhouse_telemetry::{catalogue, codes};

use super::problems::{UNUSABLE, print_failure};
use super::{plugins, stdout};

/// Width of help texts, independent of the terminal, so that the page is the same for everyone.
const WIDTH: usize = 96;

const CLI_OPENING: &str = "# Command line

Generated from the source; do not edit.

Errors go to standard error in a line that begins with `error:`. Exit codes, of all commands alike:

| Code | Meaning |
| --- | --- |
| 0 | done |
| 1 | it was tried and failed: a port in use, a store in use, a gateway that does not answer |
| 2 | nothing was tried: the command line, a configuration or a document cannot be used |

Some commands answer a question with their code: `status` exits with 1 when the gateway is not
ready, `doctor` and `registry doctor` with 1 when they find something that matters, `explain` with 1
when no route matches or the past request failed, and `bench` with 1 when a threshold is missed and
with 2 when nothing could be measured.
";

/// Arguments of `reference`.
#[derive(Debug, Args)]
pub struct ReferenceArguments {
    /// The page to print.
    #[arg(value_enum)]
    page: Page,
    /// Plugin of the page `plugin`.
    #[arg(value_name = "NAME", required_if_eq("page", "plugin"))]
    name: Option<String>,
}

/// A page of the reference.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Page {
    /// Keys of the bootstrap file.
    Config,
    /// Error codes.
    Errors,
    /// Metrics.
    Metrics,
    /// Commands.
    Cli,
    /// The list of plugins.
    Plugins,
    /// Page of a plugin.
    Plugin,
    /// Calls of Polaris with their state.
    Polaris,
}

/// Prints the page to standard output; `command` is the definition of the whole command line.
pub fn run(arguments: &ReferenceArguments, command: Command) -> ExitCode {
    let page = match arguments.page {
        Page::Config => bootstrap::reference_markdown(),
        Page::Errors => codes::reference_markdown(),
        Page::Metrics => catalogue::reference_markdown(),
        Page::Cli => cli_markdown(command),
        Page::Plugins => plugins::markdown::index(),
        Page::Plugin => {
            let name = arguments.name.as_deref().unwrap_or_default();
            let Some(page) = plugins::markdown::page(name) else {
                print_failure(format_args!("unknown plugin \"{name}\""));
                return ExitCode::from(UNUSABLE);
            };
            page
        }
        Page::Polaris => match polaris_markdown() {
            Ok(page) => page,
            Err(error) => {
                print_failure(format_args!("{error:#}"));
                return ExitCode::FAILURE;
            }
        },
    };
    if stdout::print(&page).is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Lists the calls of Polaris, by the routers of a registry in memory.
fn polaris_markdown() -> anyhow::Result<String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(tollhouse_control::registry::polaris_calls())
}

/// Formats the long help of every command.
fn cli_markdown(command: Command) -> String {
    let mut command = command.term_width(WIDTH);
    command.build();
    let mut page = String::from(CLI_OPENING);
    add_section(&mut page, "tollhouse", &command);
    add_subcommands(&mut page, "tollhouse", &command);
    page
}

fn add_subcommands(page: &mut String, parent: &str, command: &Command) {
    for subcommand in command.get_subcommands().filter(|command| is_listed(command)) {
        let name = format!("{parent} {}", subcommand.get_name());
        add_section(page, &name, subcommand);
        add_subcommands(page, &name, subcommand);
    }
}

fn is_listed(command: &Command) -> bool {
    !command.is_hide_set() && command.get_name() != "help"
}

fn add_section(page: &mut String, name: &str, command: &Command) {
    let help = command.clone().term_width(WIDTH).render_long_help().to_string();
    write!(page, "\n## {name}\n\n```text\n").expect("writing to a string cannot fail");
    for line in help.trim_end().lines() {
        page.push_str(line.trim_end());
        page.push('\n');
    }
    page.push_str("```\n");
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;
    use crate::cli::Arguments;

    #[test]
    fn the_command_page_has_every_command_a_user_sees() {
        let page = cli_markdown(Arguments::command());
        for command in Arguments::command().get_subcommands().filter(|it| is_listed(it)) {
            let heading = format!("\n## tollhouse {}\n", command.get_name());
            assert!(page.contains(&heading), "{heading}");
        }
        assert!(page.contains("\n## tollhouse bench http\n"));
        assert!(!page.contains("## tollhouse reference"));
        assert!(page.contains("Usage: tollhouse explain"));
        assert!(page.lines().all(|line| line.chars().count() <= 100), "{page}");
    }
}
