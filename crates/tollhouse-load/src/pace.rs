//! Schedule of the requests. Only this module distinguishes closed from open loops. It is pure: it
//! maps the number of a request to its intended start, so that it can be tested without a clock.
//!
//! In an open loop the schedule is fixed before the run: request *n* is due at
//! [`Pace::intended`]`(n)` regardless of earlier requests, and its latency counts from there.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Schedule of a load. Rates are requests per second over all connections.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase", deny_unknown_fields)]
pub enum Pace {
    /// Each connection sends its next request as soon as the previous response is complete.
    #[default]
    Closed,
    /// Closed loop with this pause after each response.
    Think(#[serde(with = "crate::text::duration")] Duration),
    /// Constant rate in requests per second.
    Rate(f64),
    Steps(Steps),
    /// Rate that changes linearly and then stays constant.
    Ramp(Ramp),
    /// Bursts of simultaneous requests at a fixed interval.
    Burst(Burst),
}

/// A staircase of rates: begins with `start` and changes by `step` after each interval `every`,
/// until it reaches `end` and stays there.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Steps {
    /// Initial rate in requests per second.
    pub start: f64,
    /// Change per step; may be negative.
    pub step: f64,
    /// Final rate in requests per second.
    pub end: f64,
    /// Duration of one step.
    #[serde(with = "crate::text::duration")]
    pub every: Duration,
}

/// A linear change of the rate.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ramp {
    /// Initial rate in requests per second.
    pub from: f64,
    /// Final rate, which then stays constant.
    pub to: f64,
    /// Duration of the change from the first to the last rate.
    #[serde(with = "crate::text::duration")]
    pub over: Duration,
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Burst {
    /// Number of requests per burst; all are due at one instant.
    pub requests: u64,
    #[serde(with = "crate::text::duration")]
    pub every: Duration,
}

/// Maximum duration of a schedule, ten years, so that no computation of an intended start
/// overflows.
const SCHEDULE_SECONDS_MAX: f64 = 10.0 * 365.0 * 86_400.0;

impl Pace {
    /// Whether requests are due at scheduled instants, independent of responses (open loop).
    pub fn is_open(&self) -> bool {
        !matches!(self, Pace::Closed | Pace::Think(_))
    }

    /// Returns the instant, from the start of the schedule, at which request `number` (from 0) is
    /// due; `None` in a closed loop. Never decreases as the number grows.
    #[inline]
    pub fn intended(&self, number: u64) -> Option<Duration> {
        let seconds = match self {
            Pace::Closed | Pace::Think(_) => return None,
            Pace::Rate(rate) => number as f64 / rate,
            Pace::Steps(steps) => steps.seconds_until(number as f64),
            Pace::Ramp(ramp) => ramp.seconds_until(number as f64),
            Pace::Burst(burst) => {
                (number / burst.requests.max(1)) as f64 * burst.every.as_secs_f64()
            }
        };
        Some(Duration::from_secs_f64(seconds.clamp(0.0, SCHEDULE_SECONDS_MAX)))
    }

    /// Returns the number of requests due before `end`; `None` in a closed loop.
    pub fn due_before(&self, end: Duration) -> Option<u64> {
        self.intended(0)?;
        let is_due = |number: u64| self.intended(number).is_some_and(|at| at < end);
        let mut above = 1_u64;
        while is_due(above) && above < u64::MAX / 2 {
            above *= 2;
        }
        let mut below = 0;
        while below < above {
            let middle = below + (above - below) / 2;
            if is_due(middle) { below = middle + 1 } else { above = middle }
        }
        Some(below)
    }

    /// Returns the intended rate at an instant, in requests per second; `None` in a closed loop.
    pub fn rate_at(&self, at: Duration) -> Option<f64> {
        match self {
            Pace::Closed | Pace::Think(_) => None,
            Pace::Rate(rate) => Some(*rate),
            Pace::Steps(steps) => Some(steps.rate_at(at)),
            Pace::Ramp(ramp) => Some(ramp.rate_at(at)),
            Pace::Burst(burst) => Some(burst.requests as f64 / burst.every.as_secs_f64()),
        }
    }

