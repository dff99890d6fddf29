//! Process that holds connections: opens its share at its rate, one task per connection, and counts
//! the outcomes. Everything runs on one thread; dropping the runtime closes all connections.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use tokio::time::{MissedTickBehavior, interval, sleep_until, timeout};

use crate::connect::Stream;
use crate::connections::message::{FinalReport, HoldOrder, Loss, Tally};
use crate::connections::opening::{Opener, loss_of};
use crate::connections::ping::{Answer, Pinger};
use crate::connections::plan::Ping;
use crate::distribution::{Distribution, histogram};
use crate::error::BenchError;
use crate::result::FirstError;

/// Interval at which due connections are started.
const RAMP_TICK: Duration = Duration::from_millis(2);
/// Maximum number of concurrent connection attempts, so that an unresponsive server does not
/// collect the whole share in its accept queue.
const CONNECTING_MAX: u64 = 1_024;
/// Number of consecutive failures after which opening is abandoned.
const FAILURES_IN_ROW_MAX: u64 = 1_000;

pub(super) struct Holder {
    order: HoldOrder,
    opener: Opener,
    pinger: Pinger,
    began: Cell<Instant>,
    tally: RefCell<Tally>,
    failures_in_row: Cell<u64>,
    has_begun_all: Cell<bool>,
    connect: RefCell<Histogram<u64>>,
    answered: RefCell<Histogram<u64>>,
}

impl Holder {
    pub(super) fn new(order: HoldOrder) -> Result<Self, BenchError> {
        let opener = Opener::new(&order)?;
        let pinger = match order.ping {
            Some(ping) if ping.is_http => Pinger::requests(opener.target()),
            _ => Pinger::bytes(),
        };
        Ok(Self {
            pinger,
            opener,
            order,
            began: Cell::new(Instant::now()),
            tally: RefCell::default(),
            failures_in_row: Cell::new(0),
            has_begun_all: Cell::new(false),
            connect: RefCell::new(histogram()),
            answered: RefCell::new(histogram()),
        })
    }

    /// Opens this holder's share of the connections, each in a task of the current local set.
    pub(super) async fn open_all(self: Rc<Self>) {
        self.began.set(Instant::now());
        let mut tick = interval(RAMP_TICK);
        tick.set_missed_tick_behavior(MissedTickBehavior::Skip);
        while self.tally.borrow().attempted < self.order.connections {
            tick.tick().await;
            if self.failures_in_row.get() >= FAILURES_IN_ROW_MAX {
                self.tally.borrow_mut().gave_up = true;
                break;
            }
            self.begin_due();
        }
        self.has_begun_all.set(true);
    }

    /// Starts the connections that are due by now.
    fn begin_due(self: &Rc<Self>) {
        let due = self.began.get().elapsed().as_secs_f64() * self.order.rate;
        // The cast saturates; a share is far below the limit.
        let due = (due as u64).min(self.order.connections);
        loop {
            let mut tally = self.tally.borrow_mut();
            if tally.attempted >= due || tally.connecting >= CONNECTING_MAX {
                return;
            }
            let number = tally.attempted;
            tally.attempted += 1;
            tally.connecting += 1;
            drop(tally);
            tokio::task::spawn_local(Rc::clone(self).connection(number));
        }
    }

    async fn connection(self: Rc<Self>, number: u64) {
        let from = Instant::now();
        let late = || (Loss::TimedOut, format!("no connection within {:?}", self.order.timeout));
        // Boxed, because otherwise the state of opening would be kept as long as the connection.
        let opened = timeout(self.order.timeout, Box::pin(self.opener.open())).await;
        let mut stream = match opened.unwrap_or_else(|_| Err(late())) {
            Ok(stream) => stream,
            Err((loss, message)) => return self.failed(loss, message),
        };
        self.established(from.elapsed());
        let (loss, message) = match self.order.ping {
            None => ended(self.pinger.until_end(&mut stream).await.as_ref()),
            Some(ping) => self.keep_alive(&mut stream, ping, number).await,
        };
        self.lost(loss, message);
    }

