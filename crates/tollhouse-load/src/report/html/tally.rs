//! Count of cases in which a subject is ahead of another, with the range of the differences.

use super::comparison::{Better, Verdict, verdict_of};
use super::figure;
use super::row::Spread;

/// Figure of the same case of two subjects.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pair {
    pub(super) ours: Spread,
    pub(super) theirs: Spread,
}

impl Pair {
    /// Returns our figure relative to theirs: 0.5 for half as much again.
    fn difference(&self) -> f64 {
        self.ours.median / self.theirs.median - 1.0
    }

    /// Ranks by ranges with enough runs, otherwise by medians.
    fn ranked(&self, better: Better) -> Verdict {
        match (verdict_of(&self.ours, &self.theirs, better), better) {
            (Verdict::Unranked, Better::Higher) if self.difference() > 0.0 => Verdict::Better,
            (Verdict::Unranked, Better::Lower) if self.difference() < 0.0 => Verdict::Better,
            (Verdict::Unranked, _) if self.difference() == 0.0 => Verdict::Equal,
            (Verdict::Unranked, _) => Verdict::Worse,
            (verdict, _) => verdict,
        }
    }
}

/// Number of cases ahead, behind and about equal.
#[derive(Debug)]
pub(super) struct Tally {
    pub(super) ahead: usize,
    behind: usize,
    equal: usize,
    pub(super) total: usize,
    differences: Vec<f64>,
    words: Words,
}

/// Words for a figure that is better or worse.
#[derive(Debug)]
struct Words {
    ahead: &'static str,
    behind: &'static str,
    equal: &'static str,
}

impl Tally {
    /// Counts throughputs, of which more is better.
    pub(super) fn from_rates(pairs: &[Pair]) -> Self {
        let words = Words { ahead: "faster than", behind: "slower than", equal: "as fast as" };
        Self::new(pairs, Better::Higher, words)
    }

    /// Counts times, of which less is better.
    pub(super) fn from_times(pairs: &[Pair]) -> Self {
        let words = Words { ahead: "lower than", behind: "higher than", equal: "about equal to" };
        Self::new(pairs, Better::Lower, words)
    }

    fn new(pairs: &[Pair], better: Better, words: Words) -> Self {
        let count = |wanted| pairs.iter().filter(|pair| pair.ranked(better) == wanted).count();
        Self {
            ahead: count(Verdict::Better),
            behind: count(Verdict::Worse),
            equal: count(Verdict::Equal),
            total: pairs.len(),
            differences: pairs.iter().map(Pair::difference).collect(),
            words,
        }
    }

    /// Returns the leading outcome, such as `faster than`.
    pub(super) fn than(&self) -> &'static str {
        match (self.ahead, self.behind) {
            (0, 0) => self.words.equal,
            (0, _) => self.words.behind,
            _ => self.words.ahead,
        }
    }

    /// Returns the cases of that outcome with the range of all differences, such as `in 3 of 4
    /// cases (−16 % … +54 %)`.
    pub(super) fn cases(&self) -> String {
        let differences = range(&self.differences, figure::change);
        let Self { ahead, behind, equal, total, .. } = self;
        let leading = match (ahead, behind) {
            (0, 0) => equal,
            (0, _) => behind,
            _ => ahead,
        };
        let place = match total {
            1 => "in the only case".to_owned(),
            total => format!("in {leading} of {total} cases"),
        };
        // Cases within the spread of the runs, unless they are all.
        let undecided = match equal {
            0 => String::new(),
            equal if equal == leading && equal == total => String::new(),
            equal => format!(", undecided in {equal}"),
        };
        format!("{place} ({differences}{undecided})")
    }
}

/// Formats shares as a range in percent: `16–42 %`.
pub(super) fn range_percent(shares: impl Iterator<Item = f64>) -> String {
    let text = range(&shares.collect::<Vec<_>>(), figure::whole_percent);
    match text.split_once(" % … ") {
        // A minus sign beside the dash would be misread.
        Some((low, high)) if !text.contains('−') => format!("{low}–{high}"),
        _ => text,
    }
}

/// Formats the range of values; a single value if both ends look alike.
pub(super) fn range(values: &[f64], print: fn(f64) -> String) -> String {
    let low = values.iter().copied().reduce(f64::min).map(print);
    let high = values.iter().copied().reduce(f64::max).map(print);
    match low.zip(high) {
        None => String::new(),
        Some((low, high)) if low == high => low,
        Some((low, high)) => format!("{low} … {high}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn runs(values: &[f64]) -> Spread {
        let (low, high) = (values[0], values[values.len() - 1]);
        Spread { median: values[values.len() / 2], low, high, runs: values.len() }
    }

    fn pair(ours: &[f64], theirs: &[f64]) -> Pair {
        Pair { ours: runs(ours), theirs: runs(theirs) }
    }

    #[test]
    fn single_runs_are_counted_by_their_values() {
        let pairs = [(84.0, 100.0), (154.0, 100.0), (110.0, 100.0), (120.0, 100.0)];
        let pairs = pairs.map(|(ours, theirs)| pair(&[ours], &[theirs]));
        let tally = Tally::from_rates(&pairs);
        assert_eq!(tally.than(), "faster than");
        assert_eq!(tally.cases(), "in 3 of 4 cases (−16 % … +54 %)");
        let tally = Tally::from_times(&pairs[1..2]);
        assert_eq!((tally.than(), &*tally.cases()), ("higher than", "in the only case (+54 %)"));
    }

    #[test]
    fn shares_are_a_range() {
        assert_eq!(range_percent([0.42, 0.16].into_iter()), "16–42 %");
        assert_eq!(range_percent([-0.1, 0.16].into_iter()), "−10 % … 16 %");
        assert_eq!(range_percent([0.16].into_iter()), "16 %");
    }

    #[test]
    fn repeated_runs_are_counted_only_if_their_ranges_are_apart() {
        let apart = pair(&[119.0, 120.0, 121.0], &[99.0, 100.0, 101.0]);
        let touching = pair(&[99.0, 102.0, 105.0], &[98.0, 100.0, 101.0]);
        let tally = Tally::from_rates(&[apart, touching]);
        assert_eq!(tally.cases(), "in 1 of 2 cases (+2.0 % … +20 %, undecided in 1)");
        let tally = Tally::from_rates(&[touching, touching]);
        assert_eq!((tally.than(), &*tally.cases()), ("as fast as", "in 2 of 2 cases (+2.0 %)"));
    }
}
