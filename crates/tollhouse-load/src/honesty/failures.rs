//! Reports failures beside every rate.

use super::view::Session;
use super::{Findings, Severity};
use crate::report::figure;
use crate::result::CaseResult;

/// Share of failures above which the rate describes failing requests.
const SHARE_CAUTION: f64 = 0.01;
/// Share of failures above which the figures do not describe the target's work.
const SHARE_INVALID: f64 = 0.10;

/// Reports the failures of each result by class. Failures are excluded from the headline figures.
pub(super) fn failures(session: &Session<'_>, findings: &mut Findings) {
    for result in session.results().filter(|result| result.counts.failed > 0) {
        let counts = &result.counts;
        // A table may count failures separately from completed requests; a share above 1 would be
        // meaningless.
        let share = counts.failed as f64 / counts.completed.max(counts.failed) as f64;
        let severity = match share {
            share if share > SHARE_INVALID => Severity::Invalid,
            share if share > SHARE_CAUTION => Severity::Caution,
            _ => Severity::Note,
        };
        findings.about(
            result,
            "failures",
            severity,
            format!(
                "{} of {} requests failed ({}: {}){}. Quote the goodput of {} requests/s, not the {} of \
                 all; failures are excluded from the latencies. Remove their cause before comparing.",
                figure::count(counts.failed),
                figure::count(counts.completed),
                figure::percent(share),
                classes(result),
                wrong_answers(result),
                figure::rate(result.goodput),
                figure::rate(result.rate),
            ),
        );
    }
}

fn classes(result: &CaseResult) -> String {
    let mut classes: Vec<_> = result.counts.failures.iter().collect();
    classes.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
    match classes.is_empty() {
        true => "class unknown".to_owned(),
        false => {
            let named = classes
                .into_iter()
                .map(|(class, failed)| format!("{class} {}", figure::count(*failed)));
            named.collect::<Vec<_>>().join(", ")
        }
    }
}

/// Returns the text about responses with status 200 that failed a check: servers that send errors
/// with status 200 deceive tools that check only the status.
fn wrong_answers(result: &CaseResult) -> &'static str {
    let has_ok = result.counts.statuses.keys().any(|status| status == "200" || status == "OK");
    let has_checks = result.counts.failures.get("check").is_some_and(|failed| *failed > 0);
    match has_ok && has_checks {
        true => "; answers of status 200 among them are not what was asked for",
        false => "",
    }
}
