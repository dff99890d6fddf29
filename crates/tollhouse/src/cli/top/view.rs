//! Text and full screen of a frame of `top`. Pure functions of the
//! frame, the size and the keys pressed so far.

use serde_json::Value;
use tollhouse_control::terminal::printable;
use tollhouse_load::report::paint::Paint;
use tollhouse_stdx::plural::counted;

use super::frame::Frame;
use super::screen::{Key, Size};
use super::table::{Order, Part, Subject, pad};
use crate::cli::{findings, traffic};

/// Number of findings shown, so that they fit a terminal; the worst come first.
const FINDINGS_MAX: usize = 5;

/// Number of routes in the text.
const ROUTES_MAX: usize = 10;

/// Width from which tables are beside each other.
const WIDE: usize = 120;

/// Space between two tables beside each other.
const GAP: usize = 3;

/// Tables, their order and place, as keys have set them.
#[derive(Debug, Clone, Copy)]
pub(super) struct View {
    active: usize,
    orders: [Order; 3],
    first: usize,
}

impl Default for View {
    fn default() -> Self {
        Self { active: 0, orders: Subject::ALL.map(Subject::order), first: 0 }
    }
}

impl View {
    /// Applies a key.
    pub(super) fn press(&mut self, key: Key) {
        let order = &mut self.orders[self.active];
        match key {
            Key::Quit => {}
            Key::Next => {
                self.active = (self.active + 1) % Subject::ALL.len();
                self.first = 0;
            }
            Key::Sort => {
                order.column = (order.column + 1) % Subject::ALL[self.active].heads().len();
                self.first = 0;
            }
            Key::Reverse => order.direction = order.direction.reversed(),
            Key::Up => self.first = self.first.saturating_sub(1),
            Key::Down => self.first = self.first.saturating_add(1),
        }
    }

    /// Returns the lines of the screen, at most as many as it has.
    pub(super) fn lines(&self, frame: &Frame, size: Size, paint: Paint) -> Vec<String> {
        let mut lines = head(frame, size, paint);
        let footer = self.footer(size, paint);
        let left = size.rows.saturating_sub(lines.len() + 1);
        if size.columns >= WIDE {
            lines.extend(self.wide(frame, size.columns, left, paint));
        } else {
            lines.extend(self.part(frame, self.active, size.columns, left, paint));
        }
        lines.truncate(size.rows.saturating_sub(1));
        lines.resize(size.rows.saturating_sub(1), String::new());
        lines.push(footer);
        lines
    }

    /// Routes on the left; nodes above plugins on the right.
    fn wide(&self, frame: &Frame, columns: usize, rows: usize, paint: Paint) -> Vec<String> {
        let width = (columns - GAP) / 2;
        let routes = self.part(frame, 0, width, rows, paint);
        let upper = rows.saturating_sub(1) / 2;
        let mut right = self.part(frame, 1, width, upper, paint);
        right.push(" ".repeat(width));
        let rest = rows.saturating_sub(right.len());
        right.extend(self.part(frame, 2, width, rest, paint));
        let count = routes.len().max(right.len());
        let blank = " ".repeat(width);
        let line = |at: usize| {
            let side = |lines: &[String]| lines.get(at).unwrap_or(&blank).clone();
            format!("{}{}{}", side(&routes), " ".repeat(GAP), side(&right))
        };
        (0..count).map(line).collect()
    }

    /// Returns a table, with its title and headings, in so many rows.
    fn part(
        &self,
        frame: &Frame,
        at: usize,
        width: usize,
        rows: usize,
        paint: Paint,
    ) -> Vec<String> {
        let first = if at == self.active { self.first } else { 0 };
        let part = Part { first, rows_max: rows.saturating_sub(2), width };
        let mut lines = Subject::ALL[at].lines(frame, self.orders[at], part, paint);
        if at == self.active {
            lines[0] = paint.drawn(&lines[0]);
        }
        lines.truncate(rows);
        lines
    }

