//! Coarse timer wheel for one thread, with one entry per task and deadlines that move often.
//!
//! Moving a deadline further away, the common case, is a store: the entry stays in its slot and is
//! queued again only when that slot is reached. Entries are linked lists within slots, so that
//! timers are queued, moved and dropped without allocation, and memory depends on the current
//! number of timers. The wheel never reads a clock: its owner passes the time. A timer fires at
//! most one tick late and never early.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::rc::Rc;
use std::task::Waker;
use std::time::Duration;

/// Number of slots. With [`TICK_DEFAULT`] one turn takes ten seconds, so that a usual deadline of a
/// minute is checked six times and an idle connection costs almost nothing.
pub const SLOTS: usize = 1_024;

/// Tick for connection deadlines, which are seconds long.
pub const TICK_DEFAULT: Duration = Duration::from_millis(10);

const NEVER_MS: u64 = u64::MAX;
const NIL: u32 = u32::MAX;
const WORD_BITS: usize = u64::BITS as usize;
const WORDS: usize = SLOTS / WORD_BITS;

/// Timer wheel of one thread, with a fixed tick.
pub struct Wheel {
    inner: Rc<Inner>,
}

impl Wheel {
    /// Creates an empty wheel at time zero. Ticks shorter than a millisecond are rounded up to one.
    pub fn new(tick: Duration) -> Self {
        let tick_ms = u64::try_from(tick.as_millis()).unwrap_or(NEVER_MS).max(1);
        Self { inner: Rc::new(Inner::new(tick_ms)) }
    }

    /// Creates a disarmed timer. Reuses the entry of a dropped timer if possible, and allocates
    /// otherwise.
    pub fn timer(&self) -> Timer {
        Timer { entry: self.inner.take_entry(), wheel: Rc::clone(&self.inner) }
    }

    /// Wakes every timer whose deadline is at or before `now_ms` and whose tick has passed. Has no
    /// effect if the time runs backwards.
    pub fn advance(&self, now_ms: u64) {
        self.inner.advance(now_ms);
    }

    /// Returns the milliseconds after `now_ms` until [`advance`](Self::advance) should be called;
    /// `None` if nothing is queued, zero if it is overdue.
    ///
    /// The result counts as announced: a timer queued later for an earlier tick wakes the waker of
    /// [`set_ticker`](Self::set_ticker).
    pub fn next_tick(&self, now_ms: u64) -> Option<u64> {
        let tick = self.inner.next_occupied_tick();
        self.inner.announced_tick.set(tick.unwrap_or(NEVER_MS));
        tick.map(|tick| tick.saturating_mul(self.inner.tick_ms).saturating_sub(now_ms))
    }

    /// Sets the waker to use when a timer needs an earlier tick than the last announced one.
    pub fn set_ticker(&self, waker: &Waker) {
        replace_waker(&self.inner.ticker, waker);
    }

    /// Returns the number of queued timers, including disarmed ones not yet removed.
    pub fn queued_len(&self) -> usize {
        self.inner.queued.get()
    }
}

impl fmt::Debug for Wheel {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Wheel").field("queued", &self.queued_len()).finish_non_exhaustive()
    }
}

/// Deadline of one task; removed from the wheel on drop.
pub struct Timer {
    entry: Rc<Entry>,
    wheel: Rc<Inner>,
}

impl Timer {
    /// Sets the deadline. Costs at most two stores if it moves away; the timer is queued again if
    /// it comes closer.
    #[inline]
    pub fn arm(&self, deadline_ms: u64) {
        self.entry.deadline_ms.set(deadline_ms);
        if deadline_ms < self.entry.queued_until_ms.get() {
            self.wheel.requeue(&self.entry);
        }
    }

    /// Wakes the task once at `at_ms` in addition, regardless of the deadline; see
    /// [`Self::cancel_nudge`].
    #[inline]
    pub fn nudge(&self, at_ms: u64) {
        self.entry.nudge_ms.set(at_ms);
        if at_ms < self.entry.queued_until_ms.get() {
            self.wheel.requeue(&self.entry);
        }
    }

    #[inline]
    pub fn cancel_nudge(&self) {
        self.entry.nudge_ms.set(NEVER_MS);
    }

    /// Removes the deadline; the entry leaves its slot when that is reached.
    #[inline]
    pub fn disarm(&self) {
        self.entry.deadline_ms.set(NEVER_MS);
    }

    pub fn is_armed(&self) -> bool {
        self.entry.deadline_ms.get() != NEVER_MS
    }

