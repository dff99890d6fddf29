//! Timer wheel of pulses: returns those that are due.
//!
//! A single ring of slots, one tick each, longer than the longest expiry. A pulse is usually in one
//! slot. If it was rearmed for an earlier time, the entry in the later slot is stale and is dropped
//! when its tick comes. Entries due beyond the ring wait in the last slot and are postponed from
//! there.

use std::sync::Arc;

use crate::clock::milliseconds;
use crate::limits::{HEALTH_TICK, TTL_SECONDS_MAX, TTLS_TO_EXPIRY};
use crate::pulse::Pulse;

/// Number of slots: the longest expiry in ticks, rounded up.
const SLOTS: usize = 2_048;

/// Number of stale entries above which the ring may be swept. The bound keeps memory small during a
/// flood of short registrations.
const STALE_MIN: usize = 16 * 1024;

#[derive(Debug)]
pub(crate) struct Wheel {
    slots: Box<[Vec<Entry>]>,
    /// Last tick that was handed out.
    done_tick: u64,
    /// Lower bound of the first tick with an entry; `u64::MAX` if the ring is empty.
    next_tick: u64,
    len: usize,
    stale: usize,
}

/// A pulse in a slot. The entry is stale if the pulse has another due time.
#[derive(Debug)]
struct Entry {
    pulse: Arc<Pulse>,
    due_at_ms: u64,
}

fn tick_of(time_ms: u64) -> u64 {
    time_ms.div_ceil(milliseconds(HEALTH_TICK))
}

impl Wheel {
    pub(crate) fn new(now_ms: u64) -> Self {
        const LONGEST_MS: u64 = TTL_SECONDS_MAX as u64 * TTLS_TO_EXPIRY * 1_000;
        const TICK_MS: u64 = HEALTH_TICK.as_millis() as u64;
        const { assert!(LONGEST_MS / TICK_MS + 2 < SLOTS as u64, "the ring is too short") }
        let slots = (0..SLOTS).map(|_| Vec::new()).collect();
        let done_tick = now_ms / milliseconds(HEALTH_TICK);
        Self { slots, done_tick, next_tick: u64::MAX, len: 0, stale: 0 }
    }

    /// Returns the next time at which a pulse may be due; `None` if the ring is empty.
    pub(crate) fn next_due_ms(&self) -> Option<u64> {
        (self.next_tick < u64::MAX).then(|| self.next_tick * milliseconds(HEALTH_TICK))
    }

    /// Arms a pulse for a time; an earlier time that is already set stays.
    pub(crate) fn arm(&mut self, pulse: &Arc<Pulse>, due_at_ms: u64) {
        let armed_for = pulse.due_at_ms();
        if armed_for != 0 && armed_for <= due_at_ms {
            return;
        }
        pulse.set_due_at_ms(due_at_ms);
        self.place(Entry { pulse: Arc::clone(pulse), due_at_ms });
    }

    fn place(&mut self, entry: Entry) {
        let longest = self.done_tick + SLOTS as u64 - 1;
        let tick = tick_of(entry.due_at_ms).clamp(self.done_tick + 1, longest);
        self.slots[slot_of(tick)].push(entry);
        self.next_tick = self.next_tick.min(tick);
        self.len += 1;
    }

    /// Takes out all due pulses and disarms them.
    pub(crate) fn due(&mut self, now_ms: u64) -> Vec<Arc<Pulse>> {
        let now_tick = now_ms / milliseconds(HEALTH_TICK);
        if now_tick < self.next_tick {
            self.done_tick = self.done_tick.max(now_tick);
            return Vec::new();
        }
        let mut reached = Vec::new();
        // After a long sleep every slot is visited once only.
        let first = (self.done_tick + 1).max(now_tick.saturating_sub(SLOTS as u64 - 1));
        for tick in first..=now_tick {
            reached.append(&mut self.slots[slot_of(tick)]);
        }
        self.done_tick = self.done_tick.max(now_tick);
        self.len -= reached.len();
        let ahead = self.done_tick + 1..self.done_tick + SLOTS as u64;
        let first = ahead.into_iter().find(|tick| !self.slots[slot_of(*tick)].is_empty());
        self.next_tick = first.unwrap_or(u64::MAX);
        debug_assert_eq!(self.len == 0, self.next_tick == u64::MAX, "what is armed has its turn");
        let mut due = Vec::new();
        for entry in reached {
            let due_at_ms = entry.pulse.due_at_ms();
            if due_at_ms == 0 {
                self.stale = self.stale.saturating_sub(1);
            } else if due_at_ms != entry.due_at_ms {
                // A newer entry replaces this one.
            } else if tick_of(due_at_ms) > now_tick {
                self.place(entry);
            } else {
                entry.pulse.set_due_at_ms(0);
                due.push(entry.pulse);
            }
        }
        due
    }

