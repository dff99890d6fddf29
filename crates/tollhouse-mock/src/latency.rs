//! Latency of responses: distributions, sampled with a given generator, and the due time of a
//! response. Pure; `deadlines.rs` does the waiting.

use std::f64::consts::TAU;
use std::str::FromStr;
use std::time::Duration;

use tollhouse_stdx::Random;

use crate::error::MockError;

/// Maximum latency, for settings and samples.
pub const LATENCY_MAX: Duration = Duration::from_secs(3600);

/// Form of a latency distribution.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Shape {
    /// Every response has the mean latency.
    #[default]
    Fixed,
    /// Latencies are uniform within mean ± spread.
    Uniform,
    /// Normal; the spread is the standard deviation, negative samples become zero.
    Normal,
    /// Log-normal, skewed to the right like real services; the latency is the mean, the spread the
    /// standard deviation.
    LogNormal,
    /// Exponential, as with random arrivals; the latency is the mean.
    Exponential,
}

impl Shape {
    /// All shapes, with their names on the command line.
    pub const NAMES: [(&'static str, Shape); 5] = [
        ("fixed", Shape::Fixed),
        ("uniform", Shape::Uniform),
        ("normal", Shape::Normal),
        ("lognormal", Shape::LogNormal),
        ("exponential", Shape::Exponential),
    ];

    /// Returns the name on the command line.
    pub fn name(self) -> &'static str {
        Self::NAMES.iter().find(|(_, shape)| *shape == self).map_or("", |(name, _)| name)
    }
}

impl FromStr for Shape {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::NAMES.iter().find(|(name, _)| *name == text);
        found.map(|(_, shape)| *shape).ok_or_else(|| {
            format!("`{text}` is not one of fixed, uniform, normal, lognormal, exponential")
        })
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Latency {
    pub mean: Duration,
    pub shape: Shape,
    /// Half the width of `Uniform`; the standard deviation of `Normal` and `LogNormal`. By default
    /// half of the mean, for `Normal` a tenth.
    pub spread: Option<Duration>,
    /// Upper limit; longer samples are cut to it.
    pub max: Option<Duration>,
}

impl Latency {
    pub const fn fixed(mean: Duration) -> Self {
        Self { mean, shape: Shape::Fixed, spread: None, max: None }
    }

    /// Returns the effective spread; zero for shapes without one.
    pub fn spread(&self) -> Duration {
        let usual = match self.shape {
            Shape::Fixed | Shape::Exponential => return Duration::ZERO,
            Shape::Uniform | Shape::LogNormal => self.mean / 2,
            Shape::Normal => self.mean / 10,
        };
        self.spread.unwrap_or(usual)
    }

    /// Checks the settings for contradictions.
    ///
    /// # Errors
    /// If a setting is invalid; the error names it and a remedy.
    pub fn check(&self) -> Result<(), MockError> {
        let wrong = |key: &str, why: &str| {
            Err(MockError::Setting { key: key.to_owned(), why: why.to_owned() })
        };
        let longest = self.mean.max(self.spread()).max(self.max.unwrap_or_default());
        if longest > LATENCY_MAX {
            return wrong("latency", "is longer than an hour; choose a shorter one");
        }
        let has_spread = !matches!(self.shape, Shape::Fixed | Shape::Exponential);
        if self.spread.is_some() && !has_spread {
            return wrong(
                "latency-spread",
                "applies to uniform, normal and lognormal; choose one with --latency-distribution",
            );
        }
        if self.shape == Shape::Uniform && self.spread() > self.mean {
            return wrong("latency-spread", "is larger than the latency; make it smaller");
        }
        if self.shape != Shape::Fixed && self.mean.is_zero() {
            return wrong("latency-distribution", "needs a latency above zero; add --latency 20ms");
        }
        if self.max.is_some_and(|max| max < self.mean) {
            return wrong("latency-max", "is shorter than the latency; make it longer");
        }
        Ok(())
    }

