//! Histograms of the times, one per case, on one logarithmic axis for comparison. Drawn as SVG.

use super::axis::{self, Axis};
use super::figure;
use super::markup::Html;
use super::palette::Palette;
use super::row::Row;
use crate::distribution::Distribution;

/// Maximum number of histograms; the page states how many were left out.
const DRAWN_MAX: usize = 60;
/// Number of bars of a histogram.
const BARS: usize = 56;
/// Percentage left out at either end of the axis, because single samples would stretch it.
const OUTSIDE_PERCENT: f64 = 0.1;
/// Maximum number of ticks whose labels fit side by side.
const TICKS_MAX: usize = 5;

const WIDTH: f64 = 300.0;
const HEIGHT: f64 = 118.0;
const TOP: f64 = 16.0;
const BOTTOM: f64 = 20.0;

/// Writes the histograms of rows with known values.
pub(super) fn write(html: &mut Html, rows: &[Row<'_>], palette: &Palette<'_>) {
    let known: Vec<&Row<'_>> = rows.iter().filter(|row| !row.times.values.is_empty()).collect();
    let ends = known.iter().flat_map(|row| {
        [OUTSIDE_PERCENT, 100.0 - OUTSIDE_PERCENT].map(|percent| row.times.percentile_ns(percent))
    });
    let Some(axis) = Axis::holding(ends.flatten().map(|value| value as f64)) else { return };
    html.fold("histograms", "Distribution of times");
    let mut text = String::from(
        "Share of requests over time in ms, on one logarithmic axis for all; bars are as high as the \
         fullest one of the same case. The fastest and the slowest thousandth may lie outside.",
    );
    if known.iter().any(|row| row.uncorrected.is_some()) {
        text.push_str(" Outlined: counted from sending instead of the intended start.");
    }
    if known.len() > DRAWN_MAX {
        text.push_str(&format!(" The first {DRAWN_MAX} of {} cases are drawn.", known.len()));
    }
    html.element("p", &[("class", "foot")], &text).open("div", &[("class", "multiples")]);
    for (number, row) in known.iter().take(DRAWN_MAX).enumerate() {
        write_one(html, row, &axis, palette.class_of(row.subject), number);
    }
    html.close("div").end_fold();
}

fn write_one(html: &mut Html, row: &Row<'_>, axis: &Axis, colour: &str, number: usize) {
    let id = format!("histogram-{number}");
    html.raw("\n").open("figure", &[]).open("figcaption", &[]);
    html.open("i", &[("class", colour)]).close("i");
    html.text(row.subject).raw(" ").element("b", &[], row.name).close("figcaption");
    let view = format!("0 0 {WIDTH} {HEIGHT}");
    html.open("svg", &[("viewBox", &view), ("role", "img"), ("aria-labelledby", &id)]);
    html.element("title", &[("id", &id)], &in_words(row));
    let bottom = HEIGHT - BOTTOM;
    let classes = format!("bars {colour}");
    let bars = bars(&row.times, axis);
    html.open("path", &[("class", &classes), ("d", &bars_path(&bars))]).close("path");
    if let Some(uncorrected) = &row.uncorrected {
        let outline = outline_path(&self::bars(uncorrected, axis));
        html.open("path", &[("class", "outline"), ("d", &outline)]).close("path");
    }
    let base = format!("M0 {bottom}H{WIDTH}");
    html.open("path", &[("class", "base"), ("d", &base)]).close("path");
    write_labels(html, axis, bottom);
    let p50_x = row.percentile(50.0).known().map(|p50| axis.share(p50) * WIDTH);
    for (percent, name) in [(50.0, "p50"), (99.0, "p99")] {
        let Some(value) = row.percentile(percent).known() else { continue };
        let x = axis.share(value) * WIDTH;
        // Labels close to each other would overlap; only the median's is kept.
        let is_crowded = percent > 50.0 && p50_x.is_some_and(|p50_x| x - p50_x < 30.0);
        write_marker(html, x, bottom, if is_crowded { "" } else { name });
    }
    html.close("svg").close("figure");
}

fn in_words(row: &Row<'_>) -> String {
    let mut words = format!("{}, {}", row.title(), row.times_are());
    for (percent, name) in [(50.0, "p50"), (90.0, "p90"), (99.0, "p99")] {
        if let Some(value) = row.percentile(percent).known() {
            words.push_str(&format!(", {name} {}", figure::time(value)));
        }
    }
    words
}

/// Returns the share of the samples in each bar, relative to the fullest bar.
fn bars(times: &Distribution, axis: &Axis) -> [f64; BARS] {
    let mut bars = [0.0_f64; BARS];
    for (value, count) in times.values.iter().filter(|(value, _)| axis.holds(*value as f64)) {
        let bar = (axis.share(*value as f64) * BARS as f64) as usize;
        bars[bar.min(BARS - 1)] += *count as f64;
    }
    let fullest = bars.iter().copied().fold(f64::MIN_POSITIVE, f64::max);
    bars.map(|bar| bar / fullest)
}

fn height_of(bar: f64) -> f64 {
    // Nonzero bars are at least one pixel high.
    if bar == 0.0 { 0.0 } else { (bar * (HEIGHT - TOP - BOTTOM)).max(1.0) }
}

fn bars_path(bars: &[f64; BARS]) -> String {
    let width = WIDTH / BARS as f64;
    let bottom = HEIGHT - BOTTOM;
    let drawn = bars.iter().enumerate().filter(|(_, bar)| **bar > 0.0);
    drawn
        .map(|(place, bar)| {
            let x = place as f64 * width;
            format!("M{x:.1} {bottom}v-{:.1}h{:.1}V{bottom}z", height_of(*bar), width - 0.8)
        })
        .collect()
}

fn outline_path(bars: &[f64; BARS]) -> String {
    let width = WIDTH / BARS as f64;
    let bottom = HEIGHT - BOTTOM;
    let steps = bars.iter().enumerate().map(|(place, bar)| {
        format!("V{:.1}H{:.1}", bottom - height_of(*bar), (place + 1) as f64 * width)
    });
    format!("M0 {bottom}{}V{bottom}", steps.collect::<String>())
}

fn write_labels(html: &mut Html, axis: &Axis, bottom: f64) {
    for tick in axis.ticks(TICKS_MAX) {
        let x = axis.share(tick) * WIDTH;
        let mark = format!("M{x:.1} {bottom}v3");
        html.open("path", &[("class", "base"), ("d", &mark)]).close("path");
        let anchor = match x {
            x if x < 14.0 => "start",
            x if x > WIDTH - 24.0 => "end",
            _ => "middle",
        };
        let (x, y) = (format!("{x:.1}"), format!("{:.1}", HEIGHT - 5.0));
        let text = axis::milliseconds(tick);
        html.element("text", &[("x", &x), ("y", &y), ("text-anchor", anchor)], &text);
    }
}

fn write_marker(html: &mut Html, x: f64, bottom: f64, name: &str) {
    let path = format!("M{x:.1} {TOP}V{bottom}");
    html.open("path", &[("class", "marker"), ("d", &path)]).close("path");
    if !name.is_empty() {
        let anchor = if x > WIDTH - 24.0 { "end" } else { "middle" };
        let x = format!("{:.1}", x.max(10.0));
        html.element("text", &[("x", &x), ("y", "11"), ("text-anchor", anchor)], name);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::distribution::histogram;

    #[test]
    fn the_fullest_bar_is_full_and_the_rarest_still_seen() {
        let mut values = histogram();
        values.saturating_record_n(1_000_000, 1_000_000);
        values.saturating_record(1_000_000_000);
        let times = Distribution::from_histogram(&values);
        let axis = Axis::holding([1e6, 1e9]).expect("values");
        let bars = bars(&times, &axis);
        assert_eq!(bars.iter().copied().fold(0.0, f64::max), 1.0);
        let drawn: Vec<f64> = bars.into_iter().filter(|bar| *bar > 0.0).map(height_of).collect();
        assert_eq!(drawn, [HEIGHT - TOP - BOTTOM, 1.0]);
    }
}
