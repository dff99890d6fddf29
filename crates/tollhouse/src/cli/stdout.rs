//! Standard output of commands. Failures go to standard error (`problems.rs`).

use std::io::{self, ErrorKind, Write as _};

/// Writes `text` to standard output. A closed pipe is not an error.
///
/// # Errors
/// If writing fails for another reason.
pub(super) fn print(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        written => written,
    }
}