    /// Prepares the distribution, so that a sample costs little.
    pub(super) fn sampler(&self) -> Sampler {
        let (mean, spread) = (nanoseconds(self.mean), nanoseconds(self.spread()));
        let law = match self.shape {
            Shape::Fixed => Law::Fixed,
            Shape::Uniform => Law::Uniform { low: mean - spread, width: 2.0 * spread },
            Shape::Normal => Law::Normal { deviation: spread },
            Shape::LogNormal => {
                let variance = (spread / mean.max(1.0)).powi(2).ln_1p();
                Law::LogNormal { mu: mean.max(1.0).ln() - variance / 2.0, sigma: variance.sqrt() }
            }
            Shape::Exponential => Law::Exponential,
        };
        Sampler { mean, law, max: nanoseconds(self.max.unwrap_or(LATENCY_MAX)) }
    }
}

/// Latency distribution prepared for sampling, in nanoseconds.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sampler {
    mean: f64,
    law: Law,
    max: f64,
}

#[derive(Debug, Clone, Copy)]
enum Law {
    Fixed,
    Uniform { low: f64, width: f64 },
    Normal { deviation: f64 },
    LogNormal { mu: f64, sigma: f64 },
    Exponential,
}

impl Sampler {
    pub(super) fn is_none(&self) -> bool {
        self.mean == 0.0
    }

    /// Returns a random latency in nanoseconds.
    #[inline]
    pub(super) fn sample_ns(&self, random: &mut Random) -> u64 {
        let sample = match self.law {
            Law::Fixed => self.mean,
            Law::Uniform { low, width } => low + width * random.unit(),
            Law::Normal { deviation } => self.mean + deviation * bell(random),
            Law::LogNormal { mu, sigma } => (mu + sigma * bell(random)).exp(),
            Law::Exponential => -self.mean * (1.0 - random.unit()).ln(),
        };
        // Casting a float to an integer saturates.
        sample.clamp(0.0, self.max).round() as u64
    }
}

/// Samples the standard normal distribution (Box–Muller transform).
fn bell(random: &mut Random) -> f64 {
    let radius = (-2.0 * (1.0 - random.unit()).ln()).sqrt();
    radius * (TAU * random.unit()).cos()
}

fn nanoseconds(duration: Duration) -> f64 {
    duration.as_nanos() as f64
}

/// Stall of the whole mock, once: anything that arrives or falls due during it is processed at its
/// end, as if the process had been stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stall {
    /// Start of the stall, counted from the first request.
    pub after: Duration,
    pub length: Duration,
}

impl Stall {
    /// Returns the due time of a response whose request arrived at `arrived_ns` and takes
    /// `latency_ns`; `first_ns` is the arrival of the very first request.
    pub(super) fn due_ns(&self, first_ns: u64, arrived_ns: u64, latency_ns: u64) -> u64 {
        let start = first_ns.saturating_add(whole_ns(self.after));
        let end = start.saturating_add(whole_ns(self.length));
        let awake = |at: u64| if (start..end).contains(&at) { end } else { at };
        awake(awake(arrived_ns).saturating_add(latency_ns))
    }
}

