//! The rules of honesty: what a reader must know before quoting a number of a report.
//!
//! Each rule looks at a report's figures only, so that a file of yesterday, a table that somebody
//! published and a run that just ended are judged alike. A rule that cannot tell stays silent; what a
//! table leaves out is named once. Every message gives the numbers and the remedy. Why each rule is
//! there: `docs/concepts/honest-numbers.md`.

mod arithmetic;
mod baseline;
mod conditions;
mod context;
mod copied;
mod failures;
mod generator;
mod headline;
mod payload;
mod published;
mod repetition;
mod samples;
mod schedule;
mod steady;
mod view;

use crate::report::{Report, Severity, Warning};
use crate::result::CaseResult;
use view::Session;

/// What is to be said about a report: the gravest first, within a weight in the order of the rules.
/// Warnings that the report already holds are not looked at.
pub fn evaluate(report: &Report) -> Vec<Warning> {
    let session = Session::new(report);
    let mut findings = Findings::default();
    for rule in RULES {
        rule(&session, &mut findings);
    }
    published::evaluate(report, &mut findings);
    findings.warnings.sort_by_key(|warning| std::cmp::Reverse(warning.severity));
    findings.warnings
}

/// A rule reads the session and raises what it finds.
type Rule = fn(&Session<'_>, &mut Findings);

/// The rules, in the order in which a reader wants them: first what cannot be true, then what may
/// mislead, then what is missing.
const RULES: [Rule; 22] = [
    arithmetic::littles_law,
    arithmetic::order,
    copied::repeated_figures,
    baseline::below_direct,
    samples::duration,
    samples::interrupted,
    schedule::rate_kept,
    schedule::slip,
    failures::failures,
    samples::unfinished,
    payload::payload,
    generator::busy,
    generator::loop_delay,
    baseline::drift,
    steady::steady,
    headline::outlier,
    repetition::spread,
    conditions::conditions,
    samples::beyond,
    repetition::repetitions,
    schedule::closed_loop,
    context::context,
];

/// Those that need figures alone; for tables that others published.
const RULES_OF_TABLES: [Rule; 4] =
    [arithmetic::littles_law, arithmetic::order, copied::repeated_figures, headline::outlier];

/// What was raised so far.
#[derive(Default)]
struct Findings {
    warnings: Vec<Warning>,
}

impl Findings {
    /// Raises a warning about one result.
    fn about(
        &mut self,
        result: &CaseResult,
        rule: &'static str,
        severity: Severity,
        message: String,
    ) {
        let about = view::title(result);
        self.warnings.push(Warning { rule: rule.into(), severity, about, message });
    }

    /// Raises a warning about the report as a whole, or about several of its cases, which the message names.
    fn overall(&mut self, rule: &'static str, severity: Severity, message: String) {
        let about = String::new();
        self.warnings.push(Warning { rule: rule.into(), severity, about, message });
    }
}

#[cfg(test)]
mod tests;
