//! Percentile spectrum: one line per case over a percentile axis whose tail is expanded (90 %, 99
//! %, 99.9 % at equal distances). Drawn as SVG without script. Lines end where fewer than ten
//! samples lie beyond.

use super::axis::{self, Axis};
use super::markup::Html;
use super::palette::Palette;
use super::row::{Row, SAMPLES_BEYOND_MIN, subjects};
use crate::distribution::Distribution;

/// Maximum number of lines, because more would hide each other; the page states how many were left
/// out.
const LINES_MAX: usize = 60;
/// Maximum number of ticks without overlapping labels.
const TICKS_MAX: usize = 8;
/// Minimum distance between points, in units of the drawing; closer ones are left out.
const POINTS_APART_MIN: f64 = 3.0;

const WIDTH: f64 = 1160.0;
const HEIGHT: f64 = 420.0;
const LEFT: f64 = 64.0;
const RIGHT: f64 = 20.0;
const TOP: f64 = 14.0;
const BOTTOM: f64 = 46.0;

/// First percentile of the lines, because the minimum is a single sample and would stretch the
/// axis.
const FIRST_PERCENT: f64 = 1.0;

/// Percentiles with a label on the axis.
const LABELLED: [(f64, &str); 8] = [
    (0.0, "0 %"),
    (50.0, "50 %"),
    (90.0, "90 %"),
    (99.0, "99 %"),
    (99.9, "99.9 %"),
    (99.99, "99.99 %"),
    (99.999, "99.999 %"),
    (99.9999, "99.9999 %"),
];

/// Line of the spectrum: −log10(1 − share) and time in nanoseconds.
struct Curve {
    points: Vec<(f64, f64)>,
    /// Whether the points are percentiles of a table instead of a distribution.
    is_sparse: bool,
}

/// Axes of the percentile spectrum.
struct Drawing {
    times: Axis,
    /// Upper end of the percentile axis.
    reach: f64,
}

