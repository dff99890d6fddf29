//! Outcomes of thresholds over the results of a report.

use serde::Serialize;

use crate::result::CaseResult;

/// Outcomes of one condition.
#[derive(Debug, Default, Serialize)]
pub struct Outcome {
    /// Condition as written, such as `p99 < 50ms`.
    pub condition: String,
    /// Number of results that met it.
    pub met: usize,
    /// Results that missed it: the case, and the measured value.
    pub missed: Vec<(String, String)>,
}

/// Returns each condition once, in order of appearance.
pub fn outcomes(results: &[CaseResult]) -> Vec<Outcome> {
    let mut outcomes: Vec<Outcome> = Vec::new();
    let mut at = |condition: &str| -> usize {
        let known = outcomes.iter().position(|outcome| outcome.condition == condition);
        known.unwrap_or_else(|| {
            outcomes.push(Outcome { condition: condition.to_owned(), ..Outcome::default() });
            outcomes.len() - 1
        })
    };
    let mut entries: Vec<(usize, Option<(String, String)>)> = Vec::new();
    for result in results {
        let mut missed = Vec::new();
        for text in &result.missed_thresholds {
            // A missed threshold ends with the measured value: `p99 < 50ms: 61.3ms`.
            let (condition, value) = text.rsplit_once(": ").unwrap_or((text, ""));
            missed.push(condition);
            let case = super::compare::title(&result.subject, &result.name);
            entries.push((at(condition), Some((case, value.to_owned()))));
        }
        for threshold in result.case.iter().flat_map(|case| &case.thresholds) {
            let condition = threshold.to_string();
            if !missed.contains(&condition.as_str()) {
                entries.push((at(&condition), None));
            }
        }
    }
    for (index, missed) in entries {
        match missed {
            Some(missed) => outcomes[index].missed.push(missed),
            None => outcomes[index].met += 1,
        }
    }
    outcomes
}
