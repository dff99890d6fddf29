//! The gateway with its limits and configurations, the sockets of sources and nodes, and the
//! execution of steps on them. The ledger records the sent datagrams, and checks those that arrive.

use std::io::ErrorKind;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tollhouse_model::Kind;
use tollhouse_proxy::l4::{
    HeaderIn, HeaderOut, StreamListener, StreamOptions, StreamSocket, StreamTls,
};
use tollhouse_proxy::settings::StreamSettings;
use tollhouse_proxy::{Settings, Snapshot};

use super::super::worker::{Listeners, Making, RunningWorker, settings};
use super::ledger::{Finding, Ledger, Let};
use super::script::Filler;

/// Source addresses, and ports per address. Both the total and the number per address exceed the
/// session limits.
const ADDRESSES: usize = 4;
const PORTS: usize = 6;
/// Number of all sources.
pub(super) const SOURCES: usize = ADDRESSES * PORTS;

/// Session limits of the gateway.
pub(super) const SESSIONS_MAX: usize = 12;
pub(super) const SESSIONS_PER_ADDRESS_MAX: usize = 4;

/// Time after which an idle session ends.
pub(super) const IDLE_TIME: Duration = Duration::from_millis(50);

/// Number of configurations.
pub(super) const CONFIGURATIONS: usize = 5;

/// Time after which a datagram counts as lost; it is long, because the machine may be busy.
const PATIENCE: Duration = Duration::from_secs(20);

/// Interval between two checks of the sockets.
const LOOK: Duration = Duration::from_micros(200);

/// Limits for pending datagrams and their bytes, which the kernel's buffers can hold.
const UNDER_WAY_MAX: usize = 48;
const BYTES_UNDER_WAY_MAX: usize = 48 << 10;

/// Length of the longest datagram.
const DATAGRAM_BYTES_MAX: usize = 65_535;

/// A configuration, and the sources that it admits.
struct Configuration {
    snapshot: Arc<Snapshot>,
    lets: Let,
}

/// A running gateway with its sources and nodes; see the module.
pub(super) struct Stage {
    worker: RunningWorker,
    gateway: SocketAddr,
    configurations: Vec<Configuration>,
    sources: Vec<UdpSocket>,
    nodes: [UdpSocket; 2],
    ledger: Ledger,
    buffer: Vec<u8>,
}

impl Stage {
    pub(super) fn new() -> Self {
        let nodes = [(); 2].map(|()| bound(Ipv4Addr::LOCALHOST));
        let settings = Settings {
            streams: StreamSettings {
                udp_idle_time: IDLE_TIME,
                udp_sessions_per_worker: SESSIONS_MAX,
                udp_sessions_per_address: SESSIONS_PER_ADDRESS_MAX,
                ..StreamSettings::default()
            },
            ..settings()
        };
        let configurations = configurations(&settings, nodes.each_ref().map(address));
        let socket = bound(Ipv4Addr::LOCALHOST);
        let gateway = address(&socket);
        let options = StreamOptions {
            tls: StreamTls::Off,
            header_in: HeaderIn::Absent,
            header_out: HeaderOut::Absent,
        };
        let streams = vec![StreamListener { socket: StreamSocket::Udp(socket), options }];
        let first = Arc::clone(&configurations[0].snapshot);
        let listeners = Listeners { streams, ..Listeners::default() };
        let sources: Vec<UdpSocket> =
            (0..SOURCES).map(|source| bound(source_address(source))).collect();
        let ledger = Ledger::new(sources.iter().map(address).collect());
        Self {
            worker: RunningWorker::start(settings, first, listeners),
            gateway,
            configurations,
            sources,
            nodes,
            ledger,
            buffer: vec![0; DATAGRAM_BYTES_MAX],
        }
    }

    /// Begins a play after all sessions of the previous one have ended.
    pub(super) fn begin(&mut self, configuration: usize) -> Result<(), Finding> {
        let dropped = self.metric("tollhouse_udp_datagrams_dropped_total");
        self.ledger.begin_anew(dropped);
        self.configure(configuration)
    }

    /// Publishes a configuration after all pending datagrams have passed through the previous one.
    pub(super) fn configure(&mut self, configuration: usize) -> Result<(), Finding> {
        self.account_for_all()?;
        let chosen = &self.configurations[configuration];
        self.worker.snapshots.publish(Arc::clone(&chosen.snapshot));
        self.ledger.let_in(chosen.lets);
        Ok(())
    }

    /// Sends datagrams from a source.
    pub(super) fn send(
        &mut self,
        source: usize,
        count: usize,
        filler: Filler,
    ) -> Result<(), Finding> {
        for _ in 0..count {
            if self.ledger.is_under_way(UNDER_WAY_MAX, BYTES_UNDER_WAY_MAX) {
                self.account_for_all()?;
            }
            let datagram = self.ledger.write_datagram(source, filler);
            let sent = self.sources[source].send_to(&datagram, self.gateway);
            sent.unwrap_or_else(|error| panic!("{} bytes: {error}", datagram.len()));
        }
        self.look()
    }

