//! Processes that hold and serve connections: start, orders, reports, termination. Both sides of
//! the pipe are here; [`serve_part`] is the main function of such a process.

mod process;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::SocketAddr;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::{Duration, Instant};

use crate::connections::message::{FinalReport, GO, Order, Tally, Update};
use crate::error::BenchError;

pub use process::serve_part;

/// Line length limit. The largest valid line holds two distributions.
const LINE_BYTES_MAX: u64 = 64 << 20;
/// Maximum number of queued events for the coordinator.
const EVENTS_MAX: usize = 1_024;
/// Time limit for a process to become ready.
const READY_TIMEOUT: Duration = Duration::from_secs(30);
/// Time limit for a process to end, because closing tens of thousands of connections takes a
/// moment; afterwards it is killed.
const END_TIMEOUT: Duration = Duration::from_secs(30);

/// Start of holders and servers: as processes, or as threads for tests.
#[derive(Debug, Clone)]
pub enum Launcher {
    /// Program whose arguments make it call [`serve_part`].
    Program {
        /// Path of the program: usually this one.
        path: PathBuf,
        /// Arguments that precede the name of the role.
        arguments: Vec<OsString>,
    },
    /// Threads of this process, for tests.
    #[cfg(test)]
    Threads,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Role {
    Holder,
    Server,
}

impl Role {
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Role::Holder => "holder",
            Role::Server => "server",
        }
    }
}

/// A process, as seen by the coordinator.
struct Part {
    role: Role,
    pid: u32,
    child: Option<Child>,
    /// Standard input of the process; dropped to end the process.
    input: Option<Box<dyn Write + Send>>,
    is_ready: bool,
    has_ended: bool,
    tally: Tally,
    done: Option<FinalReport>,
}

/// Event from the thread that reads a process's output.
enum Event {
    Told(Update),
    Ended,
}

/// Processes of a run, with the channel for their events.
pub(super) struct Parts {
    parts: Vec<Part>,
    addresses: BTreeMap<usize, Vec<SocketAddr>>,
    sender: SyncSender<(usize, Event)>,
    events: Receiver<(usize, Event)>,
}

impl Parts {
    pub(super) fn new() -> Self {
        let (sender, events) = sync_channel(EVENTS_MAX);
        Self { parts: Vec::new(), addresses: BTreeMap::new(), sender, events }
    }

    /// Starts a process and sends its order.
    pub(super) fn launch(&mut self, launcher: &Launcher, order: &Order) -> Result<(), BenchError> {
        let role = match order {
            Order::Hold(_) => Role::Holder,
            Order::Serve(_) => Role::Server,
        };
        let failed = |error| BenchError::System {
            doing: format!("starting a {} process", role.as_str()),
            error,
        };
        let (mut part, output) = start(launcher, role).map_err(failed)?;
        let index = self.parts.len();
        let sender = self.sender.clone();
        std::thread::Builder::new()
            .name(format!("{} {index}", role.as_str()))
            .spawn(move || listen(index, output, &sender))
            .map_err(failed)?;
        let line = serde_json::to_string(order).map_err(|error| failed(error.into()))?;
        let written = part.input.as_mut().map_or(Ok(()), |input| write_line(input, &line));
        // Added even if the order was not delivered, so that the process is ended.
        self.parts.push(part);
        written.map_err(failed)
    }

    /// Waits until all processes of a role are ready; returns the addresses they listen on.
    pub(super) fn wait_ready(&mut self, role: Role) -> Result<Vec<SocketAddr>, BenchError> {
        let deadline = Instant::now() + READY_TIMEOUT;
        while self.with_role(role).any(|part| !part.is_ready) {
            let left = deadline.saturating_duration_since(Instant::now());
            let heard = self.hear(left)?;
            if !heard || self.with_role(role).any(|part| part.has_ended) {
                return Err(BenchError::Machine(format!(
                    "a {} process did not become ready; its message is above",
                    role.as_str()
                )));
            }
        }
        Ok(self.addresses.values().flatten().copied().collect())
    }

    /// Tells all processes to begin opening connections.
    pub(super) fn go(&mut self) -> Result<(), BenchError> {
        for part in &mut self.parts {
            let Some(input) = &mut part.input else { continue };
            write_line(input, GO).map_err(|error| BenchError::System {
                doing: "telling a process to begin".into(),
                error,
            })?;
        }
        Ok(())
    }

