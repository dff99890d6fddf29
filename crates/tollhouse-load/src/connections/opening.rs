//! Opens single connections of a holder: chooses source address, port and destination, and performs
//! TLS if configured.

use std::cell::Cell;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use socket2::SockRef;
use tokio::net::{TcpSocket, TcpStream};

use crate::case::Case;
use crate::connect::{Connector, Stream};
use crate::connections::message::{HoldOrder, LocalPorts, Loss};
use crate::error::BenchError;
use crate::failure::{Failure, FailureClass};
use crate::target::Target;

/// Number of occupied local ports that are skipped for one connection before it counts as failed.
const PORTS_PASSED_OVER_MAX: u32 = 64;

/// Opens connections from configured source addresses and ports.
pub(super) struct Opener {
    destinations: Vec<SocketAddr>,
    sources: Vec<IpAddr>,
    ports: LocalPorts,
    of: u64,
    turn: Cell<u64>,
    connector: Connector,
}

/// Source, if chosen by us, and destination of a connection.
type Pair = (Option<SocketAddr>, SocketAddr);

impl Opener {
    pub(super) fn new(order: &HoldOrder) -> Result<Self, BenchError> {
        let mut case = Case::new(&order.target);
        case.tls = order.tls.clone();
        // The addresses are known already; setting `connect_to` avoids name resolution.
        case.connect_to = order.destinations.first().map(ToString::to_string);
        let target = Target::try_from_case(&case)?;
        Ok(Self {
            connector: Connector::new(&case, &target, &[])?,
            destinations: order.destinations.clone(),
            sources: order.sources.clone(),
            ports: order.ports,
            of: order.of,
            turn: Cell::new(order.index),
        })
    }

    /// Returns the target, parsed from the URL.
    pub(super) fn target(&self) -> &Target {
        self.connector.target()
    }

    pub(super) async fn open(&self) -> Result<Stream, (Loss, String)> {
        let tcp = self
            .connect()
            .await
            .map_err(|(error, to)| (loss_of(&error), format!("connect to {to}: {error}")))?;
        let prepared = tcp.set_nodelay(true).and_then(|()| {
            // At the end thousands are closed at once. A reset leaves no port in `TIME_WAIT`.
            SockRef::from(&tcp).set_linger(Some(Duration::ZERO))
        });
        prepared.map_err(|error| (Loss::Local, error.to_string()))?;
        self.connector.secure(tcp).await.map_err(|failure| loss_of_failure(&failure))
    }

    async fn connect(&self) -> Result<TcpStream, (io::Error, SocketAddr)> {
        let mut passed_over = 0;
        loop {
            let (source, destination) = self.next_pair();
            match attempt(source, destination).await {
                Ok(tcp) => return Ok(tcp),
                Err(error)
                    if source.is_some()
                        && is_taken(&error)
                        && passed_over < PORTS_PASSED_OVER_MAX =>
                {
                    passed_over += 1;
                }
                Err(error) => return Err((error, destination)),
            }
        }
    }

    /// Returns the addresses of the next connection. Each holder takes every `of`-th pair, so that
    /// no two holders use one pair.
    fn next_pair(&self) -> Pair {
        let turn = self.turn.get();
        self.turn.set(turn.wrapping_add(self.of));
        pair(&self.destinations, &self.sources, self.ports, turn)
    }
}

/// Returns pair number `turn`. Destinations vary fastest, then sources, then local ports.
fn pair(destinations: &[SocketAddr], sources: &[IpAddr], ports: LocalPorts, turn: u64) -> Pair {
    let at = |turn: u64, length: usize| usize::try_from(turn % length as u64).unwrap_or(0);
    let destination = destinations[at(turn, destinations.len())];
    if sources.is_empty() {
        return (None, destination);
    }
    let turn = turn / destinations.len() as u64;
    let source = sources[at(turn, sources.len())];
    let turn = turn / sources.len() as u64;
    let room = u64::from(u16::MAX - ports.first) + 1;
    let offset = u16::try_from(turn % ports.count.clamp(1, room)).unwrap_or(0);
    (Some(SocketAddr::new(source, ports.first + offset)), destination)
}