    pub fn deadline_ms(&self) -> Option<u64> {
        Some(self.entry.deadline_ms.get()).filter(|deadline| *deadline != NEVER_MS)
    }

    /// Sets the waker to use at the deadline; clones it only if it differs from the current one.
    #[inline]
    pub fn set_waker(&self, waker: &Waker) {
        replace_waker(&self.entry.waker, waker);
    }

    /// Whether the deadline is at or before `now_ms`; false for a disarmed timer.
    #[inline]
    pub fn expired(&self, now_ms: u64) -> bool {
        let deadline_ms = self.entry.deadline_ms.get();
        deadline_ms <= now_ms && deadline_ms != NEVER_MS
    }
}

impl Drop for Timer {
    fn drop(&mut self) {
        self.wheel.release_entry(&self.entry);
    }
}

impl fmt::Debug for Timer {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Timer").field("deadline_ms", &self.deadline_ms()).finish_non_exhaustive()
    }
}

struct Entry {
    /// Deadline in milliseconds; `NEVER_MS` if none is set.
    deadline_ms: Cell<u64>,
    /// Time of a pending nudge in milliseconds; `NEVER_MS` if none is set.
    nudge_ms: Cell<u64>,
    /// Time at which its slot is processed; `NEVER_MS` if not queued.
    queued_until_ms: Cell<u64>,
    index: u32,
    previous: Cell<u32>,
    next: Cell<u32>,
    waker: RefCell<Option<Waker>>,
}

impl Entry {
    /// Returns the next time to wake the task: the deadline, or an earlier additional wake-up (see
    /// [`Timer::nudge`]).
    fn due_ms(&self) -> u64 {
        self.deadline_ms.get().min(self.nudge_ms.get())
    }
}

struct Inner {
    tick_ms: u64,
    /// Tick up to which all slots have been processed. Every queued entry is in one of the
    /// `SLOTS - 1` ticks after it, so that slot and tick determine each other.
    current_tick: Cell<u64>,
    announced_tick: Cell<u64>,
    ticker: RefCell<Option<Waker>>,
    queued: Cell<usize>,
    /// Index of the first entry in each slot.
    heads: Box<[Cell<u32>]>,
    /// Bitmap of the slots whose list has an entry.
    occupied: [Cell<u64>; WORDS],
    entries: RefCell<Vec<Rc<Entry>>>,
    free: RefCell<Vec<u32>>,
}

impl Inner {
    fn new(tick_ms: u64) -> Self {
        Self {
            tick_ms,
            current_tick: Cell::new(0),
            announced_tick: Cell::new(NEVER_MS),
            ticker: RefCell::new(None),
            queued: Cell::new(0),
            heads: vec![Cell::new(NIL); SLOTS].into_boxed_slice(),
            occupied: [const { Cell::new(0) }; WORDS],
            entries: RefCell::new(Vec::new()),
            free: RefCell::new(Vec::new()),
        }
    }

    fn take_entry(&self) -> Rc<Entry> {
        let mut entries = self.entries.borrow_mut();
        if let Some(index) = self.free.borrow_mut().pop() {
            return Rc::clone(&entries[index as usize]);
        }
        let index = u32::try_from(entries.len()).ok().filter(|index| *index != NIL);
        let entry = Rc::new(Entry {
            deadline_ms: Cell::new(NEVER_MS),
            nudge_ms: Cell::new(NEVER_MS),
            queued_until_ms: Cell::new(NEVER_MS),
            index: index.expect("memory ends before four billion timers do"),
            previous: Cell::new(NIL),
            next: Cell::new(NIL),
            waker: RefCell::new(None),
        });
        entries.push(Rc::clone(&entry));
        entry
    }

    fn release_entry(&self, entry: &Entry) {
        self.unlink(entry);
        entry.deadline_ms.set(NEVER_MS);
        entry.nudge_ms.set(NEVER_MS);
        // The waker may own the value whose drop is in progress, so that it is dropped after the
        // last borrow.
        let waker = entry.waker.borrow_mut().take();
        self.free.borrow_mut().push(entry.index);
        drop(waker);
    }

    /// Moves the entry to the slot of its deadline.
    #[cold]
    fn requeue(&self, entry: &Entry) {
        self.unlink(entry);
        let current = self.current_tick.get();
        let due = entry.due_ms().div_ceil(self.tick_ms);
        let tick = due.clamp(current + 1, current + SLOTS as u64 - 1);
        self.link(entry, tick);
        if tick < self.announced_tick.get() {
            self.announced_tick.set(tick);
            let ticker = self.ticker.borrow().clone();
            if let Some(ticker) = ticker {
                ticker.wake();
            }
        }
    }

