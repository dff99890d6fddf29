//! Progress as a block of lines: a pure function of progress, colours and terminal size.

use std::time::Duration;

use super::Size;
use super::histogram::{self, BARS_MAX};
use crate::report::figure;
use crate::report::paint::Paint;
use crate::run::Progress;

/// Block characters filled by eighths, for bars.
const EIGHTHS: [char; 9] = [' ', '▏', '▎', '▍', '▌', '▋', '▊', '▉', '█'];
const LEVELS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
/// Maximum line width on wide terminals, for readability.
const WIDTH_MAX: usize = 100;
/// Width of the label column in characters.
const LABEL: usize = 12;

pub(super) struct View<'a> {
    /// Title and the lines below it.
    pub(super) head: &'a [String],
    pub(super) progress: &'a Progress<'a>,
}

/// Line of tagged words before colouring, so that it can be cut to the available width.
#[derive(Default)]
struct Line(Vec<(Tone, String)>);

#[derive(Clone, Copy)]
enum Tone {
    Plain,
    Strong,
    Faint,
    Bad,
    Drawn,
}

impl Line {
    fn new(label: &str) -> Self {
        Self::default().with(Tone::Faint, format!("{label:<LABEL$}"))
    }

    fn with(mut self, tone: Tone, text: impl Into<String>) -> Self {
        self.0.push((tone, text.into()));
        self
    }

    fn paint(self, paint: Paint, width: usize) -> String {
        let mut left = width;
        let mut line = String::new();
        for (tone, text) in self.0 {
            let text: String = text.chars().take(left).collect();
            left -= text.chars().count();
            line.push_str(&match tone {
                Tone::Plain => text,
                Tone::Strong => paint.strong(text),
                Tone::Faint => paint.faint(text),
                Tone::Bad => paint.bad(text),
                Tone::Drawn => paint.drawn(text),
            });
        }
        line
    }
}

/// Renders the block within the size of the terminal: a wrapped line would shift the position of
/// the next redraw.
pub(super) fn lines(view: &View<'_>, paint: Paint, size: Size) -> Vec<String> {
    let width = size.columns.saturating_sub(1).min(WIDTH_MAX);
    let mut lines: Vec<Line> = Vec::new();
    for (index, text) in view.head.iter().enumerate() {
        let tone = if index == 0 { Tone::Strong } else { Tone::Faint };
        lines.push(Line::default().with(tone, text));
    }
    lines.push(time_bar(view.progress, width));
    lines.push(rates(view.progress));
    lines.push(percentiles(view.progress));
    lines.push(failures(view.progress));
    lines.extend(sparkline(view.progress, width));
    lines.extend(usage(view.progress));
    let room = size.rows.saturating_sub(lines.len() + 1);
    lines.extend(histogram_lines(view.progress, width, room));
    lines.truncate(size.rows.saturating_sub(1).max(1));
    lines.into_iter().map(|line| line.paint(paint, width)).collect()
}

/// Returns a line with the completed part and the remaining time.
fn time_bar(progress: &Progress<'_>, width: usize) -> Line {
    let label = if progress.is_warming_up { "warming up" } else { "measuring" };
    let of_time = progress.planned.map(|planned| {
        let share = progress.elapsed.as_secs_f64() / planned.as_secs_f64().max(1e-9);
        let left = planned.saturating_sub(progress.elapsed);
        let text = format!("{} of {}", seconds(progress.elapsed), seconds(planned));
        (share, format!("{text}, {} left", seconds(left)))
    });
    let of_requests = progress.planned_requests.map(|planned| {
        let done = progress.counts.completed;
        let share = done as f64 / planned.max(1) as f64;
        let left = Duration::try_from_secs_f64(
            progress.elapsed.as_secs_f64() * (1.0 / share.max(1e-9) - 1.0).max(0.0),
        );
        let left = left.map_or_else(|_| String::new(), |left| format!(", {} left", seconds(left)));
        (share, format!("{} of {} requests{left}", figure::count(done), figure::count(planned)))
    });
    // The bound that is nearer ends the run, so that it is displayed.
    let further = match (of_time, of_requests) {
        (Some(time), Some(requests)) if requests.0 > time.0 => Some(requests),
        (time, requests) => time.or(requests),
    };
    let Some((share, text)) = further else {
        return Line::new(label).with(Tone::Plain, seconds(progress.elapsed));
    };
    let room = width.saturating_sub(LABEL + text.chars().count() + 2).clamp(4, 40);
    Line::new(label).with(Tone::Drawn, bar(share, room)).with(Tone::Plain, format!("  {text}"))
}

fn seconds(duration: Duration) -> String {
    figure::seconds(duration)
}

