//! Program under test: it is started on one core in a separate folder, observed through `/proc`,
//! and always ended with all its children.

use super::client::{self, Connection};
use crate::shell;
use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Resource, Rlimit, Signal};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Maximum time until a program answers its first request. 100,000 routes take nginx a while, and
/// under valgrind everything takes fifty times as long.
const START_MAX: Duration = Duration::from_secs(120);
/// Maximum time until a program ends when asked; after that it is killed. Under valgrind the
/// gateway's threads other than the workers, which otherwise need little CPU time, write the
/// profile. On a busy machine that takes longer than everything else.
const STOP_MAX: Duration = Duration::from_secs(120);

/// Open files for 12,000 connections, with two files each and a reserve.
const OPEN_FILES_WANTED: u64 = 65_536;

/// A running program and its folder.
pub(crate) struct Running {
    child: Child,
    folder: TempDir,
}

impl Running {
    /// Starts a command whose files are in `folder`; its output goes to a log there.
    pub(crate) fn start(mut command: Command, folder: TempDir) -> Result<Self> {
        let log = std::fs::File::create(folder.path().join("log"))?;
        let child = command
            .current_dir(folder.path())
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()
            .with_context(|| format!("failed to start `{}`", shell::render(&command)))?;
        Ok(Self { child, folder })
    }

    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Waits until a path answers 200, and returns the time since the call.
    pub(crate) fn wait_until_it_answers(&mut self, port: u16, path: &str) -> Result<Duration> {
        self.wait_until_it_answers_to(port, &client::get_request(path, ""))
    }

    /// Waits until the request is answered with 200, and returns the time since the call.
    pub(crate) fn wait_until_it_answers_to(
        &mut self,
        port: u16,
        request: &str,
    ) -> Result<Duration> {
        let start = Instant::now();
        let mut last_error = String::new();
        while start.elapsed() < START_MAX {
            if let Some(status) = self.child.try_wait()? {
                bail!("ended at once ({status}):\n{}", self.log());
            }
            match Connection::open(port).and_then(|mut c| c.exchange(request.as_bytes())) {
                Ok(200) => return Ok(start.elapsed()),
                Ok(status) => last_error = format!("status {status} for {request:?}"),
                Err(error) => last_error = format!("{error:#}"),
            }
            shell::pause(Duration::from_millis(1));
        }
        bail!("did not answer within {START_MAX:?} ({last_error}):\n{}", self.log());
    }

    /// Waits until the program accepts connections on the port, with any protocol.
    pub(crate) fn wait_until_it_listens(&mut self, port: u16) -> Result<()> {
        let start = Instant::now();
        while start.elapsed() < START_MAX {
            if let Some(status) = self.child.try_wait()? {
                bail!("ended at once ({status}):\n{}", self.log());
            }
            if std::net::TcpStream::connect(("127.0.0.1", port)).is_ok() {
                return Ok(());
            }
            shell::pause(Duration::from_millis(1));
        }
        bail!("did not listen within {START_MAX:?}:\n{}", self.log());
    }

    /// Returns the end of the program's output.
    fn log(&self) -> String {
        let text = std::fs::read_to_string(self.folder.path().join("log")).unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(20)..].join("\n")
    }

    /// Returns the CPU time of the program and its children, user and kernel.
    pub(crate) fn cpu_time(&self) -> Result<Duration> {
        // Threads do not end during a measurement. Therefore the scheduler's own count, which is
        // exact if the kernel keeps it, is preferred to ticks of a hundredth of a second.
        let exact: Option<u64> = self.processes().iter().map(|pid| cpu_nanoseconds(*pid)).sum();
        if let Some(nanoseconds) = exact.filter(|nanoseconds| *nanoseconds > 0) {
            return Ok(Duration::from_nanos(nanoseconds));
        }
        let ticks_per_second = rustix::param::clock_ticks_per_second();
        let ticks: u64 = self.processes().iter().filter_map(|pid| cpu_ticks(*pid)).sum();
        if ticks == 0 {
            bail!("/proc shows no CPU time");
        }
        Ok(Duration::from_micros(ticks * 1_000_000 / ticks_per_second))
    }

    /// Returns the user-space memory of the program and its children, with shared pages counted in
    /// proportion.
    pub(crate) fn memory_bytes(&self) -> Result<u64> {
        let sum: u64 = self.processes().iter().filter_map(|pid| proportional_kib(*pid)).sum();
        if sum == 0 {
            bail!("/proc shows no memory");
        }
        Ok(sum * 1024)
    }

    /// Returns the program's process and all its descendants.
    fn processes(&self) -> Vec<u32> {
        let all = parents();
        let mut family = vec![self.child.id()];
        let mut index = 0;
        while index < family.len() {
            let parent = family[index];
            family.extend(all.iter().filter(|(_, p)| *p == parent).map(|(pid, _)| *pid));
            index += 1;
        }
        family
    }

    /// Kills the program and its children.
    pub(crate) fn kill(&mut self) {
        for pid in self.processes() {
            signal(pid, Signal::KILL);
        }
        drop(self.child.wait());
    }

    /// Asks the program to end and waits; processes that do not end are killed.
    pub(crate) fn stop(&mut self) {
        let family = self.processes();
        signal(self.child.id(), Signal::TERM);
        let start = Instant::now();
        while start.elapsed() < STOP_MAX {
            if !matches!(self.child.try_wait(), Ok(None)) {
                break;
            }
            shell::pause(Duration::from_millis(10));
        }
        for pid in family.into_iter().filter(|pid| is_alive(*pid)) {
            signal(pid, Signal::KILL);
        }
        // The result does not matter, because the program has ended in any case.
        drop(self.child.wait());
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            self.stop();
        }
    }
}

