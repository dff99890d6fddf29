//! Memory that an idle connection takes in a proxy. Thousands of connections are opened, over TLS
//! or with HTTP/2 in clear text and one answered request each, and the memory is compared with that
//! before.

use super::PATH;
use super::proxy::EdgeProxy;
use crate::abuse::frames::{
    self, ACK, END_HEADERS, END_STREAM, HEADERS, Head, PREFACE, SETTINGS, request_block,
};
use crate::plan::{Core, Plan};
use crate::shell;
use anyhow::{Context, Result, bail};
use std::io::Write;
use std::net::{Ipv4Addr, TcpStream};
use std::process::Command;
use std::time::{Duration, Instant};
use tollhouse_testbed::Program;

/// Number of idle connections: enough to make the program's other memory negligible.
const CONNECTIONS: usize = 4000;
const CONNECTIONS_QUICK: usize = 1000;
/// Number of connections that are opened and closed before the first measurement, so that pools and
/// arenas exist already.
const WARM_UP_CONNECTIONS: usize = 100;
/// Number of TLS connections that the generator opens per second.
const HANDSHAKES_PER_SECOND: usize = 500;
/// Time between the last request and a measurement, so that memory which is released late is not
/// counted.
const REST: Duration = Duration::from_secs(3);
/// Maximum time to wait for an answer or for connections.
const PATIENCE: Duration = Duration::from_secs(60);

/// Protocol of the idle connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Tls,
    Http2,
}

impl Kind {
    pub(super) fn label(self) -> &'static str {
        match self {
            Self::Tls => "bytes a TLS connection at rest",
            Self::Http2 => "bytes a connection of HTTP/2 at rest",
        }
    }
}

/// Returns the bytes of user-space memory per connection.
pub(super) fn bytes_per_connection(plan: &Plan, kind: Kind, proxy: &EdgeProxy) -> Result<f64> {
    let count = if plan.is_quick { CONNECTIONS_QUICK } else { CONNECTIONS };
    drop(IdleConnections::open(plan, kind, proxy, WARM_UP_CONNECTIONS)?);
    wait_for_connections(kind.port(proxy), |open| open == 0)?;
    shell::pause(REST);
    let before = proxy.program.memory_bytes()?;
    let held = IdleConnections::open(plan, kind, proxy, count)?;
    shell::pause(REST);
    let after = proxy.program.memory_bytes()?;
    drop(held);
    wait_for_connections(kind.port(proxy), |open| open == 0)?;
    Ok(after.saturating_sub(before) as f64 / count as f64)
}

impl Kind {
    fn port(self, proxy: &EdgeProxy) -> u16 {
        match self {
            Self::Tls => proxy.tls_port,
            Self::Http2 => proxy.plain_port,
        }
    }
}

/// Open idle connections, which are closed when this value is dropped.
enum IdleConnections {
    /// Connections of a load generator process: the binary under test, started as `tollhouse bench
    /// connections`.
    Tls {
        _holder: Program,
    },
    Http2 {
        _streams: Vec<TcpStream>,
    },
}

impl IdleConnections {
    fn open(plan: &Plan, kind: Kind, proxy: &EdgeProxy, count: usize) -> Result<Self> {
        let port = kind.port(proxy);
        if kind == Kind::Http2 {
            let streams: Result<Vec<TcpStream>> = (0..count).map(|_| open_http2(port)).collect();
            return Ok(Self::Http2 { _streams: streams? });
        }
        let mut command = Command::new(&plan.binary);
        command.args(["bench", "connections", "--insecure", "--hold", "10m"]);
        command.args(["-n", &count.to_string(), "-r", &HANDSHAKES_PER_SECOND.to_string()]);
        command.arg(format!("https://127.0.0.1:{port}"));
        let holder = plan.start("holder", Core::Load, shell::fresh_folder()?, command)?;
        wait_for_connections(port, |open| open >= count)?;
        Ok(Self::Tls { _holder: holder })
    }
}

/// Opens an HTTP/2 connection by prior knowledge, and waits for one response.
fn open_http2(port: u16) -> Result<TcpStream> {
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    let mut start = PREFACE.to_vec();
    Head::new(SETTINGS, 0, 0).write(&[], &mut start);
    Head::new(HEADERS, END_HEADERS | END_STREAM, 1).write(&request_block(PATH), &mut start);
    stream.write_all(&start)?;
    let mut payload = Vec::new();
    loop {
        let head = frames::read(&mut stream, &mut payload).context("reading over HTTP/2")?;
        // Only DATA and HEADERS frames can end a stream.
        if head.stream == 1 && head.kind <= HEADERS && head.flags & END_STREAM != 0 {
            break;
        }
    }
    // The response shows that both sides have each other's settings.
    let mut end = Vec::new();
    Head::new(SETTINGS, ACK, 0).write(&[], &mut end);
    stream.write_all(&end)?;
    Ok(stream)
}

/// Waits until `is_enough` accepts the number of open connections to a port.
fn wait_for_connections(port: u16, is_enough: impl Fn(usize) -> bool) -> Result<()> {
    let start = Instant::now();
    loop {
        let open = established(&std::fs::read_to_string("/proc/net/tcp")?, port);
        if is_enough(open) {
            return Ok(());
        }
        if start.elapsed() > PATIENCE {
            bail!("{open} connections to port {port} are open");
        }
        shell::pause(Duration::from_millis(50));
    }
}

/// Counts the open connections to a local port in `/proc/net/tcp`.
fn established(table: &str, port: u16) -> usize {
    let local = format!(":{port:04X}");
    let is_one = |line: &&str| {
        let mut words = line.split_whitespace().skip(1);
        let is_local = words.next().is_some_and(|address| address.ends_with(&local));
        is_local && words.nth(1) == Some("01")
    };
    table.lines().filter(is_one).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn open_connections_of_a_port_are_counted() {
        let table = "  sl  local_address rem_address   st tx_queue rx_queue\n\
            0: 0100007F:1F90 0100007F:D431 01 00000000:00000000\n\
            1: 0100007F:1F90 00000000:0000 0A 00000000:00000000\n\
            2: 0100007F:D431 0100007F:1F90 01 00000000:00000000\n\
            3: 0100007F:1F90 0100007F:D432 06 00000000:00000000\n";
        assert_eq!(established(table, 8080), 1);
    }
}
