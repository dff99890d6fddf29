//! Other people's programs: whether a test can have them, and running one to its end.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use rustix::io::Errno;
use rustix::process::{Pid, Signal, kill_process};

use crate::gateway::Output;
use crate::patience::{DEADLINE, wait_for};

/// Names of the programs that this machine lacks, comma separated; set by `cargo x test`.
const SKIP_VARIABLE: &str = "TOLLHOUSE_TEST_SKIP_PEERS";

/// The Python that has the client libraries; set by `cargo x test`.
const PYTHON_VARIABLE: &str = "TOLLHOUSE_TEST_PYTHON";

/// The folder of programs that were built for the tests; set by `cargo x test`.
const PEERS_VARIABLE: &str = "TOLLHOUSE_TEST_PEERS";

/// Where `cargo x install` leaves them below the target folder.
const PEERS_FOLDER: &str = "test-peers/bin";

/// Folders that hold servers and are not on everybody's path.
const SYSTEM_FOLDERS: [&str; 4] = ["/usr/sbin", "/usr/local/sbin", "/sbin", "/usr/local/go/bin"];

/// Where `name` is; `None`, with a message, when the test has to do without.
pub fn find(name: &str) -> Option<PathBuf> {
    let skipped = std::env::var(SKIP_VARIABLE).unwrap_or_default();
    let found = if skipped.split(',').any(|skipped| skipped == name) { None } else { look(name) };
    if found.is_none() {
        println!("skipped: {name} is not installed (`cargo x test` installs what it can)");
    }
    found
}

/// Stops the process of this number (SIGSTOP), and returns once it does nothing any more: the signal alone leaves
/// its threads to finish what they are at.
///
/// # Panics
/// When there is no such process.
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

/// The processes that this one has started, and that have not ended.
pub fn children(id: u32) -> Vec<u32> {
    let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let processes = processes.filter_map(|process| {
        let number = process.file_name().to_str()?.parse().ok()?;
        (stat(&process.path()).get(1)? == &id.to_string()).then_some(number)
    });
    processes.collect()
}

/// What the kernel says of a process or thread: its state, who started it, and more; nothing once it has ended.
fn stat(folder: &Path) -> Vec<String> {
    let stat = std::fs::read_to_string(folder.join("stat")).unwrap_or_default();
    // The name before it is in brackets and may hold anything.
    let rest = stat.rsplit_once(") ").map_or("", |(_, rest)| rest);
    rest.split(' ').map(str::to_owned).collect()
}

/// Lets a process go on that was [stopped](pause); one that has ended since it was looked up needs nothing.
///
/// # Panics
/// When it may not be signalled.
pub fn wake(id: u32) {
    let process = Pid::from_raw(id.cast_signed()).expect("a process has a number");
    match kill_process(process, Signal::CONT) {
        Ok(()) | Err(Errno::SRCH) => {}
        Err(error) => panic!("process {id} cannot be signalled: {error}"),
    }
}

/// The Python that has the client libraries; `None`, with a message, when there is none.
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

/// Where programs lie that were built for the tests: as configured, or as an earlier `cargo x install` left
/// them in the target folder that this test was built in.
fn built_peers() -> Option<PathBuf> {
    let configured = std::env::var_os(PEERS_VARIABLE).map(PathBuf::from);
    configured.or_else(|| {
        let this = std::env::current_exe().ok()?;
        let mut folders = this.ancestors().map(|folder| folder.join(PEERS_FOLDER));
        folders.find(|folder| folder.is_dir())
    })
}

/// What a program did.
#[derive(Debug)]
pub struct Ran {
    /// How it ended.
    pub status: ExitStatus,
    /// What it printed, on both streams.
    pub text: String,
}

/// Runs a program to its end.
///
/// # Panics
/// When it cannot be started or does not end in time.
pub fn run(command: &mut Command) -> Ran {
    run_within(command, DEADLINE)
}

/// The same with a deadline of its own, for what may have to be built first.
///
/// # Panics
/// As [`run`].
pub fn run_within(command: &mut Command, time: Duration) -> Ran {
    let (mut child, output) = spawn(command);
    output.wait_end_within(time);
    let status = child.wait().expect("a child can be waited for");
    Ran { status, text: output.text() }
}

/// The same; what it printed, of a program that is happy.
///
/// # Panics
/// As [`run`], and when it ends with an error.
pub fn run_well(command: &mut Command) -> String {
    let ran = run(command);
    assert!(ran.status.success(), "{command:?} ended with {}:\n{}", ran.status, ran.text);
    ran.text
}

/// A program that runs until it is dropped.
#[derive(Debug)]
pub struct Running {
    child: Child,
    output: Output,
}

impl Running {
    /// Starts it.
    ///
    /// # Panics
    /// When it cannot be started.
    pub fn start(command: &mut Command) -> Self {
        let (child, output) = spawn(command);
        Self { child, output }
    }

    /// Sends what Ctrl-C sends.
    ///
    /// # Panics
    /// When it has ended.
    pub fn interrupt(&self) {
        let process = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        let process = process.expect("a process has a number");
        kill_process(process, Signal::INT).expect("the program is running");
    }

    /// What it prints.
    pub fn output(&self) -> &Output {
        &self.output
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Both fail only when it has ended already.
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