    /// Disarms a pulse of a removed instance. The entry stays in its slot as a stale one.
    pub(crate) fn forget(&mut self, pulse: &Pulse) {
        if pulse.due_at_ms() == 0 {
            return;
        }
        pulse.set_due_at_ms(0);
        self.stale += 1;
        if self.stale > STALE_MIN && self.stale > self.len / 2 {
            for slot in &mut self.slots {
                slot.retain(|entry| entry.pulse.due_at_ms() != 0);
                slot.shrink_to_fit();
            }
            self.len = self.slots.iter().map(Vec::len).sum();
            self.stale = 0;
            if self.len == 0 {
                self.next_tick = u64::MAX;
            }
        }
    }
}

fn slot_of(tick: u64) -> usize {
    (tick % SLOTS as u64) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pulse(name: &str) -> Arc<Pulse> {
        Pulse::new(name.into(), 0)
    }

    fn names(due: &[Arc<Pulse>]) -> Vec<&str> {
        due.iter().map(|pulse| &**pulse.id()).collect()
    }

    #[test]
    fn pulses_come_when_due_and_not_before() {
        let mut wheel = Wheel::new(1_000_000);
        let (soon, late) = (pulse("soon"), pulse("late"));
        wheel.arm(&soon, 1_003_001);
        wheel.arm(&late, 1_180_000);
        assert_eq!(names(&wheel.due(1_003_000)), [""; 0]);
        assert_eq!(names(&wheel.due(1_003_100)), ["soon"]);
        assert_eq!(names(&wheel.due(1_179_999)), [""; 0]);
        assert_eq!(names(&wheel.due(1_180_000)), ["late"]);
    }

    #[test]
    fn an_earlier_time_wins_and_a_later_one_is_ignored() {
        let mut wheel = Wheel::new(0);
        let one = pulse("one");
        wheel.arm(&one, 9_000);
        wheel.arm(&one, 3_000);
        wheel.arm(&one, 12_000);
        assert_eq!(names(&wheel.due(3_000)), ["one"]);
        assert_eq!(names(&wheel.due(20_000)), [""; 0], "what is left of the first time is stale");
    }

    #[test]
    fn a_long_sleep_loses_nobody() {
        let mut wheel = Wheel::new(0);
        let all: Vec<_> = (1..=180).map(|second| (pulse("p"), second * 1_000)).collect();
        all.iter().for_each(|(pulse, due)| wheel.arm(pulse, *due));
        assert_eq!(wheel.due(100_000_000).len(), 180);
        assert_eq!(wheel.len, 0);
    }

    #[test]
    fn what_is_armed_long_after_the_last_look_comes_all_the_same() {
        let mut wheel = Wheel::new(0);
        let one = pulse("one");
        // The wheel was not asked for ten minutes when this instance registered.
        wheel.arm(&one, 780_000);
        assert_eq!(names(&wheel.due(600_000)), [""; 0]);
        assert_eq!(names(&wheel.due(779_900)), [""; 0]);
        assert_eq!(names(&wheel.due(780_000)), ["one"]);
        assert_eq!(wheel.len, 0);
    }

    #[test]
    fn it_says_when_to_ask_again() {
        let mut wheel = Wheel::new(0);
        assert_eq!(wheel.next_due_ms(), None);
        let (one, other) = (pulse("one"), pulse("other"));
        wheel.arm(&one, 9_050);
        wheel.arm(&other, 3_000);
        assert_eq!(wheel.next_due_ms(), Some(3_000));
        assert_eq!(names(&wheel.due(2_999)), [""; 0]);
        assert_eq!(names(&wheel.due(3_000)), ["other"]);
        assert_eq!(wheel.next_due_ms(), Some(9_100));
        wheel.arm(&other, 4_000);
        assert_eq!(wheel.next_due_ms(), Some(4_000));
        assert_eq!(wheel.due(500_000).len(), 2);
        assert_eq!(wheel.next_due_ms(), None);
    }

    #[test]
    fn registrations_that_end_at_once_take_no_memory() {
        let mut wheel = Wheel::new(0);
        for _ in 0..1_000_000 {
            let brief = pulse("brief");
            wheel.arm(&brief, 180_000);
            wheel.forget(&brief);
        }
        let held: usize = wheel.slots.iter().map(Vec::len).sum();
        assert!(held <= STALE_MIN + 1, "{held}");
    }
}
