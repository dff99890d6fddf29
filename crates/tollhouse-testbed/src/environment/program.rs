//! Determines the version of another program.

use std::process::{Command, Stdio};
use std::sync::mpsc::sync_channel;
use std::time::Duration;

/// Time limit for a program to print its version.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);
/// Maximum length of a version line, because some programs print all their options.
const LINE_CHARS_MAX: usize = 120;

/// Returns the first line that a command prints to either output; `None` if it does not start,
/// hangs or prints nothing.
pub(super) fn first_line(command: &[&str]) -> Option<String> {
    let (program, arguments) = command.split_first()?;
    let child = Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .ok()?;
    let pid = rustix::process::Pid::from_child(&child);
    let (answer, answered) = sync_channel(1);
    let reader = std::thread::Builder::new()
        .name("program version".into())
        .spawn(move || answer.send(child.wait_with_output()))
        .ok()?;
    let Ok(output) = answered.recv_timeout(ANSWER_TIMEOUT) else {
        // The process ID is still the child's, because the child has not been waited for.
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
        let _ = reader.join();
        return None;
    };
    let output = output.ok()?;
    [output.stdout, output.stderr].iter().find_map(|bytes| line(&String::from_utf8_lossy(bytes)))
}

fn line(text: &str) -> Option<String> {
    let line = text.lines().map(str::trim).find(|line| !line.is_empty())?;
    Some(line.chars().take(LINE_CHARS_MAX).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_line_of_either_output_is_the_version() {
        for (script, expected) in [
            ("echo; echo one 1.0; echo two", Some("one 1.0")),
            ("echo nginx version: nginx/1.26 >&2", Some("nginx version: nginx/1.26")),
            ("exit 3", None),
        ] {
            assert_eq!(first_line(&["sh", "-c", script]).as_deref(), expected, "{script}");
        }
    }

    #[test]
    fn a_program_that_is_not_there_has_no_version() {
        assert_eq!(first_line(&["/no/such/program"]), None);
        assert_eq!(first_line(&[]), None);
    }

    #[test]
    fn a_long_line_is_cut() {
        assert_eq!(line(&"x".repeat(500)).map(|line| line.len()), Some(LINE_CHARS_MAX));
    }
}
