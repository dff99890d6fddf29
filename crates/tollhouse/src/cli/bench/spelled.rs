//! What commands in the spelling of another tool share: the run, and the doubts about its figures, which
//! go to standard error so that the output stays what scripts expect.

use tollhouse_load::case::Case;
use tollhouse_load::error::BenchError;
use tollhouse_load::honesty;
use tollhouse_load::report::{Report, Severity};
use tollhouse_load::result::CaseResult;
use tollhouse_load::run::{self, Progress, Settings, Stop};

use super::interrupt;

/// What happens on the way; may end the run, and may fail.
pub type Observe<'a> = &'a mut dyn FnMut(&Progress<'_>, &Stop) -> Result<(), BenchError>;

/// Measures a case; Ctrl-C ends it, and what was seen until then is the result.
///
/// # Errors
/// When nothing could be measured, or the observer fails.
pub fn measure(case: &Case, observe: Observe<'_>) -> Result<CaseResult, BenchError> {
    let stop = interrupt::stop_on_interrupt()?;
    let settings = Settings { stop: stop.clone(), ..Settings::default() };
    let mut observed = Ok(());
    let result = run::run(case, &settings, &mut |progress| {
        if observed.is_ok() {
            observed = observe(progress, &stop);
        }
        if observed.is_err() {
            stop.stop();
        }
    })?;
    observed.map(|()| result)
}

/// The rule about runs that are too short, from which all other doubts about such a run follow.
const DURATION: &str = "duration";

/// Says which figures must not be quoted, and why.
pub fn tell_doubts(result: CaseResult) {
    let report = Report { results: vec![result], ..Report::default() };
    let mut warnings = honesty::judge(&report);
    warnings.retain(|warning| warning.severity == Severity::Invalid);
    if warnings.iter().any(|warning| warning.rule == DURATION) {
        warnings.retain(|warning| warning.rule == DURATION);
    }
    for warning in warnings {
        eprintln!("tollhouse: {}", warning.message);
    }
}
