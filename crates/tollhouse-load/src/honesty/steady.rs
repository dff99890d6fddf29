//! Checks that the run was steady: warm-up excluded, and no trend in the recorded part.

use super::view::{Session, is_even, titles};
use super::{Findings, Severity};
use crate::report::figure;
use crate::result::{CaseResult, Interval};

/// Minimum number of intervals for a trend.
const INTERVALS_MIN: usize = 8;
/// Significance of a slope in standard errors; reached by chance in 1 of 400 runs with so few
/// intervals.
const STANDARD_ERRORS_MIN: f64 = 4.0;
/// Relative change over the run below which a trend is ignored.
const MOVE_MIN: f64 = 0.05;

/// Checks that a warm-up preceded the recording and that the recorded figures neither rise nor
/// fall.
pub(super) fn steady(session: &Session<'_>, findings: &mut Findings) {
    let mut cold = Vec::new();
    for (result, case) in session.measured() {
        if case.load.warm_up.is_zero() {
            cold.push(result);
        }
        if is_even(case) {
            trends(result, findings);
        }
    }
    if !cold.is_empty() {
        findings.overall(
            "warm-up",
            Severity::Note,
            format!(
                "No warm-up was left out ({}): connecting, filling caches and the first calls are in the \
                 figures. Let the load run before it is recorded (--warm-up).",
                session.called(&titles(cold)),
            ),
        );
    }
}

fn trends(result: &CaseResult, findings: &mut Findings) {
    let steady_part = last_two_thirds(&result.series);
    if steady_part.len() < INTERVALS_MIN {
        return;
    }
    // In an open loop the schedule determines the rate.
    let rates = (!result.open_loop)
        .then(|| trend(&points(steady_part, |interval| Some(interval.rate()))))
        .flatten();
    let times = trend(&points(steady_part, |interval| {
        (interval.p50_ns > 0).then_some(interval.p50_ns as f64)
    }));
    let found: Vec<String> = [
        rates.map(|trend| trend.describe("the rate", figure::rate)),
        times.map(|trend| trend.describe("p50", figure::time)),
    ]
    .into_iter()
    .flatten()
    .collect();
    if !found.is_empty() {
        findings.about(
            result,
            "steady",
            Severity::Caution,
            format!(
                "Not steady over the last two thirds: {}. The figure depends on how long one waits; warm \
                 up longer, or find what grows.",
                found.join(", "),
            ),
        );
    }
}

/// Returns the last two thirds of the intervals, without a shorter last interval.
fn last_two_thirds(series: &[Interval]) -> &[Interval] {
    let whole = match series {
        [first, .., last] if last.span_ns * 2 < first.span_ns => &series[..series.len() - 1],
        _ => series,
    };
    &whole[whole.len().div_ceil(3)..]
}

fn points(series: &[Interval], figure: impl Fn(&Interval) -> Option<f64>) -> Vec<(f64, f64)> {
    let point = |interval: &Interval| Some((interval.at_ns as f64 / 1e9, figure(interval)?));
    series.iter().filter_map(point).collect()
}

/// Significant linear trend, by its first and last value.
struct Trend {
    from: f64,
    to: f64,
}

impl Trend {
    fn describe(&self, what: &str, shown: impl Fn(f64) -> String) -> String {
        let verb = if self.to > self.from { "rises" } else { "falls" };
        format!("{what} {verb} from {} to {}", shown(self.from), shown(self.to))
    }
}

/// Returns the least-squares line, if its slope is significant and large enough.
fn trend(points: &[(f64, f64)]) -> Option<Trend> {
    if points.len() < INTERVALS_MIN {
        return None;
    }
    let count = points.len() as f64;
    let mean_x = points.iter().map(|(x, _)| x).sum::<f64>() / count;
    let mean_y = points.iter().map(|(_, y)| y).sum::<f64>() / count;
    let spread_x: f64 = points.iter().map(|(x, _)| (x - mean_x).powi(2)).sum();
    if spread_x <= 0.0 || mean_y <= 0.0 {
        return None;
    }
    let product: f64 = points.iter().map(|(x, y)| (x - mean_x) * (y - mean_y)).sum();
    let slope = product / spread_x;
    let at = |x: f64| mean_y + slope * (x - mean_x);
    let rest: f64 = points.iter().map(|(x, y)| (y - at(*x)).powi(2)).sum();
    let error = (rest / (count - 2.0) / spread_x).sqrt();
    let (first, last) = (points.first()?.0, points.last()?.0);
    let matters = (slope * (last - first)).abs() > MOVE_MIN * mean_y;
    (matters && slope.abs() > STANDARD_ERRORS_MIN * error)
        .then(|| Trend { from: at(first), to: at(last) })
}
