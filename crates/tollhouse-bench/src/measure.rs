//! Fair measurements of several proxies. To compare CPU time, all proxies are under load
//! concurrently, so that a disturbance of the machine affects all of them at once. To compare
//! response times, each proxy is measured alone in turn, round after round. The result is the
//! median of the rounds.

use super::peer::Proxy;
use super::plan::Plan;
use super::wrk::{self, Load, Outcome};
use anyhow::{Context, Result, bail};
use serde_json::{Value, json};
use std::path::Path;
use std::time::{Duration, Instant};

/// Duration of the warm-up before the first round, for connections to the origin, caches and the
/// allocator.
const WARM_UP: Duration = Duration::from_secs(1);

/// Proxy in a comparison (contender), with the load that is sent to it.
pub(crate) struct Contender<'a> {
    pub(crate) label: String,
    pub(crate) proxy: &'a Proxy,
    pub(crate) path: &'a str,
    pub(crate) script: Option<&'a Path>,
    pub(crate) connections: usize,
}

/// Figures of a contender, each the median over the rounds.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    pub(crate) label: String,
    pub(crate) requests_per_second: f64,
    pub(crate) p50_us: f64,
    pub(crate) p99_us: f64,
    pub(crate) cpu_us_per_request: f64,
    /// Number of failed requests: the sum over the rounds, because even one lost request matters.
    pub(crate) errors: u64,
}

/// Measurements of one contender in one round.
pub(crate) struct Sample {
    outcome: Outcome,
    cpu_us_per_request: f64,
}

