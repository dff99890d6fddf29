//! Waiting to a tenth of a millisecond: a queue of deadlines of one worker over one kernel timer.
//!
//! The runtime's own timer has ticks of a millisecond and rounds up, which would add a millisecond and
//! a half to an answer after 20 ms. One thread.

use std::cell::{Cell, RefCell};
use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use tollhouse_net::clock::{Clock, PreciseTimer};

/// Deadlines are met at multiples of this: at most 10,000 wake-ups a second, however many there are, for
/// 50 µs of lateness on average.
const GRID_NS: u64 = 100_000;

/// All deadlines of one worker.
#[derive(Debug)]
pub(super) struct Deadlines {
    clock: Clock,
    queue: RefCell<Queue>,
    timer: PreciseTimer,
    /// What the timer is set to; `u64::MAX` when it is not.
    armed_ns: Cell<u64>,
}

impl Deadlines {
    /// None yet. To be called on the runtime that waits for them.
    ///
    /// # Errors
    /// When the kernel gives no timer.
    pub(super) fn new(clock: Clock) -> io::Result<Self> {
        let (queue, armed_ns) = (RefCell::default(), Cell::new(u64::MAX));
        Ok(Self { clock, queue, timer: PreciseTimer::new(clock)?, armed_ns })
    }

    /// The time that deadlines are told in.
    #[inline]
    pub(super) fn now_ns(&self) -> u64 {
        self.clock.now_ns()
    }

    /// Ready at `due_ns`, or at once when that is past.
    pub(super) fn until(&self, due_ns: u64) -> Until<'_> {
        Until { deadlines: self, due_ns, is_queued: false }
    }

    /// Wakes whoever is due, for ever.
    ///
    /// # Errors
    /// When the timer breaks.
    pub(super) async fn run(&self) -> io::Result<()> {
        loop {
            self.timer.elapsed().await?;
            self.armed_ns.set(u64::MAX);
            let next = self.queue.borrow_mut().wake(self.now_ns());
            if let Some(due_ns) = next {
                self.arm(due_ns)?;
            }
        }
    }

    fn push(&self, due_ns: u64, waker: Waker) -> io::Result<()> {
        self.queue.borrow_mut().push(due_ns, waker);
        self.arm(due_ns)
    }

    /// Sets the timer unless it fires sooner anyway.
    fn arm(&self, due_ns: u64) -> io::Result<()> {
        let at_ns = due_ns.div_ceil(GRID_NS).saturating_mul(GRID_NS);
        if at_ns < self.armed_ns.get() {
            self.timer.set(at_ns)?;
            self.armed_ns.set(at_ns);
        }
        Ok(())
    }
}

/// Waits for a deadline.
#[derive(Debug)]
pub(super) struct Until<'a> {
    deadlines: &'a Deadlines,
    due_ns: u64,
    is_queued: bool,
}

impl Future for Until<'_> {
    type Output = io::Result<()>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.deadlines.now_ns() >= self.due_ns {
            return Poll::Ready(Ok(()));
        }
        if !self.is_queued {
            self.is_queued = true;
            self.deadlines.push(self.due_ns, context.waker().clone())?;
        }
        Poll::Pending
    }
}

/// Deadlines by time. A task that is gone before its deadline leaves its waker here until then.
#[derive(Debug, Default)]
struct Queue {
    entries: BinaryHeap<Entry>,
    /// Keeps the order of equal deadlines.
    pushed: u64,
}

#[derive(Debug)]
struct Entry {
    due_ns: u64,
    number: u64,
    waker: Waker,
}

impl Queue {
    fn push(&mut self, due_ns: u64, waker: Waker) {
        self.entries.push(Entry { due_ns, number: self.pushed, waker });
        self.pushed += 1;
    }

    /// Wakes all that are due; returns the next deadline.
    fn wake(&mut self, now_ns: u64) -> Option<u64> {
        loop {
            let due_ns = self.entries.peek()?.due_ns;
            if due_ns > now_ns {
                return Some(due_ns);
            }
            self.entries.pop()?.waker.wake();
        }
    }
}

impl Ord for Entry {
    /// The earliest is the greatest, which a heap gives first.
    fn cmp(&self, other: &Self) -> Ordering {
        (other.due_ns, other.number).cmp(&(self.due_ns, self.number))
    }
}

impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Entry {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Entry {}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};
    use std::task::Wake;

    use super::*;

    struct Named(u32, Arc<Mutex<Vec<u32>>>);

    impl Wake for Named {
        fn wake(self: Arc<Self>) {
            self.1.lock().expect("no test panics with it").push(self.0);
        }
    }

    #[test]
    fn whoever_is_due_is_woken_in_order() {
        let woken = Arc::new(Mutex::new(Vec::new()));
        let mut queue = Queue::default();
        for (name, due_ns) in [(1, 30), (2, 10), (3, 20), (4, 10), (5, 40)] {
            queue.push(due_ns, Arc::new(Named(name, Arc::clone(&woken))).into());
        }
        let take = || std::mem::take(&mut *woken.lock().expect("no test panics with it"));
        assert_eq!((queue.wake(9), take()), (Some(10), vec![]));
        assert_eq!((queue.wake(20), take()), (Some(30), vec![2, 4, 3]));
        assert_eq!((queue.wake(40), take()), (None, vec![1, 5]));
        assert_eq!((queue.wake(50), take()), (None, vec![]));
    }
}
