//! What all commands of `bench` do with a terminal, and the exit code that is theirs.

use tollhouse_load::error::BenchError;
use tollhouse_load::report::paint::Paint;

use crate::cli::{problems, stdout};

/// Exit code when nothing could be measured: bad input, an unusable target, limits of the machine.
pub const NOT_MEASURED: u8 = 2;

/// How text for people is painted on standard output.
pub(super) fn paint() -> Paint {
    problems::paint(&std::io::stdout())
}

/// Prints to standard output.
///
/// # Errors
/// When it cannot be written.
pub(super) fn print(text: &str) -> Result<(), BenchError> {
    stdout::print(text)
        .map_err(|error| BenchError::System { doing: "writing to standard output".into(), error })
}
