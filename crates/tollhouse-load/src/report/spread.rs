//! Median and range of a figure over several runs of one case.

/// Minimum number of runs for a comparison; with fewer, a lucky run cannot be distinguished from a
/// faster program.
pub const RUNS_MIN: usize = 3;

/// Median and range of a figure over repetitions.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Spread {
    /// Middle value, or the mean of the middle two.
    pub median: f64,
    pub low: f64,
    pub high: f64,
    pub runs: usize,
}

impl Spread {
    /// Computes the spread of figures; `None` without any.
    pub fn from_values(figures: impl IntoIterator<Item = f64>) -> Option<Self> {
        let mut figures: Vec<f64> = figures.into_iter().collect();
        figures.sort_by(f64::total_cmp);
        let (low, high) = (*figures.first()?, *figures.last()?);
        let middle = figures.len() / 2;
        let median = match figures.len() % 2 {
            0 => f64::midpoint(figures[middle - 1], figures[middle]),
            _ => figures[middle],
        };
        Some(Self { median, low, high, runs: figures.len() })
    }

    /// Whether the ranges have a value in common, so that neither is larger.
    pub fn overlaps(&self, other: &Self) -> bool {
        self.low <= other.high && other.low <= self.high
    }

    /// Whether there are enough runs to compare ranges.
    pub fn is_repeated(&self) -> bool {
        self.runs >= RUNS_MIN
    }

    /// Returns the width of the range relative to the median.
    pub fn width(&self) -> f64 {
        if self.median == 0.0 { 0.0 } else { (self.high - self.low) / self.median.abs() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_the_middle() {
        assert_eq!(Spread::from_values([]), None);
        let odd = Spread::from_values([3.0, 1.0, 2.0]).expect("three");
        assert_eq!((odd.median, odd.low, odd.high, odd.runs), (2.0, 1.0, 3.0, 3));
        let even = Spread::from_values([4.0, 1.0, 2.0, 3.0]).expect("four");
        assert_eq!(even.median, 2.5);
        assert!((even.width() - 1.2).abs() < 1e-9);
    }

    #[test]
    fn ranges_that_touch_overlap() {
        let spread = |figures: [f64; 3]| Spread::from_values(figures).expect("three");
        assert!(spread([1.0, 2.0, 3.0]).overlaps(&spread([3.0, 4.0, 5.0])));
        assert!(!spread([1.0, 2.0, 3.0]).overlaps(&spread([3.1, 4.0, 5.0])));
    }
}
