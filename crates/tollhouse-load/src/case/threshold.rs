//! A condition on a result, such as `p99 < 50ms`, `failure_rate < 1%`, `goodput > 20000`.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::report::figure;
use crate::result::CaseResult;

/// Figure of a result to which a condition applies.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Metric {
    /// Percentile, `p50` … `p99.99`: of the latency in an open loop, otherwise of the response
    /// time.
    Percentile(f64),
    /// Mean of the response times or latencies.
    Mean,
    /// Maximum of the response times or latencies.
    Max,
    /// Number of successful requests per second.
    Goodput,
    /// Number of completed requests per second.
    Rate,
    /// Ratio of failed to completed requests, 0 to 1.
    FailureRate,
    Failures,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Comparison {
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

/// A condition on a result. Bounds on times are in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Threshold {
    pub metric: Metric,
    pub comparison: Comparison,
    /// Value that the figure is compared with.
    pub bound: f64,
}

/// Error for a text that is not a valid condition.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{text}` is not a threshold: {why}; write FIGURE SIGN BOUND, such as `p99 < 50ms`, `mean <= 20ms`, \
     `failure_rate < 1%`, `goodput > 20000`"
)]
pub struct ThresholdError {
    text: String,
    why: String,
}

impl FromStr for Threshold {
    type Err = ThresholdError;

    fn from_str(text: &str) -> Result<Self, ThresholdError> {
        parse(text).map_err(|why| ThresholdError { text: text.to_owned(), why })
    }
}

fn parse(text: &str) -> Result<Threshold, String> {
    let at = text.find(['<', '>']).ok_or("no `<` or `>` in it")?;
    let (name, rest) = text.split_at(at);
    let (sign, bound) = match rest.as_bytes().get(1) {
        Some(b'=') => rest.split_at(2),
        _ => rest.split_at(1),
    };
    let comparison = match sign {
        "<" => Comparison::Less,
        "<=" => Comparison::LessOrEqual,
        ">" => Comparison::Greater,
        _ => Comparison::GreaterOrEqual,
    };
    let metric = parse_metric(name.trim())?;
    Ok(Threshold { metric, comparison, bound: parse_bound(metric, bound.trim())? })
}

fn parse_metric(name: &str) -> Result<Metric, String> {
    Ok(match name {
        "mean" | "avg" => Metric::Mean,
        "max" => Metric::Max,
        "goodput" => Metric::Goodput,
        "rate" | "qps" | "rps" => Metric::Rate,
        "failure_rate" | "error_rate" => Metric::FailureRate,
        "failures" | "errors" => Metric::Failures,
        _ => {
            let percent = name.strip_prefix('p').and_then(|percent| percent.parse::<f64>().ok());
            match percent {
                Some(percent) if (0.0..=100.0).contains(&percent) => Metric::Percentile(percent),
                _ => return Err(format!("`{name}` is not a figure of a result")),
            }
        }
    })
}

fn parse_bound(metric: Metric, text: &str) -> Result<f64, String> {
    let number = |text: &str| {
        let value = text.parse::<f64>().ok().filter(|value| value.is_finite());
        value.ok_or_else(|| format!("`{text}` is not a number"))
    };
    match metric {
        Metric::Percentile(_) | Metric::Mean | Metric::Max => {
            Ok(tollhouse_stdx::fine_duration::parse(text)?.as_nanos() as f64)
        }
        Metric::FailureRate => match text.strip_suffix('%') {
            Some(percent) => Ok(number(percent.trim())? / 100.0),
            None => number(text),
        },
        Metric::Goodput | Metric::Rate | Metric::Failures => number(text),
    }
}

impl Threshold {
    /// Checks whether a result meets the condition. A figure that was not measured does not meet
    /// it.
    ///
    /// # Errors
    /// If the condition is not met; the message holds the condition and the measured value, such
    /// as `p99 < 50ms: 61.3ms`.
    pub fn evaluate(&self, result: &CaseResult) -> Result<(), String> {
        let seen = self.metric.value(result).filter(|seen| !seen.is_nan());
        let Some(seen) = seen else {
            return Err(format!("{self}: was not measured"));
        };
        let is_met = match self.comparison {
            Comparison::Less => seen < self.bound,
            Comparison::LessOrEqual => seen <= self.bound,
            Comparison::Greater => seen > self.bound,
            Comparison::GreaterOrEqual => seen >= self.bound,
        };
        if is_met { Ok(()) } else { Err(format!("{self}: {}", self.metric.format(seen))) }
    }
}

impl Metric {
    /// Returns the figure from a result, in the unit of the bounds.
    fn value(self, result: &CaseResult) -> Option<f64> {
        let times = result.headline();
        let any = |figure: f64| (!times.is_empty()).then_some(figure);
        match self {
            Metric::Percentile(percent) => times.percentile_ns(percent).map(|value| value as f64),
            Metric::Mean => any(times.mean_ns),
            Metric::Max => any(times.max_ns as f64),
            Metric::Goodput => Some(result.goodput),
            Metric::Rate => Some(result.rate),
            Metric::FailureRate => {
                // Without completed requests the rate is undefined: 0 of 0 must not pass
                // `failure_rate < 1%`.
                let completed = result.counts.completed;
                (completed > 0).then(|| result.counts.failed as f64 / completed as f64)
            }
            Metric::Failures => Some(result.counts.failed as f64),
        }
    }