    fn footer(&self, size: Size, paint: Paint) -> String {
        let subject = Subject::ALL[self.active];
        let column = subject.heads()[self.orders[self.active].column];
        let next = Subject::ALL[(self.active + 1) % Subject::ALL.len()].title();
        let text = format!(
            "q quit   Tab {}   s sort ({column})   r reverse   ↑ ↓ scroll {}",
            next.to_lowercase(),
            subject.title().to_lowercase()
        );
        paint.faint(pad(&text, size.columns.saturating_sub(1)))
    }
}

/// Returns the first lines: the gateway, its traffic, and findings, the worst first.
fn head(frame: &Frame, size: Size, paint: Paint) -> Vec<String> {
    let cut = |text: &str| pad(&printable(text), size.columns).trim_end().to_owned();
    let traffic = frame.traffic();
    let mut lines = vec![
        paint.strong(cut(&identity(frame))),
        cut(&format!("requests {}   {}", traffic.rates(), traffic.latency())),
        cut(&format!(
            "nodes {}   connections {}",
            traffic::nodes(&frame.overview["nodes"]),
            traffic.connections()
        )),
        String::new(),
    ];
    let found = frame.findings();
    for finding in found.iter().take(FINDINGS_MAX) {
        let line = cut(&summary(finding));
        lines.push(match finding["severity"].as_str() {
            Some("problem") => paint.bad(line),
            Some("warning") => paint.doubtful(line),
            _ => line,
        });
    }
    if let Some(more @ 1..) = found.len().checked_sub(FINDINGS_MAX) {
        lines.push(format!("… and {more} more; see `tollhouse status`"));
    }
    if found.is_empty() {
        lines.push(paint.good("no findings"));
    }
    lines.push(String::new());
    lines
}

/// Formats a finding as a line: what is wrong, and since when.
fn summary(finding: &Value) -> String {
    let text = |name: &str| finding[name].as_str().unwrap_or_default();
    let since = match finding["since_ms"].as_u64() {
        Some(since_ms) => format!(" since {}", findings::date(since_ms)),
        None => String::new(),
    };
    format!("{}: {}{since}", text("severity"), text("what"))
}

fn identity(frame: &Frame) -> String {
    let overview = &frame.overview;
    let text = |name: &str| overview[name].as_str().unwrap_or_default();
    let up_s = frame.now_s.saturating_sub(overview["started_at"].as_u64().unwrap_or(frame.now_s));
    let ready = if overview["is_ready"] == true { "ready" } else { "not ready" };
    format!(
        "{}: {ready}, version {}, revision {}, {}, up {}",
        text("hostname"),
        text("version"),
        overview["revision"],
        counted(overview["routes_in_service"].as_u64().unwrap_or(0), "route"),
        findings::span(up_s),
    )
}

/// Renders a frame as text for pipes and scripts.
pub(super) fn text(frame: &Frame) -> String {
    let traffic = frame.traffic();
    let mut lines = format!(
        "{}\n  requests     {}\n  latency      {}\n  connections  {}\n  nodes        {}\n",
        printable(&identity(frame)),
        traffic.rates(),
        traffic.latency(),
        traffic.connections(),
        traffic::nodes(&frame.overview["nodes"]),
    );
    for (code, rate) in traffic.failures() {
        lines.push_str(&format!("  failures     {} {rate:.1}/s\n", printable(&code)));
    }
    let found = frame.findings();
    lines.push_str(&findings::render(&found[..found.len().min(FINDINGS_MAX)]));
    if let Some(more @ 1..) = found.len().checked_sub(FINDINGS_MAX) {
        lines.push_str(&format!("… and {more} more; see `tollhouse status`\n"));
    }
    if !frame.routes.is_empty() {
        let part = Part { first: 0, rows_max: ROUTES_MAX, width: 79 };
        let table = Subject::Routes.lines(frame, Subject::Routes.order(), part, Paint::Plain);
        for line in table {
            lines.push_str(line.trim_end());
            lines.push('\n');
        }
    }
    lines
}

#[cfg(test)]
mod tests;