    /// Answers from the node of a session, and waits until the client has received the answers.
    pub(super) fn answer(
        &mut self,
        session: usize,
        count: usize,
        filler: Filler,
    ) -> Result<(), Finding> {
        self.account_for_all()?;
        let Some((node, peer)) = self.ledger.session(session) else { return Ok(()) };
        for _ in 0..count {
            let Some(answer) = self.ledger.write_answer((node, peer), filler) else { continue };
            match self.nodes[node].send_to(&answer, peer) {
                // The error is caused by an earlier answer to a session that has ended.
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::ConnectionRefused => {}
                Err(error) => panic!("{} bytes: {error}", answer.len()),
            }
        }
        self.wait_for(|stage| stage.ledger.owes_no_answer())
    }

    /// Waits until every datagram has reached a node or is counted as dropped.
    fn account_for_all(&mut self) -> Result<(), Finding> {
        self.wait_for(|stage| {
            let dropped = stage.metric("tollhouse_udp_datagrams_dropped_total");
            stage.ledger.is_accounted_for(dropped)
        })
    }

    /// Waits until all sessions have ended, and resets the ledger.
    pub(super) fn fall_silent(&mut self) -> Result<(), Finding> {
        self.account_for_all()?;
        self.wait_for(|stage| stage.metric("tollhouse_udp_sessions_open") == 0)?;
        self.look()?;
        let dropped = self.metric("tollhouse_udp_datagrams_dropped_total");
        self.ledger.begin_anew(dropped);
        Ok(())
    }

    fn wait_for(&mut self, mut is_so: impl FnMut(&mut Self) -> bool) -> Result<(), Finding> {
        let began = Instant::now();
        loop {
            self.look()?;
            if is_so(self) {
                return Ok(());
            }
            if began.elapsed() > PATIENCE {
                let dropped = self.metric("tollhouse_udp_datagrams_dropped_total");
                let open = self.metric("tollhouse_udp_sessions_open");
                return Err(self.ledger.overdue(dropped, open));
            }
            std::thread::park_timeout(LOOK);
        }
    }

    /// Receives the datagrams that have arrived at either end, and checks them.
    fn look(&mut self) -> Result<(), Finding> {
        let Self { buffer, ledger, nodes, sources, gateway, .. } = self;
        for (node, socket) in nodes.iter().enumerate() {
            while let Some((bytes, peer)) = receive(socket, buffer) {
                ledger.take_datagram((node, peer), &buffer[..bytes])?;
            }
        }
        for (source, socket) in sources.iter().enumerate() {
            while let Some((bytes, from)) = receive(socket, buffer) {
                ledger.take_answer((source, from == *gateway), &buffer[..bytes])?;
            }
        }
        let open = self.metric("tollhouse_udp_sessions_open");
        self.ledger.check_bounds(open)
    }

    /// Returns the sum of a metric over its labels.
    fn metric(&self, name: &str) -> u64 {
        let text = self.worker.metrics.render();
        let values = text.lines().filter(|line| line.starts_with(name));
        let numbers = values.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok());
        numbers.map(|number| number as u64).sum()
    }
}

/// Returns the address of a source.
pub(super) fn source_address(source: usize) -> Ipv4Addr {
    Ipv4Addr::new(127, 0, 1, (source % ADDRESSES) as u8)
}

fn bound(address: Ipv4Addr) -> UdpSocket {
    let socket = UdpSocket::bind((address, 0)).expect("any address of this host");
    socket.set_nonblocking(true).expect("an open socket");
    socket
}

fn address(socket: &UdpSocket) -> SocketAddr {
    socket.local_addr().expect("it is bound")
}

/// Returns the next datagram of a socket, if there is one.
fn receive(socket: &UdpSocket, buffer: &mut [u8]) -> Option<(usize, SocketAddr)> {
    loop {
        match socket.recv_from(buffer) {
            Ok(received) => return Some(received),
            Err(error) if error.kind() == ErrorKind::WouldBlock => return None,
            // The error is caused by an earlier datagram whose receiver has gone.
            Err(_) => {}
        }
    }
}

/// Returns the configurations: one node; two nodes in turn; two nodes with a PROXY header; only one
/// source address; all but one address.
fn configurations(settings: &Settings, [one, other]: [SocketAddr; 2]) -> Vec<Configuration> {
    let making = Making::new(settings);
    let to = |nodes: &[SocketAddr]| {
        let nodes: Vec<Value> = nodes
            .iter()
            .map(|node| json!({"host": node.ip().to_string(), "port": node.port(), "weight": 1}))
            .collect();
        json!({"type": "roundrobin", "nodes": nodes})
    };
    let with_header = {
        let mut upstream = to(&[one, other]);
        upstream["proxy_protocol"] = json!("v2");
        upstream
    };
    let (alone, barred) = (source_address(1), source_address(2));
    let everybody = Let { alone: None, barred: None, has_header: false };
    let configure = |route: Value, lets| Configuration {
        snapshot: making.compile([(Kind::StreamRoute, "1", route)]),
        lets,
    };
    vec![
        configure(json!({"upstream": to(&[one])}), everybody),
        configure(json!({"upstream": to(&[one, other])}), everybody),
        configure(json!({"upstream": with_header}), Let { has_header: true, ..everybody }),
        configure(
            json!({"remote_addr": alone.to_string(), "upstream": to(&[other])}),
            Let { alone: Some(alone), ..everybody },
        ),
        configure(
            json!({
                "plugins": {"ip-restriction": {"blacklist": [barred.to_string()]}},
                "upstream": to(&[one]),
            }),
            Let { barred: Some(barred), ..everybody },
        ),
    ]
}