    fn format(self, seen: f64) -> String {
        match self {
            Metric::Percentile(_) | Metric::Mean | Metric::Max => {
                figure::time(seen).replace(' ', "")
            }
            Metric::FailureRate => figure::percent(seen).replace(' ', ""),
            Metric::Goodput | Metric::Rate => figure::rate(seen),
            Metric::Failures => figure::count(seen as u64),
        }
    }
}

impl TryFrom<String> for Threshold {
    type Error = ThresholdError;

    fn try_from(text: String) -> Result<Self, ThresholdError> {
        text.parse()
    }
}

impl From<Threshold> for String {
    fn from(threshold: Threshold) -> Self {
        threshold.to_string()
    }
}

impl fmt::Display for Threshold {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = match self.comparison {
            Comparison::Less => "<",
            Comparison::LessOrEqual => "<=",
            Comparison::Greater => ">",
            Comparison::GreaterOrEqual => ">=",
        };
        match self.metric {
            Metric::Percentile(percent) => write!(out, "p{percent} {sign} {}", time(self.bound)),
            Metric::Mean => write!(out, "mean {sign} {}", time(self.bound)),
            Metric::Max => write!(out, "max {sign} {}", time(self.bound)),
            Metric::Goodput => write!(out, "goodput {sign} {}", self.bound),
            Metric::Rate => write!(out, "rate {sign} {}", self.bound),
            Metric::FailureRate => write!(out, "failure_rate {sign} {}%", self.bound * 100.0),
            Metric::Failures => write!(out, "failures {sign} {}", self.bound),
        }
    }
}

fn time(nanoseconds: f64) -> String {
    tollhouse_stdx::fine_duration::format(Duration::from_nanos(nanoseconds as u64))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::distribution::Distribution;
    use crate::result::Counts;

    #[test]
    fn a_missed_condition_says_what_was_seen() {
        let result = CaseResult {
            rate: 20_472.95,
            goodput: 20_000.0,
            counts: Counts { completed: 1_000, failed: 25, ..Counts::default() },
            response_time: Distribution {
                count: 975,
                mean_ns: 22_090_000.0,
                max_ns: 1_043_330_000,
                percentiles: vec![(50.0, 19_370_000), (99.0, 61_300_000)],
                ..Distribution::default()
            },
            ..CaseResult::default()
        };
        for (text, expected) in [
            ("p99 < 50ms", Err("p99 < 50ms: 61.30ms")),
            ("p99 < 61.3ms", Err("p99 < 61300us: 61.30ms")),
            ("p99 <= 61.3ms", Ok(())),
            ("p50 < 20ms", Ok(())),
            ("p75 < 1s", Err("p75 < 1s: was not measured")),
            ("mean < 20ms", Err("mean < 20ms: 22.09ms")),
            ("max < 1s", Err("max < 1s: 1.043s")),
            ("goodput >= 20000", Ok(())),
            ("rate > 30000", Err("rate > 30000: 20,473")),
            ("failure_rate < 1%", Err("failure_rate < 1%: 2.5%")),
            ("failures < 25", Err("failures < 25: 25")),
        ] {
            let evaluated = text.parse::<Threshold>().expect(text).evaluate(&result);
            assert_eq!(evaluated, expected.map_err(str::to_owned), "{text}");
        }
    }

    #[test]
    fn a_run_without_a_single_answer_meets_no_condition_on_answers() {
        for text in ["p99 < 1s", "mean < 1s", "max < 1s", "failure_rate < 1%", "goodput > 0"] {
            let evaluated = text.parse::<Threshold>().expect(text).evaluate(&CaseResult::default());
            assert!(evaluated.is_err(), "{text}");
        }
    }

    #[test]
    fn a_condition_is_read_and_written_back() {
        for (text, again) in [
            ("p99 < 50ms", "p99 < 50ms"),
            ("p99.9<=1s", "p99.9 <= 1s"),
            ("failure_rate < 1%", "failure_rate < 1%"),
            ("error_rate<0.5", "failure_rate < 50%"),
            ("qps >= 20000", "rate >= 20000"),
            ("goodput>1.5", "goodput > 1.5"),
        ] {
            assert_eq!(text.parse::<Threshold>().expect(text).to_string(), again);
        }
    }

    #[test]
    fn what_is_no_condition_is_named_with_an_example() {
        for text in
            ["", "p99", "p101 < 1s", "px < 1s", "p99 < fast", "goodput > lots", "rate > inf"]
        {
            let error = text.parse::<Threshold>().expect_err(text).to_string();
            assert!(error.contains("such as"), "{error}");
        }
    }
}
