//! `cargo x bench`: starts the cases of `crates/tollhouse-bench`. They are a program of their own,
//! because they need the test kit, which takes minutes to build.

use crate::shell;
use anyhow::Result;
use clap::Args;
use std::ffi::OsString;
use std::path::Path;

/// Arguments of `cargo x bench`, passed on; `cargo x bench --help` lists them.
#[derive(Args)]
#[command(disable_help_flag = true)]
pub(crate) struct BenchArguments {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<OsString>,
}

pub(crate) fn run(arguments: &BenchArguments) -> Result<()> {
    start(&arguments.arguments)
}

/// Sends an instrumented program the load of its training.
pub(crate) fn train(binary: &Path) -> Result<()> {
    start(&["--train".into(), binary.into()])
}

fn start(arguments: &[OsString]) -> Result<()> {
    let cargo = ["run", "--quiet", "--package", "tollhouse-bench", "--"];
    shell::run(shell::cargo(&cargo).args(arguments))
}
