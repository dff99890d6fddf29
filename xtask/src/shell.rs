//! Execution of other programs: the workspace's folder, the search for programs, and their output.
//!
//! In spite of the name no shell is involved; arguments are passed unchanged.

use anyhow::{Context, Result, bail};
use std::ffi::OsStr;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Returns the folder of the root manifest.
pub(crate) fn workspace_root() -> PathBuf {
    let manifest_dir = std::env::var_os("CARGO_MANIFEST_DIR")
        .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from);
    manifest_dir.parent().map_or_else(|| manifest_dir.clone(), Path::to_path_buf)
}

/// Returns a command that runs in the workspace root.
pub(crate) fn command<S: AsRef<OsStr>>(program: &str, arguments: &[S]) -> Command {
    let mut command = Command::new(program);
    command.args(arguments).current_dir(workspace_root());
    command
}

/// Returns a command with the cargo that started this program, so that a `+toolchain` on the
/// command line is kept.
pub(crate) fn cargo<S: AsRef<OsStr>>(arguments: &[S]) -> Command {
    let program = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
    command(&program, arguments)
}

/// Runs a command with its output on this terminal.
///
/// # Errors
/// If the exit code is not 0.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    let line = render(command);
    let status = command.status().with_context(|| format!("failed to start `{line}`"))?;
    if !status.success() {
        bail!("`{line}` failed: {status}");
    }
    Ok(())
}

/// Runs a command and returns its standard output.
pub(crate) fn capture(command: &mut Command) -> Result<String> {
    let line = render(command);
    let output = command
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("failed to start `{line}`"))?;
    if !output.status.success() {
        let message = String::from_utf8_lossy(&output.stderr);
        bail!("`{line}` failed: {}\n{}", output.status, message.trim());
    }
    String::from_utf8(output.stdout)
        .with_context(|| format!("`{line}` printed text that is not UTF-8"))
}

/// Runs a command with this standard input and returns its standard output.
pub(crate) fn filter(command: &mut Command, input: &[u8]) -> Result<Vec<u8>> {
    let line = render(command);
    let spawned = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
    let mut child = spawned.with_context(|| format!("failed to start `{line}`"))?;
    let mut stdin = child.stdin.take().context("the child's input is piped")?;
    let output = std::thread::scope(|scope| {
        // In a thread of its own, because both pipes may be full at once.
        scope.spawn(move || stdin.write_all(input));
        child.wait_with_output()
    })?;
    if !output.status.success() {
        bail!("`{line}` failed: {}", output.status);
    }
    Ok(output.stdout)
}

/// Returns the output of a command on both streams, regardless of its exit code; it is empty if the
/// program is missing.
pub(crate) fn capture_loosely(program: &str, arguments: &[&str]) -> String {
    match command(program, arguments).stdin(Stdio::null()).output() {
        Ok(output) => {
            let mut text = String::from_utf8_lossy(&output.stdout).into_owned();
            text.push_str(&String::from_utf8_lossy(&output.stderr));
            text
        }
        Err(_) => String::new(),
    }
}

/// Folder of the programs that `cargo x install` builds, below the target folder.
const BUILT_PROGRAMS: &str = "test-peers/bin";

/// Finds a program on the search path, in `/usr/sbin`, where Debian installs servers, and among
/// those that were built for the tests.
pub(crate) fn find_program(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .chain(["/usr/sbin", "/usr/local/sbin", "/sbin"].map(PathBuf::from))
        .chain([built_programs()])
        .map(|folder| folder.join(name))
        .find(|candidate| candidate.is_file())
}

/// Returns the folder without asking cargo for its target folder: the configured one, or the
/// default.
fn built_programs() -> PathBuf {
    let configured = std::env::var_os("CARGO_TARGET_DIR").map(PathBuf::from);
    configured.unwrap_or_else(|| workspace_root().join("target")).join(BUILT_PROGRAMS)
}

/// Checks whether a program `cargo-<name>` exists.
pub(crate) fn has_cargo_command(name: &str) -> bool {
    find_program(&format!("cargo-{name}")).is_some()
        || home_cargo_bin().is_some_and(|folder| folder.join(format!("cargo-{name}")).is_file())
}

fn home_cargo_bin() -> Option<PathBuf> {
    let home = std::env::var_os("CARGO_HOME")
        .map(PathBuf::from)
        .or_else(|| std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".cargo")))?;
    Some(home.join("bin"))
}

pub(crate) fn target_directory() -> Result<PathBuf> {
    let text = capture(&mut cargo(&["metadata", "--format-version=1", "--no-deps", "--offline"]))?;
    let metadata: serde_json::Value = serde_json::from_str(&text)?;
    let folder = metadata["target_directory"].as_str().context("cargo metadata has no target")?;
    Ok(PathBuf::from(folder))
}

/// Returns the text of a command as on a terminal, for messages.
pub(crate) fn render(command: &Command) -> String {
    let mut line = command.get_program().to_string_lossy().into_owned();
    for argument in command.get_args() {
        line.push(' ');
        line.push_str(&argument.to_string_lossy());
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_reads_as_typed() {
        assert_eq!(render(&command("git", &["status", "--short"])), "git status --short");
    }

    #[test]
    fn a_filter_takes_more_than_a_pipe_holds() {
        let input = vec![b'a'; 1 << 20];
        assert_eq!(filter(&mut command::<&str>("cat", &[]), &input).unwrap(), input);
        assert!(filter(&mut command::<&str>("false", &[]), b"").is_err());
    }

    #[test]
    fn a_missing_program_is_not_found() {
        assert_eq!(find_program("no-such-program-anywhere"), None);
    }

    #[test]
    fn the_root_holds_the_workspace_manifest() {
        let manifest = std::fs::read_to_string(workspace_root().join("Cargo.toml")).unwrap();
        assert!(manifest.contains("[workspace]"));
    }
}
