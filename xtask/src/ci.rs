//! `cargo x ci`: everything that must pass before a change is merged, in one command that also runs
//! on a laptop. The command continues after a failure, so that one run shows all failures.

use crate::shell;
use anyhow::{Result, bail};
use clap::Args;
use std::process::Command;
use std::time::{Duration, Instant};

/// Arguments of `cargo x ci`.
#[derive(Args)]
pub(crate) struct CiArguments {
    /// Run only these steps (fmt, clippy, tidy, test, guide, doc, deny, console, gate).
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
}

enum Outcome {
    Passed,
    Failed(String),
    Skipped(&'static str),
}

/// A check, with its requirement in addition to the toolchain.
struct Step {
    name: &'static str,
    cargo: &'static str,
    needs: Need,
}

enum Need {
    Nothing,
    CargoCommand(&'static str, &'static str),
}

const DENY_MISSING: &str = "cargo-deny is not installed: cargo install cargo-deny";

const STEPS: &[Step] = &[
    Step { name: "fmt", cargo: "fmt --all --check", needs: Need::Nothing },
    Step {
        name: "clippy",
        cargo: "clippy --workspace --all-targets -- -D warnings",
        needs: Need::Nothing,
    },
    Step { name: "tidy", cargo: "x tidy", needs: Need::Nothing },
    Step { name: "test", cargo: "x test", needs: Need::Nothing },
    Step { name: "guide", cargo: "x guide", needs: Need::Nothing },
    Step { name: "doc", cargo: "doc --workspace --no-deps --quiet", needs: Need::Nothing },
    Step { name: "deny", cargo: "deny check", needs: Need::CargoCommand("deny", DENY_MISSING) },
    Step { name: "console", cargo: "x console check", needs: Need::Nothing },
    Step { name: "gate", cargo: "x bench --gate", needs: Need::Nothing },
];

pub(crate) fn run(arguments: &CiArguments) -> Result<()> {
    for name in &arguments.only {
        if !STEPS.iter().any(|step| step.name == name) {
            bail!("no step named {name}");
        }
    }
    let chosen = STEPS.iter().filter(|step| {
        arguments.only.is_empty() || arguments.only.iter().any(|name| name == step.name)
    });
    let mut results = Vec::new();
    for step in chosen {
        println!("== {} (cargo {})", step.name, step.cargo);
        let start = Instant::now();
        let outcome = step.run();
        results.push((step.name, outcome, start.elapsed()));
    }
    println!("\n{}", summary(&results));
    println!("{}", verdict(&results));
    let failures = results.iter().filter(|(_, outcome, _)| matches!(outcome, Outcome::Failed(_)));
    let failed: Vec<&str> = failures.map(|(name, _, _)| *name).collect();
    if !failed.is_empty() {
        bail!("failed: {}", failed.join(", "));
    }
    Ok(())
}

impl Step {
    fn run(&self) -> Outcome {
        if let Need::CargoCommand(name, message) = self.needs
            && !shell::has_cargo_command(name)
        {
            return Outcome::Skipped(message);
        }
        match shell::run(&mut self.command()) {
            Ok(()) => Outcome::Passed,
            Err(error) => Outcome::Failed(format!("{error:#}")),
        }
    }

    fn command(&self) -> Command {
        let words: Vec<&str> = self.cargo.split(' ').collect();
        let mut command = shell::cargo(&words);
        if self.name == "doc" {
            command.env("RUSTDOCFLAGS", "-Dwarnings");
        }
        command
    }
}

/// Returns the last line, which tells if skipped steps have left something unchecked.
fn verdict(results: &[(&str, Outcome, Duration)]) -> String {
    let skipped: Vec<&str> = results
        .iter()
        .filter(|(_, outcome, _)| matches!(outcome, Outcome::Skipped(_)))
        .map(|(name, _, _)| *name)
        .collect();
    if skipped.is_empty() {
        return "every chosen step ran".to_owned();
    }
    format!("NOT CHECKED: {}. This run is incomplete", skipped.join(", "))
}

fn summary(results: &[(&str, Outcome, Duration)]) -> String {
    let lines = results.iter().map(|(name, outcome, took)| {
        let seconds = took.as_secs_f64();
        match outcome {
            Outcome::Passed => format!("passed   {name:<8} {seconds:6.1} s"),
            Outcome::Failed(reason) => format!("FAILED   {name:<8} {seconds:6.1} s  {reason}"),
            Outcome::Skipped(reason) => format!("SKIPPED  {name:<8}          {reason}"),
        }
    });
    lines.collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_summary_names_every_step_and_its_end() {
        let results = [
            ("fmt", Outcome::Passed, Duration::from_millis(1500)),
            ("clippy", Outcome::Failed("exit status 101".to_owned()), Duration::from_secs(20)),
            ("deny", Outcome::Skipped(DENY_MISSING), Duration::ZERO),
        ];
        let expected = "passed   fmt         1.5 s\n\
                        FAILED   clippy     20.0 s  exit status 101\n\
                        SKIPPED  deny              cargo-deny is not installed: cargo install \
                        cargo-deny";
        assert_eq!(summary(&results), expected);
        assert_eq!(verdict(&results), "NOT CHECKED: deny. This run is incomplete");
        assert_eq!(verdict(&results[..2]), "every chosen step ran");
    }
}
