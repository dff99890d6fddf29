//! One core: the state of its thread. How it runs and drains is `run.rs`.
//!
//! Everything here belongs to one thread. The control side reaches it by three things only: the
//! snapshot cell, the phase, and counters that it reads.

pub(crate) mod failures;
mod open;
pub(crate) mod pools;

use std::cell::{Cell, Ref, RefCell};
use std::net::TcpListener;
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
use tollhouse_telemetry::{CoreHandle, Metrics};

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

/// States of requests, and rooms for their futures, kept for reuse by one core; more requests than
/// this at once on one core are rare.
const STATES_KEPT_MAX: usize = 1024;

/// Connections over the limit that are answered, and wait for the client to see it, at once on one
/// core: each holds a descriptor meanwhile. More are closed without a word.
pub const REFUSED_OPEN_MAX: usize = 64;

/// How often it is logged that connections cannot be accepted.
const ACCEPT_FAILURE_INTERVAL: Duration = Duration::from_secs(10);

/// What the control side asks of every core.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// Accept and serve.
    Serving,
    /// Accept no more, finish what is under way, end.
    Draining,
    /// End now; what is under way is cut.
    Ending,
}

/// What a core is made of.
#[derive(Debug)]
pub struct WorkerParts {
    /// The settings of the data plane.
    pub settings: Arc<Settings>,
    /// Where its requests find the configuration.
    pub snapshots: Arc<SnapshotCell>,
    /// What it listens on.
    pub listeners: Vec<WorkerListener>,
    /// The same for connections that begin with a PROXY header.
    pub proxied_listeners: Vec<WorkerListener>,
    /// What it listens on for stream routes.
    pub stream_listeners: Vec<StreamListener>,
    /// Serving or draining.
    pub phase: watch::Receiver<Phase>,
    /// Where it counts; it takes a block of its own.
    pub metrics: Arc<Metrics>,
    /// Its end of the access log; `None` when that is off.
    pub log: Option<CoreLog>,
}

/// A socket that a core listens on.
#[derive(Debug)]
pub struct WorkerListener {
    /// Bound and listening.
    pub socket: TcpListener,
    /// What clients speak there.
    pub transport: Transport,
}

/// What clients of a listener speak.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transport {
    /// HTTP over TCP.
    Plain,
    /// HTTP over TLS.
    Tls,
}

/// The state of one core.
#[derive(Debug)]
pub struct Worker {
    /// The settings of the data plane.
    pub settings: Arc<Settings>,
    /// The configuration.
    pub snapshot: SnapshotView,
    /// The time.
    pub clock: CoarseClock,
    /// All deadlines.
    pub wheel: Wheel,
    /// Read buffers nobody uses.
    pub(crate) buffers: BufferPool,
    /// Idle connections to nodes.
    pub pools: Pools,
    /// Connections of HTTP/2 to nodes, which requests share.
    pub(crate) node_connections: NodeConnections,
    /// Requests that clients of HTTP/2 take back.
    pub(crate) cancellations: Cancellations,
    /// What long transfers below HTTP pass through.
    pub(crate) pipes: PipePool,
    /// Sessions of datagrams.
    pub(crate) sessions: Sessions,
    /// Counts.
    pub metrics: Rc<CoreHandle>,
    /// The access log; `None` when it is off.
    pub log: Option<CoreLog>,
    /// What answers say of the gateway, and the second that was written in.
    server_lines: RefCell<ServerLines>,
    server_lines_second: Cell<u64>,
    /// Reports requests that fail.
    pub(crate) failures: Failures,
    /// When the next request that goes well is kept for people to see.
    pub(crate) next_sample_ms: Cell<u64>,
    pub(crate) open: OpenConnections,
    /// Connections without a whole first message of TLS.
    pub(crate) silent: SilentConnections,
    /// Connections over the limit that are open until their clients have seen the answer.
    pub(crate) refused_open: Cell<usize>,
    #[expect(clippy::vec_box, reason = "a state is handed to a connection without being copied")]
    states: RefCell<Vec<Box<RequestState>>>,
    rooms: RefCell<Vec<Room>>,
    /// The same for what plugins do before a node is asked.
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

    /// One whose time is that of `clock`.
    pub(crate) fn with_clock(
        parts: WorkerParts,
        clock: CoarseClock,
    ) -> (Rc<Self>, Vec<WorkerListener>, watch::Receiver<Phase>) {
        // Cyclic, because tasks that a worker spawns hold it, and it must be able to hand itself to them.
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
            server_lines: RefCell::default(),
            server_lines_second: Cell::new(u64::MAX),
            failures: Failures::default(),
            next_sample_ms: Cell::new(0),
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

    /// Whoever learns of the phase first calls this: no listener closes before answers say so.
    pub(crate) fn begin_drain(&self) {
        if self.draining.replace(true) {
            return;
        }
        self.pools.clear();
        self.node_connections.wake_all();
        self.open.wake_all();
    }

    /// Whether the core finishes what is under way and takes nothing new.
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

    /// Closes the connections to nodes that are kept under `key`.
    pub(crate) fn close_kept(&self, key: &PoolKey) {
        self.pools.close(key);
        self.node_connections.close(key);
    }

    /// The core, for a task of its own.
    ///
    /// # Panics
    /// Never: whoever asks runs on it.
    pub(crate) fn handle(&self) -> Rc<Self> {
        self.this.upgrade().expect("the core outlives what runs on it")
    }

    /// Hands the log what the core has buffered of it.
    pub(crate) fn flush_log(&self) {
        if let Some(log) = &self.log {
            log.flush();
        }
    }

    /// What every answer says of the gateway and of the time; written once a second.
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

    /// A random number; not for secrets.
    #[inline]
    pub fn random_u64(&self) -> u64 {
        self.random.borrow_mut().next_u64()
    }

    /// The state of one request, as good as new.
    #[inline]
    pub(crate) fn take_state(&self) -> Box<RequestState> {
        self.states.borrow_mut().pop().unwrap_or_default()
    }

    /// Takes the state back.
    #[inline]
    pub(crate) fn give_state(&self, mut state: Box<RequestState>) {
        state.finish();
        let mut states = self.states.borrow_mut();
        if states.len() < STATES_KEPT_MAX {
            states.push(state);
        }
    }

    /// Memory for the future of one request.
    #[inline]
    pub(crate) fn take_room(&self) -> Room {
        self.rooms.borrow_mut().pop().unwrap_or_default()
    }

    /// Takes the memory back.
    #[inline]
    pub(crate) fn give_room(&self, room: Room) {
        keep(&self.rooms, room);
    }

    /// Memory for the future of one request's plugins.
    #[inline]
    pub(crate) fn take_plugin_room(&self) -> Room {
        self.plugin_rooms.borrow_mut().pop().unwrap_or_default()
    }

    /// Takes that back.
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