/// Draws a bar of this width, filled by a share.
fn bar(share: f64, columns: usize) -> String {
    let eighths = (share.clamp(0.0, 1.0) * columns as f64 * 8.0).round() as usize;
    let mut text = EIGHTHS[8].to_string().repeat(eighths / 8);
    if !eighths.is_multiple_of(8) {
        text.push(EIGHTHS[eighths % 8]);
    }
    let missing = columns.saturating_sub(text.chars().count());
    text + &"·".repeat(missing)
}

fn rates(progress: &Progress<'_>) -> Line {
    let last = progress.last;
    let succeeded = progress.counts.succeeded as f64;
    let goodput = succeeded / progress.elapsed.as_secs_f64().max(1e-9);
    let mut line = Line::new("rate").with(Tone::Strong, format!("{}/s", figure::rate(last.rate())));
    if !progress.is_warming_up {
        line = line.with(Tone::Plain, format!("   goodput {}/s on average", figure::rate(goodput)));
    }
    let flight = figure::count(last.in_flight);
    let open = figure::count(last.connections);
    line.with(Tone::Plain, format!("   in flight {flight}   connections {open}"))
}

fn percentiles(progress: &Progress<'_>) -> Line {
    let times = progress.so_far;
    if times.is_empty() {
        return Line::new("times").with(Tone::Faint, "none yet");
    }
    let at = |quantile: f64| figure::time(times.value_at_quantile(quantile) as f64);
    Line::new("times").with(
        Tone::Plain,
        format!(
            "p50 {}   p90 {}   p99 {}   max {}",
            at(0.5),
            at(0.9),
            at(0.99),
            figure::time(times.max() as f64)
        ),
    )
}

fn failures(progress: &Progress<'_>) -> Line {
    let line = Line::new("failed");
    match (progress.counts.failed, progress.last_failure) {
        (0, None) => line.with(Tone::Plain, "none"),
        (0, Some(failure)) => line.with(Tone::Bad, format!("none measured; last: {failure}")),
        (count, failure) => {
            let share = figure::percent(count as f64 / progress.counts.completed.max(1) as f64);
            let last = failure.map_or_else(String::new, |failure| format!("; last: {failure}"));
            line.with(Tone::Bad, format!("{} ({share}){last}", figure::count(count)))
        }
    }
}

/// Returns a sparkline of the rate over time, as far as it fits; `None` if there is too little to
/// draw.
fn sparkline(progress: &Progress<'_>, width: usize) -> Option<Line> {
    let room = width.saturating_sub(LABEL + 20).clamp(8, 60);
    let from = progress.series.len().saturating_sub(room);
    let rates: Vec<f64> =
        progress.series[from..].iter().map(crate::result::Interval::rate).collect();
    let highest = rates.iter().copied().fold(0.0, f64::max);
    if rates.len() < 2 || highest <= 0.0 {
        return None;
    }
    let level = |rate: &f64| LEVELS[((rate / highest * 7.0).round() as usize).min(7)];
    let text: String = rates.iter().map(level).collect();
    let peak = format!("  up to {}/s", figure::rate(highest));
    Some(Line::new("over time").with(Tone::Drawn, text).with(Tone::Faint, peak))
}

/// Returns a line with CPU and memory use of the watched processes; `None` if none is watched.
fn usage(progress: &Progress<'_>) -> Option<Line> {
    let one = |usage: &crate::resource::Usage| {
        let memory = figure::memory(usage.rss_bytes);
        format!("{} {:.2} cores, {memory}", usage.role, usage.cpu_cores)
    };
    let all: Vec<String> = progress.usage.iter().map(one).collect();
    (!all.is_empty()).then(|| Line::new("CPU").with(Tone::Plain, all.join("   ")))
}

fn histogram_lines(progress: &Progress<'_>, width: usize, room: usize) -> Vec<Line> {
    let bars = histogram::bars(progress.so_far, room.min(BARS_MAX));
    // A single line would show nothing to compare.
    if room < 3 || bars.is_empty() {
        return Vec::new();
    }
    let longest = bars.iter().map(|bar| bar.share).fold(0.0, f64::max).max(1e-9);
    let columns = width.saturating_sub(LABEL + 12).clamp(4, 40);
    let line = |bar_of: &histogram::Bar| {
        let filled = bar(bar_of.share / longest, columns).replace('·', " ");
        Line::new("")
            .with(Tone::Faint, format!("{:>8} ", bar_of.label))
            .with(Tone::Drawn, filled)
            .with(Tone::Plain, format!(" {}", figure::percent(bar_of.share)))
    };
    bars.iter().map(line).collect()
}