/// Converts a duration to nanoseconds; saturates at 584 years.
pub(super) fn whole_ns(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);
    const MS_NS: f64 = 1e6;

    fn samples(latency: Latency) -> Vec<f64> {
        let (sampler, mut random) = (latency.sampler(), Random::seeded(7));
        (0..100_000).map(|_| sampler.sample_ns(&mut random) as f64 / MS_NS).collect()
    }

    fn shaped(shape: Shape, spread: Option<Duration>) -> Latency {
        Latency { mean: 20 * MS, shape, spread, max: None }
    }

    #[test]
    fn every_shape_has_the_mean_and_the_spread_it_was_asked_for() {
        for (shape, spread, mean, deviation) in [
            (Shape::Fixed, None, 20.0, 0.0),
            (Shape::Uniform, Some(6 * MS), 20.0, 6.0 / 3f64.sqrt()),
            (Shape::Uniform, None, 20.0, 10.0 / 3f64.sqrt()),
            (Shape::Normal, None, 20.0, 2.0),
            (Shape::Normal, Some(4 * MS), 20.0, 4.0),
            (Shape::LogNormal, Some(5 * MS), 20.0, 5.0),
            (Shape::LogNormal, None, 20.0, 10.0),
            (Shape::Exponential, None, 20.0, 20.0),
        ] {
            let samples = samples(shaped(shape, spread));
            let count = samples.len() as f64;
            let found = samples.iter().sum::<f64>() / count;
            let squares = samples.iter().map(|sample| (sample - found).powi(2)).sum::<f64>();
            let spread = (squares / count).sqrt();
            assert!((found - mean).abs() < 0.2, "{shape:?}: mean {found}");
            assert!((spread - deviation).abs() < 0.3, "{shape:?}: deviation {spread}");
        }
    }

    #[test]
    fn a_lognormal_median_lies_below_its_mean() {
        let mut samples = samples(shaped(Shape::LogNormal, Some(20 * MS)));
        samples.sort_by(f64::total_cmp);
        // exp(mu) with sigma² = ln 2.
        let median = samples[samples.len() / 2];
        assert!((median - 20.0 / 2f64.sqrt()).abs() < 0.2, "{median}");
    }

    #[test]
    fn no_sample_leaves_its_bounds() {
        for shape in [Shape::Uniform, Shape::Normal, Shape::LogNormal, Shape::Exponential] {
            let latency = Latency { max: Some(25 * MS), ..shaped(shape, Some(20 * MS)) };
            let latency = if shape == Shape::Exponential {
                Latency { spread: None, ..latency }
            } else {
                latency
            };
            assert!(latency.check().is_ok(), "{shape:?}");
            assert!(
                samples(latency).iter().all(|sample| (0.0..=25.0).contains(sample)),
                "{shape:?}"
            );
        }
    }

    #[test]
    fn contradictions_are_named() {
        let zero = Latency { mean: Duration::ZERO, ..shaped(Shape::Normal, None) };
        let capped = Latency { max: Some(MS), ..shaped(Shape::Normal, None) };
        for (latency, key) in [
            (shaped(Shape::Fixed, Some(MS)), "latency-spread:"),
            (shaped(Shape::Exponential, Some(MS)), "latency-spread:"),
            (shaped(Shape::Uniform, Some(21 * MS)), "latency-spread:"),
            (zero, "latency-distribution:"),
            (capped, "latency-max:"),
            (Latency::fixed(2 * LATENCY_MAX), "latency:"),
        ] {
            let error = latency.check().expect_err(key).to_string();
            assert!(error.starts_with(key), "{error}");
        }
    }

    #[test]
    fn what_falls_into_a_stall_waits_for_its_end() {
        let stall = Stall { after: Duration::from_nanos(100), length: Duration::from_nanos(50) };
        // First request at 1,000: the stall is from 1,100 to 1,150.
        for (arrived, latency, due) in [
            (1_000, 20, 1_020),
            (1_090, 20, 1_150),
            (1_100, 20, 1_170),
            (1_149, 0, 1_150),
            (1_150, 20, 1_170),
            (1_000, 200, 1_200),
        ] {
            assert_eq!(stall.due_ns(1_000, arrived, latency), due, "{arrived} + {latency}");
        }
    }

    #[test]
    fn shapes_are_read_by_name() {
        for (name, shape) in Shape::NAMES {
            assert_eq!(name.parse::<Shape>(), Ok(shape));
            assert_eq!(shape.name(), name);
        }
        assert!("gauss".parse::<Shape>().expect_err("no shape").contains("normal"));
    }
}
