//! Checks that enough was measured for the figures given.

use super::view::{Session, elapsed_seconds, names, sample_count, title, titles};
use super::{Findings, Severity};
use crate::case::Metric;
use crate::report::figure;
use crate::result::{CaseResult, End};

/// Minimum duration in seconds; a shorter run measures its own start.
const SECONDS_MIN: f64 = 1.0;
/// Duration that averages over effects of caches, pools and clock frequencies.
const SECONDS_ENOUGH: f64 = 30.0;
/// Number of samples with which a shorter run suffices.
const SAMPLES_ENOUGH: u64 = 100_000;
/// Samples beyond a percentile below which it depends on single requests.
const BEYOND_MIN: f64 = 10.0;
/// Samples beyond a percentile from which it is repeatable.
const BEYOND_ENOUGH: f64 = 100.0;

/// Requires 30 s or 100,000 samples; runs below one second are invalid.
pub(super) fn duration(session: &Session<'_>, findings: &mut Findings) {
    let mut short = Vec::new();
    for result in session.results() {
        let Some(seconds) = elapsed_seconds(result) else { continue };
        let samples = sample_count(result);
        if seconds < SECONDS_MIN {
            findings.about(
                result,
                "duration",
                Severity::Invalid,
                format!(
                    "Lasted {}: its times are those of connecting and warming up. Measure for \
                     {SECONDS_ENOUGH} s.",
                    figure::time(seconds * 1e9),
                ),
            );
        // Either one suffices.
        } else if seconds < SECONDS_ENOUGH && samples.is_some_and(|count| count < SAMPLES_ENOUGH) {
            short.push(format!(
                "{} ({}, {} samples)",
                title(result),
                figure::time(seconds * 1e9),
                figure::count(samples.unwrap_or(0)),
            ));
        }
    }
    if !short.is_empty() {
        findings.overall(
            "duration",
            Severity::Caution,
            format!(
                "Measured for less than {SECONDS_ENOUGH} s and with fewer than {} samples: {}. Measure \
                 for {SECONDS_ENOUGH} s or longer (--duration).",
                figure::count(SAMPLES_ENOUGH),
                names(&short),
            ),
        );
    }
}

pub(super) fn interrupted(session: &Session<'_>, findings: &mut Findings) {
    for result in session.results().filter(|result| result.end == End::Interrupted) {
        let seconds = elapsed_seconds(result).unwrap_or(0.0);
        findings.about(
            result,
            "interrupted",
            Severity::Caution,
            format!(
                "Interrupted after {}: the figures are of that part only. Let the case run to its end \
                 before comparing it.",
                figure::time(seconds * 1e9),
            ),
        );
    }
}

/// Checks the number of samples beyond each percentile: 10 to show it, 100 to be repeatable.
pub(super) fn beyond(session: &Session<'_>, findings: &mut Findings) {
    let mut few = Vec::new();
    for result in session.results() {
        let Some(samples) = sample_count(result) else { continue };
        for percent in claimed(result) {
            // The tolerance of a millionth compensates for rounding just below 10.
            let beyond = samples as f64 * (1.0 - percent / 100.0);
            if beyond < BEYOND_MIN - 1e-6 {
                findings.about(
                    result,
                    "samples-beyond",
                    Severity::Caution,
                    format!(
                        "p{percent} rests on {} of {} samples: it is the time of single requests. Take \
                         {} samples or more, or name a lower percentile.",
                        figure::rate(beyond.floor()),
                        figure::count(samples),
                        figure::rate(BEYOND_MIN * 100.0 / (100.0 - percent)),
                    ),
                );
            } else if beyond < BEYOND_ENOUGH - 1e-6 {
                few.push(format!("p{percent} of {} ({})", title(result), beyond.floor()));
            }
        }
    }
    if !few.is_empty() {
        findings.overall(
            "samples-beyond",
            Severity::Note,
            format!(
                "Fewer than {BEYOND_ENOUGH} samples lie beyond {}: another run may give another figure. \
                 Measure longer.",
                names(&few),
            ),
        );
    }
}

/// Returns the percentiles likely to be quoted: the p99, those of thresholds, and all of a table.
/// Other percentiles of a measurement are shown only if enough samples lie beyond them.
fn claimed(result: &CaseResult) -> Vec<f64> {
    let Some(case) = &result.case else {
        let given = result.headline().percentiles.iter();
        return given.map(|(percent, _)| *percent).filter(|percent| *percent < 100.0).collect();
    };
    let mut claimed = vec![99.0];
    for threshold in &case.thresholds {
        if let Metric::Percentile(percent) = threshold.metric
            && percent < 100.0
            && !claimed.contains(&percent)
        {
            claimed.push(percent);
        }
    }
    claimed
}

/// Reports results with many requests in flight at the end, because the slowest requests are
/// missing from the times.
pub(super) fn unfinished(session: &Session<'_>, findings: &mut Findings) {
    /// Share of unfinished requests from which a p99 can change.
    const SHARE_MAX: f64 = 0.01;
    let many = titles(session.results().filter(|result| {
        let counts = &result.counts;
        counts.unfinished as f64 > SHARE_MAX * counts.completed.max(1) as f64
    }));
    if !many.is_empty() {
        findings.overall(
            "unfinished",
            Severity::Note,
            format!(
                "More than {} of the requests were cut off at the end ({}): the slowest are not in the \
                 times. Measure longer, or wait for them (--at-end wait).",
                figure::percent(SHARE_MAX),
                session.called(&many),
            ),
        );
    }
}
