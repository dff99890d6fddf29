//! Phases of a run and the numbering of its requests. Shared by all workers, so that every request
//! has one number and is sent by any free connection on any core.
//!
//! Free of I/O except for atomic counters; the time is a parameter.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::case::Load;
use crate::pace::Pace;
use crate::protocol::Ticket;

/// First number of warm-up requests, so that measured ones count from 0 and all numbers are unique.
const WARM_UP_NUMBERS: u64 = 1 << 40;

/// Instant of a phase's end that is undecided or unlimited.
const NEVER: u64 = u64::MAX;

/// A request assigned to a lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Turn {
    pub ticket: Ticket,
    /// Intended start on the run's clock; `None` in a closed loop.
    pub intended_ns: Option<u64>,
}

/// A phase of a run with one pace.
#[derive(Debug)]
pub struct Phase {
    pace: Pace,
    /// Whether requests of this phase are recorded.
    pub is_measured: bool,
    number_base: u64,
    requests: u64,
    next: AtomicU64,
    start_ns: AtomicU64,
    end_ns: AtomicU64,
    length: Option<Duration>,
}

impl Phase {
    fn new(pace: Pace, length: Option<Duration>, requests: Option<u64>) -> Self {
        Self {
            pace,
            is_measured: true,
            number_base: 0,
            requests: requests.unwrap_or(NEVER),
            next: AtomicU64::new(0),
            start_ns: AtomicU64::new(NEVER),
            end_ns: AtomicU64::new(NEVER),
            length,
        }
    }

    /// Returns the next request, to be sent at or after its intended start; `None` if the phase has
    /// no more.
    #[inline]
    pub fn claim(&self, now_ns: u64) -> Option<Turn> {
        let end_ns = self.end_ns.load(Ordering::Relaxed);
        if now_ns >= end_ns {
            return None;
        }
        let index = self.next.fetch_add(1, Ordering::Relaxed);
        if index >= self.requests {
            return None;
        }
        let ticket = Ticket { number: self.number_base + index };
        let intended_ns = self.pace.intended(index).map(|offset| {
            self.start_ns.load(Ordering::Relaxed).saturating_add(nanoseconds(offset))
        });
        if intended_ns.is_some_and(|at| at >= end_ns) {
            return None;
        }
        Some(Turn { ticket, intended_ns })
    }

    /// Whether requests are left at this time.
    pub fn has_more(&self, now_ns: u64) -> bool {
        now_ns < self.end_ns() && self.next.load(Ordering::Relaxed) < self.requests
    }

    pub fn pace(&self) -> &Pace {
        &self.pace
    }

    /// Returns the start time on the run's clock; `u64::MAX` before the run has begun.
    pub fn start_ns(&self) -> u64 {
        self.start_ns.load(Ordering::Relaxed)
    }

    /// Returns the end time on the run's clock; `u64::MAX` if a count ends the phase.
    pub fn end_ns(&self) -> u64 {
        self.end_ns.load(Ordering::Relaxed)
    }

    /// Returns the number of requests that were due by the end but never claimed.
    pub fn unsent(&self, ended_ns: u64) -> u64 {
        let ran = Duration::from_nanos(ended_ns.saturating_sub(self.start_ns()));
        let due = self.pace.due_before(ran).unwrap_or(0).min(self.requests);
        due.saturating_sub(self.next.load(Ordering::Relaxed))
    }
}

/// Warm-up and measurement of a run, which all workers follow.
#[derive(Debug)]
pub struct Schedule {
    phases: Vec<Phase>,
}

impl Schedule {
    /// Creates the schedule of a load. No time is fixed until [`begin`](Self::begin).
    pub fn new(load: &Load) -> Self {
        let length = match (load.duration, load.requests) {
            (None, None) => Some(Load::DURATION_DEFAULT),
            (duration, _) => duration,
        };
        let measured = Phase::new(load.pace, length, load.requests);
        let mut phases = Vec::new();
        if !load.warm_up.is_zero()
            && let Some(pace) = warm_up_pace(&load.pace)
        {
            let mut warm_up = Phase::new(pace, Some(load.warm_up), None);
            warm_up.is_measured = false;
            warm_up.number_base = WARM_UP_NUMBERS;
            phases.push(warm_up);
        }
        phases.push(measured);
        Self { phases }
    }

