//! A program of a measurement: started with its output in a file, awaited until it answers, watched
//! through `/proc`, and ended with its descendants.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::error::Error;
use crate::procfs::Procfs;
use crate::stat;

/// Time limit until a program answers for the first time, long enough for Java on a busy machine,
/// for nginx with 10,000 routes, and for valgrind.
const START_MAX: Duration = Duration::from_secs(120);
/// Time limit for a program to end after SIGTERM on drop; afterwards it is killed.
const DROP_MAX: Duration = Duration::from_secs(5);
/// Time limit for a program to end when asked. Under valgrind, the gateway's threads other than the
/// workers write the profile; on a busy machine that takes longer than everything else.
const STOP_MAX: Duration = Duration::from_secs(120);
/// Interval between probes of a starting program.
const PROBE_INTERVAL: Duration = Duration::from_millis(1);
/// Number of lines from the end of the program's output that an error repeats.
const LOG_LINES: usize = 10;
/// Maximum number of bytes read of a probe's response; the rest is ignored.
const RESPONSE_BYTES_MAX: u64 = 4 * 1024;

/// First port of those for programs that cannot report one chosen by the kernel.
const PORT_MIN: u16 = 20_000;

/// A running program, ended on drop.
#[derive(Debug)]
pub struct Program {
    name: String,
    log: PathBuf,
    pid: u32,
    /// Channel that closes when the program has ended.
    ended: Mutex<Receiver<()>>,
    started: Instant,
    /// Folder that is removed after the program has ended.
    folder: Option<tempfile::TempDir>,
}

impl Program {
    /// Starts a command in a folder. The program gets its own process group, so that Ctrl-C ends
    /// the measurement and not the measured program.
    ///
    /// # Errors
    /// If the program cannot be started.
    pub fn start(name: &str, folder: &Path, command: Command) -> Result<Self, Error> {
        let failed = |error: std::io::Error| Error::System {
            doing: format!("starting {name} (`{}`)", command.get_program().display()),
            error,
        };
        let log = folder.join(format!("{}.log", name.replace([' ', ',', '/'], "-")));
        let output = File::create(&log).map_err(failed)?;
        let mut tied = tie_to_this_process(&command);
        let started = Instant::now();
        let child = tied
            .current_dir(folder)
            .stdin(Stdio::null())
            .stdout(output.try_clone().map_err(failed)?)
            .stderr(output)
            .process_group(0)
            .spawn()
            .map_err(failed)?;
        let (pid, ended) = (child.id(), Mutex::new(watch(child)));
        Ok(Self { name: name.to_owned(), log, pid, ended, started, folder: None })
    }

    /// Starts a command in a folder that is removed with the program.
    ///
    /// # Errors
    /// If the program cannot be started.
    pub fn start_in(
        name: &str,
        folder: tempfile::TempDir,
        command: Command,
    ) -> Result<Self, Error> {
        let mut program = Self::start(name, folder.path(), command)?;
        program.folder = Some(folder);
        Ok(program)
    }

    /// Returns the process ID.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Returns the process IDs of the program and its descendants.
    pub fn pids(&self) -> Vec<u32> {
        stat::family(&Procfs::system(), self.pid)
    }

    /// Returns the folder of the program's files.
    pub fn folder(&self) -> &Path {
        self.log.parent().unwrap_or(Path::new("."))
    }

    /// Waits until the program answers a request with status 200. Returns the time since its start.
    ///
    /// # Errors
    /// If the program ends or does not answer in time.
    pub fn wait_until_it_answers(&self, port: u16, request: &str) -> Result<Duration, Error> {
        self.wait_until(port, "answer", || match ask(port, request) {
            Ok(response) if response.status() == Some(200) => Ok(()),
            Ok(Response { line, .. }) => Err(format!("it answers `{line}`")),
            Err(error) => Err(error.to_string()),
        })
    }

    /// Waits until the program accepts connections, with any protocol. Returns the time since its
    /// start.
    ///
    /// # Errors
    /// If the program ends or does not listen in time.
    pub fn wait_until_it_listens(&self, port: u16) -> Result<Duration, Error> {
        self.wait_until(port, "listen", || match TcpStream::connect((Ipv4Addr::LOCALHOST, port)) {
            Ok(_) => Ok(()),
            Err(error) => Err(error.to_string()),
        })
    }

