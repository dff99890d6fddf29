//! `cargo x console`: builds the console's page from its sources in `console/` into the files that
//! are committed and served.
//!
//! Only this task needs Node, because the built files are committed; `check` verifies that they
//! match the sources.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::{env, fs};

use anyhow::{Context, Result, bail};
use clap::{Args, Subcommand};

use crate::shell;

mod first_load;

/// Folder with the console's sources.
const SOURCES: &str = "console";

/// Folder of the built files, which are committed.
const ASSETS: &str = "crates/tollhouse-console/assets";

/// Environment variable that names the program whose page is tested, instead of the one built here.
const PROGRAM: &str = "TOLLHOUSE";

/// Arguments of `cargo x console`.
#[derive(Args)]
pub(crate) struct ConsoleArguments {
    #[command(subcommand)]
    task: ConsoleTask,
}

#[derive(Subcommand)]
enum ConsoleTask {
    /// Serve the page from its sources, with the API of a running gateway.
    Dev(DevArguments),
    /// Build the page and write the files that are committed.
    Build,
    /// Build the program and test its page in Debian's Chromium.
    Browser,
    /// Build the program as it is published and measure the page: the time until it is visible, the
    /// time for lists of a hundred thousand routes, and the CPU time of open consoles. Needs an
    /// otherwise idle machine.
    Figures,
    /// Build the program and take the pictures of the documentation in Debian's Chromium.
    Pictures,
    /// Check types, run the unit tests, compare a fresh build with the committed files, and check
    /// the size of the first load against its limit.
    Check,
}

#[derive(Args)]
struct DevArguments {
    /// URL of the gateway's Admin listener.
    #[arg(long, default_value = "http://127.0.0.1:9180")]
    gateway: String,
}

/// Runs the task.
///
/// # Errors
/// If a step fails, or the committed files do not match the sources.
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

/// Installs the packages of the lock file if they are missing or outdated, without running their
/// scripts.
fn install() -> Result<()> {
    let folder = shell::workspace_root().join(SOURCES);
    let time = |path: PathBuf| fs::metadata(path).and_then(|found| found.modified()).ok();
    let installed = time(folder.join("node_modules/.package-lock.json"));
    if installed.is_some() && installed >= time(folder.join("package-lock.json")) {
        return Ok(());
    }
    shell::run(&mut npm(&["ci", "--ignore-scripts", "--no-audit", "--no-fund"]))
}

/// Builds the program, unless `TOLLHOUSE` names one, and runs a script that opens its page.
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
    let folder = fresh.to_str().context("the workspace's path is not UTF-8")?;
    let build = ["exec", "vite", "--", "build", "--outDir", folder, "--emptyOutDir"];
    shell::run(&mut npm(&build))?;
    let (made, committed) = (files(&fresh)?, files(&shell::workspace_root().join(ASSETS))?);
    let names = made.keys().chain(committed.keys());
    let mut different: Vec<&String> =
        names.filter(|name| made.get(*name) != committed.get(*name)).collect();
    different.sort();
    different.dedup();
    if !different.is_empty() {
        bail!("{ASSETS} does not match {SOURCES}/: {different:?}; run `cargo x console build`");
    }
    println!("console: {} files match the sources", made.len());
    first_load::check(&made)
}

/// Returns the files of a folder with their bytes.
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
