//! One worker: a thread with its own loop, its lanes, its record. [`drive`] is the one loop of the
//! generator, whatever the protocol and the pace.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::io;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use tollhouse_stdx::{Random, Timer, Wheel};

use crate::case::Occupancy;
use crate::failure::{Failure, FailureClass};
use crate::pace::Pace;
use crate::pacer::Pacer;
use crate::protocol::{Lane, Marks, Reply};
use crate::record::{Finished, Record, Tally};
use crate::schedule::{Phase, Schedule, Turn};
use tollhouse_net::clock::Clock;

/// How often time-outs are looked at; they are seconds.
pub const TICK: Duration = Duration::from_millis(100);
/// Bytes taken in with one read: a whole answer of the usual sizes, so that one read is enough.
const SCRATCH_BYTES: usize = 64 * 1024;

/// What the lanes of a worker share.
#[derive(Debug)]
pub struct Worker {
    /// Which worker it is, from 0.
    pub index: usize,
    clock: Clock,
    schedule: Arc<Schedule>,
    lanes: Occupancy,
    timeout: Duration,
    wheel: Wheel,
    pacer: Pacer,
    record: RefCell<Record>,
    random: RefCell<Random>,
    scratch: RefCell<Vec<u8>>,
    in_flight: Cell<u64>,
    connections: Cell<u64>,
    opened: Cell<u64>,
    /// What ended while nothing is recorded, for the display.
    warm_up: Cell<Tally>,
    last_failure: RefCell<Option<Failure>>,
}

/// How a worker is set up.
pub struct Setup {
    /// Which worker it is, from 0.
    pub index: usize,
    /// The run's clock.
    pub clock: Clock,
    /// The run's schedule.
    pub schedule: Arc<Schedule>,
    /// Which lanes carry load.
    pub lanes: Occupancy,
    /// The longest that a request may take.
    pub timeout: Duration,
    /// Whether single samples are kept.
    pub keeps_samples: bool,
}

impl Worker {
    /// A worker; must be made inside of its runtime.
    ///
    /// # Errors
    /// When the process has no descriptor left.
    pub fn new(setup: Setup) -> io::Result<Self> {
        let is_open = setup.schedule.measured().pace().is_open();
        Ok(Self {
            index: setup.index,
            clock: setup.clock,
            pacer: Pacer::new(setup.clock)?,
            schedule: setup.schedule,
            lanes: setup.lanes,
            timeout: setup.timeout,
            wheel: Wheel::new(TICK),
            record: RefCell::new(Record::new(is_open, setup.keeps_samples)),
            random: RefCell::new(Random::from_process_entropy()),
            scratch: RefCell::new(vec![0; SCRATCH_BYTES]),
            in_flight: Cell::new(0),
            connections: Cell::new(0),
            opened: Cell::new(0),
            warm_up: Cell::default(),
            last_failure: RefCell::default(),
        })
    }

    /// Nanoseconds on the run's clock.
    #[inline]
    pub fn now_ns(&self) -> u64 {
        self.clock.now_ns()
    }

    /// The run's clock.
    pub fn clock(&self) -> Clock {
        self.clock
    }

    /// A buffer to read into between two awaits; its content means nothing afterwards.
    pub fn scratch(&self) -> &RefCell<Vec<u8>> {
        &self.scratch
    }

    /// The worker's random numbers, for templates.
    pub fn random(&self) -> &RefCell<Random> {
        &self.random
    }

    /// The worker's record.
    pub fn record(&self) -> &RefCell<Record> {
        &self.record
    }

    /// Where its lanes wait.
    pub fn pacer(&self) -> &Pacer {
        &self.pacer
    }

    /// Requests under way.
    pub fn in_flight(&self) -> u64 {
        self.in_flight.get()
    }

    /// Connections open now, and opened in all.
    pub fn connections(&self) -> (u64, u64) {
        (self.connections.get(), self.opened.get())
    }

    /// What ended in the warm-up since the last call.
    pub fn take_warm_up(&self) -> Tally {
        self.warm_up.take()
    }

    /// The last failure since the last call.
    pub fn take_last_failure(&self) -> Option<Failure> {
        self.last_failure.borrow_mut().take()
    }

    /// Lets requests that have taken too long fail; called every [`TICK`].
    pub fn expire(&self) {
        self.wheel.advance(self.now_ns() / 1_000_000);
    }

    /// Counts a connection as open until the returned value is dropped, and records what opening took.
    pub fn connected(self: &Rc<Self>, took_ns: u64) -> OpenConnection {
        self.connections.set(self.connections.get() + 1);
        self.opened.set(self.opened.get() + 1);
        self.record.borrow_mut().connected(took_ns);
        OpenConnection(Rc::clone(self))
    }

