//! Worker thread: runtime, lanes, ticks, and reports.

use std::cell::RefCell;
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::mpsc::{self, TrySendError};

use hdrhistogram::Histogram;
use tokio::runtime::{Builder, LocalRuntime};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;

use super::{Shared, share_of, system, waits_at_end};
use crate::case::Load;
use crate::distribution::histogram;
use crate::error::BenchError;
use crate::pace::Pace;
use crate::protocol::{Lane, Protocol};
use crate::record::{Record, Samples, Tally};
use crate::worker::{Setup, TICK, Worker, drive};
use tollhouse_net::clock::PreciseTimer;

/// Maximum number of concurrent connection attempts per worker, below the shortest common accept
/// backlog (128), because dropped attempts would be delayed by a second.
const OPENING_MAX: usize = 48;

/// Message of a worker thread to the coordinator.
pub(super) enum Event {
    /// All lanes have attempted to open their connections.
    Ready,
    Interval(WorkerInterval),
    Ended(Box<WorkerEnd>),
    Failed(BenchError),
}

/// An interval of a single worker.
pub(super) struct WorkerInterval {
    /// Index of the interval in its phase, from 0.
    pub(super) index: u64,
    /// End of the interval, from the start of the phase.
    pub(super) at_ns: u64,
    pub(super) is_warm_up: bool,
    pub(super) times: Histogram<u64>,
    pub(super) tally: Tally,
    pub(super) in_flight: u64,
    pub(super) connections: u64,
    /// A failure of the interval, reported if no request of the run succeeds.
    pub(super) failure: Option<crate::failure::Failure>,
}

impl WorkerInterval {
    /// Adds the counts of an earlier interval.
    fn add(&mut self, earlier: &Self) {
        // Histograms with equal bounds can always be added.
        let _ = self.times.add(&earlier.times);
        self.tally.add(&earlier.tally);
        if self.failure.is_none() {
            self.failure.clone_from(&earlier.failure);
        }
    }
}

pub(super) struct WorkerEnd {
    pub(super) record: Record,
    pub(super) connections_opened: u64,
    pub(super) unfinished: u64,
    pub(super) loop_delay_ns: u64,
    /// Requests per second in windows of one tick.
    pub(super) rates: Vec<f64>,
}

/// Position of a worker in its run.
pub(super) struct Place {
    pub(super) index: usize,
    pub(super) workers: usize,
    pub(super) events: mpsc::SyncSender<Event>,
    pub(super) begin: watch::Receiver<bool>,
}

impl Place {
    /// Returns the number of a lane among all lanes of the run. The first streams of all
    /// connections come first, so that the first lanes are spread over connections and workers.
    fn number_of(&self, index: usize, load: &Load) -> usize {
        let (connection, stream) = (index / load.streams, index % load.streams);
        stream * load.connections + connection * self.workers + self.index
    }
}

/// Creates a single-threaded runtime whose tasks stay on its thread.
pub(super) fn runtime() -> Result<LocalRuntime, BenchError> {
    Builder::new_current_thread()
        .enable_all()
        .build_local(Default::default())
        .map_err(|error| system("making a runtime", error))
}

/// Runs a worker thread.
pub(super) fn main<P: Protocol>(shared: &Arc<Shared<P>>, place: Place) {
    let events = place.events.clone();
    let ended = runtime().and_then(|runtime| {
        let worked = runtime.block_on(work(shared, place));
        worked.map_err(|error| system("keeping the time", error))
    });
    // The receiver is gone if another worker has failed.
    let _ = events.send(match ended {
        Ok(end) => Event::Ended(Box::new(end)),
        Err(error) => Event::Failed(error),
    });
}

