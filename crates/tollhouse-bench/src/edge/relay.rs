//! Compares Tollhouse's TCP relay with HAProxy's by the CPU time per MiB over one long connection,
//! and per connection for many short ones. Client and server are in this program, on the core of
//! the load.

use super::{Cost, medians};
use crate::peer::Peer;
use crate::plan::{Core, Length, Plan};
use crate::shell;
use anyhow::{Context, Result, bail};
use serde_json::json;
use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tollhouse_testbed::{Bootstrap, Haproxy, Listen, Program, free_port};

const MIB: u64 = 1 << 20;
/// Number of MiB per round: about one second of work for a relay.
const MIB_PER_ROUND: u64 = 2048;
const MIB_PER_QUICK_ROUND: u64 = 256;
/// Number of short connections per round, each of which transfers one byte.
const CONNECTIONS_PER_ROUND: u64 = 8000;
const CONNECTIONS_PER_QUICK_ROUND: u64 = 2000;
/// Number of clients that open short connections concurrently, each one after the other. With a
/// single client the relay's core would sleep between any two steps, and most of the measured time
/// would be for waking it up.
const CLIENTS: u64 = 16;
/// Size in bytes of the buffers with which client and server read and write.
const BUFFER_BYTES: usize = 256 * 1024;
/// Maximum time to wait for a read or a write.
const PATIENCE: Duration = Duration::from_secs(60);

/// Unit of work that is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Measure {
    Mib,
    Connection,
}

impl Measure {
    pub(super) const ALL: [Self; 2] = [Self::Mib, Self::Connection];

    pub(super) fn label(self) -> &'static str {
        match self {
            Self::Mib => "TCP relay, a MiB",
            Self::Connection => "TCP relay, a connection of one byte",
        }
    }

    /// Returns the number of units of work per round.
    fn count(self, length: Length) -> u64 {
        match (self, length) {
            (Self::Mib, Length::Full) => MIB_PER_ROUND,
            (Self::Mib, Length::Quick) => MIB_PER_QUICK_ROUND,
            (Self::Connection, Length::Full) => CONNECTIONS_PER_ROUND,
            (Self::Connection, Length::Quick) => CONNECTIONS_PER_QUICK_ROUND,
        }
    }
}

/// Measures both relays alternately, round after round.
pub(super) fn run(plan: &Plan, measure: Measure) -> Result<Vec<Cost>> {
    let far = FarEnd::start()?;
    let peers = plan.peers.iter().copied();
    let relays: Result<Vec<Relay>> = peers
        .filter(|peer| matches!(peer, Peer::Tollhouse | Peer::HaproxyTcp))
        .map(|peer| Relay::start(plan, peer, far.port))
        .collect();
    let relays = relays?;
    let mut rounds = Vec::new();
    for round in 0..=plan.rounds {
        let is_short = plan.is_quick || round == 0;
        let count = measure.count(if is_short { Length::Quick } else { Length::Full });
        let costs = relays.iter().map(|relay| relay.round(measure, count));
        rounds.push(costs.collect::<Result<Vec<_>>>().with_context(|| measure.label())?);
    }
    // The first round is the warm-up.
    Ok(medians(&rounds[1..]))
}

/// Running TCP relay, with its port.
struct Relay {
    peer: Peer,
    port: u16,
    program: Program,
}

impl Relay {
    fn start(plan: &Plan, peer: Peer, far_port: u16) -> Result<Self> {
        let port = free_port()?;
        let program = if peer == Peer::Tollhouse {
            let listen = Listen { stream_tcp: port, ..Listen::default() };
            let bootstrap = Bootstrap { listen, ..Bootstrap::default() };
            plan.gateway(Core::Proxy, &bootstrap, &resources(port, far_port))?
        } else {
            // HAProxy may move data with `splice`, as Tollhouse's relay does.
            let defaults = "  mode tcp\n  option splice-auto\n";
            let sections = format!(
                "listen bench\n  bind 127.0.0.1:{port} backlog 4096\n  \
                 server far 127.0.0.1:{far_port}\n"
            );
            let haproxy = Haproxy { threads: 1, defaults, sections: &sections };
            plan.haproxy_in(shell::fresh_folder()?, &haproxy)?
        };
        program.wait_until_it_listens(port).with_context(|| peer.name())?;
        Ok(Self { peer, port, program })
    }