    fn wait_until(
        &self,
        port: u16,
        action: &str,
        probe: impl Fn() -> Result<(), String>,
    ) -> Result<Duration, Error> {
        let start = Instant::now();
        let mut last = String::from("no connection");
        while start.elapsed() < START_MAX {
            match probe() {
                Ok(()) => return Ok(self.started.elapsed()),
                Err(reason) => last = reason,
            }
            if self.has_ended_within(PROBE_INTERVAL) {
                let why = format!("{} ended at once: {}", self.name, self.last_lines());
                return Err(Error::Machine(why));
            }
        }
        Err(Error::Machine(format!(
            "{} did not {action} on port {port} within {START_MAX:?} ({last}): {}",
            self.name,
            self.last_lines()
        )))
    }

    fn last_lines(&self) -> String {
        let text = std::fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
        lines[lines.len().saturating_sub(LOG_LINES)..].join(" | ")
    }

    /// Returns the CPU time of the program and its descendants, user and kernel.
    ///
    /// # Errors
    /// If `/proc` does not report a time.
    pub fn cpu_time(&self) -> Result<Duration, Error> {
        let procfs = Procfs::system();
        let time = stat::cpu_time(&procfs, &self.pids());
        if time.is_zero() {
            return Err(Error::Machine(format!("/proc shows no CPU time of {}", self.name)));
        }
        Ok(time)
    }

    /// Returns the user-space memory of the program and its descendants, with shared pages counted
    /// in proportion.
    ///
    /// # Errors
    /// If `/proc` does not report the memory.
    pub fn memory_bytes(&self) -> Result<u64, Error> {
        let procfs = Procfs::system();
        let bytes = stat::memory_bytes(&procfs, &self.pids());
        if bytes == 0 {
            return Err(Error::Machine(format!("/proc shows no memory of {}", self.name)));
        }
        Ok(bytes)
    }

    /// Begins a new peak of the program's resident memory, and returns the bytes that it starts from.
    ///
    /// # Errors
    /// If `/proc` does not permit it.
    pub fn reset_peak_memory(&self) -> Result<u64, Error> {
        for pid in self.pids() {
            std::fs::write(format!("/proc/{pid}/clear_refs"), "5").map_err(|error| {
                Error::Machine(format!("/proc keeps the memory peak of {}: {error}", self.name))
            })?;
        }
        self.peak_memory_bytes()
    }

    /// Returns the peak of the program's resident memory since the last reset. Unlike
    /// [`Self::memory_bytes`], it walks no pages, so that it can be read beside a measurement.
    ///
    /// # Errors
    /// If `/proc` does not report the peak.
    pub fn peak_memory_bytes(&self) -> Result<u64, Error> {
        let bytes = stat::peak_memory_bytes(&Procfs::system(), &self.pids());
        if bytes == 0 {
            return Err(Error::Machine(format!("/proc shows no memory peak of {}", self.name)));
        }
        Ok(bytes)
    }

    /// Returns the CPU time of all programs that this process has run to their end, user and kernel.
    pub fn ended_cpu_time() -> Duration {
        stat::waited_cpu_time(&Procfs::system())
    }

    /// Asks the program to end and waits; processes that do not end are killed.
    pub fn stop(self) {
        self.end(STOP_MAX);
    }

    /// Kills the program.
    pub fn kill(self) {
        for pid in self.pids() {
            signal(pid, Signal::KILL);
        }
        self.has_ended_within(DROP_MAX);
    }

    fn end(&self, patience: Duration) {
        let procfs = Procfs::system();
        let family = self.pids();
        signal(self.pid, Signal::TERM);
        self.has_ended_within(patience);
        for pid in family.into_iter().filter(|pid| stat::stat(&procfs, *pid).is_some()) {
            signal(pid, Signal::KILL);
        }
        self.has_ended_within(DROP_MAX);
    }

    fn has_ended_within(&self, patience: Duration) -> bool {
        let ended = self.ended.lock().unwrap_or_else(PoisonError::into_inner);
        ended.recv_timeout(patience) != Err(RecvTimeoutError::Timeout)
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // The process ID of an ended program may belong to another one.
        if !self.has_ended_within(Duration::ZERO) {
            self.end(DROP_MAX);
        }
    }
}

fn signal(pid: u32, signal: Signal) {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
    if let Some(pid) = pid {
        // Fails if the process has already ended.
        let _ = kill_process(pid, signal);
    }
}

/// Starts a thread that waits for the child. The returned channel closes when the child has ended.
fn watch(mut child: Child) -> Receiver<()> {
    let (alive, ended) = mpsc::channel::<()>();
    std::thread::spawn(move || {
        let _ = child.wait();
        drop(alive);
    });
    ended
}

