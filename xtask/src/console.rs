//! `cargo x console`: the console's page, from its sources in `console/` to the files that are committed and served.
//!
//! Nothing else needs Node: what is built here is committed, and `check` says whether it is what the sources make.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::{env, fs};

use anyhow::{Context, Result, bail};
use clap::{Args, Subcommand};

use crate::shell;

mod first_load;

/// Where the sources are.
const SOURCES: &str = "console";

/// Where the built files are committed.
const ASSETS: &str = "crates/tollhouse-console/assets";

/// Names the program whose page is looked at, where that is none of this tree.
const PROGRAM: &str = "TOLLHOUSE";

/// Arguments of `cargo x console`.
#[derive(Args)]
pub(crate) struct ConsoleArguments {
    #[command(subcommand)]
    task: ConsoleTask,
}

#[derive(Subcommand)]
enum ConsoleTask {
    /// Serve the page from its sources, with the API of a gateway that runs.
    Dev(DevArguments),
    /// Build the page and write the files that are committed.
    Build,
    /// Build the program and test the page of it in Debian's Chromium.
    Browser,
    /// Build the program as it is published and measure what the page costs: how soon it shows, how long lists of a
    /// hundred thousand routes take, what open consoles take of a core. Wants a machine that does nothing else.
    Figures,
    /// Build the program and take the pictures of the documentation in Debian's Chromium.
    Pictures,
    /// Check types, run the unit tests, and compare a fresh build with the committed files; hold what a browser fetches
    /// first against its bound.
    Check,
}

#[derive(Args)]
struct DevArguments {
    /// Where the Admin listener of the gateway is.
    #[arg(long, default_value = "http://127.0.0.1:9180")]
    gateway: String,
}

/// Runs the task.
///
/// # Errors
/// A step fails, or the committed files are not those that the sources make.
pub(crate) fn run(arguments: &ConsoleArguments) -> Result<()> {
    if shell::find_program("npm").is_none() {
        println!("console: skipped, since Node is not installed; node 20.19 or newer is needed");
        return Ok(());
    }
    install()?;
    match &arguments.task {
        ConsoleTask::Dev(DevArguments { gateway }) => {
            shell::run(npm(&["run", "dev"]).env("TOLLHOUSE_GATEWAY", gateway))
        }
        ConsoleTask::Build => {
            shell::run(&mut npm(&["run", "build"]))?;
            first_load::check(&files(&shell::workspace_root().join(ASSETS))?)
        }
        ConsoleTask::Browser => browser("browser", &["build", "-p", "tollhouse"]),
        ConsoleTask::Figures => browser("figures", &["build", "--release", "-p", "tollhouse"]),
        ConsoleTask::Pictures => browser("pictures", &["build", "-p", "tollhouse"]),
        ConsoleTask::Check => check(),
    }
}

fn npm(arguments: &[&str]) -> std::process::Command {
    let mut command = shell::command("npm", arguments);
    command.current_dir(shell::workspace_root().join(SOURCES));
    command
}

/// Brings what the lock file names, unless it is there. Nothing that is brought is run by that.
fn install() -> Result<()> {
    let folder = shell::workspace_root().join(SOURCES);
    let time = |path: PathBuf| fs::metadata(path).and_then(|found| found.modified()).ok();
    let installed = time(folder.join("node_modules/.package-lock.json"));
    if installed.is_some() && installed >= time(folder.join("package-lock.json")) {
        return Ok(());
    }
    shell::run(&mut npm(&["ci", "--ignore-scripts", "--no-audit", "--no-fund"]))
}

/// Builds the program, unless TOLLHOUSE names one, and runs a script that opens its page.
fn browser(script: &str, build: &[&str]) -> Result<()> {
    if shell::find_program("chromium").is_none() {
        println!("console: skipped, since chromium is not installed");
        return Ok(());
    }
    let mut command = npm(&["run", script]);
    if env::var_os(PROGRAM).is_none() {
        shell::run(&mut shell::cargo(build))?;
        let profile = if build.contains(&"--release") { "release" } else { "debug" };
        command
            .env(PROGRAM, shell::workspace_root().join("target").join(profile).join("tollhouse"));
    }
    shell::run(&mut command)
}

fn check() -> Result<()> {
    shell::run(&mut npm(&["run", "check"]))?;
    shell::run(&mut npm(&["test"]))?;
    let fresh = shell::workspace_root().join("target/console-check");
    let folder = fresh.to_str().context("the workspace's path is no text")?;
    let build = ["exec", "vite", "--", "build", "--outDir", folder, "--emptyOutDir"];
    shell::run(&mut npm(&build))?;
    let (made, committed) = (files(&fresh)?, files(&shell::workspace_root().join(ASSETS))?);
    let names = made.keys().chain(committed.keys());
    let mut different: Vec<&String> =
        names.filter(|name| made.get(*name) != committed.get(*name)).collect();
    different.sort();
    different.dedup();
    if !different.is_empty() {
        bail!("{ASSETS} is not what {SOURCES}/ makes: {different:?}; run `cargo x console build`");
    }
    println!("console: {} files are what the sources make", made.len());
    first_load::check(&made)
}

/// The files of a folder with their bytes.
fn files(folder: &Path) -> Result<BTreeMap<String, Vec<u8>>> {
    let entries = fs::read_dir(folder).with_context(|| format!("{}", folder.display()))?;
    entries
        .map(|entry| {
            let path = entry?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            Ok((name, fs::read(&path)?))
        })
        .collect()
}