    /// Sends pings until one is not answered or the connection ends.
    async fn keep_alive(&self, stream: &mut Stream, ping: Ping, number: u64) -> (Loss, String) {
        // Spreads the pings over the interval, because connections opened at the same instant would
        // all be due at the same instant.
        let spread = ping.every.mul_f64((number % 1_000) as f64 / 1_000.0);
        let mut due = tokio::time::Instant::now() + spread;
        loop {
            tokio::select! {
                biased;
                end = self.pinger.until_end(stream) => return ended(end.as_ref()),
                () = sleep_until(due) => {}
            }
            let from = Instant::now();
            let answer = timeout(self.order.timeout, self.pinger.ping(stream)).await;
            let (loss, message) = match answer {
                Ok(Ok(())) => {
                    self.tally.borrow_mut().pings += 1;
                    self.answered.borrow_mut().saturating_record(nanoseconds(from.elapsed()));
                    // A late ping is not caught up: no connection sends two at once.
                    due = next_due(due, ping.every, tokio::time::Instant::now());
                    continue;
                }
                Ok(Err(Answer::Failed(error))) => ended(Some(&error)),
                Ok(Err(Answer::Wrong)) => {
                    (Loss::Ping, "the answer to a ping is not the expected one".to_owned())
                }
                Err(_) => (
                    Loss::Ping,
                    format!("no answer to a ping arrived within {:?}", self.order.timeout),
                ),
            };
            let mut tally = self.tally.borrow_mut();
            tally.pings += 1;
            tally.pings_failed += 1;
            return (loss, message);
        }
    }

    fn established(&self, took: Duration) {
        self.failures_in_row.set(0);
        self.connect.borrow_mut().saturating_record(nanoseconds(took));
        let mut tally = self.tally.borrow_mut();
        tally.connecting -= 1;
        tally.established += 1;
        tally.open += 1;
    }

    fn failed(&self, loss: Loss, message: String) {
        self.failures_in_row.set(self.failures_in_row.get() + 1);
        let mut tally = self.tally.borrow_mut();
        tally.connecting -= 1;
        *tally.failed.entry(loss).or_default() += 1;
        self.note(&mut tally, message);
    }

    fn lost(&self, loss: Loss, message: String) {
        let mut tally = self.tally.borrow_mut();
        tally.open -= 1;
        *tally.lost.entry(loss).or_default() += 1;
        self.note(&mut tally, message);
    }

    /// Records an error with its time; only the first is kept.
    fn note(&self, tally: &mut Tally, message: String) {
        if tally.first_error.is_none() {
            let at_ns = nanoseconds(self.began.get().elapsed());
            tally.first_error = Some(FirstError { at_ns, open: tally.open, message });
        }
    }

    pub(super) fn tally(&self) -> Tally {
        let mut tally = self.tally.borrow().clone();
        tally.opened = u64::from(self.has_begun_all.get() && tally.connecting == 0);
        tally
    }

    /// Returns the final counts and distributions.
    pub(super) fn done(&self) -> FinalReport {
        FinalReport {
            tally: self.tally(),
            connect: Distribution::from_histogram(&self.connect.borrow()),
            ping: Distribution::from_histogram(&self.answered.borrow()),
        }
    }
}

/// Returns the first instant of a schedule that is in the future.
fn next_due(
    due: tokio::time::Instant,
    every: Duration,
    now: tokio::time::Instant,
) -> tokio::time::Instant {
    let missed = now.saturating_duration_since(due).as_nanos() / every.as_nanos().max(1);
    due + every.saturating_mul(u32::try_from(missed + 1).unwrap_or(u32::MAX))
}

/// Classifies the end of an open connection.
fn ended(error: Option<&std::io::Error>) -> (Loss, String) {
    match error {
        None => (Loss::Closed, "the other end closed a held connection".to_owned()),
        Some(error) => match loss_of(error) {
            Loss::Closed => (Loss::Closed, "the other end closed a held connection".to_owned()),
            loss => (loss, format!("a held connection ended: {error}")),
        },
    }
}

fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signs_of_life_that_were_missed_are_left_out() {
        let start = tokio::time::Instant::now();
        let at = |milliseconds| start + Duration::from_millis(milliseconds);
        let every = Duration::from_millis(10);
        for (now, expected) in [(0, 10), (9, 10), (10, 20), (35, 40)] {
            assert_eq!(next_due(at(0), every, at(now)), at(expected), "{now}");
        }
    }
}