async fn attempt(source: Option<SocketAddr>, destination: SocketAddr) -> io::Result<TcpStream> {
    let socket = match destination {
        SocketAddr::V4(_) => TcpSocket::new_v4()?,
        SocketAddr::V6(_) => TcpSocket::new_v6()?,
    };
    if let Some(source) = source {
        // Connections to different destinations may share a local port.
        socket.set_reuseaddr(true)?;
        socket.bind(source)?;
    }
    socket.connect(destination).await
}

/// Whether the local port is unavailable.
fn is_taken(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::AddrInUse | io::ErrorKind::AddrNotAvailable)
}

pub(super) fn loss_of(error: &io::Error) -> Loss {
    use io::ErrorKind;
    const DESCRIPTORS: [rustix::io::Errno; 4] = [
        rustix::io::Errno::MFILE,
        rustix::io::Errno::NFILE,
        rustix::io::Errno::NOBUFS,
        rustix::io::Errno::NOMEM,
    ];
    let number = error.raw_os_error();
    match error.kind() {
        ErrorKind::ConnectionRefused => Loss::Refused,
        ErrorKind::ConnectionReset | ErrorKind::ConnectionAborted | ErrorKind::BrokenPipe => {
            Loss::Reset
        }
        ErrorKind::TimedOut => Loss::TimedOut,
        ErrorKind::UnexpectedEof => Loss::Closed,
        ErrorKind::AddrInUse | ErrorKind::AddrNotAvailable => Loss::Local,
        _ if DESCRIPTORS.iter().any(|errno| number == Some(errno.raw_os_error())) => Loss::Local,
        _ => Loss::Other,
    }
}

fn loss_of_failure(failure: &Failure) -> (Loss, String) {
    let loss = match failure.class {
        FailureClass::Tls => Loss::Tls,
        FailureClass::Reset => Loss::Reset,
        FailureClass::Closed => Loss::Closed,
        FailureClass::Timeout => Loss::TimedOut,
        _ => Loss::Other,
    };
    (loss, failure.message.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_turns_have_the_same_pair_until_all_are_used() {
        let destinations: Vec<SocketAddr> =
            (1..=3_u16).map(|port| SocketAddr::from(([127, 0, 0, 1], port))).collect();
        let sources = [IpAddr::from([127, 0, 0, 1]), IpAddr::from([127, 0, 0, 2])];
        let ports = LocalPorts { first: 40_000, count: 5 };
        let of = |turn| pair(&destinations, &sources, ports, turn);
        let pairs: std::collections::HashSet<Pair> = (0..30).map(of).collect();
        assert_eq!(pairs.len(), 30);
        assert_eq!(of(30), of(0));
    }

    #[test]
    fn ports_never_leave_their_range() {
        let destination = [SocketAddr::from(([127, 0, 0, 1], 1))];
        let source = [IpAddr::from([127, 0, 0, 1])];
        let ports = LocalPorts { first: 65_000, count: u64::MAX };
        for turn in [0, 535, 536, u64::MAX] {
            let (from, _) = pair(&destination, &source, ports, turn);
            assert!(from.expect("a source").port() >= 65_000);
        }
    }

    #[test]
    fn without_sources_the_system_chooses() {
        let destination = [SocketAddr::from(([127, 0, 0, 1], 1))];
        let ports = LocalPorts { first: 1, count: 1 };
        assert_eq!(pair(&destination, &[], ports, 77), (None, destination[0]));
    }

    #[test]
    fn errors_are_counted_by_what_a_reader_would_do_about_them() {
        use rustix::io::Errno;
        for (errno, expected) in [
            (Errno::CONNREFUSED, Loss::Refused),
            (Errno::CONNRESET, Loss::Reset),
            (Errno::TIMEDOUT, Loss::TimedOut),
            (Errno::MFILE, Loss::Local),
            (Errno::ADDRNOTAVAIL, Loss::Local),
            (Errno::NETUNREACH, Loss::Other),
        ] {
            assert_eq!(loss_of(&io::Error::from(errno)), expected, "{errno}");
        }
    }
}
