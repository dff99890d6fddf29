//! State of one core, which belongs to its thread. Its main loop is `run.rs`.
//!
//! The control side communicates with a core only through the snapshot cell, the phase, and
//! counters that it reads.

pub(crate) mod failures;
mod open;
pub(crate) mod pools;

use std::cell::{Cell, Ref, RefCell};
use std::net::TcpListener;
use std::os::unix::net::UnixListener;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tollhouse_http::element::FieldValue;
use tollhouse_stdx::random::Random;
use tollhouse_stdx::room::Room;
use tollhouse_stdx::wheel::{TICK_DEFAULT, Wheel};
use tollhouse_stdx::{CoarseClock, LogLimit};
use tollhouse_telemetry::access_log::CoreLog;
use tollhouse_telemetry::plugin_times::TimingTurns;
use tollhouse_telemetry::{CoreHandle, Metrics};
use tollhouse_trace::{CoreTracer, Tracer};

use self::failures::Failures;
use self::open::OpenConnections;
use self::pools::{PoolKey, Pools};
use crate::connection::buffer::BufferPool;
use crate::connection::silence::SilentConnections;
use crate::exchange::state::RequestState;
use crate::head::response::ServerLines;
use crate::http2::cancellations::Cancellations;
use crate::http2::nodes::shared::NodeConnections;
use crate::l4::StreamListener;
use crate::l4::pipes::PipePool;
use crate::l4::udp::sessions::Sessions;
use crate::settings::Settings;
use crate::snapshot::{SnapshotCell, SnapshotView};

/// Maximum number of request states and future rooms pooled per core; more concurrent requests on
/// one core are rare.
const STATES_KEPT_MAX: usize = 1024;

/// Maximum number of refused connections per core that stay open until their clients have read the
/// response. Further ones are closed silently, because each occupies a file descriptor.
pub const REFUSED_OPEN_MAX: usize = 64;

/// Minimum time between log lines about accept failures.
const ACCEPT_FAILURE_INTERVAL: Duration = Duration::from_secs(10);

/// Phase that the control side requests of every core.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    Serving,
    /// Accept no new connections, finish open requests, then end.
    Draining,
    /// End now; open connections are cut.
    Ending,
}

/// Parts that a core is created from.
#[derive(Debug)]
pub struct WorkerParts {
    pub settings: Arc<Settings>,
    pub snapshots: Arc<SnapshotCell>,
    pub listeners: Vec<WorkerListener>,
    /// HTTP listeners whose connections begin with a PROXY protocol header.
    pub proxied_listeners: Vec<WorkerListener>,
    /// Unix sockets, for HTTP in clear text.
    pub unix_listeners: Vec<UnixListener>,
    pub stream_listeners: Vec<StreamListener>,
    pub phase: watch::Receiver<Phase>,
    /// Metrics of the process; the core gets a separate block of counters.
    pub metrics: Arc<Metrics>,
    /// The core's access log; `None` if disabled.
    pub log: Option<CoreLog>,
    /// Tracing of the process; `None` if disabled.
    pub tracer: Option<Arc<Tracer>>,
}

/// A listening socket of a core.
#[derive(Debug)]
pub struct WorkerListener {
    /// Socket that is bound and listening.
    pub socket: TcpListener,
    pub transport: Transport,
}

/// Transport of a listener's connections: HTTP with or without TLS.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transport {
    Plain,
    Tls,
}

/// State of one core, which all its connections share.
#[derive(Debug)]
pub struct Worker {
    pub settings: Arc<Settings>,
    /// View of the snapshot in service.
    pub snapshot: SnapshotView,
    pub clock: CoarseClock,
    /// Timer wheel for the deadlines of all connections.
    pub wheel: Wheel,
    /// Read buffers that wait for reuse.
    pub(crate) buffers: BufferPool,
    pub pools: Pools,
    /// HTTP/2 connections to nodes, which requests share.
    pub(crate) node_connections: NodeConnections,
    /// Number of requests that HTTP/2 clients cancelled, by address.
    pub(crate) cancellations: Cancellations,
    /// Kernel pipes for long TCP transfers.
    pub(crate) pipes: PipePool,
    pub(crate) sessions: Sessions,
    pub metrics: Rc<CoreHandle>,
    /// Access log of the core; `None` if disabled.
    pub log: Option<CoreLog>,
    /// Tracing of the core; `None` if disabled.
    pub(crate) tracer: Option<CoreTracer>,
    /// `Date` and `Server` lines, and the second for which they were written.
    server_lines: RefCell<ServerLines>,
    server_lines_second: Cell<u64>,
    /// Log lines about failed requests, limited in rate.
    pub(crate) failures: Failures,
    /// Earliest time at which the next successful request is kept as a sample.
    pub(crate) next_sample_ms: Cell<u64>,
    /// Turns of requests whose plugins are timed.
    pub(crate) timing_turns: TimingTurns,
    pub(crate) open: OpenConnections,
    /// TLS connections without a complete ClientHello.
    pub(crate) silent: SilentConnections,
    /// Number of refused connections that are open until their clients have read the response.
    pub(crate) refused_open: Cell<usize>,
    #[expect(clippy::vec_box, reason = "a state is handed to a connection without being copied")]
    states: RefCell<Vec<Box<RequestState>>>,
    rooms: RefCell<Vec<Room>>,
    /// Rooms for the futures of plugin phases.
    plugin_rooms: RefCell<Vec<Room>>,
    random: RefCell<Random>,
    draining: Cell<bool>,
    pub(crate) accept_failures: LogLimit,
    this: Weak<Self>,
}

