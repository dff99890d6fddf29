//! A worker: one thread with its event loop, lanes and record. [`drive`] is the common loop of the
//! generator for all protocols and paces.

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
use crate::record::{Finished, Record, Samples, Tally};
use crate::schedule::{Phase, Schedule, Turn};
use tollhouse_net::clock::Clock;

/// Interval at which request timeouts, which are seconds long, are checked.
pub const TICK: Duration = Duration::from_millis(100);
/// Size of the read buffer: a whole response of usual size, so that one read suffices.
const SCRATCH_BYTES: usize = 64 * 1024;

/// Data shared by the lanes of a worker.
#[derive(Debug)]
pub struct Worker {
    /// Index of the worker, from 0.
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
    /// Counts of the warm-up, for display only.
    warm_up: Cell<Tally>,
    last_failure: RefCell<Option<Failure>>,
}

pub struct Setup {
    /// Index of the worker, from 0.
    pub index: usize,
    pub clock: Clock,
    pub schedule: Arc<Schedule>,
    /// Number of lanes that carry load over time.
    pub lanes: Occupancy,
    pub timeout: Duration,
    pub samples: Samples,
}

impl Worker {
    /// Creates a worker; must be called inside its runtime.
    ///
    /// # Errors
    /// If the process has no file descriptor left.
    pub fn new(setup: Setup) -> io::Result<Self> {
        let record = Record::new(setup.schedule.measured().pace(), setup.samples);
        Ok(Self {
            index: setup.index,
            clock: setup.clock,
            pacer: Pacer::new(setup.clock)?,
            schedule: setup.schedule,
            lanes: setup.lanes,
            timeout: setup.timeout,
            wheel: Wheel::new(TICK),
            record: RefCell::new(record),
            random: RefCell::new(Random::from_process_entropy()),
            scratch: RefCell::new(vec![0; SCRATCH_BYTES]),
            in_flight: Cell::new(0),
            connections: Cell::new(0),
            opened: Cell::new(0),
            warm_up: Cell::default(),
            last_failure: RefCell::default(),
        })
    }

    /// Returns the nanoseconds on the run's clock.
    #[inline]
    pub fn now_ns(&self) -> u64 {
        self.clock.now_ns()
    }

    pub fn clock(&self) -> Clock {
        self.clock
    }

    /// Returns the shared read buffer. Its content is undefined after an await.
    pub fn scratch(&self) -> &RefCell<Vec<u8>> {
        &self.scratch
    }

    /// Returns the random number generator, for templates.
    pub fn random(&self) -> &RefCell<Random> {
        &self.random
    }

    pub fn record(&self) -> &RefCell<Record> {
        &self.record
    }

    /// Returns the queue of lanes that wait for their intended start.
    pub fn pacer(&self) -> &Pacer {
        &self.pacer
    }

    /// Returns the number of requests in flight.
    pub fn in_flight(&self) -> u64 {
        self.in_flight.get()
    }

    /// Returns the number of open connections, and of all connections opened so far.
    pub fn connections(&self) -> (u64, u64) {
        (self.connections.get(), self.opened.get())
    }

    /// Returns the warm-up's counts since the last call.
    pub fn take_warm_up(&self) -> Tally {
        self.warm_up.take()
    }

    /// Returns the latest failure since the last call.
    pub fn take_last_failure(&self) -> Option<Failure> {
        self.last_failure.borrow_mut().take()
    }

    /// Fails the requests that exceed their time limit; called every [`TICK`].
    pub fn expire(&self) {
        self.wheel.advance(self.now_ns() / 1_000_000);
    }

    /// Counts a connection as open until the returned value is dropped, and records the time to
    /// open it.
    pub fn connected(self: &Rc<Self>, took_ns: u64) -> OpenConnection {
        self.connections.set(self.connections.get() + 1);
        self.opened.set(self.opened.get() + 1);
        self.record.borrow_mut().connected(took_ns);
        OpenConnection(Rc::clone(self))
    }

    /// Waits until a lane carries load; `None` if it does not again in this phase.
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
            // Other lanes may have claimed the last request in the meantime.
            if !phase.has_more(now_ns) {
                return None;
            }
            tokio::time::sleep((at - since).min(TICK)).await;
        }
    }

    /// Waits according to the pace and claims the next request of a phase; `None` if none is left.
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

    /// Records the outcome of a request.
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

    /// Runs an exchange with the request timeout.
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

/// Guard that counts a connection as open.
#[derive(Debug)]
pub struct OpenConnection(Rc<Worker>);

impl Drop for OpenConnection {
    fn drop(&mut self) {
        self.0.connections.set(self.0.connections.get() - 1);
    }
}

/// Runs one lane through all phases: waits for its next request, performs the exchange, and records
/// it. `number` is the lane's number among all lanes of the run.
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

/// Pauses, so that a target that refuses connections does not cause a busy loop.
async fn pause_after_refusal() {
    const PAUSE: Duration = Duration::from_millis(10);
    tokio::time::sleep(PAUSE).await;
}
