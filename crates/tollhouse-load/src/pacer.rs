//! Lets the lanes of one worker wait for their intended starts: one kernel timer for all of them.
//!
//! Lanes take their turns in order, so those who wait are in order too, and the timer is only ever set
//! for the first of them.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::poll_fn;
use std::io;
use std::task::{Poll, Waker};

use crate::clock::{Clock, PreciseTimer};

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
        // An error here would be a broken descriptor; the worker's tick finds the late lanes.
        if waiting.len() == 1 {
            let _ = self.timer.set(at_ns);
        }
    }

    /// Wakes lanes as they are due; runs as a task beside them.
    ///
    /// # Errors
    /// What the kernel says about the timer.
    pub async fn run(&self) -> io::Result<()> {
        loop {
            self.timer.elapsed().await?;
            self.wake_due()?;
        }
    }

    fn wake_due(&self) -> io::Result<()> {
        let now_ns = self.clock.now_ns();
        let mut waiting = self.waiting.borrow_mut();
        while let Some((at_ns, _)) = waiting.front() {
            if *at_ns > now_ns {
                return self.timer.set(*at_ns);
            }
            if let Some((_, waker)) = waiting.pop_front() {
                waker.wake();
            }
        }
        Ok(())
    }

    /// Wakes everybody, for good: the run is over.
    pub fn release(&self) {
        self.is_over.set(true);
        for (_, waker) in self.waiting.borrow_mut().drain(..) {
            waker.wake();
        }
    }
}
