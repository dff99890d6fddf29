//! Detects table cells copied from another row.

use super::view::{Session, title};
use super::{Findings, Severity};
use crate::report::figure;
use crate::result::CaseResult;

/// Number of significant digits from which measured times repeat only by accident.
const DIGITS_MIN: usize = 4;

/// Reports tables whose times repeat to four digits between rows, because such cells were copied by
/// hand.
pub(super) fn repeated_figures(session: &Session<'_>, findings: &mut Findings) {
    let mut seen: Vec<(f64, String)> = Vec::new();
    let mut repeated = Vec::new();
    for result in session.results().filter(|result| result.case.is_none()) {
        for (figure, value_ns) in table_times(result) {
            let here = format!("{figure} of {}", title(result));
            let same = seen.iter().find(|(other_ns, _)| (other_ns / value_ns - 1.0).abs() < 1e-5);
            if let Some((_, there)) = same {
                repeated.push(format!("{} is the {there} and the {here}", figure::time(value_ns)));
            }
            seen.push((value_ns, here));
        }
    }
    if !repeated.is_empty() {
        findings.overall(
            "repeated-figures",
            Severity::Caution,
            format!(
                "{}. Measured times do not repeat to the last digit; cells were copied. Take them from \
                 the raw data again.",
                repeated.join("; "),
            ),
        );
    }
}

/// Returns mean and percentiles of a table row that have enough significant digits to be
/// distinguishable.
fn table_times(result: &CaseResult) -> Vec<(String, f64)> {
    let times = result.headline();
    let percentiles =
        times.percentiles.iter().map(|(percent, value)| (format!("p{percent}"), *value as f64));
    std::iter::once(("mean".to_owned(), times.mean_ns))
        .chain(percentiles)
        .filter(|(_, value_ns)| significant_digits(*value_ns) >= DIGITS_MIN)
        .collect()
}

fn significant_digits(value: f64) -> usize {
    let text = format!("{value:.0}");
    text.trim_end_matches('0').len()
}
