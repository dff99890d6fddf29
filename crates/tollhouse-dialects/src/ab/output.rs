//! Result in ab's format, line by line, for scripts that parse ab's output: the text, percentiles
//! as CSV, and progress lines.

mod summary;
mod times;

use crate::ab::options::AbCommand;
use tollhouse_load::result::CaseResult;

use summary::Summary;
use times::Times;

/// Smallest number of requests for which progress is printed.
const PROGRESS_FROM: u64 = 151;
/// Number of progress lines in a run, and the least number of requests between two of them.
const PROGRESS_LINES: u64 = 10;
const PROGRESS_STEP_MIN: u64 = 100;

/// Returns the text before the run.
pub fn opening(command: &AbCommand) -> String {
    let through =
        command.proxy.as_ref().map_or_else(String::new, |proxy| format!(" [through {proxy}]"));
    let host = &command.address.host;
    let end = if has_progress(command) { "\n" } else { "..." };
    format!("{}\n\nBenchmarking {host}{through} (be patient){end}", banner())
}

/// Returns the text after the run.
pub fn text(command: &AbCommand, result: &CaseResult) -> String {
    let summary = Summary::new(command, result);
    let times = Times::from_result(result);
    let mut out = String::new();
    if !has_progress(command) {
        out.push_str("..done\n");
    }
    out.push_str("\n\n");
    out.push_str(&summary.text());
    if times.count() > 0 {
        let confidence = command.sheet.confidence;
        out.push_str(&if confidence { times.table() } else { times.short_table() });
    }
    if command.sheet.percentiles && times.count() > 1 {
        out.push_str(&times.percentiles());
    }
    out
}

/// Returns CSV with the percentages from 0 to 100, each with its time in milliseconds.
pub fn csv(result: &CaseResult) -> String {
    let times = Times::from_result(result);
    let mut out = String::from("Percentage served,Time in ms\n");
    for percent in 0..=100 {
        out.push_str(&format!("{percent},{:.3}\n", times.percentile_ns(percent) / 1e6));
    }
    out
}

fn banner() -> String {
    format!("This is tollhouse bench ab, Version {}, as ApacheBench 2.3", env!("CARGO_PKG_VERSION"))
}

fn has_progress(command: &AbCommand) -> bool {
    command.sheet.progress && command.requests >= PROGRESS_FROM
}

/// Progress lines that ab writes to standard error.
#[derive(Debug)]
pub struct Heartbeat {
    step: u64,
    next: u64,
}

impl Heartbeat {
    /// Returns the progress of a command; `None` if it prints none.
    pub fn for_command(command: &AbCommand) -> Option<Self> {
        let step = (command.requests / PROGRESS_LINES).max(PROGRESS_STEP_MIN);
        has_progress(command).then_some(Self { step, next: step })
    }

    /// Returns the lines due after this number of completed requests.
    pub fn due(&mut self, completed: u64) -> String {
        let mut out = String::new();
        while self.next <= completed {
            out.push_str(&format!("Completed {} requests\n", self.next));
            self.next += self.step;
        }
        out
    }

    /// Returns the last progress line.
    pub fn end(&mut self, completed: u64) -> String {
        self.due(completed) + &format!("Finished {completed} requests\n")
    }
}

#[cfg(test)]
mod tests;
