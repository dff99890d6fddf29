//! `cargo x fuzz`: runs each of the fuzz targets under `fuzz/` for some time, with cargo-fuzz.
//!
//! The targets are in `fuzz/fuzz_targets/`, one for each parser of external input; their
//! dictionaries are in `fuzz/dictionaries/`. The task needs cargo-fuzz and a nightly toolchain.
//! Without them it prints a message and succeeds.

use crate::shell;
use anyhow::{Context, Result, bail};
use clap::Args;

/// Arguments of `cargo x fuzz`.
#[derive(Args)]
pub(crate) struct FuzzArguments {
    /// Seconds that each target runs.
    #[arg(long, default_value_t = 30)]
    seconds: u32,
    /// Target to run; all of them if absent.
    target: Option<String>,
}

/// Largest useful input; every parser refuses heads far smaller than this.
const INPUT_BYTES_MAX: u32 = 65_536;

pub(crate) fn run(arguments: &FuzzArguments) -> Result<()> {
    let targets = targets()?;
    let chosen: Vec<&String> = match &arguments.target {
        None => targets.iter().collect(),
        Some(name) if targets.contains(name) => vec![name],
        Some(name) => bail!("no fuzz target named {name}; there are: {}", targets.join(", ")),
    };
    if !shell::has_cargo_command("fuzz") {
        println!("skipped: cargo-fuzz is not installed (cargo install cargo-fuzz)");
        return Ok(());
    }
    if !has_nightly() {
        println!("skipped: no nightly toolchain (rustup toolchain install nightly)");
        return Ok(());
    }
    let mut failed = Vec::new();
    for target in chosen {
        println!("== {target}");
        if let Err(error) = run_target(target, arguments.seconds) {
            println!("{error:#}");
            failed.push(target.as_str());
        }
    }
    if !failed.is_empty() {
        bail!("crashes were found, inputs are under fuzz/artifacts/: {}", failed.join(", "));
    }
    Ok(())
}

fn run_target(target: &str, seconds: u32) -> Result<()> {
    let mut options =
        vec![format!("-max_total_time={seconds}"), format!("-max_len={INPUT_BYTES_MAX}")];
    let dictionary = shell::workspace_root().join(format!("fuzz/dictionaries/{target}.dict"));
    if dictionary.is_file() {
        options.push(format!("-dict={}", dictionary.display()));
    }
    // Runs through rustup, because the running cargo is the pinned stable one.
    let mut words = vec!["run", "nightly", "cargo", "fuzz", "run", target, "--"];
    words.extend(options.iter().map(String::as_str));
    shell::run(shell::command("rustup", &words).env_remove("CARGO").env_remove("RUSTUP_TOOLCHAIN"))
}

fn has_nightly() -> bool {
    shell::capture_loosely("rustup", &["toolchain", "list"])
        .lines()
        .any(|line| line.starts_with("nightly"))
}

/// Returns the names of the targets; each target is one file.
fn targets() -> Result<Vec<String>> {
    let folder = shell::workspace_root().join("fuzz/fuzz_targets");
    let entries = std::fs::read_dir(&folder).with_context(|| format!("{}", folder.display()))?;
    let mut names: Vec<String> = entries
        .filter_map(Result::ok)
        .filter_map(|entry| entry.file_name().to_str()?.strip_suffix(".rs").map(str::to_owned))
        .collect();
    names.sort();
    Ok(names)
}