/// Measures the contenders one after the other, and repeats this round after round.
pub(crate) fn in_rounds(plan: &Plan, contenders: &[Contender<'_>]) -> Result<Vec<Row>> {
    let mut samples: Vec<Vec<Sample>> = contenders.iter().map(|_| Vec::new()).collect();
    for contender in contenders {
        contender.turn(WARM_UP)?;
    }
    for _ in 0..plan.rounds {
        for (contender, kept) in contenders.iter().zip(&mut samples) {
            kept.push(contender.turn(plan.round)?);
        }
    }
    let rows = contenders.iter().zip(&samples);
    Ok(rows.map(|(contender, kept)| Row::from_samples(&contender.label, kept)).collect())
}

/// Result of a comparison of contenders that are under load concurrently.
pub(crate) struct Concurrent {
    pub(crate) rows: Vec<Row>,
    /// CPU time per request of each contender in each round, in the order of the contenders.
    cpu_by_round: Vec<Vec<f64>>,
}

impl Concurrent {
    /// Returns the CPU time per request of one contender relative to another's: the median of the
    /// ratios within each round.
    pub(crate) fn ratio(&self, label: &str, other: &str) -> Option<f64> {
        let index = |label: &str| self.rows.iter().position(|row| row.label == label);
        let (this, other) = (index(label)?, index(other)?);
        let ratios = self.cpu_by_round.iter().map(|round| round[this] / round[other]);
        Some(median(ratios.collect()))
    }
}

/// Measures all contenders concurrently, each under a separate load. On a machine whose clock rate
/// and neighbours change, successive rounds would differ more than the contenders do.
pub(crate) fn concurrently(plan: &Plan, contenders: &[Contender<'_>]) -> Result<Concurrent> {
    let mut samples: Vec<Vec<Sample>> = contenders.iter().map(|_| Vec::new()).collect();
    let mut cpu_by_round = Vec::new();
    turn_at_once(contenders, WARM_UP)?;
    for _ in 0..plan.rounds {
        let round = turn_at_once(contenders, plan.round)?;
        cpu_by_round.push(round.iter().map(|sample| sample.cpu_us_per_request).collect());
        for (kept, sample) in samples.iter_mut().zip(round) {
            kept.push(sample);
        }
    }
    let rows = contenders.iter().zip(&samples);
    let rows = rows.map(|(contender, kept)| Row::from_samples(&contender.label, kept)).collect();
    Ok(Concurrent { rows, cpu_by_round })
}

fn turn_at_once(contenders: &[Contender<'_>], duration: Duration) -> Result<Vec<Sample>> {
    at_once(contenders, |contender| contender.turn(duration))
}

/// Calls `act` for all items concurrently, each on its own thread.
pub(crate) fn at_once<T: Sync, R: Send>(
    items: &[T],
    act: impl Fn(&T) -> Result<R> + Sync,
) -> Result<Vec<R>> {
    std::thread::scope(|scope| {
        let act = &act;
        let threads: Vec<_> = items.iter().map(|item| scope.spawn(move || act(item))).collect();
        threads.into_iter().map(|thread| thread.join().expect("no panic")).collect()
    })
}

impl Contender<'_> {
    /// Sends the contender's load for `duration`, and measures the CPU time that it costs the
    /// proxy.
    pub(crate) fn turn(&self, duration: Duration) -> Result<Sample> {
        let load = Load {
            port: self.proxy.port,
            path: self.path,
            connections: self.connections,
            script: self.script,
            duration,
        };
        self.account(|| wrk::run(&load))
    }

    /// Measures the CPU time that a load costs the proxy.
    pub(crate) fn account(&self, load: impl FnOnce() -> Result<Outcome>) -> Result<Sample> {
        let before = self.proxy.program.cpu_time().unwrap_or_default();
        let outcome = load().with_context(|| self.label.clone())?;
        let spent = self.proxy.program.cpu_time()?.saturating_sub(before);
        if outcome.requests == 0 {
            bail!("{}: no request was answered", self.label);
        }
        let cpu_us_per_request = spent.as_secs_f64() * 1e6 / outcome.requests as f64;
        Ok(Sample { outcome, cpu_us_per_request })
    }
}

impl Row {
    /// Returns the medians of a contender's samples.
    pub(crate) fn from_samples(label: &str, samples: &[Sample]) -> Self {
        let median_of = |value: fn(&Sample) -> f64| median(samples.iter().map(value).collect());
        Self {
            label: label.to_owned(),
            requests_per_second: median_of(|sample| sample.outcome.requests_per_second),
            p50_us: median_of(|sample| sample.outcome.p50_us),
            p99_us: median_of(|sample| sample.outcome.p99_us),
            cpu_us_per_request: median_of(|sample| sample.cpu_us_per_request),
            errors: samples.iter().map(|sample| sample.outcome.errors).sum(),
        }
    }

    /// Returns the row in the format of the result files.
    pub(crate) fn to_json(&self) -> Value {
        json!({
            "label": self.label,
            "requests_per_second": self.requests_per_second,
            "p50_us": self.p50_us,
            "p99_us": self.p99_us,
            "cpu_us_per_request": self.cpu_us_per_request,
            "errors": self.errors,
        })
    }
}

/// Returns the middle value, or the mean of the two middle values if the count is even.
pub(crate) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() {
        0 => f64::NAN,
        n if n % 2 == 1 => values[middle],
        _ => (values[middle - 1] + values[middle]) / 2.0,
    }
}

/// Returns a percentile of the sorted values: the value below which this number of hundredths of
/// them lie.
pub(crate) fn percentile(sorted: &[f64], hundredths: usize) -> f64 {
    let index = (sorted.len() * hundredths).div_ceil(100).saturating_sub(1);
    sorted.get(index).copied().unwrap_or(f64::NAN)
}

/// Repeats a check without a pause until it succeeds, and returns the time until then in
/// milliseconds.
///
/// # Errors
/// If the check fails, or does not succeed in time.
pub(crate) fn wait_ms(
    what: &str,
    limit: Duration,
    mut is_so: impl FnMut() -> Result<bool>,
) -> Result<f64> {
    let start = Instant::now();
    while !is_so().with_context(|| format!("waiting until {what}"))? {
        if start.elapsed() > limit {
            bail!("waited {limit:?} until {what}");
        }
    }
    Ok(start.elapsed().as_secs_f64() * 1e3)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(p99_us: f64, errors: u64) -> Sample {
        let outcome =
            Outcome { requests: 1, requests_per_second: 1.0, p50_us: 1.0, p99_us, errors };
        Sample { outcome, cpu_us_per_request: p99_us / 10.0 }
    }

    #[test]
    fn medians_forgive_one_bad_round_errors_do_not() {
        let row = Row::from_samples("a", &[sample(100.0, 0), sample(9000.0, 2), sample(120.0, 0)]);
        assert_eq!((row.p99_us, row.cpu_us_per_request, row.errors), (120.0, 12.0, 2));
    }

    #[test]
    fn ratios_are_taken_within_a_round() {
        // The second round met a machine of half the speed, which neither contender is to blame for.
        let measured = Concurrent {
            rows: ["a", "b"].map(|label| Row::from_samples(label, &[sample(1.0, 0)])).into(),
            cpu_by_round: vec![vec![8.0, 10.0], vec![16.0, 20.0], vec![9.0, 10.0]],
        };
        assert_eq!(measured.ratio("a", "b"), Some(0.8));
        assert_eq!(measured.ratio("a", "c"), None);
    }

    #[test]
    fn percentiles_are_values_that_occurred() {
        let values: Vec<f64> = (1..=500).map(f64::from).collect();
        assert_eq!(percentile(&values, 50), 250.0);
        assert_eq!(percentile(&values, 99), 495.0);
        assert_eq!(percentile(&values, 100), 500.0);
        assert!(percentile(&[], 99).is_nan());
    }

    #[test]
    fn the_median_of_an_even_count_lies_between() {
        assert_eq!(median(vec![4.0, 1.0, 3.0, 2.0]), 2.5);
        assert!(median(Vec::new()).is_nan());
    }
}
