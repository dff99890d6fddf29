//! Comparison of our TCP relay with HAProxy's: CPU time for a MiB of one long connection, and for
//! one of many short connections. Both ends of the connections are in this program, on the core of
//! the load.

use super::Cost;
use crate::bench::measure::median;
use crate::bench::peer::Peer;
use crate::bench::plan::Plan;
use crate::bench::process::{self, Running, free_port};
use anyhow::{Context, Result, bail};
use serde_json::json;
use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

const MIB: u64 = 1 << 20;
/// MiB per round: about one second of work for a relay.
const MIB_PER_ROUND: u64 = 2048;
const MIB_PER_QUICK_ROUND: u64 = 256;
/// Connections per round, each for one byte.
const CONNECTIONS_PER_ROUND: u64 = 8000;
const CONNECTIONS_PER_QUICK_ROUND: u64 = 2000;
/// Number of clients that open short connections concurrently, each one after the other. With a
/// single client the relay's core would sleep between any two steps, and most of the measured time
/// would be for waking it up.
const CLIENTS: u64 = 16;
/// Bytes that both ends read or write at once.
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

    /// Returns the number of units per round.
    fn count(self, is_quick: bool) -> u64 {
        match (self, is_quick) {
            (Self::Mib, false) => MIB_PER_ROUND,
            (Self::Mib, true) => MIB_PER_QUICK_ROUND,
            (Self::Connection, false) => CONNECTIONS_PER_ROUND,
            (Self::Connection, true) => CONNECTIONS_PER_QUICK_ROUND,
        }
    }
}

/// Measures both relays in turn, round after round.
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
        let costs: Result<Vec<(f64, f64)>> = relays
            .iter()
            .map(|relay| relay.round(measure, measure.count(plan.is_quick || round == 0)))
            .collect();
        let costs = costs.with_context(|| measure.label())?;
        // The first round is the warm-up.
        if round > 0 {
            rounds.push(costs);
        }
    }
    let costs = relays.iter().enumerate().map(|(index, relay)| Cost {
        peer: relay.peer,
        cpu_us: median(rounds.iter().map(|round| round[index].0).collect()),
        per_second: median(rounds.iter().map(|round| round[index].1).collect()),
    });
    Ok(costs.collect())
}

/// Running TCP relay, with its port.
struct Relay {
    peer: Peer,
    port: u16,
    running: Running,
}

impl Relay {
    fn start(plan: &Plan, peer: Peer, far_port: u16) -> Result<Self> {
        let folder = process::fresh_folder()?;
        let port = free_port()?;
        let place = folder.path();
        let command = if peer == Peer::Tollhouse {
            std::fs::write(place.join("resources.json"), resources(port, far_port))?;
            std::fs::write(place.join("tollhouse.yaml"), bootstrap(port, &place.display()))?;
            let mut command = plan.cores.on_proxy_core(&plan.binary.display().to_string());
            command.args(["run", "--config"]).arg(place.join("tollhouse.yaml"));
            command
        } else {
            std::fs::write(place.join("haproxy.cfg"), haproxy(port, far_port))?;
            let mut command = plan.cores.on_proxy_core("haproxy");
            command.args(["-db", "-f"]).arg(place.join("haproxy.cfg"));
            command
        };
        let mut running = Running::start(command, folder)?;
        running.wait_until_it_listens(port).with_context(|| peer.name())?;
        Ok(Self { peer, port, running })
    }

    /// Returns the CPU microseconds per unit, and the units per second.
    fn round(&self, measure: Measure, count: u64) -> Result<(f64, f64)> {
        let (before, start) = (self.running.cpu_time()?, Instant::now());
        match measure {
            Measure::Mib => fetch(self.port, count * MIB)?,
            Measure::Connection => fetch_often(self.port, count)?,
        }
        let spent = self.running.cpu_time()?.saturating_sub(before);
        let each_us = spent.as_secs_f64() * 1e6 / count as f64;
        Ok((each_us, count as f64 / start.elapsed().as_secs_f64()))
    }
}

/// Opens a connection, asks the far end for bytes, reads them, and closes the connection.
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

/// A server that sends as many bytes as a client asks for, to [`CLIENTS`] clients at a time, until
/// it is dropped.
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
            // The connection wakes one of the threads; it may fail if the thread has ended already.
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
    // A connection that only checks whether the relay listens sends nothing and ends.
    stream.read_exact(&mut asked)?;
    let mut left = u64::from_be_bytes(asked);
    while left > 0 {
        let count = left.min(BUFFER_BYTES as u64);
        stream.write_all(&buffer[..count as usize])?;
        left -= count;
    }
    // Waits until the other side has ended the connection, so that the relay closes it first.
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

fn bootstrap(port: u16, place: &impl std::fmt::Display) -> String {
    format!(
        "data_dir: {place}/data\nworkers: 1\nresources: {place}/resources.json\n\
         listen:\n  http: []\n  stream: [{{ address: \"127.0.0.1:{port}\" }}]\n  admin: \"\"\n  \
         control: \"\"\n  metrics: \"\"\n  registry_grpc: \"\"\n  registry_http: \"\"\n"
    )
}

/// Enables splicing where HAProxy considers it worthwhile, as our relay does.
fn haproxy(port: u16, far_port: u16) -> String {
    format!(
        "global\n  nbthread 1\n  maxconn 16000\n  no strict-limits\n\
         defaults\n  mode tcp\n  option splice-auto\n  timeout connect 10s\n  timeout client 600s\n  \
         timeout server 600s\n\
         listen bench\n  bind 127.0.0.1:{port} backlog 4096\n  server far 127.0.0.1:{far_port}\n"
    )
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
