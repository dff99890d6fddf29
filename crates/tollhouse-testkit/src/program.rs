//! External programs: whether they are available to tests, and running them.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use rustix::io::Errno;
use rustix::process::{Pid, Signal, kill_process};

use crate::gateway::Output;
use crate::patience::{DEADLINE, wait_for};

/// Variable with the comma-separated names of missing programs; set by `cargo x test`.
const SKIP_VARIABLE: &str = "TOLLHOUSE_TEST_SKIP_PEERS";

/// Variable with the Python that has the client libraries; set by `cargo x test`.
const PYTHON_VARIABLE: &str = "TOLLHOUSE_TEST_PYTHON";

/// Variable with the folder of programs built for tests; set by `cargo x test`.
const PEERS_VARIABLE: &str = "TOLLHOUSE_TEST_PEERS";

/// Folder below the target folder in which `cargo x install` places these programs.
const PEERS_FOLDER: &str = "test-peers/bin";

/// Folders of servers that are often not on the path.
const SYSTEM_FOLDERS: [&str; 4] = ["/usr/sbin", "/usr/local/sbin", "/sbin", "/usr/local/go/bin"];

/// Finds a program. Returns `None`, with a message, if it is not available.
pub fn find(name: &str) -> Option<PathBuf> {
    let skipped = std::env::var(SKIP_VARIABLE).unwrap_or_default();
    let found = if skipped.split(',').any(|skipped| skipped == name) { None } else { look(name) };
    if found.is_none() {
        println!("skipped: {name} is not installed (`cargo x test` installs what it can)");
    }
    found
}

/// Stops a process with SIGSTOP, and waits until all of its threads have stopped. The signal alone
/// lets them finish what they are doing.
///
/// # Panics
///
/// If the process does not exist.
pub fn pause(id: u32) {
    let process = Pid::from_raw(id.cast_signed()).expect("a process has a number");
    kill_process(process, Signal::STOP).expect("it can be signalled");
    let tasks = format!("/proc/{id}/task");
    wait_for("all threads to stop", || {
        let tasks = std::fs::read_dir(&tasks).ok()?.flatten();
        let mut states = tasks.map(|task| stat(&task.path()).into_iter().next());
        states.all(|state| state.is_none_or(|state| state == "T")).then_some(())
    });
}

/// Lists the running child processes of a process.
pub fn children(id: u32) -> Vec<u32> {
    let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let processes = processes.filter_map(|process| {
        let number = process.file_name().to_str()?.parse().ok()?;
        (stat(&process.path()).get(1)? == &id.to_string()).then_some(number)
    });
    processes.collect()
}

/// Reads the kernel's status of a process or thread: state, parent and more; empty once it has
/// ended.
fn stat(folder: &Path) -> Vec<String> {
    let stat = std::fs::read_to_string(folder.join("stat")).unwrap_or_default();
    // The preceding name is in parentheses and may contain any character.
    let rest = stat.rsplit_once(") ").map_or("", |(_, rest)| rest);
    rest.split(' ').map(str::to_owned).collect()
}

/// Resumes a [stopped](pause) process. Does nothing if it has ended in the meantime.
///
/// # Panics
///
/// If it may not be signalled.
pub fn wake(id: u32) {
    let process = Pid::from_raw(id.cast_signed()).expect("a process has a number");
    match kill_process(process, Signal::CONT) {
        Ok(()) | Err(Errno::SRCH) => {}
        Err(error) => panic!("process {id} cannot be signalled: {error}"),
    }
}

/// Returns the Python with the client libraries. Returns `None`, with a message, if it is not
/// available.
pub fn python() -> Option<PathBuf> {
    let python = std::env::var_os(PYTHON_VARIABLE).map(PathBuf::from);
    if python.is_none() {
        println!("skipped: no Python with client libraries (`cargo x test` makes one)");
    }
    python
}

fn look(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain(SYSTEM_FOLDERS.map(PathBuf::from));
    built_peers()
        .into_iter()
        .chain(folders)
        .map(|folder| folder.join(name))
        .find(|file| file.is_file())
}

/// Returns the folder of programs built for tests: the configured one, or that of an earlier `cargo
/// x install` in the target folder of this test.
fn built_peers() -> Option<PathBuf> {
    let configured = std::env::var_os(PEERS_VARIABLE).map(PathBuf::from);
    configured.or_else(|| {
        let this = std::env::current_exe().ok()?;
        let mut folders = this.ancestors().map(|folder| folder.join(PEERS_FOLDER));
        folders.find(|folder| folder.is_dir())
    })
}

/// Exit status and output of a program that has ended.
#[derive(Debug)]
pub struct Ran {
    pub status: ExitStatus,
    /// Output of the program on both streams.
    pub text: String,
}

/// Runs a program to its end.
///
/// # Panics
///
/// If it cannot be started or does not end in time.
pub fn run(command: &mut Command) -> Ran {
    run_within(command, DEADLINE)
}

/// Runs a program with a given deadline, for programs that may have to be built first.
///
/// # Panics
///
/// As [`run`].
pub fn run_within(command: &mut Command, time: Duration) -> Ran {
    let (mut child, output) = spawn(command);
    output.wait_end_within(time);
    let status = child.wait().expect("a child can be waited for");
    Ran { status, text: output.text() }
}

/// Runs a program that must succeed, and returns its output.
///
/// # Panics
///
/// As [`run`], and if it ends with an error.
pub fn run_well(command: &mut Command) -> String {
    let ran = run(command);
    assert!(ran.status.success(), "{command:?} ended with {}:\n{}", ran.status, ran.text);
    ran.text
}

/// Program that runs until it is dropped.
#[derive(Debug)]
pub struct Running {
    child: Child,
    output: Output,
}

impl Running {
    /// Starts a program.
    ///
    /// # Panics
    ///
    /// If it cannot be started.
    pub fn start(command: &mut Command) -> Self {
        let (child, output) = spawn(command);
        Self { child, output }
    }

    /// Sends SIGTERM, which no program inherits as ignored. SIGINT is ignored by all background jobs
    /// of a shell, and a Java program keeps that.
    ///
    /// # Panics
    ///
    /// If the program has ended.
    pub fn terminate(&self) {
        let process = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        let process = process.expect("a process has a number");
        kill_process(process, Signal::TERM).expect("the program is running");
    }

    pub fn output(&self) -> &Output {
        &self.output
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Errors only mean that it has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn spawn(command: &mut Command) -> (Child, Output) {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let spawned = command.spawn();
    let mut child = spawned.unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let output = Output::default();
    output.follow(child.stdout.take().expect("the output is piped"));
    output.follow(child.stderr.take().expect("the errors are piped"));
    (child, output)
}