    /// Handles the next event. Returns false if none arrives within `wait`.
    pub(super) fn hear(&mut self, wait: Duration) -> Result<bool, BenchError> {
        let (index, event) = match self.events.recv_timeout(wait) {
            Ok(event) => event,
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => return Ok(false),
        };
        let part = &mut self.parts[index];
        match event {
            Event::Told(Update::Ready(addresses)) => {
                part.is_ready = true;
                self.addresses.insert(index, addresses);
            }
            Event::Told(Update::Tally(tally)) => part.tally = tally,
            Event::Told(Update::FinalReport(done)) => {
                part.tally = done.tally.clone();
                part.done = Some(*done);
            }
            Event::Told(Update::Failed(why)) => return Err(BenchError::Machine(why)),
            Event::Ended => part.has_ended = true,
        }
        Ok(true)
    }

    fn with_role(&self, role: Role) -> impl Iterator<Item = &Part> {
        self.parts.iter().filter(move |part| part.role == role)
    }

    /// Returns the process IDs of a role.
    pub(super) fn pids(&self, role: Role) -> Vec<u32> {
        self.with_role(role).map(|part| part.pid).collect()
    }

    /// Returns the number of processes started for a role.
    pub(super) fn count(&self, role: Role) -> u64 {
        self.with_role(role).count() as u64
    }

    /// Returns the summed counts of a role.
    pub(super) fn tally(&self, role: Role) -> Tally {
        let mut sum = Tally::default();
        self.with_role(role).for_each(|part| sum.add(&part.tally));
        sum
    }

    /// Whether a process of a role has ended without being told to.
    pub(super) fn any_ended(&self, role: Role) -> bool {
        self.with_role(role).any(|part| part.has_ended)
    }

    /// Ends all processes of a role and returns their final reports. Processes that do not end in
    /// time are killed.
    pub(super) fn end(&mut self, role: Role) -> Vec<FinalReport> {
        self.parts.iter_mut().filter(|part| part.role == role).for_each(|part| part.input = None);
        let deadline = Instant::now() + END_TIMEOUT;
        while self.with_role(role).any(|part| !part.has_ended) {
            let left = deadline.saturating_duration_since(Instant::now());
            match self.hear(left) {
                Ok(true) => {}
                Ok(false) => break,
                // A failure during shutdown does not affect the figures.
                Err(_) => {}
            }
        }
        let ended = self.parts.iter_mut().filter(|part| part.role == role);
        ended
            .filter_map(|part| {
                part.reap();
                part.done.take()
            })
            .collect()
    }
}

impl Part {
    fn reap(&mut self) {
        let Some(child) = &mut self.child else { return };
        if !self.has_ended {
            // Fails only if the child has already ended.
            let _ = child.kill();
        }
        let _ = child.wait();
    }
}

impl Drop for Part {
    /// Ends the process, so that no child survives the run.
    fn drop(&mut self) {
        self.input = None;
        self.reap();
    }
}

fn start(launcher: &Launcher, role: Role) -> io::Result<(Part, Box<dyn Read + Send>)> {
    let part = |pid, child, input| Part {
        role,
        pid,
        child,
        input: Some(input),
        is_ready: false,
        has_ended: false,
        tally: Tally::default(),
        done: None,
    };
    match launcher {
        Launcher::Program { path, arguments } => {
            let mut child = Command::new(path)
                .args(arguments)
                .arg(role.as_str())
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                // A separate process group, so that Ctrl-C reaches only the coordinator, which ends
                // the others in order.
                .process_group(0)
                .spawn()?;
            let input = child.stdin.take().ok_or(io::ErrorKind::BrokenPipe)?;
            let output = child.stdout.take().ok_or(io::ErrorKind::BrokenPipe)?;
            Ok((part(child.id(), Some(child), Box::new(input)), Box::new(output)))
        }
        #[cfg(test)]
        Launcher::Threads => {
            let (input, to) = io::pipe()?;
            let (from, output) = io::pipe()?;
            std::thread::spawn(move || serve_part(input, output));
            Ok((part(std::process::id(), None, Box::new(to)), Box::new(from)))
        }
    }
}

/// Forwards the reports of a process until it ends.
fn listen(index: usize, output: Box<dyn Read + Send>, sender: &SyncSender<(usize, Event)>) {
    let mut output = BufReader::new(output);
    let mut line = String::new();
    loop {
        line.clear();
        match output.by_ref().take(LINE_BYTES_MAX).read_line(&mut line) {
            Ok(0) | Err(_) => break,
            Ok(_) => {}
        }
        let Ok(update) = serde_json::from_str(&line) else { break };
        if sender.send((index, Event::Told(update))).is_err() {
            return;
        }
    }
    // The receiver is gone once the run is over.
    let _ = sender.send((index, Event::Ended));
}

fn write_line(output: &mut dyn Write, line: &str) -> io::Result<()> {
    output.write_all(line.as_bytes())?;
    output.write_all(b"\n")?;
    output.flush()
}
