//! Timer with a resolution of 0.1 ms: a queue of one worker's deadlines over one kernel timer.
//!
//! The runtime's own timer has ticks of one millisecond and rounds up, which would add 1.5 ms to a
//! response after 20 ms. Single-threaded.

use std::cell::{Cell, RefCell};
use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use tollhouse_net::clock::{Clock, PreciseTimer};

/// Grid of timer expirations: at most 10,000 wake-ups per second for any number of deadlines, at a
/// mean delay of 50 µs.
const GRID_NS: u64 = 100_000;

/// Pending responses of one worker, ordered by due time, with one kernel timer.
#[derive(Debug)]
pub(super) struct Deadlines {
    clock: Clock,
    queue: RefCell<Queue>,
    timer: PreciseTimer,
    /// Current expiration of the timer; `u64::MAX` if unset.
    armed_ns: Cell<u64>,
}

impl Deadlines {
    /// Creates an empty queue; must be called inside the worker's runtime.
    ///
    /// # Errors
    /// If the kernel timer cannot be created.
    pub(super) fn new(clock: Clock) -> io::Result<Self> {
        let (queue, armed_ns) = (RefCell::default(), Cell::new(u64::MAX));
        Ok(Self { clock, queue, timer: PreciseTimer::new(clock)?, armed_ns })
    }

    /// Returns the current time on the clock of the deadlines.
    #[inline]
    pub(super) fn now_ns(&self) -> u64 {
        self.clock.now_ns()
    }

    /// Returns a future that completes at `due_ns`, or at once if that is past.
    pub(super) fn until(&self, due_ns: u64) -> Until<'_> {
        Until { deadlines: self, due_ns, is_queued: false }
    }

    /// Wakes the tasks whose deadline has passed, forever.
    ///
    /// # Errors
    /// If the timer fails.
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

    /// Sets the timer, unless it already expires earlier.
    fn arm(&self, due_ns: u64) -> io::Result<()> {
        let at_ns = due_ns.div_ceil(GRID_NS).saturating_mul(GRID_NS);
        if at_ns < self.armed_ns.get() {
            self.timer.set(at_ns)?;
            self.armed_ns.set(at_ns);
        }
        Ok(())
    }
}

/// Future that completes at a deadline.
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

/// Deadlines ordered by time. The waker of a task that ends early stays in the queue until its
/// deadline.
#[derive(Debug, Default)]
struct Queue {
    entries: BinaryHeap<Entry>,
    /// Sequence number, which keeps equal deadlines in order.
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

    /// Wakes all due tasks; returns the next deadline.
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
    /// Compares in reverse, because the heap returns the greatest entry first.
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
