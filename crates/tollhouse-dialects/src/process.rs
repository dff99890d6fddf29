//! The process that a command runs in: what it prints to, what ends it early, and how it measures.

use std::io::Write;

use tollhouse_load::case::Case;
use tollhouse_load::error::BenchError;
use tollhouse_load::honesty;
use tollhouse_load::report::{Report, Severity};
use tollhouse_load::result::CaseResult;
use tollhouse_load::run::{self, Progress, Settings, Stop};

/// The process that a command runs in.
pub struct Process<'a> {
    /// Where the tool's output goes.
    pub stdout: &'a mut dyn Write,
    /// Where doubts and remarks go, so that the output stays what scripts expect.
    pub stderr: &'a mut dyn Write,
    /// Ends the measurement early; what was seen until then is the result.
    pub stop: Stop,
    /// The command that repeats this.
    pub command_line: Vec<String>,
}

impl Process<'_> {
    /// Prints to standard output.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn print(&mut self, text: &str) -> Result<(), BenchError> {
        write(self.stdout, text, "standard output")
    }

    /// Prints a line to standard error.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn remark(&mut self, text: &str) -> Result<(), BenchError> {
        self.print_error(&format!("tollhouse: {text}\n"))
    }

    /// Prints to standard error.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn print_error(&mut self, text: &str) -> Result<(), BenchError> {
        write(self.stderr, text, "standard error")
    }

    /// Measures a case. The observer sees how it goes, may end it, and may fail.
    ///
    /// # Errors
    /// When nothing could be measured, or the observer fails.
    pub(crate) fn measure(
        &mut self,
        case: &Case,
        mut observe: impl FnMut(&Progress<'_>, &mut Self) -> Result<(), BenchError>,
    ) -> Result<CaseResult, BenchError> {
        let settings = Settings { stop: self.stop.clone(), ..Settings::default() };
        let mut observed = Ok(());
        let result = run::run(case, &settings, &mut |progress| {
            if observed.is_ok() {
                observed = observe(progress, self);
            }
            if observed.is_err() {
                self.stop.stop();
            }
        })?;
        observed.map(|()| result)
    }

    /// Says which figures must not be quoted, and why.
    pub(crate) fn print_doubts(&mut self, result: CaseResult) -> Result<(), BenchError> {
        let report = Report { results: vec![result], ..Report::default() };
        let mut warnings = honesty::evaluate(&report);
        warnings.retain(|warning| warning.severity == Severity::Invalid);
        // All other doubts about a run that is too short follow from its length.
        if warnings.iter().any(|warning| warning.rule == DURATION) {
            warnings.retain(|warning| warning.rule == DURATION);
        }
        warnings.iter().try_for_each(|warning| self.remark(&warning.message))
    }
}

/// The rule about runs that are too short.
const DURATION: &str = "duration";

/// Writes all of a text; a reader that has seen enough and left is no error.
fn write(to: &mut dyn Write, text: &str, name: &str) -> Result<(), BenchError> {
    match to.write_all(text.as_bytes()).and_then(|()| to.flush()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
            Err(BenchError::System { doing: format!("writing to {name}"), error })
        }
        _ => Ok(()),
    }
}