    fn link(&self, entry: &Entry, tick: u64) {
        let slot = slot_of(tick);
        let head = self.heads[slot].replace(entry.index);
        entry.previous.set(NIL);
        entry.next.set(head);
        if head != NIL {
            self.entries.borrow()[head as usize].previous.set(entry.index);
        }
        let word = &self.occupied[slot / WORD_BITS];
        word.set(word.get() | 1 << (slot % WORD_BITS));
        entry.queued_until_ms.set(tick.saturating_mul(self.tick_ms));
        self.queued.set(self.queued.get() + 1);
    }

    fn unlink(&self, entry: &Entry) {
        let queued_until_ms = entry.queued_until_ms.replace(NEVER_MS);
        if queued_until_ms == NEVER_MS {
            return;
        }
        let slot = slot_of(queued_until_ms / self.tick_ms);
        let (previous, next) = (entry.previous.get(), entry.next.get());
        let entries = self.entries.borrow();
        if next != NIL {
            entries[next as usize].previous.set(previous);
        }
        if previous == NIL {
            self.heads[slot].set(next);
        } else {
            entries[previous as usize].next.set(next);
        }
        if self.heads[slot].get() == NIL {
            let word = &self.occupied[slot / WORD_BITS];
            word.set(word.get() & !(1 << (slot % WORD_BITS)));
        }
        self.queued.set(self.queued.get() - 1);
    }

    fn advance(&self, now_ms: u64) {
        let target = now_ms / self.tick_ms;
        while let Some(tick) = self.next_occupied_tick().filter(|tick| *tick <= target) {
            self.current_tick.set(tick);
            self.drain(slot_of(tick), now_ms);
        }
        self.current_tick.set(self.current_tick.get().max(target));
    }

    /// Empties one slot: wakes due timers, queues moved ones again, removes disarmed ones. Nothing
    /// is borrowed while a waker runs, and nothing can be queued into the slot of the current tick,
    /// so that the loop ends.
    fn drain(&self, slot: usize, now_ms: u64) {
        loop {
            let head = self.heads[slot].get();
            if head == NIL {
                return;
            }
            let entry = Rc::clone(&self.entries.borrow()[head as usize]);
            self.unlink(&entry);
            let due_ms = entry.due_ms();
            if due_ms <= now_ms {
                if entry.nudge_ms.get() <= now_ms {
                    entry.nudge_ms.set(NEVER_MS);
                }
                // Only the nudge was due; the deadline is still pending.
                if entry.deadline_ms.get() > now_ms && entry.due_ms() != NEVER_MS {
                    self.requeue(&entry);
                }
                let waker = entry.waker.borrow().clone();
                if let Some(waker) = waker {
                    waker.wake();
                }
            } else if due_ms != NEVER_MS {
                self.requeue(&entry);
            }
        }
    }

    /// Returns the first tick after the current one that has an entry.
    fn next_occupied_tick(&self) -> Option<u64> {
        if self.queued.get() == 0 {
            return None;
        }
        let first = self.current_tick.get() + 1;
        let start = slot_of(first);
        let ahead_of_start = u64::MAX << (start % WORD_BITS);
        // The word of the start is visited twice: first its upper bits, at the end its lower ones.
        (0..=WORDS).find_map(|step| {
            let index = (start / WORD_BITS + step) % WORDS;
            let mask = match step {
                0 => ahead_of_start,
                WORDS => !ahead_of_start,
                _ => u64::MAX,
            };
            let bits = self.occupied[index].get() & mask;
            let slot = index * WORD_BITS + bits.trailing_zeros() as usize;
            (bits != 0).then(|| first + ((slot + SLOTS - start) % SLOTS) as u64)
        })
    }
}

fn slot_of(tick: u64) -> usize {
    // The cast is lossless, because the remainder is below `SLOTS`.
    (tick % SLOTS as u64) as usize
}

fn replace_waker(place: &RefCell<Option<Waker>>, waker: &Waker) {
    if place.borrow().as_ref().is_some_and(|stored| stored.will_wake(waker)) {
        return;
    }
    let old = place.borrow_mut().replace(waker.clone());
    drop(old);
}

#[cfg(test)]
mod tests;