    /// Fixes the start and end of all phases.
    pub fn begin(&self, now_ns: u64) {
        let mut at_ns = now_ns;
        for phase in &self.phases {
            phase.start_ns.store(at_ns, Ordering::Relaxed);
            at_ns = phase.length.map_or(NEVER, |length| at_ns.saturating_add(nanoseconds(length)));
            phase.end_ns.store(at_ns, Ordering::Relaxed);
        }
    }

    /// Ends all phases now, so that workers send no further requests.
    pub fn stop(&self, now_ns: u64) {
        for phase in &self.phases {
            phase.end_ns.fetch_min(now_ns, Ordering::Relaxed);
        }
    }

    /// Returns the phases in order; the last one is measured.
    pub fn phases(&self) -> &[Phase] {
        &self.phases
    }

    pub fn measured(&self) -> &Phase {
        self.phases.last().expect("a schedule has a measured phase")
    }
}

/// Returns the pace of the warm-up: the initial rate of the measured phase; `None` for a ramp from
/// zero.
fn warm_up_pace(pace: &Pace) -> Option<Pace> {
    match pace.rate_at(Duration::ZERO) {
        None => Some(*pace),
        Some(rate) if rate > 0.0 => Some(Pace::Rate(rate)),
        Some(_) => None,
    }
}

fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(NEVER)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);
    const SECOND_NS: u64 = 1_000_000_000;

    fn numbers(phase: &Phase, now_ns: u64) -> Vec<u64> {
        std::iter::from_fn(|| phase.claim(now_ns)).map(|turn| turn.ticket.number).collect()
    }

    #[test]
    fn a_count_ends_a_closed_loop() {
        let schedule = Schedule::new(&Load { requests: Some(3), ..Load::default() });
        schedule.begin(7);
        assert_eq!(numbers(schedule.measured(), 7), [0, 1, 2]);
    }

    #[test]
    fn the_end_of_the_time_ends_a_closed_loop() {
        let schedule = Schedule::new(&Load { duration: Some(SECOND), ..Load::default() });
        schedule.begin(0);
        assert!(schedule.measured().claim(SECOND_NS - 1).is_some());
        assert!(schedule.measured().claim(SECOND_NS).is_none());
    }

    #[test]
    fn an_open_loop_is_due_from_its_own_start_and_ends_with_its_time() {
        let load = Load {
            pace: Pace::Rate(2.0),
            duration: Some(SECOND),
            warm_up: SECOND,
            ..Load::default()
        };
        let schedule = Schedule::new(&load);
        schedule.begin(100);
        let phase = schedule.measured();
        let due = |phase: &Phase| phase.claim(0).map(|turn| turn.intended_ns.expect("open"));
        assert_eq!(due(phase), Some(100 + SECOND_NS));
        assert_eq!(due(phase), Some(100 + SECOND_NS + SECOND_NS / 2));
        assert_eq!(due(phase), None, "the third is due when the time is over");
    }

    #[test]
    fn warm_up_requests_have_numbers_of_their_own() {
        let load = Load { warm_up: SECOND, duration: Some(SECOND), ..Load::default() };
        let schedule = Schedule::new(&load);
        schedule.begin(0);
        let [warm_up, measured] = schedule.phases() else { panic!("two phases") };
        let number = |phase: &Phase| phase.claim(0).expect("time left").ticket.number;
        assert_eq!(number(warm_up), WARM_UP_NUMBERS);
        assert_eq!(number(measured), 0);
    }

    #[test]
    fn what_was_due_and_not_taken_is_unsent() {
        let load = Load { pace: Pace::Rate(10.0), duration: Some(SECOND), ..Load::default() };
        let schedule = Schedule::new(&load);
        schedule.begin(0);
        for _ in 0..4 {
            schedule.measured().claim(0);
        }
        assert_eq!(schedule.measured().unsent(SECOND_NS), 6);
        assert_eq!(schedule.measured().unsent(SECOND_NS / 2), 1);
    }

    #[test]
    fn a_stop_ends_all_phases() {
        let schedule = Schedule::new(&Load { warm_up: SECOND, ..Load::default() });
        schedule.begin(0);
        schedule.stop(5);
        assert!(schedule.phases().iter().all(|phase| phase.claim(5).is_none()));
    }
}
