//! Functions for terminal output, and the exit code [`NOT_MEASURED`], for all `bench` commands.

use tollhouse_load::error::BenchError;
use tollhouse_load::report::paint::Paint;

use crate::cli::{problems, stdout};

/// Exit code if nothing could be measured: invalid input, an unusable target, limits of the
/// machine.
pub const NOT_MEASURED: u8 = 2;

/// Returns how text on standard output is coloured.
pub(super) fn paint() -> Paint {
    problems::paint(&std::io::stdout())
}

/// Prints to standard output.
///
/// # Errors
/// If standard output cannot be written.
pub(super) fn print(text: &str) -> Result<(), BenchError> {
    stdout::print(text)
        .map_err(|error| BenchError::System { doing: "writing to standard output".into(), error })
}
