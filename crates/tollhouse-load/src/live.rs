//! Progress output: a block redrawn in place on a terminal, occasional lines elsewhere, or nothing
//! in quiet mode.
//!
//! `live/block.rs` builds the block as a pure function; `live/screen.rs` draws it on a terminal.

mod block;
mod histogram;
mod line;
mod screen;

use std::io::Write;
use std::time::Duration;

use crate::report::figure;
use crate::report::paint::Paint;
use crate::result::CaseResult;
use crate::run::Progress;
use crate::session::{Event, Place};

use self::block::View;
use self::screen::Screen;

/// Maximum number of progress lines per case without a terminal; longer runs print less often.
const LINES_MAX: u32 = 30;
/// Interval between lines of a run with unknown duration.
const LINE_EVERY_LONG: Duration = Duration::from_secs(5);
/// Minimum interval between two progress lines.
const LINE_EVERY_MIN: Duration = Duration::from_secs(1);

/// Form of the progress output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    Quiet,
    /// Occasional lines, for outputs that are not terminals.
    Lines,
    /// A block redrawn in place, on a terminal with these colours.
    Block(Paint),
}

/// Size of a terminal in characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Size {
    pub columns: usize,
    pub rows: usize,
}

/// Displays the progress of a session.
pub struct Live<W> {
    mode: Mode,
    size: fn() -> Size,
    screen: Screen<W>,
    title: String,
    head: Vec<String>,
    count: usize,
    /// Time of the last printed line, since the measurement began.
    last_line: Option<Duration>,
}

impl<W: Write> Live<W> {
    /// Creates a display on an output stream; `size` is queried before each redraw.
    pub fn new(mode: Mode, out: W, size: fn() -> Size) -> Self {
        Self {
            mode,
            size,
            screen: Screen::new(out),
            title: String::new(),
            head: Vec::new(),
            count: 1,
            last_line: None,
        }
    }

    /// Displays an event. Write errors are ignored, so that a closed terminal does not end a
    /// measurement.
    pub fn show(&mut self, event: &Event<'_>) {
        match event {
            Event::Began(place) => self.begin(place),
            Event::Progress(progress) => match self.mode {
                Mode::Quiet => (),
                Mode::Lines => self.print_line(progress),
                Mode::Block(paint) => {
                    let size = (self.size)();
                    let view = View { head: &self.head, progress };
                    self.screen.draw(&block::lines(&view, paint, size));
                }
            },
            Event::Ended(result) => self.end_case(result),
        }
    }

    /// Removes the progress block from the terminal.
    pub fn end(&mut self) {
        self.screen.clear();
    }

    /// Displays one line of progress that does not belong to a session; without a terminal, at most
    /// one per interval.
    pub fn show_line(&mut self, line: &str, elapsed: Duration) {
        match self.mode {
            Mode::Quiet => (),
            Mode::Block(_) => self.screen.draw(&[line.to_owned()]),
            Mode::Lines => {
                let since = |last: Duration| elapsed.checked_sub(last);
                // A decrease of the elapsed time means that the next part has begun.
                let is_due =
                    self.last_line.and_then(since).is_none_or(|time| time >= LINE_EVERY_LONG);
                if is_due {
                    self.last_line = Some(elapsed);
                    self.screen.print(line);
                }
            }
        }
    }

    fn begin(&mut self, place: &Place<'_>) {
        self.title = titled(place);
        self.count = place.count;
        self.last_line = None;
        self.head = vec![self.title.clone()];
        if place.planned.case.name != place.planned.case.target {
            self.head.push(place.planned.case.target.clone());
        }
        match self.mode {
            Mode::Quiet => (),
            Mode::Lines => self.screen.print(&self.title.clone()),
            Mode::Block(paint) => {
                self.screen.draw(&[paint.strong(&self.title), "connecting".into()])
            }
        }
    }

    fn print_line(&mut self, progress: &Progress<'_>) {
        let planned = progress.planned.unwrap_or(Duration::ZERO);
        let every = (planned / LINES_MAX).max(LINE_EVERY_MIN);
        // The final state is printed with the result.
        let is_due = self.last_line.is_none_or(|last| progress.elapsed >= last + every);
        if is_due && !progress.is_warming_up {
            self.last_line = Some(progress.elapsed);
            self.screen.print(&line::text(progress));
        }
    }

    /// Prints a line for the finished case if there are several; a single one is followed by its
    /// report.
    fn end_case(&mut self, result: &CaseResult) {
        self.screen.clear();
        if self.mode == Mode::Quiet || self.count == 1 {
            return;
        }
        let times = result.headline();
        let p99 = times
            .percentile_ns(99.0)
            .map_or_else(|| figure::NONE.into(), |p99| figure::time(p99 as f64));
        let failed = match result.counts.failed {
            0 => String::new(),
            failed => format!(", {} failed", figure::count(failed)),
        };
        let text = format!("{}/s, p99 {p99}{failed}", figure::rate(result.goodput));
        let line = if self.mode == Mode::Lines {
            format!("  {text}")
        } else {
            format!("{}: {text}", self.title)
        };
        self.screen.print(&line);
    }
}

/// Returns a heading such as `2 of 8: tollhouse, 600 connections, run 2`.
fn titled(place: &Place<'_>) -> String {
    let mut title = String::new();
    if place.count > 1 {
        title.push_str(&format!("{} of {}: ", place.number, place.count));
    }
    if !place.planned.subject.is_empty() {
        title.push_str(&place.planned.subject);
        title.push_str(", ");
    }
    title.push_str(&place.planned.case.name);
    if place.repetition > 1 {
        title.push_str(&format!(", run {}", place.repetition));
    }
    title
}

#[cfg(test)]
mod tests;
