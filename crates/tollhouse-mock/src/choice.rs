//! Choice of the response to a request: statuses by weight, injected errors and resets by rate.
//! Pure; the random number generator is a parameter.

use std::fmt;
use std::str::FromStr;

use tollhouse_stdx::Random;

/// Maximum number of statuses, because a response is prepared for each.
pub const STATUSES_MAX: usize = 32;

/// Share of all requests, 0 to 1.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd, Default)]
pub struct Share(f64);

impl Share {
    /// Share 0: applies to no request.
    pub const NONE: Share = Share(0.0);

    /// Creates a share from 0 to 1; other values are clamped.
    pub fn new(part: f64) -> Self {
        Self(if part.is_nan() { 0.0 } else { part.clamp(0.0, 1.0) })
    }

    /// Returns the share as a number from 0 to 1.
    pub fn part(self) -> f64 {
        self.0
    }
}

impl FromStr for Share {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (number, whole) = match text.trim().strip_suffix('%') {
            Some(number) => (number, 100.0),
            None => (text.trim(), 1.0),
        };
        let value = number.trim().parse::<f64>().ok().map(|value| value / whole);
        match value.filter(|value| (0.0..=1.0).contains(value)) {
            Some(value) => Ok(Self(value)),
            None => Err(format!("`{text}` is not a share; write 1% or 0.01")),
        }
    }
}

impl fmt::Display for Share {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}%", self.0 * 100.0)
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Statuses(Vec<(u16, u32)>);

impl Default for Statuses {
    fn default() -> Self {
        Self::always(200)
    }
}

impl Statuses {
    /// Creates a list of a single status.
    pub fn always(status: u16) -> Self {
        Self(vec![(status, 1)])
    }

    /// Returns statuses and weights, in the order written.
    pub fn list(&self) -> &[(u16, u32)] {
        &self.0
    }

    fn total(&self) -> u32 {
        self.0.iter().fold(0, |sum, (_, weight)| sum.saturating_add(*weight))
    }

    /// Returns the index of the status selected by `number`, which is below the total weight.
    fn index_of(&self, mut number: u32) -> usize {
        for (index, (_, weight)) in self.0.iter().enumerate() {
            if number < *weight {
                return index;
            }
            number -= weight;
        }
        0
    }
}

impl FromStr for Statuses {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut list = Vec::new();
        for part in text.split(',') {
            let (status, weight) = part.trim().split_once('=').unwrap_or((part.trim(), "1"));
            let status = status.trim().parse().ok().filter(|status| (200..=599).contains(status));
            let status = status.ok_or_else(|| {
                format!("`{part}` is not a status; write 200, or 200=95,503=5 for a mixture")
            })?;
            let weight = weight.trim().trim_end_matches('%').parse::<u16>();
            let weight = weight.ok().filter(|weight| *weight > 0);
            let weight = weight.ok_or_else(|| {
                format!("`{part}` has no weight; write a whole number from 1 to 65535")
            })?;
            list.push((status, u32::from(weight)));
        }
        if list.len() > STATUSES_MAX {
            return Err(format!("more than {STATUSES_MAX} statuses; write fewer"));
        }
        Ok(Self(list))
    }
}

impl fmt::Display for Statuses {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let [(status, _)] = self.0.as_slice() {
            return write!(out, "{status}");
        }
        for (index, (status, weight)) in self.0.iter().enumerate() {
            let comma = if index == 0 { "" } else { "," };
            write!(out, "{comma}{status}={weight}")?;
        }
        Ok(())
    }
}

/// Random decision about the response to one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Answer with the status at this index.
    Answer(usize),
    Error,
    /// Reset the connection (HTTP/1) or the stream (HTTP/2).
    Reset,
}

/// Makes the decision for every request.
#[derive(Debug, Clone)]
pub(super) struct Choice {
    statuses: Statuses,
    total: u32,
    error: f64,
    reset: f64,
}

impl Choice {
    pub(super) fn new(statuses: &Statuses, error: Share, reset: Share) -> Self {
        let total = statuses.total();
        Self { statuses: statuses.clone(), total, error: error.part(), reset: reset.part() }
    }

    /// Decides about one request. Draws a random number only if there is a choice.
    #[inline]
    pub(super) fn verdict(&self, random: &mut Random) -> Verdict {
        if self.reset > 0.0 && random.unit() < self.reset {
            return Verdict::Reset;
        }
        if self.error > 0.0 && random.unit() < self.error {
            return Verdict::Error;
        }
        if self.statuses.0.len() == 1 {
            return Verdict::Answer(0);
        }
        Verdict::Answer(self.statuses.index_of(random.below(self.total)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_read_as_percent_or_fraction() {
        for (text, part, shown) in
            [("1%", 0.01, "1%"), ("0.25", 0.25, "25%"), ("0", 0.0, "0%"), (" 100 % ", 1.0, "100%")]
        {
            let share: Share = text.parse().expect(text);
            assert_eq!((share.part(), share.to_string().as_str()), (part, shown));
        }
        for text in ["", "-1%", "101%", "1.5", "many", "NaN"] {
            assert!(text.parse::<Share>().is_err(), "{text}");
        }
    }

    #[test]
    fn statuses_are_read_with_weights() {
        for (text, list, shown) in [
            ("200", vec![(200, 1)], "200"),
            ("200=95,503=5", vec![(200, 95), (503, 5)], "200=95,503=5"),
            ("200=95%, 404 = 5%", vec![(200, 95), (404, 5)], "200=95,404=5"),
        ] {
            let statuses: Statuses = text.parse().expect(text);
            assert_eq!(statuses.list(), list, "{text}");
            assert_eq!(statuses.to_string(), shown);
        }
        for text in ["", "100", "600", "ok", "200=0", "200=x", "200,"] {
            assert!(text.parse::<Statuses>().is_err(), "{text}");
        }
        assert!(vec!["200"; STATUSES_MAX + 1].join(",").parse::<Statuses>().is_err());
    }

    #[test]
    fn verdicts_come_in_the_shares_asked_for() {
        let statuses = "200=75,503=25".parse().expect("statuses");
        let choice = Choice::new(&statuses, Share::new(0.1), Share::new(0.2));
        let mut random = Random::seeded(11);
        let mut counts = [0_u32; 4];
        for _ in 0..100_000 {
            counts[match choice.verdict(&mut random) {
                Verdict::Reset => 0,
                Verdict::Error => 1,
                Verdict::Answer(index) => 2 + index,
            }] += 1;
        }
        // Of what is not reset a tenth is an error, of the rest three quarters are 200.
        for (count, expected) in counts.into_iter().zip([20_000, 8_000, 54_000, 18_000_u32]) {
            assert!(count.abs_diff(expected) < 600, "{counts:?}");
        }
    }

    #[test]
    fn without_a_choice_no_number_is_drawn() {
        let choice = Choice::new(&Statuses::always(204), Share::NONE, Share::NONE);
        let mut random = Random::seeded(1);
        assert_eq!(choice.verdict(&mut random), Verdict::Answer(0));
        assert_eq!(random.next_u64(), Random::seeded(1).next_u64());
    }
}
