//! One core: its thread's state, its listeners, its clock, and how it drains.
//!
//! Everything here belongs to one thread. The control side reaches it by three things only: the
//! snapshot cell, the phase, and counters that it reads.

mod accept;
mod housekeeping;
mod open;

use std::cell::{Cell, RefCell};
use std::net::TcpListener;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::LocalRuntime;
use tokio::sync::watch;
use tollhouse_stdx::random::Random;
use tollhouse_stdx::room::Room;
use tollhouse_stdx::wheel::{TICK_DEFAULT, Wheel};
use tollhouse_stdx::{CoarseClock, LogLimit};
use tollhouse_telemetry::access_log::CoreLog;
use tollhouse_telemetry::{CoreHandle, Metrics};

use crate::buffer::BufferShelf;
use crate::failures::Failures;
use crate::pool::Pools;
use crate::request::Work;
use crate::settings::Settings;
use crate::snapshot::{SnapshotCell, SnapshotView};
pub use accept::REFUSED_OPEN_MAX;
use open::OpenConnections;

/// Works, and rooms for their futures, kept for reuse by one core; more requests than this at once on one core are rare.
const WORKS_KEPT_MAX: usize = 1024;

/// Bytes that one request moves before the others of its core have their turn: a fraction of a
/// millisecond.
pub(crate) const TURN_BYTES: usize = 256 * 1024;

/// What the control side tells every core.
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
    pub listeners: Vec<TcpListener>,
    /// Serving or draining.
    pub phase: watch::Receiver<Phase>,
    /// Where it counts; it takes a block of its own.
    pub metrics: Arc<Metrics>,
    /// Its end of the access log; `None` when that is off.
    pub log: Option<CoreLog>,
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
    pub shelf: BufferShelf,
    /// Idle connections to nodes.
    pub pools: Pools,
    /// Counts.
    pub metrics: Rc<CoreHandle>,
    /// The access log; `None` when it is off.
    pub log: Option<CoreLog>,
    /// Tells of requests that fail.
    pub(crate) failures: Failures,
    open: OpenConnections,
    /// Connections over the limit that are open until their clients have seen the answer.
    refused_open: Cell<usize>,
    #[expect(clippy::vec_box, reason = "a work is handed to a connection without being copied")]
    works: RefCell<Vec<Box<Work>>>,
    rooms: RefCell<Vec<Room>>,
    random: RefCell<Random>,
    draining: Cell<bool>,
    accept_failures: LogLimit,
}

impl Worker {
    pub(crate) fn new(parts: WorkerParts) -> (Rc<Self>, Vec<TcpListener>, watch::Receiver<Phase>) {
        let worker = Self {
            snapshot: SnapshotView::new(parts.snapshots),
            clock: CoarseClock::new(),
            wheel: Wheel::new(TICK_DEFAULT),
            shelf: BufferShelf::default(),
            pools: Pools::default(),
            metrics: Rc::new(parts.metrics.for_core()),
            log: parts.log,
            failures: Failures::default(),
            open: OpenConnections::new(parts.settings.limits.connections_per_address),
            refused_open: Cell::new(0),
            works: RefCell::default(),
            rooms: RefCell::default(),
            random: RefCell::new(Random::from_process_entropy()),
            draining: Cell::new(false),
            accept_failures: LogLimit::new(accept::TELL_INTERVAL),
            settings: parts.settings,
        };
        (Rc::new(worker), parts.listeners, parts.phase)
    }

    /// Runs a core on the calling thread until it has drained.
    ///
    /// # Errors
    /// When the thread's reactor cannot be made, or a listener not be registered.
    pub fn run(parts: WorkerParts) -> std::io::Result<()> {
        let runtime: LocalRuntime = tokio::runtime::Builder::new_current_thread()
            .enable_io()
            .enable_time()
            .build_local(Default::default())?;
        let (worker, listeners, phase) = Self::new(parts);
        runtime.block_on(worker.serve(listeners, phase))
    }

    async fn serve(
        self: Rc<Self>,
        listeners: Vec<TcpListener>,
        mut phase: watch::Receiver<Phase>,
    ) -> std::io::Result<()> {
        let ticker = tokio::task::spawn_local(housekeeping::tick(Rc::clone(&self)));
        let keeper = tokio::task::spawn_local(housekeeping::keep(Rc::clone(&self)));
        let mut acceptors = Vec::new();
        for listener in listeners {
            let listener = tokio::net::TcpListener::from_std(listener)?;
            let accepting = accept::run(Rc::clone(&self), listener, phase.clone());
            acceptors.push(tokio::task::spawn_local(accepting));
        }
        // An error means that the control side is gone, which also ends serving.
        let _ = phase.wait_for(|phase| *phase != Phase::Serving).await;
        self.begin_drain();
        for acceptor in acceptors {
            let _ = acceptor.await;
        }
        self.drain(phase).await;
        ticker.abort();
        keeper.abort();
        crate::log::flush(&self);
        Ok(())
    }

    /// Waits for what is under way, but not for ever.
    async fn drain(&self, mut phase: watch::Receiver<Phase>) {
        let cut = |reason| {
            tracing::warn!(connections = self.open.len(), reason, "connections are cut");
        };
        tokio::select! {
            biased;
            () = self.open.none_left() => {}
            _ = phase.wait_for(|phase| *phase == Phase::Ending) => cut("told to hurry"),
            () = tokio::time::sleep(self.settings.drain_time) => cut("drain time is over"),
        }
    }

    /// Whoever learns of the phase first calls this: no listener closes before answers say so.
    fn begin_drain(&self) {
        if self.draining.replace(true) {
            return;
        }
        self.pools.clear();
        self.open.wake_all();
    }

    /// Whether the core finishes what is under way and takes nothing new.
    #[inline]
    pub fn is_draining(&self) -> bool {
        self.draining.get()
    }

    /// Whether another connection to a node may be opened: at the limit one that idles makes room.
    pub fn may_connect(&self) -> bool {
        let to_nodes = usize::try_from(self.metrics.upstream_connections_open.value()).unwrap_or(0);
        let open = self.open.len() + to_nodes;
        open < self.settings.limits.descriptors_per_worker || self.pools.drop_one()
    }

    /// A random number; not for secrets.
    #[inline]
    pub fn random_u64(&self) -> u64 {
        self.random.borrow_mut().next_u64()
    }

    /// Room for one request.
    #[inline]
    pub fn take_work(&self) -> Box<Work> {
        self.works.borrow_mut().pop().unwrap_or_default()
    }

    /// Takes the room back.
    #[inline]
    pub fn give_work(&self, mut work: Box<Work>) {
        work.finish();
        let mut works = self.works.borrow_mut();
        if works.len() < WORKS_KEPT_MAX {
            works.push(work);
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
        let mut rooms = self.rooms.borrow_mut();
        if rooms.len() < WORKS_KEPT_MAX {
            rooms.push(room);
        }
    }

    /// How often housekeeping looks round: pools, log, snapshot.
    pub const HOUSEKEEPING_INTERVAL: Duration = Duration::from_secs(1);
}
