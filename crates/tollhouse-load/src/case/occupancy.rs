//! Number of lanes that carry load over time. A lane is one request at a time; a case has
//! connections × streams of them. Pure functions from an instant to a number of lanes.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Lanes that carry load. The active lanes are always those with the lowest indices.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase", deny_unknown_fields)]
pub enum Occupancy {
    /// All lanes carry load all the time.
    #[default]
    All,
    /// A fixed number of lanes, for concurrency that is not a product of connections and streams.
    First(usize),
    /// A number that rises or falls in steps.
    Stairs(Stairs),
}

/// A staircase of lanes: begins with `start` and changes by `step` after each interval `every`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stairs {
    /// Number of lanes at the start.
    pub start: usize,
    /// Lanes added by each step; negative to remove lanes.
    pub step: i64,
    /// Number of lanes at which the steps stop; unlimited by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end: Option<usize>,
    /// Duration of one stair.
    #[serde(with = "crate::text::duration")]
    pub every: Duration,
    /// Instant from which `end` lanes are active or, without `end`, as many as were reached.
    #[serde(
        default,
        with = "crate::text::optional_duration",
        skip_serializing_if = "Option::is_none"
    )]
    pub until: Option<Duration>,
}

impl Occupancy {
    /// Returns the number of lanes that carry load at an instant after the start; `usize::MAX`
    /// means all.
    #[inline]
    pub fn lanes_at(&self, at: Duration) -> usize {
        match self {
            Occupancy::All => usize::MAX,
            Occupancy::First(lanes) => *lanes,
            Occupancy::Stairs(stairs) => stairs.lanes_at(at),
        }
    }

    /// Returns the earliest instant, from `at` on, at which lane `index` (over all connections)
    /// carries load; `None` if it never does again.
    pub fn turn_of(&self, index: usize, at: Duration) -> Option<Duration> {
        if index < self.lanes_at(at) {
            return Some(at);
        }
        match self {
            Occupancy::All | Occupancy::First(_) => None,
            Occupancy::Stairs(stairs) => stairs.when_above(index, at),
        }
    }

    /// Returns the maximum number of active lanes within a duration; `usize::MAX` means all.
    pub fn lanes_max(&self, within: Duration) -> usize {
        self.lanes_at(Duration::ZERO).max(self.lanes_at(within))
    }

    /// Returns the average number of active lanes within a duration, out of `lanes`, rounded.
    pub fn lanes_mean(&self, lanes: usize, within: Duration) -> usize {
        const PARTS: u32 = 1_000;
        let at = |part: u32| self.lanes_at(within * part / PARTS).min(lanes);
        let sum: usize = (0..PARTS).map(at).sum();
        (sum + PARTS as usize / 2) / PARTS as usize
    }

    /// Returns an error message if the setting is invalid.
    pub fn problem(&self) -> Option<String> {
        match self {
            Occupancy::All => None,
            Occupancy::First(lanes) => {
                (*lanes == 0).then(|| "is 0; one lane at least carries load".into())
            }
            Occupancy::Stairs(stairs) => stairs.problem(),
        }
    }
}

impl Stairs {
    fn lanes_at(&self, at: Duration) -> usize {
        if let (Some(until), Some(end)) = (self.until, self.end)
            && at >= until
        {
            return end;
        }
        let at = self.until.map_or(at, |until| at.min(until));
        let stair = at.as_nanos() / self.every.as_nanos().max(1);
        let stair = i64::try_from(stair).unwrap_or(i64::MAX);
        let start = i64::try_from(self.start).unwrap_or(i64::MAX);
        let lanes = usize::try_from(start.saturating_add(self.step.saturating_mul(stair)).max(0))
            .unwrap_or(usize::MAX);
        match self.end {
            Some(end) if self.step >= 0 => lanes.min(end),
            Some(end) => lanes.max(end),
            None => lanes,
        }
    }

