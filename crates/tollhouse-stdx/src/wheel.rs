//! A coarse timer wheel for one thread: one entry a task, with a deadline that moves all the time.
//!
//! Moving a deadline further away, the common case, is a store: the entry stays where it is queued
//! and is queued again only when its slot comes round. Entries hang in their slot by links, so
//! that a timer can be queued, moved and dropped without allocating and memory follows the number
//! of timers, not their history. The wheel never looks at a clock: whoever owns it says what time
//! it is. A timer fires at most one tick late and never early.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::rc::Rc;
use std::task::Waker;
use std::time::Duration;

/// Slots of a wheel. With [`TICK_DEFAULT`] one turn is ten seconds, so that the usual deadline of
/// a minute is looked at six times, and an idle connection costs next to nothing.
pub const SLOTS: usize = 1_024;

/// The tick meant for connection deadlines, which are seconds.
pub const TICK_DEFAULT: Duration = Duration::from_millis(10);

const NEVER_MS: u64 = u64::MAX;
const NIL: u32 = u32::MAX;
const WORD_BITS: usize = u64::BITS as usize;
const WORDS: usize = SLOTS / WORD_BITS;

/// The wheel of one thread.
pub struct Wheel {
    inner: Rc<Inner>,
}

impl Wheel {
    /// An empty wheel at time zero. A tick shorter than a millisecond counts as one.
    pub fn new(tick: Duration) -> Self {
        let tick_ms = u64::try_from(tick.as_millis()).unwrap_or(NEVER_MS).max(1);
        Self { inner: Rc::new(Inner::new(tick_ms)) }
    }

    /// A disarmed timer. Takes the place of a dropped one before it allocates.
    pub fn timer(&self) -> Timer {
        Timer { entry: self.inner.take_entry(), wheel: Rc::clone(&self.inner) }
    }

    /// Wakes every timer whose deadline is at or before `now_ms` and whose tick has passed.
    /// Time that runs backwards does nothing.
    pub fn advance(&self, now_ms: u64) {
        self.inner.advance(now_ms);
    }

    /// How many milliseconds after `now_ms` the wheel wants [`advance`](Self::advance) to be
    /// called; `None` when nothing is queued. Zero when it is overdue.
    ///
    /// The answer counts as announced: a timer queued for an earlier tick afterwards wakes the
    /// waker given to [`set_ticker`](Self::set_ticker).
    pub fn next_tick(&self, now_ms: u64) -> Option<u64> {
        let tick = self.inner.next_occupied_tick();
        self.inner.announced_tick.set(tick.unwrap_or(NEVER_MS));
        tick.map(|tick| tick.saturating_mul(self.inner.tick_ms).saturating_sub(now_ms))
    }

    /// Says whom to wake when a timer needs an earlier tick than the last announced one.
    pub fn set_ticker(&self, waker: &Waker) {
        replace_waker(&self.inner.ticker, waker);
    }

    /// How many timers are queued, disarmed ones not yet swept included.
    pub fn queued_len(&self) -> usize {
        self.inner.queued.get()
    }
}

impl fmt::Debug for Wheel {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Wheel").field("queued", &self.queued_len()).finish_non_exhaustive()
    }
}

/// A deadline of one task; dropping it takes it off the wheel.
pub struct Timer {
    entry: Rc<Entry>,
    wheel: Rc<Inner>,
}

impl Timer {
    /// Sets the deadline. Two stores at most when it moves away; queued again when it comes closer.
    #[inline]
    pub fn arm(&self, deadline_ms: u64) {
        self.entry.deadline_ms.set(deadline_ms);
        if deadline_ms < self.entry.queued_until_ms.get() {
            self.wheel.requeue(&self.entry);
        }
    }

    /// Has the task woken once at `at_ms` besides, whatever its deadline is or becomes; see [`Self::cancel_nudge`].
    #[inline]
    pub fn nudge(&self, at_ms: u64) {
        self.entry.nudge_ms.set(at_ms);
        if at_ms < self.entry.queued_until_ms.get() {
            self.wheel.requeue(&self.entry);
        }
    }

    /// Takes a nudge back that has not come.
    #[inline]
    pub fn cancel_nudge(&self) {
        self.entry.nudge_ms.set(NEVER_MS);
    }

    /// Takes the deadline away; the entry leaves its slot when that comes round.
    #[inline]
    pub fn disarm(&self) {
        self.entry.deadline_ms.set(NEVER_MS);
    }

    /// Whether a deadline is set.
    pub fn is_armed(&self) -> bool {
        self.entry.deadline_ms.get() != NEVER_MS
    }

    /// The deadline, when one is set.
    pub fn deadline_ms(&self) -> Option<u64> {
        Some(self.entry.deadline_ms.get()).filter(|deadline| *deadline != NEVER_MS)
    }

    /// Says whom to wake at the deadline; clones the waker only when it is another one.
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
    /// `NEVER_MS` when disarmed.
    deadline_ms: Cell<u64>,
    /// `NEVER_MS` when none is wanted.
    nudge_ms: Cell<u64>,
    /// When the slot it hangs in is looked at; `NEVER_MS` when it hangs in none.
    queued_until_ms: Cell<u64>,
    index: u32,
    previous: Cell<u32>,
    next: Cell<u32>,
    waker: RefCell<Option<Waker>>,
}

impl Entry {
    /// The earlier of deadline and nudge.
    fn due_ms(&self) -> u64 {
        self.deadline_ms.get().min(self.nudge_ms.get())
    }
}

struct Inner {
    tick_ms: u64,
    /// The tick up to which everything has been looked at. Whatever is queued hangs in one of the
    /// `SLOTS - 1` ticks after it, so that slot and tick determine each other.
    current_tick: Cell<u64>,
    announced_tick: Cell<u64>,
    ticker: RefCell<Option<Waker>>,
    queued: Cell<usize>,
    /// First entry of every slot.
    heads: Box<[Cell<u32>]>,
    /// One bit a slot: whether its list has an entry.
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
        // The waker may own what is being dropped around us: it goes after the last borrow.
        let waker = entry.waker.borrow_mut().take();
        self.free.borrow_mut().push(entry.index);
        drop(waker);
    }

    /// Hangs the entry where its deadline belongs, wherever it hung before.
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

    /// Empties one slot: wakes what is due, queues again what has moved, forgets the disarmed.
    /// Nothing is borrowed while a waker runs, and nothing can be queued into the slot of the
    /// current tick, so that the loop ends.
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
                // The deadline is still to come where only the nudge was due.
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

    /// The first tick after the current one that has an entry.
    fn next_occupied_tick(&self) -> Option<u64> {
        if self.queued.get() == 0 {
            return None;
        }
        let first = self.current_tick.get() + 1;
        let start = slot_of(first);
        let ahead_of_start = u64::MAX << (start % WORD_BITS);
        // The word of the start comes twice: first its upper bits, at the end its lower ones.
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
    // The remainder is below `SLOTS`, so that nothing is cut off.
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