async fn work<P: Protocol>(shared: &Arc<Shared<P>>, place: Place) -> io::Result<WorkerEnd> {
    let load = &shared.case.load;
    let worker = Rc::new(Worker::new(Setup {
        index: place.index,
        clock: shared.clock,
        schedule: Arc::clone(&shared.schedule),
        lanes: load.lanes,
        timeout: load.timeout,
        samples: Samples::new(load),
    })?);
    let pacer = tokio::task::spawn_local({
        let worker = Rc::clone(&worker);
        async move { worker.pacer().run().await }
    });
    let connections = share_of(load.connections, place.workers, place.index);
    let mut lanes = start_lanes(shared, &place, &worker, connections * load.streams).await;
    // Fails only if the coordinator is gone; then the lanes are not started.
    let _ = place.events.send(Event::Ready);
    let mut begin = place.begin.clone();
    if begin.wait_for(|begun| *begun).await.is_err() {
        lanes.abort_all();
    }
    let ticks = Rc::new(RefCell::new(Ticks::new(Rc::clone(&worker), shared, place.events)));
    let end = {
        let mut ticker = std::pin::pin!(tick(shared, &worker, &ticks));
        tokio::select! {
            () = all_ended(&mut lanes) => Ok(()),
            ended = &mut ticker => ended,
        }
    };
    let unfinished = worker.in_flight();
    lanes.abort_all();
    all_ended(&mut lanes).await;
    pacer.abort();
    let _ = pacer.await;
    end?;
    ticks.borrow_mut().publish_rest();
    let (loop_delay_ns, rates) = ticks.borrow_mut().take_statistics();
    let connections_opened = worker.connections().1;
    let record = worker.record().replace(Record::new(&Pace::Closed, Samples::Dropped));
    Ok(WorkerEnd { record, connections_opened, unfinished, loop_delay_ns, rates })
}

async fn all_ended(lanes: &mut JoinSet<()>) {
    while lanes.join_next().await.is_some() {}
}

/// Starts the lanes. They open their connections, a few at a time, and then wait for the start
/// signal.
async fn start_lanes<P: Protocol>(
    shared: &Arc<Shared<P>>,
    place: &Place,
    worker: &Rc<Worker>,
    count: usize,
) -> JoinSet<()> {
    let gate = Rc::new(Semaphore::new(OPENING_MAX));
    let (opened, mut all_opened) = tokio::sync::mpsc::channel::<()>(1);
    let mut lanes = JoinSet::new();
    for index in 0..count {
        let mut lane = shared.protocol.lane(worker, index);
        let (worker, gate) = (Rc::clone(worker), Rc::clone(&gate));
        let (opened, mut begin) = (opened.clone(), place.begin.clone());
        let number = place.number_of(index, &shared.case.load);
        let opens_before = shared.case.load.keep_alive;
        let timeout = shared.case.load.timeout;
        lanes.spawn_local(async move {
            if opens_before {
                let _permit = gate.acquire().await;
                // A failure recurs in the first exchange and is counted there.
                let _ = tokio::time::timeout(timeout, lane.open()).await;
            }
            drop(opened);
            if begin.wait_for(|begun| *begun).await.is_ok() {
                drive(worker, lane, number).await;
            }
        });
    }
    drop(opened);
    // Completes when the last lane has dropped its sender.
    let _ = all_opened.recv().await;
    lanes
}

/// Performs the periodic work every [`TICK`]: expires requests, publishes intervals, ends the run.
async fn tick<P>(
    shared: &Shared<P>,
    worker: &Rc<Worker>,
    ticks: &RefCell<Ticks>,
) -> io::Result<()> {
    let timer = PreciseTimer::new(shared.clock)?;
    let measured = shared.schedule.measured();
    loop {
        let due_ns = ticks.borrow().next_ns();
        timer.until(due_ns).await?;
        worker.expire();
        let now_ns = worker.now_ns();
        ticks.borrow_mut().tick(now_ns);
        if shared.stop.is_stopped() {
            shared.schedule.stop(now_ns);
        }
        if now_ns >= measured.end_ns() {
            worker.pacer().release();
            let is_cut = shared.stop.is_stopped() || !waits_at_end(&shared.case);
            if is_cut {
                return Ok(());
            }
        }
    }
}

/// Tick and interval counters of a worker.
struct Ticks {
    worker: Rc<Worker>,
    events: mpsc::SyncSender<Event>,
    /// Interval that did not fit into the channel.
    held: Option<WorkerInterval>,
    schedule: Arc<crate::schedule::Schedule>,
    ticks_per_interval: u64,
    phase: usize,
    /// Ticks of the current phase so far.
    ticks: u64,
    published: u64,
    counted: u64,
    loop_delay_ns: u64,
    rates: Vec<f64>,
}

