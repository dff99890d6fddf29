//! Checks published figures shown beside the report's own. Only impossible figures are reported, in
//! one note per rule, because they affect the reader's comparison and not the measurement.

use super::view::{Session, names};
use super::{Findings, RULES_OF_TABLES, Severity};
use crate::report::Report;

/// Checks published figures by the rules for measured ones.
pub(super) fn evaluate(report: &Report, findings: &mut Findings) {
    if report.published.is_empty() {
        return;
    }
    let table = Report { results: report.published.clone(), ..Report::default() };
    let session = Session::new(&table);
    let mut raised = Findings::default();
    for rule in RULES_OF_TABLES {
        rule(&session, &mut raised);
    }
    let mut rules: Vec<&str> = raised.warnings.iter().map(|warning| &*warning.rule).collect();
    rules.dedup();
    // Once per rule instead of per row, because readers cannot correct the figures of others.
    for rule in rules {
        let of_rule = raised.warnings.iter().filter(|warning| warning.rule == rule);
        let cases: Vec<&str> =
            of_rule.clone().map(|warning| &*warning.about).filter(|it| !it.is_empty()).collect();
        let Some(first) = of_rule.clone().next() else { continue };
        let about = if cases.is_empty() { "several rows".into() } else { names(&cases) };
        findings.overall(
            "published",
            Severity::Note,
            format!(
                "Published figures that are shown here for comparison do not hold ({rule}; {about}). The \
                 first: {}",
                first.message
            ),
        );
    }
}
