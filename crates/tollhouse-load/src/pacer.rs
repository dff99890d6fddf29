//! Delays the lanes of a worker until their intended starts, with one kernel timer for all of them.
//!
//! Lanes take request numbers in order, so that the waiting lanes are ordered too, and the timer is
//! only set for the first. Whenever a lane has finished, it wakes those that are due by then
//! without the timer: at high rates, responses arrive more often than the timer could fire.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::poll_fn;
use std::io;
use std::task::{Poll, Waker};

use tollhouse_net::clock::{Clock, PreciseTimer};

/// Minimum timer delay. Setting the timer and waking up costs some microseconds, which at high
/// rates would dominate the generator's work. Requests leave late by at most this much, and the
/// reported slip includes it.
const QUANTUM_NS: u64 = 30_000;

/// Queue of lanes that wait for their intended start.
#[derive(Debug)]
pub struct Pacer {
    clock: Clock,
    timer: PreciseTimer,
    waiting: RefCell<VecDeque<(u64, Waker)>>,
    /// Whether the run has ended early; waiting then ends immediately.
    is_over: Cell<bool>,
}

impl Pacer {
    /// Creates a pacer; must be called inside the worker's runtime.
    ///
    /// # Errors
    /// If the process has no file descriptor left.
    pub fn new(clock: Clock) -> io::Result<Self> {
        let timer = PreciseTimer::new(clock)?;
        Ok(Self { clock, timer, waiting: RefCell::default(), is_over: Cell::new(false) })
    }

    /// Waits until an instant. Instants must not decrease from call to call.
    pub async fn until(&self, at_ns: u64) {
        let mut is_queued = false;
        poll_fn(|context| {
            if self.is_over.get() || self.clock.now_ns() >= at_ns {
                return Poll::Ready(());
            }
            // Queued once: only the timer task wakes a lane, and it has removed the lane from the
            // queue before.
            if !is_queued {
                is_queued = true;
                self.queue(at_ns, context.waker().clone());
            }
            Poll::Pending
        })
        .await;
    }

    fn queue(&self, at_ns: u64, waker: Waker) {
        let mut waiting = self.waiting.borrow_mut();
        waiting.push_back((at_ns, waker));
        if waiting.len() == 1 {
            self.set(at_ns);
        }
    }

    fn set(&self, at_ns: u64) {
        let soonest_ns = self.clock.now_ns() + QUANTUM_NS;
        // Fails only for a broken descriptor; finishing lanes then still wake the others.
        let _ = self.timer.set(at_ns.max(soonest_ns));
    }

    /// Wakes lanes when they are due; runs as a task beside them.
    ///
    /// # Errors
    /// If the kernel timer fails.
    pub async fn run(&self) -> io::Result<()> {
        loop {
            self.timer.elapsed().await?;
            self.wake_due(self.clock.now_ns());
            if let Some((at_ns, _)) = self.waiting.borrow().front() {
                self.set(*at_ns);
            }
        }
    }

    /// Wakes the lanes that are due at `now_ns`, an instant the caller has just read.
    #[inline]
    pub fn wake_due(&self, now_ns: u64) {
        let mut waiting = self.waiting.borrow_mut();
        while waiting.front().is_some_and(|(at_ns, _)| *at_ns <= now_ns) {
            if let Some((_, waker)) = waiting.pop_front() {
                waker.wake();
            }
        }
    }

    /// Wakes all lanes and ends all waiting, because the run is over.
    pub fn release(&self) {
        self.is_over.set(true);
        for (_, waker) in self.waiting.borrow_mut().drain(..) {
            waker.wake();
        }
    }
}