impl Ticks {
    fn new<P>(worker: Rc<Worker>, shared: &Shared<P>, events: mpsc::SyncSender<Event>) -> Self {
        let ticks_per_interval = (shared.interval.as_millis() / TICK.as_millis()).max(1);
        Self {
            worker,
            events,
            held: None,
            schedule: Arc::clone(&shared.schedule),
            ticks_per_interval: u64::try_from(ticks_per_interval).unwrap_or(1),
            phase: 0,
            ticks: 0,
            published: 0,
            counted: 0,
            loop_delay_ns: 0,
            rates: Vec::new(),
        }
    }

    fn phase(&self) -> &crate::schedule::Phase {
        &self.schedule.phases()[self.phase]
    }

    /// Returns the time of the next tick: after a whole number of ticks of the phase, or at its
    /// end.
    fn next_ns(&self) -> u64 {
        let tick_ns = TICK.as_nanos() as u64;
        let next = self.phase().start_ns().saturating_add((self.ticks + 1) * tick_ns);
        let end_ns = self.phase().end_ns();
        let has_ended = self.phase().start_ns() + self.ticks * tick_ns >= end_ns;
        if has_ended { next } else { next.min(end_ns) }
    }

    fn tick(&mut self, now_ns: u64) {
        self.loop_delay_ns = self.loop_delay_ns.max(now_ns.saturating_sub(self.next_ns()));
        self.ticks += 1;
        if self.phase().is_measured {
            self.count_rate();
        }
        let is_phase_over = now_ns >= self.phase().end_ns();
        if self.ticks.is_multiple_of(self.ticks_per_interval) || is_phase_over {
            self.publish(now_ns);
        }
        if is_phase_over && self.phase + 1 < self.schedule.phases().len() {
            self.phase += 1;
            (self.ticks, self.published) = (0, 0);
        }
    }

    fn count_rate(&mut self) {
        let completed = self.worker.record().borrow().tally.completed;
        // The tally restarts with each interval.
        let since = if completed >= self.counted { completed - self.counted } else { completed };
        self.counted = completed;
        self.rates.push(since as f64 / TICK.as_secs_f64());
    }

    fn publish(&mut self, now_ns: u64) {
        let is_warm_up = !self.phase().is_measured;
        let (times, tally) = if is_warm_up {
            (histogram(), self.worker.take_warm_up())
        } else {
            let mut record = self.worker.record().borrow_mut();
            let times = std::mem::replace(&mut record.interval, histogram());
            (times, std::mem::take(&mut record.tally))
        };
        self.counted = 0;
        let mut interval = WorkerInterval {
            index: self.published,
            at_ns: now_ns.saturating_sub(self.phase().start_ns()),
            is_warm_up,
            times,
            tally,
            in_flight: self.worker.in_flight(),
            connections: self.worker.connections().0,
            failure: self.worker.take_last_failure(),
        };
        self.published += 1;
        match self.held.take() {
            Some(held) if held.is_warm_up == interval.is_warm_up => interval.add(&held),
            Some(held) => self.send(held),
            None => {}
        }
        // A worker never waits for the coordinator while it carries load.
        if let Err(TrySendError::Full(Event::Interval(interval))) =
            self.events.try_send(Event::Interval(interval))
        {
            self.held = Some(interval);
        }
    }

    /// Sends an interval, and waits for room if necessary.
    fn send(&self, interval: WorkerInterval) {
        // Fails only if another worker has failed and the coordinator is gone.
        let _ = self.events.send(Event::Interval(interval));
    }

    /// Publishes the requests completed since the last interval.
    fn publish_rest(&mut self) {
        self.phase = self.schedule.phases().len() - 1;
        if self.worker.record().borrow().tally.completed > 0 {
            self.publish(self.worker.now_ns());
        }
        if let Some(held) = self.held.take() {
            self.send(held);
        }
    }

    fn take_statistics(&mut self) -> (u64, Vec<f64>) {
        (self.loop_delay_ns, std::mem::take(&mut self.rates))
    }
}
