//! Failures stand beside every rate.

use super::view::Session;
use super::{Findings, Severity};
use crate::report::figure;
use crate::result::CaseResult;

/// Above this share of failures the rate is one of failing.
const SHARE_CAUTION: f64 = 0.01;
/// Above this share there is nothing to be said about the target's work.
const SHARE_INVALID: f64 = 0.10;

/// Failures are counted, named by class, and taken out of the headline.
pub(super) fn failures(session: &Session<'_>, findings: &mut Findings) {
    for result in session.results().filter(|result| result.counts.failed > 0) {
        let counts = &result.counts;
        // A table may count failures beside what completed instead of among it; a share above 1
        // would say nothing.
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

/// A server that answers its errors with status 200 fools every tool that looks at the status only.
fn wrong_answers(result: &CaseResult) -> &'static str {
    let has_ok = result.counts.statuses.keys().any(|status| status == "200" || status == "OK");
    let has_checks = result.counts.failures.get("check").is_some_and(|failed| *failed > 0);
    match has_ok && has_checks {
        true => "; answers of status 200 among them are not what was asked for",
        false => "",
    }
}