/// Wraps the command so that the kernel ends it when the thread that starts it ends, if the system
/// has `setpriv`; no program survives a killed measurement then.
fn tie_to_this_process(command: &Command) -> Command {
    let Some(tool) = find("setpriv") else {
        return copy(command, Command::new(command.get_program()));
    };
    let mut tied = Command::new(tool);
    tied.args(["--pdeathsig", "TERM", "--"]).arg(command.get_program());
    copy(command, tied)
}

fn copy(from: &Command, mut to: Command) -> Command {
    to.args(from.get_args());
    to.envs(from.get_envs().filter_map(|(name, value)| value.map(|value| (name, value))));
    to
}

/// Finds a program on the PATH or in the usual folders of system daemons.
pub fn find(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders =
        std::env::split_paths(&path).chain(["/usr/sbin".into(), "/usr/local/sbin".into()]);
    folders.map(|folder| folder.join(program)).find(|file| file.is_file())
}

/// Returns a port for a program that cannot report one chosen by the kernel.
///
/// The port is below those that the kernel chooses, so that no connection and no other listener gets
/// it by chance before the program has started.
///
/// # Errors
/// If no port is free.
pub fn free_port() -> Result<u16, Error> {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let first_chosen = fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range")
        .ok()
        .and_then(|range| range.split_whitespace().next()?.parse().ok())
        .unwrap_or(32_768_u16);
    let ports = first_chosen.max(PORT_MIN + 1) - PORT_MIN;
    // Processes begin at different ports.
    let start = std::process::id().wrapping_mul(97) as u16;
    for _ in 0..ports {
        let offset = start.wrapping_add(NEXT.fetch_add(1, Ordering::Relaxed)) % ports;
        if TcpListener::bind((Ipv4Addr::LOCALHOST, PORT_MIN + offset)).is_ok() {
            return Ok(PORT_MIN + offset);
        }
    }
    let in_use = io::Error::from(io::ErrorKind::AddrInUse);
    Err(Error::system("looking for a free port")(in_use))
}

/// Response of a server.
#[derive(Debug)]
pub struct Response {
    /// Status line of the response.
    pub line: String,
    /// Beginning of the body, as far as it was read.
    pub body: String,
}

impl Response {
    /// Returns the status code.
    pub fn status(&self) -> Option<u16> {
        self.line.split(' ').nth(1)?.parse().ok()
    }
}

/// Sends a request with `Connection: close` to a server on loopback.
///
/// # Errors
/// If the connection fails, or the server is silent for five seconds.
pub fn ask(port: u16, request: &str) -> std::io::Result<Response> {
    const PATIENCE: Duration = Duration::from_secs(5);
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let mut stream = TcpStream::connect_timeout(&address, PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.write_all(request.as_bytes())?;
    let mut bytes = Vec::new();
    stream.take(RESPONSE_BYTES_MAX).read_to_end(&mut bytes)?;
    let text = String::from_utf8_lossy(&bytes);
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
    let line = head.lines().next().unwrap_or_default();
    Ok(Response { line: line.to_owned(), body: body.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_watched_and_ended_with_its_descendants() {
        let mut command = Command::new("sh");
        command.args(["-c", "while :; do :; done & wait"]);
        let folder = tempfile::tempdir().unwrap();
        let program = Program::start_in("busy", folder, command).unwrap();
        let procfs = Procfs::system();
        while program.cpu_time().is_err() || program.pids().len() < 2 {
            std::thread::yield_now();
        }
        assert!(program.memory_bytes().unwrap() > 0);
        let resident = program.reset_peak_memory().unwrap();
        assert!(resident > 0 && program.peak_memory_bytes().unwrap() >= resident);
        let family = program.pids();
        program.stop();
        while family.iter().any(|pid| stat::stat(&procfs, *pid).is_some()) {
            std::thread::yield_now();
        }
    }

    #[test]
    fn a_program_that_ends_at_once_shows_its_last_lines() {
        let mut command = Command::new("sh");
        command.args(["-c", "echo first; echo last >&2; exit 3"]);
        let folder = tempfile::tempdir().unwrap();
        let program = Program::start_in("sh", folder, command).unwrap();
        let error = program.wait_until_it_listens(1).unwrap_err().to_string();
        assert_eq!(error, "sh ended at once: first | last");
    }
}
