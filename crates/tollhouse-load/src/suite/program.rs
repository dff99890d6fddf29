//! Program of a stage: started with its output in a file, awaited until it answers, ended with the
//! stage.

use std::fs::File;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::error::BenchError;

/// Time limit until a program answers for the first time, long enough for Java on a busy machine.
const START_MAX: Duration = Duration::from_secs(120);
/// Time limit for a program to end after SIGTERM; afterwards it is killed.
const STOP_MAX: Duration = Duration::from_secs(5);
/// Interval between probes of a starting program.
const LOOK_EVERY: Duration = Duration::from_millis(10);
/// Number of output lines repeated in an error.
const LOG_LINES: usize = 3;
/// Size limit of a probe's response; the rest is ignored.
const ANSWER_BYTES_MAX: u64 = 4 * 1024;

/// A running program, ended on drop.
#[derive(Debug)]
pub(super) struct Program {
    name: String,
    log: PathBuf,
    pid: u32,
    /// Channel that closes when the program has ended.
    ended: Receiver<()>,
}

impl Program {
    /// Starts a command in a folder. The command gets a separate process group, so that Ctrl-C ends
    /// the measurement and not the measured program.
    pub(super) fn start(name: &str, folder: &Path, command: Command) -> Result<Self, BenchError> {
        let failed = |error: std::io::Error| BenchError::System {
            doing: format!("starting {name} (`{}`)", command.get_program().display()),
            error,
        };
        let log = folder.join(format!("{}.log", name.replace([' ', ',', '/'], "-")));
        let output = File::create(&log).map_err(failed)?;
        let mut tied = tie_to_this_process(&command);
        let child = tied
            .current_dir(folder)
            .stdin(Stdio::null())
            .stdout(output.try_clone().map_err(failed)?)
            .stderr(output)
            .process_group(0)
            .spawn()
            .map_err(failed)?;
        let (pid, ended) = (child.id(), watch(child));
        Ok(Self { name: name.to_owned(), log, pid, ended })
    }

    pub(super) fn pid(&self) -> u32 {
        self.pid
    }

    /// Waits until the program answers a request with status 200.
    pub(super) fn wait_until_it_answers(&self, port: u16, request: &str) -> Result<(), BenchError> {
        let began = Instant::now();
        let mut last = String::from("no connection");
        while began.elapsed() < START_MAX {
            match ask(port, request) {
                Ok(answered) if answered.line.contains(" 200") => return Ok(()),
                Ok(Answered { line, .. }) => last = format!("it answers `{line}`"),
                Err(error) => last = error.to_string(),
            }
            if self.ended.recv_timeout(LOOK_EVERY) != Err(RecvTimeoutError::Timeout) {
                let why = format!("{} ended at once: {}", self.name, self.last_lines());
                return Err(BenchError::Machine(why));
            }
        }
        Err(BenchError::Machine(format!(
            "{} did not answer on port {port} within {START_MAX:?} ({last}): {}",
            self.name,
            self.last_lines()
        )))
    }

    fn last_lines(&self) -> String {
        let text = std::fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
        lines[lines.len().saturating_sub(LOG_LINES)..].join(" | ")
    }

    fn signal(&self, signal: Signal) {
        let pid = i32::try_from(self.pid).ok().and_then(Pid::from_raw);
        if let Some(pid) = pid {
            // Fails if the program has already ended.
            let _ = kill_process(pid, signal);
        }
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        self.signal(Signal::TERM);
        if self.ended.recv_timeout(STOP_MAX) == Err(RecvTimeoutError::Timeout) {
            self.signal(Signal::KILL);
            let _ = self.ended.recv_timeout(STOP_MAX);
        }
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

/// Wraps the command so that the kernel ends it when this process is killed, if the system has
/// `setpriv`; no program survives this process then.
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
pub(super) fn find(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders =
        std::env::split_paths(&path).chain(["/usr/sbin".into(), "/usr/local/sbin".into()]);
    folders.map(|folder| folder.join(program)).find(|file| file.is_file())
}

/// Returns a port that was free a moment ago.
pub(super) fn free_port() -> Result<u16, BenchError> {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
        .and_then(|listener| listener.local_addr())
        .map(|address| address.port())
        .map_err(|error| BenchError::System { doing: "looking for a free port".into(), error })
}

/// Status line and start of the body of a response.
#[derive(Debug)]
pub(super) struct Answered {
    pub(super) line: String,
    /// Start of the body.
    pub(super) body: String,
}

/// Sends a request with `Connection: close` to a server on loopback.
pub(super) fn ask(port: u16, request: &str) -> std::io::Result<Answered> {
    const PATIENCE: Duration = Duration::from_secs(5);
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let mut stream = TcpStream::connect_timeout(&address, PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.write_all(request.as_bytes())?;
    let mut answer = Vec::new();
    stream.take(ANSWER_BYTES_MAX).read_to_end(&mut answer)?;
    let text = String::from_utf8_lossy(&answer);
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
    let line = head.lines().next().unwrap_or_default();
    Ok(Answered { line: line.to_owned(), body: body.to_owned() })
}
