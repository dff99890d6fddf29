//! Logarithmic time axis: positions of values, and tick values.

use super::figure;

/// Mantissas of ticks, from coarse to fine.
const MANTISSAS: [&[f64]; 5] = [
    &[1.0],
    &[1.0, 3.0],
    &[1.0, 2.0, 5.0],
    &[1.0, 1.5, 2.0, 3.0, 5.0, 7.0],
    &[1.0, 1.2, 1.4, 1.6, 1.8, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5, 5.0, 6.0, 7.0, 8.0, 9.0],
];

/// Logarithmic axis between two positive values.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Axis {
    low: f64,
    high: f64,
}

impl Axis {
    /// Creates an axis that contains all positive values; `None` without any.
    pub(super) fn holding(values: impl IntoIterator<Item = f64>) -> Option<Self> {
        let mut axis: Option<Self> = None;
        for value in values.into_iter().filter(|value| value.is_finite() && *value > 0.0) {
            let known = axis.unwrap_or(Self { low: value, high: value });
            axis = Some(Self { low: known.low.min(value), high: known.high.max(value) });
        }
        // Adds a margin, which also gives the axis some width if all values are equal.
        axis.map(|axis| Self { low: axis.low * 0.93, high: axis.high * 1.07 })
    }

    /// Returns the position of a value, from 0 (low end) to 1 (high end).
    pub(super) fn share(&self, value: f64) -> f64 {
        let at = |value: f64| value.max(f64::MIN_POSITIVE).ln();
        ((at(value) - at(self.low)) / (at(self.high) - at(self.low))).clamp(0.0, 1.0)
    }

    /// Whether the axis contains a value.
    pub(super) fn holds(&self, value: f64) -> bool {
        (self.low..=self.high).contains(&value)
    }

    /// Returns round tick values, at most `ticks_max`, and not many fewer if possible.
    pub(super) fn ticks(&self, ticks_max: usize) -> Vec<f64> {
        let mut best = Vec::new();
        for mantissas in MANTISSAS {
            let ticks = self.ticks_of(mantissas);
            if ticks.len() > ticks_max {
                break;
            }
            best = ticks;
            if best.len() > ticks_max / 2 {
                break;
            }
        }
        best
    }

    fn ticks_of(&self, mantissas: &[f64]) -> Vec<f64> {
        let decades = self.low.log10().floor() as i32..=self.high.log10().ceil() as i32;
        let ticks = decades.flat_map(|decade| {
            mantissas.iter().map(move |mantissa| mantissa * 10_f64.powi(decade))
        });
        ticks.filter(|tick| self.holds(*tick)).collect()
    }
}

/// Formats a tick label in milliseconds, without trailing zeros.
pub(super) fn milliseconds(nanoseconds: f64) -> String {
    let text = figure::milliseconds(nanoseconds);
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_few_at_any_width() {
        for (low, high, expected) in [
            (1e6, 1e9, "1 3 10 30 100 300 1,000"),
            (19e6, 41e6, "18 20 25 30 35 40"),
            (100e3, 20e6, "0.1 0.3 1 3 10"),
            (1e5, 1e12, "0.1 1 10 100 1,000 10,000 100,000 1,000,000"),
        ] {
            let axis = Axis::holding([low, high]).expect("values");
            let ticks: Vec<String> = axis.ticks(8).into_iter().map(milliseconds).collect();
            assert_eq!(ticks.join(" "), expected, "{low} {high}");
        }
    }

    #[test]
    fn shares_run_from_end_to_end() {
        let axis = Axis::holding([10.0, 1000.0, 0.0, f64::NAN]).expect("values");
        assert!(axis.share(10.0) < 0.1 && axis.share(1000.0) > 0.9);
        assert!((axis.share(100.0) - 0.5).abs() < 0.001);
        assert_eq!(axis.share(1.0), 0.0);
        assert_eq!(Axis::holding([0.0]), None);
    }
}
