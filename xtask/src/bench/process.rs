//! A program under test: started on one core in a folder of its own, watched through `/proc`, and
//! ended with all its children, come what may.

use super::client::{self, Connection};
use crate::shell;
use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Resource, Rlimit, Signal};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// How long a program may take to answer its first request; 100,000 routes take nginx a while, and
/// under valgrind everything takes fifty times as long.
const START_MAX: Duration = Duration::from_secs(120);
/// How long a program may take to end when asked; after that it is killed. Under valgrind the gateway's
/// threads beside its workers, which ask for little of the processor, write the profile: on a machine that
/// is busy otherwise that takes longer than all the rest.
const STOP_MAX: Duration = Duration::from_secs(120);

/// Open files for 12,000 connections, twice over and with room.
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

    /// Waits until a path answers 200, and says how long after the call that was.
    pub(crate) fn wait_until_it_answers(&mut self, port: u16, path: &str) -> Result<Duration> {
        self.wait_until_it_answers_to(port, &client::get_request(path, ""))
    }

    /// The same for any request.
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

    /// Waits until its port takes connections, whatever it speaks there.
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

    /// The end of what it printed.
    fn log(&self) -> String {
        let text = std::fs::read_to_string(self.folder.path().join("log")).unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(20)..].join("\n")
    }

    /// Time spent on a core by it and its children, user and kernel.
    pub(crate) fn cpu_time(&self) -> Result<Duration> {
        // Threads do not end while they are watched, so that the scheduler's own count, which is exact
        // where the kernel keeps it, is preferred to ticks of a hundredth of a second.
        let exact: Option<u64> = self.processes().iter().map(|pid| cpu_nanoseconds(*pid)).sum();
        if let Some(nanoseconds) = exact.filter(|nanoseconds| *nanoseconds > 0) {
            return Ok(Duration::from_nanos(nanoseconds));
        }
        let ticks_per_second = rustix::param::clock_ticks_per_second();
        let ticks: u64 = self.processes().iter().filter_map(|pid| cpu_ticks(*pid)).sum();
        if ticks == 0 {
            bail!("/proc tells no CPU time");
        }
        Ok(Duration::from_micros(ticks * 1_000_000 / ticks_per_second))
    }

    /// Memory in user space of it and its children; shared pages are counted in shares.
    pub(crate) fn memory_bytes(&self) -> Result<u64> {
        let sum: u64 = self.processes().iter().filter_map(|pid| proportional_kib(*pid)).sum();
        if sum == 0 {
            bail!("/proc tells no memory");
        }
        Ok(sum * 1024)
    }

    /// Its process and all below it.
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

    /// Ends it without asking.
    pub(crate) fn kill(&mut self) {
        for pid in self.processes() {
            signal(pid, Signal::KILL);
        }
        drop(self.child.wait());
    }

    /// Asks it to end and waits; what does not end is killed.
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
        // The result is of no interest: it ended, one way or the other.
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

/// CPU time of all children that have ended and were waited for, user and kernel.
pub(crate) fn waited_cpu_time() -> Result<Duration> {
    const USER: usize = 16;
    const SYSTEM: usize = 17;
    let stat = read_stat(std::process::id()).context("/proc tells nothing about this process")?;
    let ticks = stat_field(&stat, USER).zip(stat_field(&stat, SYSTEM));
    let (user, system) = ticks.context("/proc tells no CPU time of children")?;
    let ticks_per_second = rustix::param::clock_ticks_per_second();
    Ok(Duration::from_micros((user + system) * 1_000_000 / ticks_per_second))
}

fn signal(pid: u32, signal: Signal) {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
    if let Some(pid) = pid {
        // Failing means that it is gone already.
        let _gone = rustix::process::kill_process(pid, signal);
    }
}

fn is_alive(pid: u32) -> bool {
    Path::new(&format!("/proc/{pid}")).exists()
}

/// Every process with its parent.
fn parents() -> Vec<(u32, u32)> {
    let Ok(entries) = std::fs::read_dir("/proc") else { return Vec::new() };
    let pids = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    pids.filter_map(|pid| Some((pid, stat_field(&read_stat(pid)?, 4)?.try_into().ok()?))).collect()
}

fn read_stat(pid: u32) -> Option<String> {
    std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()
}

/// A numbered field of `/proc/<pid>/stat`, from 1 as in proc(5). Counted after the name, which may
/// hold blanks.
fn stat_field(stat: &str, number: usize) -> Option<u64> {
    let after_name = &stat[stat.rfind(')')? + 1..];
    after_name.split_whitespace().nth(number - 3)?.parse().ok()
}

fn cpu_ticks(pid: u32) -> Option<u64> {
    let stat = read_stat(pid)?;
    Some(stat_field(&stat, 14)? + stat_field(&stat, 15)?)
}

/// Time on a core of all threads of a process, as `/proc/<pid>/task/<tid>/schedstat` has it.
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

/// A folder on a disk, below where cargo builds: for programs whose waiting for it is measured.
pub(crate) fn folder_on_disk() -> Result<TempDir> {
    let target = shell::target_directory()?;
    tempfile::tempdir_in(&target)
        .with_context(|| format!("making a folder in {}", target.display()))
}

/// A folder in memory where the system has one, so that no disk takes part in a measurement.
pub(crate) fn fresh_folder() -> Result<TempDir> {
    let in_memory = tempfile::tempdir_in("/dev/shm");
    in_memory.or_else(|_| tempfile::tempdir()).context("making a folder")
}

/// A port that the kernel says is free. Another program could take it before ours does; then the
/// start fails and says so.
pub(crate) fn free_port() -> Result<u16> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}

/// Lets this program and its children hold as many connections as the system permits.
pub(crate) fn raise_open_files_limit() {
    let raise = |limit: Option<u64>| {
        let raised = Rlimit { current: limit, maximum: limit };
        rustix::process::setrlimit(Resource::Nofile, raised)
    };
    let permitted = rustix::process::getrlimit(Resource::Nofile).maximum;
    // Only a privileged process may go past what it is permitted.
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
