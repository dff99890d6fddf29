//! What a command prints for people or programs to read. What went wrong goes to standard error (`problems.rs`).

use std::io::{self, ErrorKind, Write as _};

/// Writes `text` to standard output. A reader that has seen enough and left is no error.
///
/// # Errors
/// When it cannot be written otherwise.
pub(super) fn print(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        written => written,
    }
}
