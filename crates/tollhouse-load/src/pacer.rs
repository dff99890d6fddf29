//! Lets the lanes of one worker wait for their intended starts: one kernel timer for all of them.
//!
//! Lanes take their turns in order, so those who wait are in order too, and the timer is only ever set
//! for the first of them. Whenever a lane has finished, those that are due by then go without it: at high
//! rates answers come more often than a timer could fire.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::poll_fn;
use std::io;
use std::task::{Poll, Waker};

use tollhouse_net::clock::{Clock, PreciseTimer};

/// The timer is never set for sooner than this: setting it, being woken and looking costs some
/// microseconds, which at high rates would be the generator's main work. Requests go late by this much at
/// most, and the slip shows it.
const QUANTUM_NS: u64 = 30_000;

/// Where lanes wait.
#[derive(Debug)]
pub struct Pacer {
    clock: Clock,
    timer: PreciseTimer,
    waiting: RefCell<VecDeque<(u64, Waker)>>,
    /// Set when the run ends early: nobody waits any longer.
    is_over: Cell<bool>,
}

impl Pacer {
    /// A pacer on a clock; must be made inside of the worker's runtime.
    ///
    /// # Errors
    /// When the process has no descriptor left.
    pub fn new(clock: Clock) -> io::Result<Self> {
        let timer = PreciseTimer::new(clock)?;
        Ok(Self { clock, timer, waiting: RefCell::default(), is_over: Cell::new(false) })
    }

    /// Waits until an instant. Instants must not fall from call to call.
    pub async fn until(&self, at_ns: u64) {
        let mut is_queued = false;
        poll_fn(|context| {
            if self.is_over.get() || self.clock.now_ns() >= at_ns {
                return Poll::Ready(());
            }
            // A lane is woken only by the timer, whose task has taken it off the queue before.
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
        // An error here would be a broken descriptor; then lanes go when others have finished.
        let _ = self.timer.set(at_ns.max(soonest_ns));
    }

    /// Wakes lanes as they are due; runs as a task beside them.
    ///
    /// # Errors
    /// What the kernel says about the timer.
    pub async fn run(&self) -> io::Result<()> {
        loop {
            self.timer.elapsed().await?;
            self.wake_due(self.clock.now_ns());
            if let Some((at_ns, _)) = self.waiting.borrow().front() {
                self.set(*at_ns);
            }
        }
    }

    /// Wakes the lanes that are due, as of an instant that somebody has just looked at.
    #[inline]
    pub fn wake_due(&self, now_ns: u64) {
        let mut waiting = self.waiting.borrow_mut();
        while waiting.front().is_some_and(|(at_ns, _)| *at_ns <= now_ns) {
            if let Some((_, waker)) = waiting.pop_front() {
                waker.wake();
            }
        }
    }

    /// Wakes everybody, for good: the run is over.
    pub fn release(&self) {
        self.is_over.set(true);
        for (_, waker) in self.waiting.borrow_mut().drain(..) {
            waker.wake();
        }
    }
}