    /// Waits until a lane carries load; `None` when it does not any more in this phase.
    async fn until_occupied(&self, phase: &Phase, lane: usize) -> Option<()> {
        loop {
            let now_ns = self.now_ns();
            let since = match phase.is_measured {
                true => Duration::from_nanos(now_ns.saturating_sub(phase.start_ns())),
                false => Duration::ZERO,
            };
            let at = self.lanes.turn_of(lane, since)?;
            if at <= since {
                return Some(());
            }
            // Other lanes may have taken the last request meanwhile.
            if !phase.has_more(now_ns) {
                return None;
            }
            tokio::time::sleep((at - since).min(TICK)).await;
        }
    }

    /// Waits for the pace and takes on the next request of a phase; `None` when there is none left.
    async fn turn(&self, phase: &Phase, lane: usize) -> Option<Turn> {
        if self.lanes != Occupancy::All {
            self.until_occupied(phase, lane).await?;
        }
        if let Pace::Think(pause) = phase.pace()
            && self.record.borrow().last_done_ns > 0
        {
            tokio::time::sleep(*pause).await;
        }
        let turn = phase.claim(self.now_ns())?;
        if let Some(intended_ns) = turn.intended_ns {
            self.pacer.until(intended_ns).await;
            if phase.end_ns() <= intended_ns {
                return None;
            }
        }
        Some(turn)
    }

    /// Writes down how a request ended.
    #[inline]
    fn account(&self, phase: &Phase, exchange: &Finished<'_>) {
        if let Err(failure) = exchange.outcome {
            self.last_failure.replace(Some(failure.clone()));
        }
        if phase.is_measured {
            self.record.borrow_mut().finished(exchange);
            return;
        }
        let mut tally = self.warm_up.get();
        tally.completed += 1;
        match exchange.outcome {
            Ok(_) => tally.warm_up_ns = tally.warm_up_ns.saturating_add(exchange.headline_ns()),
            Err(_) => tally.failed += 1,
        }
        tally.received_bytes += exchange.marks.received_bytes;
        self.warm_up.set(tally);
    }

    /// Runs an exchange within the time-out.
    async fn within_timeout<L: Lane>(
        &self,
        lane: &mut L,
        timer: &Timer,
        turn: Turn,
        marks: &mut Marks,
    ) -> Result<Reply, Failure> {
        let outcome = {
            let mut exchange = pin!(lane.exchange(turn.ticket, marks));
            timer.arm((self.now_ns() + self.timeout.as_nanos() as u64) / 1_000_000);
            poll_fn(|context| {
                if let Poll::Ready(outcome) = exchange.as_mut().poll(context) {
                    return Poll::Ready(Some(outcome));
                }
                timer.set_waker(context.waker());
                let has_expired = timer.expired(self.now_ns() / 1_000_000);
                if has_expired { Poll::Ready(None) } else { Poll::Pending }
            })
            .await
        };
        outcome.unwrap_or_else(|| {
            lane.abandon();
            let text = tollhouse_stdx::fine_duration::format(self.timeout);
            Err(Failure::new(FailureClass::Timeout, format!("no whole answer within {text}")))
        })
    }
}

/// A connection that counts as open until this is dropped.
#[derive(Debug)]
pub struct OpenConnection(Rc<Worker>);

impl Drop for OpenConnection {
    fn drop(&mut self) {
        self.0.connections.set(self.0.connections.get() - 1);
    }
}

/// The loop of one lane: wait for the pace, exchange, write down; phase after phase. `number` is the lane's
/// among all lanes of the run.
pub async fn drive<L: Lane>(worker: Rc<Worker>, mut lane: L, number: usize) {
    let timer = worker.wheel.timer();
    let schedule = Arc::clone(&worker.schedule);
    for phase in schedule.phases() {
        worker.pacer.until(phase.start_ns()).await;
        while let Some(turn) = worker.turn(phase, number).await {
            let mut marks = Marks::default();
            worker.in_flight.set(worker.in_flight.get() + 1);
            let outcome = worker.within_timeout(&mut lane, &timer, turn, &mut marks).await;
            let done_ns = worker.now_ns();
            worker.pacer.wake_due(done_ns);
            worker.in_flight.set(worker.in_flight.get() - 1);
            worker.account(phase, &Finished { turn, marks: &marks, outcome: &outcome, done_ns });
            if let Err(failure) = &outcome
                && failure.class == FailureClass::Connect
            {
                pause_after_refusal().await;
            }
        }
    }
}

/// A target that refuses connections must not turn the generator into a busy loop.
async fn pause_after_refusal() {
    const PAUSE: Duration = Duration::from_millis(10);
    tokio::time::sleep(PAUSE).await;
}