    /// Returns an error message if the pace is invalid.
    pub fn problem(&self) -> Option<String> {
        let bad =
            |name: &str, value: f64| format!("{name} is {value}; it must be a number above 0");
        let positive = |value: f64| value.is_finite() && value > 0.0;
        match self {
            Pace::Closed | Pace::Think(_) => None,
            Pace::Rate(rate) => (!positive(*rate)).then(|| bad("rate", *rate)),
            Pace::Steps(steps) => steps.problem(),
            Pace::Ramp(ramp) => [("from", ramp.from), ("to", ramp.to)]
                .into_iter()
                .find(|(_, value)| !(value.is_finite() && *value >= 0.0))
                .map(|(name, value)| format!("ramp.{name} is {value}; it must be 0 or more"))
                .or_else(|| (ramp.from + ramp.to <= 0.0).then(|| bad("ramp.to", ramp.to)))
                .or_else(|| (ramp.to <= 0.0).then(|| bad("ramp.to", ramp.to))),
            Pace::Burst(burst) if burst.requests == 0 || burst.every.is_zero() => {
                Some("a burst needs requests and a time between bursts, both above 0".into())
            }
            Pace::Burst(_) => None,
        }
    }
}

impl Steps {
    fn problem(&self) -> Option<String> {
        let values = [("start", self.start), ("end", self.end)];
        let bad = values.into_iter().find(|(_, value)| !(value.is_finite() && *value > 0.0));
        if let Some((name, value)) = bad {
            return Some(format!("steps.{name} is {value}; it must be a number above 0"));
        }
        if self.every.is_zero() {
            return Some("steps.every is 0; a step must last some time".into());
        }
        let towards_end = (self.end - self.start) * self.step;
        if !self.step.is_finite()
            || towards_end < 0.0
            || (self.step == 0.0 && self.start != self.end)
        {
            return Some(format!("steps.step is {}; it never leads to steps.end", self.step));
        }
        None
    }

    /// Returns the rate of step `index`.
    fn rate(&self, index: f64) -> f64 {
        let rate = self.start + index * self.step;
        if self.step >= 0.0 { rate.min(self.end) } else { rate.max(self.end) }
    }

    fn rate_at(&self, at: Duration) -> f64 {
        self.rate((at.as_secs_f64() / self.every.as_secs_f64()).floor())
    }

    /// Returns the time in seconds at which `requests` requests have become due: the inverse of the
    /// integral of the rate.
    fn seconds_until(&self, requests: f64) -> f64 {
        let every = self.every.as_secs_f64();
        // Number of whole steps before `end`, from the sum of an arithmetic series. Solved by its
        // root, so that late requests cost no more than the first.
        let stairs = if self.step == 0.0 {
            0.0
        } else {
            ((self.end - self.start) / self.step).ceil().max(0.0)
        };
        let under =
            |stair: f64| every * (stair * self.start + self.step * stair * (stair - 1.0) / 2.0);
        let mut stair = self.stair_of(requests, every).clamp(0.0, stairs);
        // The root is inexact at the edges of steps.
        while stair > 0.0 && under(stair) > requests {
            stair -= 1.0;
        }
        while stair < stairs && under(stair + 1.0) <= requests {
            stair += 1.0;
        }
        stair * every + (requests - under(stair)) / self.rate(stair)
    }

    fn stair_of(&self, requests: f64, every: f64) -> f64 {
        if self.step == 0.0 {
            return 0.0;
        }
        let half = self.step / 2.0;
        let linear = self.start - half;
        let root = linear * linear + 4.0 * half * requests / every;
        ((root.max(0.0).sqrt() - linear) / self.step).floor().max(0.0)
    }
}

impl Ramp {
    fn rate_at(&self, at: Duration) -> f64 {
        let over = self.over.as_secs_f64();
        let part = if over == 0.0 { 1.0 } else { (at.as_secs_f64() / over).min(1.0) };
        self.from + (self.to - self.from) * part
    }

    /// Returns the time in seconds at which `requests` requests have become due: the inverse of the
    /// integral of the rate.
    fn seconds_until(&self, requests: f64) -> f64 {
        let over = self.over.as_secs_f64();
        let on_the_way = over * (self.from + self.to) / 2.0;
        if requests >= on_the_way {
            return over + (requests - on_the_way) / self.to;
        }
        let slope = (self.to - self.from) / over;
        if slope.abs() < f64::EPSILON {
            return requests / self.from;
        }
        // from·t + slope·t²/2 = requests
        let root = self.from * self.from + 2.0 * slope * requests;
        (root.max(0.0).sqrt() - self.from) / slope
    }
}

#[cfg(test)]
mod tests;
