//! Developer tasks, run as `cargo x <task>`: the only way to test, check, measure and generate.
//!
//! Each task has its own file. The small part that the tasks share is in `shell` (running
//! programs). The tasks are not shipped, and do not depend on another crate of the workspace, so
//! that they build in seconds.

mod bench;
mod ci;
mod console;
mod dist;
mod fuzz;
mod generate;
mod guide;
mod install;
mod shell;
mod test;
mod tidy;

use clap::{Parser, Subcommand};
use std::process::ExitCode;

#[derive(Parser)]
#[command(name = "cargo x", about = "Developer tasks of Tollhouse")]
struct Arguments {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Install what the tests need, then run every test.
    Test(test::TestArguments),
    /// Install what the tests and the bench need, and print what is missing.
    Install,
    /// Check the house rules that no compiler checks.
    Tidy(tidy::TidyArguments),
    /// Write the reference pages under docs/reference/ from the program itself.
    Gen(generate::GenerateArguments),
    /// Follow the guide for plugins: build and run a gateway with a plugin of its own.
    Guide,
    /// Run everything that must pass before a change is merged.
    Ci(ci::CiArguments),
    /// Build, check or serve the web console.
    Console(console::ConsoleArguments),
    /// Fuzz the parsers of external input.
    Fuzz(fuzz::FuzzArguments),
    /// Compare with nginx and HAProxy on this machine, or count instructions per request.
    Bench(bench::BenchArguments),
    /// Build the published files: the binary, an archive, packages, an image, checksums.
    Dist(dist::DistArguments),
}

fn main() -> ExitCode {
    let result = match Arguments::parse().task {
        Task::Test(arguments) => test::run(&arguments),
        Task::Install => install::run(),
        Task::Tidy(arguments) => tidy::run(&arguments),
        Task::Gen(arguments) => generate::run(&arguments),
        Task::Guide => guide::run(),
        Task::Ci(arguments) => ci::run(&arguments),
        Task::Console(arguments) => console::run(&arguments),
        Task::Fuzz(arguments) => fuzz::run(&arguments),
        Task::Bench(arguments) => bench::run(&arguments),
        Task::Dist(arguments) => dist::run(&arguments),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
