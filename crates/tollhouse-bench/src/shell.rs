//! Folders of the workspace, execution of programs, process priorities, and pauses.

use anyhow::{Context, Result, bail};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use tempfile::TempDir;
use tollhouse_testbed::Program;

/// Folder of the programs that `cargo x install` builds, below the target folder.
const BUILT_PROGRAMS: &str = "test-peers/bin";

/// Returns the folder of the root manifest.
pub(crate) fn workspace_root() -> &'static Path {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent();
    crates.and_then(Path::parent).expect("the crate is two folders below the root")
}

/// Returns cargo's target folder, which contains this program.
pub(crate) fn target_directory() -> PathBuf {
    let program = std::env::current_exe().unwrap_or_default();
    let target = program.ancestors().find(|folder| folder.join("CACHEDIR.TAG").is_file());
    target.map_or_else(|| workspace_root().join("target"), Path::to_owned)
}

/// Returns the path of an installed program, or of one that was built for the tests.
pub(crate) fn find_program(name: &str) -> Option<PathBuf> {
    let built = || Some(target_directory().join(BUILT_PROGRAMS).join(name));
    tollhouse_testbed::find(name).or_else(|| built().filter(|file| file.is_file()))
}

/// Returns a command for a program that may be outside of the search path.
pub(crate) fn command(program: &str) -> Command {
    Command::new(find_program(program).unwrap_or_else(|| program.into()))
}

/// Runs a command and returns its standard output.
///
/// # Errors
/// If it fails; the error contains both outputs.
pub(crate) fn output_of(command: &mut Command) -> Result<String> {
    let output =
        command.output().with_context(|| format!("failed to start `{}`", render(command)))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    if !output.status.success() {
        let error = String::from_utf8_lossy(&output.stderr);
        bail!("`{}` failed: {}\n{text}{error}", render(command), output.status);
    }
    Ok(text)
}

/// Returns the text of a command as on a terminal, for messages.
fn render(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
}

/// Creates a folder on a disk, below cargo's target folder, for programs whose disk writes are part
/// of the measurement.
pub(crate) fn folder_on_disk() -> Result<TempDir> {
    let target = target_directory();
    tempfile::tempdir_in(&target)
        .with_context(|| format!("making a folder in {}", target.display()))
}

/// Creates a folder in memory if the system has such a file system, so that no disk takes part in a
/// measurement.
pub(crate) fn fresh_folder() -> Result<TempDir> {
    let in_memory = tempfile::tempdir_in("/dev/shm");
    in_memory.or_else(|_| tempfile::tempdir()).context("making a folder")
}

/// Waits for a moment between two checks of something that sends no notification, such as another
/// program's port or the clock of a measurement.
#[expect(
    clippy::disallowed_methods,
    reason = "the other side is a foreign program; tests never wait here"
)]
pub(crate) fn pause(duration: Duration) {
    std::thread::sleep(duration);
}

/// Gives the calling thread, and threads and child processes that it starts later, the idle
/// priority, so that they do not affect the measurement. Without the program `chrt`, the priority
/// stays unchanged.
pub(crate) fn stand_back() {
    lower_priority(&["--pid", "0", &rustix::thread::gettid().as_raw_nonzero().to_string()]);
}

/// Gives all processes of a program the idle priority.
pub(crate) fn make_idle(program: &Program) {
    for pid in program.pids() {
        lower_priority(&["--all-tasks", "--pid", "0", &pid.to_string()]);
    }
}

fn lower_priority(arguments: &[&str]) {
    let status = Command::new("chrt").arg("--idle").args(arguments).status();
    if !status.is_ok_and(|status| status.success()) {
        println!("chrt could not lower a priority: the figures include other work of the machine");
    }
}