impl Worker {
    pub(crate) fn new(
        parts: WorkerParts,
    ) -> (Rc<Self>, Vec<WorkerListener>, watch::Receiver<Phase>) {
        Self::with_clock(parts, CoarseClock::new())
    }

    /// Creates a worker with the given clock.
    pub(crate) fn with_clock(
        parts: WorkerParts,
        clock: CoarseClock,
    ) -> (Rc<Self>, Vec<WorkerListener>, watch::Receiver<Phase>) {
        // Cyclic, because the worker must be able to hand an `Rc` of itself to the tasks that it
        // spawns.
        let worker = Rc::new_cyclic(|this| Self {
            snapshot: SnapshotView::new(parts.snapshots),
            clock,
            wheel: Wheel::new(TICK_DEFAULT),
            buffers: BufferPool::default(),
            pools: Pools::default(),
            node_connections: NodeConnections::default(),
            cancellations: Cancellations::default(),
            pipes: PipePool::default(),
            sessions: Sessions::default(),
            metrics: Rc::new(parts.metrics.for_core()),
            log: parts.log,
            tracer: parts.tracer.map(CoreTracer::new),
            server_lines: RefCell::default(),
            server_lines_second: Cell::new(u64::MAX),
            failures: Failures::default(),
            next_sample_ms: Cell::new(0),
            timing_turns: TimingTurns::default(),
            open: OpenConnections::new(parts.settings.limits.connections_per_address),
            silent: SilentConnections::default(),
            refused_open: Cell::new(0),
            states: RefCell::default(),
            rooms: RefCell::default(),
            plugin_rooms: RefCell::default(),
            random: RefCell::new(Random::from_process_entropy()),
            draining: Cell::new(false),
            accept_failures: LogLimit::new(ACCEPT_FAILURE_INTERVAL),
            settings: parts.settings,
            this: Weak::clone(this),
        });
        (worker, parts.listeners, parts.phase)
    }

    /// Begins the drain; called by the first task that learns of the phase, so that responses
    /// announce the end of connections before any listener closes.
    pub(crate) fn begin_drain(&self) {
        if self.draining.replace(true) {
            return;
        }
        self.pools.clear();
        self.node_connections.wake_all();
        self.open.wake_all();
    }

    /// Whether the core finishes open requests and accepts no new ones.
    #[inline]
    pub fn is_draining(&self) -> bool {
        self.draining.get()
    }

    /// Whether another connection to a node may be opened: at the limit one that no request waits for makes room, or
    /// one that idles.
    pub fn may_connect(&self) -> bool {
        let to_nodes = usize::try_from(self.metrics.upstream_connections_open.value()).unwrap_or(0);
        let open = self.open.len() + to_nodes + self.node_connections.openings();
        open < self.settings.limits.descriptors_per_worker
            || self.node_connections.end_abandoned()
            || self.pools.drop_one()
            || self.node_connections.drop_one()
    }

    /// Closes the pooled connections of `key`.
    pub(crate) fn close_kept(&self, key: &PoolKey) {
        self.pools.close(key);
        self.node_connections.close(key);
    }

    /// Returns an `Rc` of the core, for a separate task.
    ///
    /// # Panics
    /// Never, because the caller runs on the core.
    pub(crate) fn handle(&self) -> Rc<Self> {
        self.this.upgrade().expect("the core outlives what runs on it")
    }

    /// Passes the core's buffered log lines to the log, and its finished spans to the exporter.
    pub(crate) fn flush_log(&self) {
        if let Some(log) = &self.log {
            log.flush();
        }
        if let Some(tracer) = &self.tracer {
            tracer.flush();
        }
    }

    /// `Date` and `Server` lines of responses, updated once a second.
    #[inline]
    pub(crate) fn server_lines(&self) -> Ref<'_, ServerLines> {
        let second = self.clock.unix_ms() / 1_000;
        if self.server_lines_second.replace(second) != second {
            let value = |bytes| FieldValue::parse(bytes).unwrap_or_default();
            let (server, date) = (self.settings.server.as_bytes(), self.clock.http_date());
            self.server_lines.borrow_mut().write_anew(value(server), value(&date));
        }
        self.server_lines.borrow()
    }

    /// Returns a random number; not for secrets.
    #[inline]
    pub fn random_u64(&self) -> u64 {
        self.random.borrow_mut().next_u64()
    }

    /// Returns a cleared state for one request.
    #[inline]
    pub(crate) fn take_state(&self) -> Box<RequestState> {
        self.states.borrow_mut().pop().unwrap_or_default()
    }

    /// Returns a state to the pool.
    #[inline]
    pub(crate) fn give_state(&self, mut state: Box<RequestState>) {
        state.finish();
        let mut states = self.states.borrow_mut();
        if states.len() < STATES_KEPT_MAX {
            states.push(state);
        }
    }

    /// Returns the memory for the future of one request.
    #[inline]
    pub(crate) fn take_room(&self) -> Room {
        self.rooms.borrow_mut().pop().unwrap_or_default()
    }

    #[inline]
    pub(crate) fn give_room(&self, room: Room) {
        keep(&self.rooms, room);
    }

    /// Returns the memory for the future of one request's plugin phases.
    #[inline]
    pub(crate) fn take_plugin_room(&self) -> Room {
        self.plugin_rooms.borrow_mut().pop().unwrap_or_default()
    }

    #[inline]
    pub(crate) fn give_plugin_room(&self, room: Room) {
        keep(&self.plugin_rooms, room);
    }
}

#[inline]
fn keep(rooms: &RefCell<Vec<Room>>, room: Room) {
    let mut rooms = rooms.borrow_mut();
    if rooms.len() < STATES_KEPT_MAX {
        rooms.push(room);
    }
}