/// Returns the CPU time of all children that have ended and were waited for, user and kernel.
pub(crate) fn waited_cpu_time() -> Result<Duration> {
    const USER: usize = 16;
    const SYSTEM: usize = 17;
    let stat = read_stat(std::process::id()).context("/proc shows nothing about this process")?;
    let ticks = stat_field(&stat, USER).zip(stat_field(&stat, SYSTEM));
    let (user, system) = ticks.context("/proc shows no CPU time of children")?;
    let ticks_per_second = rustix::param::clock_ticks_per_second();
    Ok(Duration::from_micros((user + system) * 1_000_000 / ticks_per_second))
}

fn signal(pid: u32, signal: Signal) {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
    if let Some(pid) = pid {
        // A failure means that the process has ended already.
        let _gone = rustix::process::kill_process(pid, signal);
    }
}

fn is_alive(pid: u32) -> bool {
    Path::new(&format!("/proc/{pid}")).exists()
}

/// Returns every process with its parent.
fn parents() -> Vec<(u32, u32)> {
    let Ok(entries) = std::fs::read_dir("/proc") else { return Vec::new() };
    let pids = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    pids.filter_map(|pid| Some((pid, stat_field(&read_stat(pid)?, 4)?.try_into().ok()?))).collect()
}

fn read_stat(pid: u32) -> Option<String> {
    std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()
}

/// Returns a field of `/proc/<pid>/stat` by its number, from 1 as in proc(5). Fields are counted
/// after the name, because the name may contain blanks.
fn stat_field(stat: &str, number: usize) -> Option<u64> {
    let after_name = &stat[stat.rfind(')')? + 1..];
    after_name.split_whitespace().nth(number - 3)?.parse().ok()
}

fn cpu_ticks(pid: u32) -> Option<u64> {
    let stat = read_stat(pid)?;
    Some(stat_field(&stat, 14)? + stat_field(&stat, 15)?)
}

/// Returns the CPU time of all threads of a process, from `/proc/<pid>/task/<tid>/schedstat`.
fn cpu_nanoseconds(pid: u32) -> Option<u64> {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).ok()?;
    let of_task = |path: std::path::PathBuf| -> Option<u64> {
        let text = std::fs::read_to_string(path.join("schedstat")).ok()?;
        text.split(' ').next()?.parse().ok()
    };
    tasks.filter_map(Result::ok).map(|task| of_task(task.path())).sum()
}

fn proportional_kib(pid: u32) -> Option<u64> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("Pss:"))?;
    line.trim().trim_end_matches(" kB").parse().ok()
}

/// Creates a folder on a disk, below cargo's target folder, for programs whose disk writes are part
/// of the measurement.
pub(crate) fn folder_on_disk() -> Result<TempDir> {
    let target = shell::target_directory()?;
    tempfile::tempdir_in(&target)
        .with_context(|| format!("making a folder in {}", target.display()))
}

/// Creates a folder in memory if the system has such a file system, so that no disk takes part in a
/// measurement.
pub(crate) fn fresh_folder() -> Result<TempDir> {
    let in_memory = tempfile::tempdir_in("/dev/shm");
    in_memory.or_else(|_| tempfile::tempdir()).context("making a folder")
}

/// Returns a port that the kernel reports as free. Another program could take it before ours does;
/// the start then fails with an error.
pub(crate) fn free_port() -> Result<u16> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}

/// Allows this program and its children as many open connections as the system permits.
pub(crate) fn raise_open_files_limit() {
    let raise = |limit: Option<u64>| {
        let raised = Rlimit { current: limit, maximum: limit };
        rustix::process::setrlimit(Resource::Nofile, raised)
    };
    let permitted = rustix::process::getrlimit(Resource::Nofile).maximum;
    // Only a privileged process may exceed its hard limit.
    let raised = raise(Some(OPEN_FILES_WANTED)).or_else(|_| raise(permitted));
    if let Err(error) = raised {
        println!("the limit of open files stays as it is: {error}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stat_fields_are_counted_after_the_name() {
        let stat = "42 (a (b) c) S 7 42 42 0 -1 4194560 1 2 3 4 150 50 0 0 20";
        assert_eq!(stat_field(stat, 4), Some(7));
        assert_eq!((stat_field(stat, 14), stat_field(stat, 15)), (Some(150), Some(50)));
        assert_eq!(stat_field("", 4), None);
    }

    #[test]
    fn a_program_is_watched_and_ended_with_its_children() {
        let mut command = Command::new("sh");
        command.args(["-c", "while :; do :; done & wait"]);
        let mut running = Running::start(command, tempfile::tempdir().unwrap()).unwrap();
        while running.cpu_time().is_err() || running.processes().len() < 2 {
            std::thread::yield_now();
        }
        let family = running.processes();
        assert!(running.memory_bytes().unwrap() > 0);
        running.stop();
        // An orphan is reaped by the system's first process, in its own time.
        let gone =
            |pid: &u32| !is_alive(*pid) || read_stat(*pid).is_none_or(|s| s.contains(") Z "));
        while !family.iter().all(gone) {
            std::thread::yield_now();
        }
    }
}