/// Writes the percentile spectrum, unless no run has a distribution.
pub(super) fn write(html: &mut Html, rows: &[Row<'_>], palette: &Palette<'_>) {
    let curves: Vec<(usize, Curve, Option<Curve>)> = rows
        .iter()
        .enumerate()
        .filter_map(|(place, row)| {
            let curve = Curve::from_distribution(&row.times)?;
            Some((place, curve, row.uncorrected.as_ref().and_then(Curve::from_distribution)))
        })
        .take(LINES_MAX)
        .collect();
    // The axis covers uncorrected curves too, so that their distance to the corrected ones is
    // visible.
    let points = || {
        let lines = curves.iter().flat_map(|(_, curve, below)| [Some(curve), below.as_ref()]);
        lines.flatten().flat_map(|curve| curve.points.iter().copied())
    };
    let Some(times) = Axis::holding(points().map(|(_, time)| time)) else { return };
    let reach = points().map(|(at, _)| at).fold(1.0, f64::max);
    let drawing = Drawing { times, reach };

    html.fold("spectrum", "Percentile spectrum");
    html.element("p", &[("class", "foot")], &explanation(rows, curves.len()));
    html.open("figure", &[("class", "drawing")]).open("div", &[("class", "scroll")]);
    drawing.open(html);
    for (place, curve, below) in &curves {
        let style = Style::new(rows, *place, palette);
        if let Some(below) = below {
            style.open(html, "line uncorrected");
            drawing.line(html, below, &style);
        }
        style.open(html, "line");
        drawing.line(html, curve, &style);
    }
    html.close("svg").close("div");
    let drawn: Vec<usize> = curves.iter().map(|(place, ..)| *place).collect();
    write_legend(html, rows, &drawn, palette);
    html.close("figure").end_fold();
}

fn explanation(rows: &[Row<'_>], drawn: usize) -> String {
    let mut text =
        String::from("How long the slowest part of the requests took, on logarithmic axes.");
    if rows.iter().any(|row| row.uncorrected.is_some()) {
        text.push_str(
            " Whole lines count from the intended start, dashed ones from sending: where they part, \
             requests waited to be sent.",
        );
    }
    let with_times = rows.iter().filter(|row| !row.times.is_empty()).count();
    if with_times > drawn {
        text.push_str(&format!(" The first {drawn} of {with_times} cases are drawn."));
    }
    text
}

/// Returns the subject's colour class and the opacity, which rises over the cases of the subject.
struct Style {
    /// Number of the row.
    number: String,
    title: String,
    /// CSS class.
    colour: &'static str,
    opacity: String,
}

impl Style {
    fn new(rows: &[Row<'_>], index: usize, palette: &Palette<'_>) -> Self {
        let subject = rows[index].subject;
        let of_subject = rows.iter().filter(|row| row.subject == subject).count();
        let before = rows[..index].iter().filter(|row| row.subject == subject).count();
        let share = (before + 1) as f64 / of_subject as f64;
        Self {
            number: index.to_string(),
            title: rows[index].title(),
            colour: palette.class_of(subject),
            opacity: format!("{:.2}", 0.35 + 0.65 * share),
        }
    }

    /// Opens the group of a line.
    fn open(&self, html: &mut Html, class: &'static str) {
        let classes = format!("{class} {}", self.colour);
        html.raw("\n").open("g", &[("class", &classes), ("data-row", &self.number)]);
        html.element("title", &[], &self.title);
    }
}

impl Curve {
    fn from_distribution(times: &Distribution) -> Option<Self> {
        let is_sparse = times.values.is_empty();
        let points = if is_sparse { sparse_points(times) } else { points(times) };
        (points.len() > 1).then_some(Self { points, is_sparse })
    }
}

fn spread_out(beyond: f64) -> f64 {
    -beyond.log10()
}

fn points(times: &Distribution) -> Vec<(f64, f64)> {
    let count = times.count as f64;
    let mut points = Vec::new();
    let mut seen = 0;
    for (value, samples) in &times.values {
        seen += samples;
        let beyond = times.count.saturating_sub(seen);
        if beyond < SAMPLES_BEYOND_MIN {
            break;
        }
        if (seen as f64) < count * FIRST_PERCENT / 100.0 {
            continue;
        }
        points.push((spread_out(beyond as f64 / count), *value as f64));
    }
    points
}

fn sparse_points(times: &Distribution) -> Vec<(f64, f64)> {
    let tail = times.percentiles.iter().filter(|(percent, _)| *percent < 100.0);
    tail.map(|(percent, value)| (spread_out(1.0 - percent / 100.0), *value as f64)).collect()
}

impl Drawing {
    fn x(&self, at: f64) -> f64 {
        LEFT + (at / self.reach).min(1.0) * (WIDTH - LEFT - RIGHT)
    }

    fn y(&self, time: f64) -> f64 {
        TOP + (1.0 - self.times.share(time)) * (HEIGHT - TOP - BOTTOM)
    }

    fn open(&self, html: &mut Html) {
        let view = format!("0 0 {WIDTH} {HEIGHT}");
        let attributes =
            [("viewBox", view.as_str()), ("role", "img"), ("aria-labelledby", "spectrum-title")];
        html.raw("\n").open("svg", &attributes);
        html.element(
            "title",
            &[("id", "spectrum-title")],
            "Time over percentile, one line a case; the headline table has the figures",
        );
        let (right, bottom) = (WIDTH - RIGHT, HEIGHT - BOTTOM);
        for tick in self.times.ticks(TICKS_MAX) {
            let y = self.y(tick);
            grid(html, &format!("M{LEFT} {y:.1}H{right}"));
            label(html, "end", LEFT - 8.0, y + 4.0, &axis::milliseconds(tick));
        }
        for (percent, text) in LABELLED {
            let at = spread_out(1.0 - percent / 100.0);
            // The axis ends at the last request; labels beyond it would suggest figures that were
            // not measured.
            if at <= self.reach + 1e-9 {
                let x = self.x(at);
                grid(html, &format!("M{x:.1} {TOP}V{bottom}"));
                label(html, "middle", x, bottom + 18.0, text);
            }
        }
        label(html, "end", right, HEIGHT - 8.0, "percentile of requests");
        label(html, "end", LEFT - 8.0, HEIGHT - 8.0, "ms");
    }

    /// Draws a curve and closes the group of its line.
    fn line(&self, html: &mut Html, curve: &Curve, style: &Style) {
        let path = self.path(&curve.points);
        html.open("path", &[("d", &path), ("opacity", &style.opacity)]).close("path");
        if curve.is_sparse {
            for (at, time) in &curve.points {
                let (x, y) = (format!("{:.1}", self.x(*at)), format!("{:.1}", self.y(*time)));
                html.open("circle", &[("cx", &x), ("cy", &y), ("r", "3")]).close("circle");
            }
        }
        html.close("g");
    }

    fn path(&self, points: &[(f64, f64)]) -> String {
        let mut path = String::new();
        let mut last: Option<(f64, f64)> = None;
        for (place, (at, time)) in points.iter().enumerate() {
            let (x, y) = (self.x(*at), self.y(*time));
            let is_last = place + 1 == points.len();
            let is_near = last
                .is_some_and(|(last_x, last_y)| (x - last_x).hypot(y - last_y) < POINTS_APART_MIN);
            if is_near && !is_last {
                continue;
            }
            path.push_str(&format!("{}{x:.1} {y:.1}", if last.is_none() { "M" } else { "L" }));
            last = Some((x, y));
        }
        path
    }
}

fn grid(html: &mut Html, path: &str) {
    html.open("path", &[("class", "grid"), ("d", path)]).close("path");
}

fn label(html: &mut Html, anchor: &str, x: f64, y: f64, text: &str) {
    let (x, y) = (format!("{x:.1}"), format!("{y:.1}"));
    html.element("text", &[("text-anchor", anchor), ("x", &x), ("y", &y)], text);
}

/// Writes the legend; the page's script highlights lines through it.
fn write_legend(html: &mut Html, rows: &[Row<'_>], drawn: &[usize], palette: &Palette<'_>) {
    html.open("figcaption", &[("class", "legend")]);
    for subject in subjects(rows) {
        let lines: Vec<usize> =
            drawn.iter().copied().filter(|place| rows[*place].subject == subject).collect();
        if lines.is_empty() {
            continue;
        }
        html.raw("\n").open("div", &[]);
        if !subject.is_empty() {
            html.open("b", &[]).open("i", &[("class", palette.class_of(subject))]).close("i");
            html.text(subject).close("b");
        }
        for place in lines {
            let Style { number, colour, opacity, .. } = &Style::new(rows, place, palette);
            let swatch = format!("opacity:{opacity}");
            html.raw(" ").open("button", &[("type", "button"), ("data-row", number)]);
            html.open("i", &[("class", colour), ("style", &swatch)]).close("i");
            html.text(rows[place].name).close("button");
        }
        html.close("div");
    }
    html.close("figcaption");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::distribution::histogram;

    #[test]
    fn a_line_ends_where_ten_samples_lie_beyond() {
        let mut values = histogram();
        (1..=1_000_u64).for_each(|n| values.saturating_record(n * 1_000_000));
        let curve =
            Curve::from_distribution(&Distribution::from_histogram(&values)).expect("a curve");
        let (at, time) = *curve.points.last().expect("points");
        assert!((at - 2.0).abs() < 1e-9, "ends at 99 %: {at}");
        assert!((time / 1e6 - 990.0).abs() < 2.0, "{time}");
    }

    #[test]
    fn a_table_gives_a_line_of_its_percentiles() {
        let table = Distribution {
            percentiles: vec![(50.0, 19_370_000), (99.0, 69_920_000), (100.0, 1)],
            ..Distribution::default()
        };
        let curve = Curve::from_distribution(&table).expect("a curve");
        assert!(curve.is_sparse && curve.points.len() == 2);
        assert!(Curve::from_distribution(&Distribution::default()).is_none());
    }

    #[test]
    fn points_that_cannot_be_told_apart_are_left_out() {
        let drawing = Drawing { times: Axis::holding([1e6, 1e9]).expect("values"), reach: 3.0 };
        let dense: Vec<(f64, f64)> = (0..10_000).map(|n| (f64::from(n) * 3e-4, 1e7)).collect();
        let path = drawing.path(&dense);
        assert!(path.matches('L').count() < 400, "{}", path.len());
        assert!(path.ends_with(&format!("{:.1} {:.1}", drawing.x(2.9997), drawing.y(1e7))));
    }
}
