//! Process environment of a command: its output streams, early stop, and measuring.

use std::io::Write;

use tollhouse_load::case::Case;
use tollhouse_load::error::BenchError;
use tollhouse_load::honesty;
use tollhouse_load::report::{Report, Severity};
use tollhouse_load::result::CaseResult;
use tollhouse_load::run::{self, Progress, Settings, Stop};

/// Output streams, stop signal and command line of the running command.
pub struct Process<'a> {
    /// Standard output, for the tool's output.
    pub stdout: &'a mut dyn Write,
    /// Standard error, for warnings and remarks, so that scripts find only the tool's output in the
    /// other one.
    pub stderr: &'a mut dyn Write,
    /// Stops the measurement early; the result covers the time until then.
    pub stop: Stop,
    /// Command line that repeats the run.
    pub command_line: Vec<String>,
}

impl Process<'_> {
    /// Prints to standard output.
    ///
    /// # Errors
    /// If standard output cannot be written.
    pub fn print(&mut self, text: &str) -> Result<(), BenchError> {
        write(self.stdout, text, "standard output")
    }

    /// Prints a line to standard error.
    ///
    /// # Errors
    /// If standard error cannot be written.
    pub fn remark(&mut self, text: &str) -> Result<(), BenchError> {
        self.print_error(&format!("tollhouse: {text}\n"))
    }

    /// Prints to standard error.
    ///
    /// # Errors
    /// If standard error cannot be written.
    pub fn print_error(&mut self, text: &str) -> Result<(), BenchError> {
        write(self.stderr, text, "standard error")
    }

    /// Measures a case. `observe` is called with the progress; it may stop the run, and may fail.
    ///
    /// # Errors
    /// If nothing could be measured, or `observe` fails.
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

    /// Prints which figures are invalid, and why.
    pub(crate) fn print_doubts(&mut self, result: CaseResult) -> Result<(), BenchError> {
        let report = Report { results: vec![result], ..Report::default() };
        let mut warnings = honesty::evaluate(&report);
        warnings.retain(|warning| warning.severity == Severity::Invalid);
        // All other warnings about a run that is too short follow from its length.
        if warnings.iter().any(|warning| warning.rule == DURATION) {
            warnings.retain(|warning| warning.rule == DURATION);
        }
        warnings.iter().try_for_each(|warning| self.remark(&warning.message))
    }
}

/// Rule for runs that are too short.
const DURATION: &str = "duration";

/// Writes a text. A closed pipe is not an error, because the reader may have seen enough.
fn write(to: &mut dyn Write, text: &str, name: &str) -> Result<(), BenchError> {
    match to.write_all(text.as_bytes()).and_then(|()| to.flush()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
            Err(BenchError::System { doing: format!("writing to {name}"), error })
        }
        _ => Ok(()),
    }
}