    /// Returns the next instant after `at` at which more than `index` lanes carry load. Lanes
    /// removed by a falling staircase do not return, unless `end` restores them at `until`.
    fn when_above(&self, index: usize, at: Duration) -> Option<Duration> {
        let at_the_end = self.until.filter(|until| *until > at && self.lanes_at(*until) > index);
        let on_the_way = self
            .stair_above(index)
            .filter(|instant| *instant > at && self.lanes_at(*instant) > index);
        match (on_the_way, at_the_end) {
            (Some(first), Some(second)) => Some(first.min(second)),
            (first, second) => first.or(second),
        }
    }

    /// Returns the beginning of the first stair with more than `index` lanes.
    fn stair_above(&self, index: usize) -> Option<Duration> {
        let step = usize::try_from(self.step).ok().filter(|step| *step > 0)?;
        let missing = index.checked_add(1)?.saturating_sub(self.start);
        self.every.checked_mul(u32::try_from(missing.div_ceil(step)).ok()?)
    }

    fn problem(&self) -> Option<String> {
        if self.every.is_zero() {
            return Some("stairs.every is 0; a stair lasts some time".into());
        }
        if self.step == 0 {
            return Some("stairs.step is 0; it must be above or below".into());
        }
        if self.start == 0 && self.step < 0 {
            return Some("stairs.start is 0, and fewer cannot be".into());
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn stairs(start: usize, step: i64, end: Option<usize>, until: Option<u64>) -> Occupancy {
        let until = until.map(Duration::from_secs);
        Occupancy::Stairs(Stairs { start, step, end, every: seconds(5), until })
    }

    #[test]
    fn lanes_follow_the_stairs_and_stay_within_the_end() {
        for (occupancy, at, expected) in [
            (Occupancy::All, 0, usize::MAX),
            (Occupancy::First(7), 99, 7),
            (stairs(5, 10, Some(20), None), 0, 5),
            (stairs(5, 10, Some(20), None), 4, 5),
            (stairs(5, 10, Some(20), None), 5, 15),
            (stairs(5, 10, Some(20), None), 10, 20),
            (stairs(5, 10, Some(20), None), 999, 20),
            (stairs(50, -10, Some(20), None), 11, 30),
            (stairs(50, -10, Some(20), None), 999, 20),
            (stairs(5, 10, None, Some(12)), 999, 25),
            (stairs(5, 10, Some(100), Some(12)), 11, 25),
            (stairs(5, 10, Some(100), Some(12)), 12, 100),
            (stairs(5, -10, None, None), 999, 0),
        ] {
            assert_eq!(occupancy.lanes_at(seconds(at)), expected, "{occupancy:?} at {at}");
        }
    }

    #[test]
    fn a_lane_waits_for_its_stair_and_knows_when_it_is_over() {
        let up = stairs(5, 10, Some(20), None);
        assert_eq!(up.turn_of(4, seconds(3)), Some(seconds(3)));
        assert_eq!(up.turn_of(5, seconds(3)), Some(seconds(5)));
        assert_eq!(up.turn_of(19, seconds(3)), Some(seconds(10)));
        assert_eq!(up.turn_of(20, seconds(3)), None);
        let down = stairs(50, -10, Some(20), Some(60));
        assert_eq!(down.turn_of(49, seconds(1)), Some(seconds(1)));
        assert_eq!(down.turn_of(49, seconds(6)), None);
        let jump = stairs(5, 10, Some(100), Some(12));
        assert_eq!(jump.turn_of(99, seconds(1)), Some(seconds(12)));
        assert_eq!(Occupancy::First(3).turn_of(3, seconds(0)), None);
    }

    #[test]
    fn the_mean_is_what_littles_law_asks_for() {
        assert_eq!(Occupancy::All.lanes_mean(600, seconds(9)), 600);
        assert_eq!(Occupancy::First(100).lanes_mean(102, seconds(9)), 100);
        assert_eq!(stairs(10, 10, Some(20), None).lanes_mean(20, seconds(10)), 15);
        assert_eq!(stairs(10, 10, None, None).lanes_mean(20, seconds(0)), 10);
    }

    #[test]
    fn a_wrong_staircase_is_named() {
        assert_eq!(stairs(1, 1, None, None).problem(), None);
        for occupancy in [Occupancy::First(0), stairs(1, 0, None, None), stairs(0, -1, None, None)]
        {
            assert!(occupancy.problem().is_some(), "{occupancy:?}");
        }
    }
}