    /// Measures one round, and returns the CPU time of one unit of work.
    fn round(&self, measure: Measure, count: u64) -> Result<Cost> {
        let (before, start) = (self.program.cpu_time()?, Instant::now());
        match measure {
            Measure::Mib => fetch(self.port, count * MIB)?,
            Measure::Connection => fetch_often(self.port, count)?,
        }
        let spent = self.program.cpu_time()?.saturating_sub(before);
        Ok(Cost::new(self.peer, spent, count, start.elapsed()))
    }
}

/// Opens a connection, requests `bytes` bytes from the server, reads them, and closes the
/// connection.
fn fetch(port: u16, bytes: u64) -> Result<()> {
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.write_all(&bytes.to_be_bytes())?;
    let mut buffer = vec![0; BUFFER_BYTES];
    let mut left = bytes;
    while left > 0 {
        let count = stream.read(&mut buffer).context("reading from a relay")?;
        if count == 0 {
            bail!("a relay ended {left} bytes early");
        }
        left = left.saturating_sub(count as u64);
    }
    Ok(())
}

/// Opens `count` connections for one byte each.
fn fetch_often(port: u16, count: u64) -> Result<()> {
    let client = |index: u64| {
        let share = count / CLIENTS + u64::from(index < count % CLIENTS);
        (0..share).try_for_each(|_| fetch(port, 1))
    };
    std::thread::scope(|scope| {
        let clients: Vec<_> =
            (0..CLIENTS).map(|index| scope.spawn(move || client(index))).collect();
        clients.into_iter().try_for_each(|client| client.join().expect("no panic"))
    })
}

/// Server that sends as many bytes as a client requests. It serves [`CLIENTS`] clients at a time,
/// until it is dropped.
struct FarEnd {
    port: u16,
    is_over: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl FarEnd {
    fn start() -> Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let port = listener.local_addr()?.port();
        let is_over = Arc::new(AtomicBool::new(false));
        let mut threads = Vec::new();
        for _ in 0..CLIENTS {
            let (listener, is_over) = (listener.try_clone()?, Arc::clone(&is_over));
            threads.push(std::thread::spawn(move || accept(&listener, &is_over)));
        }
        Ok(Self { port, is_over, threads })
    }
}

impl Drop for FarEnd {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        for _ in &self.threads {
            // The connection wakes one of the server's threads. An error is ignored, because that
            // thread may have ended already.
            let _ = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port));
        }
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

fn accept(listener: &TcpListener, is_over: &AtomicBool) {
    for stream in listener.incoming().flatten() {
        if is_over.load(Ordering::Relaxed) {
            return;
        }
        if let Err(error) = serve(stream)
            && !matches!(error.kind(), ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset)
        {
            println!("the far end of a relay: {error}");
        }
    }
}

fn serve(mut stream: TcpStream) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    stream.set_write_timeout(Some(PATIENCE))?;
    stream.set_read_timeout(Some(PATIENCE))?;
    let buffer = vec![b'x'; BUFFER_BYTES];
    let mut asked = [0; size_of::<u64>()];
    // A check whether the relay listens opens a connection and closes it without a request.
    stream.read_exact(&mut asked)?;
    let mut left = u64::from_be_bytes(asked);
    while left > 0 {
        let count = left.min(BUFFER_BYTES as u64);
        stream.write_all(&buffer[..count as usize])?;
        left -= count;
    }
    // Waits until the client has closed the connection, so that the relay closes its connection to
    // the server first.
    let ended = stream.read(&mut asked)?;
    debug_assert_eq!(ended, 0, "a client asks once");
    Ok(())
}

fn resources(port: u16, far_port: u16) -> String {
    json!({ "stream_routes": [{
        "id": "relay",
        "server_port": port,
        "upstream": { "type": "roundrobin", "nodes": { format!("127.0.0.1:{far_port}"): 1 } },
    }] })
    .to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_far_end_sends_what_it_is_asked_for() {
        let far = FarEnd::start().unwrap();
        for bytes in [0, 1, 3 * BUFFER_BYTES as u64 + 5] {
            fetch(far.port, bytes).unwrap();
        }
        // One that says nothing is passed over.
        drop(TcpStream::connect((Ipv4Addr::LOCALHOST, far.port)).unwrap());
        fetch_often(far.port, 2 * CLIENTS + 1).unwrap();
    }
}
