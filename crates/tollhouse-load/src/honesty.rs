//! The rules of honesty: warnings that a reader must know before quoting a number from a report.
//!
//! Each rule examines only the figures of a report, so that older files, published tables and fresh
//! runs are treated alike. A rule without enough data raises no warning; gaps in a table are
//! reported once. Every message gives the numbers and the remedy. `docs/concepts/honest-numbers.md`
//! explains the rules.

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

/// Returns the warnings about a report, most severe first, otherwise in the order of the rules.
/// Warnings already stored in the report are ignored.
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

/// A rule reads the session and adds its warnings to the findings.
type Rule = fn(&Session<'_>, &mut Findings);

/// All rules, in the order useful to a reader: impossible figures, then misleading ones, then gaps.
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

/// Rules that need figures only, for published tables.
const RULES_OF_TABLES: [Rule; 4] =
    [arithmetic::littles_law, arithmetic::order, copied::repeated_figures, headline::outlier];

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

    /// Raises a warning about the whole report or several of its cases, which the message names.
    fn overall(&mut self, rule: &'static str, severity: Severity, message: String) {
        let about = String::new();
        self.warnings.push(Warning { rule: rule.into(), severity, about, message });
    }
}

#[cfg(test)]
mod tests;
