//! The metrics page in the formats that Prometheus asks for: its text format, OpenMetrics, and
//! protocol buffers, which alone carry native histograms.
//!
//! Labels are passed as text, `a="b",c="d"`, because most are written once and printed often. A page
//! is written in pieces: [`take`](Exposition::take) gives what is complete.

mod format;
mod messages;
mod protobuf;
mod text;

pub use self::format::Format;

use crate::exemplars::Exemplar;
use crate::histogram::{BOUNDS_MS, CLASSIC_BUCKETS, NativeBuckets, Totals};

use self::protobuf::Families;
use self::text::Lines;

/// Value of a sample.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Number {
    Unsigned(u64),
    Signed(i64),
    Float(f64),
}

macro_rules! number_from {
    ($($type:ty => $variant:ident),*) => {
        $(impl From<$type> for Number {
            fn from(value: $type) -> Self {
                Self::$variant(value.into())
            }
        })*
    };
}

number_from!(u64 => Unsigned, u32 => Unsigned, u8 => Unsigned, i64 => Signed, f64 => Float);

impl From<usize> for Number {
    fn from(value: usize) -> Self {
        Self::Unsigned(value as u64)
    }
}

/// A histogram of a page.
#[derive(Debug, Clone)]
pub struct HistogramSample<'a> {
    /// Upper bounds of the classic buckets, without the last one, which has none.
    pub bounds: &'a [f64],
    /// Counts of the classic buckets, not cumulative; one more than `bounds`.
    pub counts: &'a [u64],
    pub sum: f64,
    pub native: Option<NativeBuckets>,
    /// Exemplars of the classic buckets; empty without any.
    pub exemplars: &'a [Option<Exemplar>],
}

/// [`BOUNDS_MS`] in seconds.
pub const BOUNDS_S: [f64; BOUNDS_MS.len()] =
    [0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0];

/// A page that is being written.
#[derive(Debug)]
pub struct Exposition(Writer);

#[derive(Debug)]
enum Writer {
    Text(Lines),
    Protobuf(Families),
}

impl Exposition {
    pub fn new(format: Format) -> Self {
        Self(match format {
            Format::Text | Format::OpenMetrics => Writer::Text(Lines::new(format)),
            Format::Protobuf => Writer::Protobuf(Families::default()),
        })
    }

    /// Starts a metric; `kind` is `counter`, `gauge` or `histogram`.
    pub fn family(&mut self, name: &str, help: &str, kind: &'static str) {
        match &mut self.0 {
            Writer::Text(lines) => lines.family(name, help, kind),
            Writer::Protobuf(families) => families.family(name, help, kind),
        }
    }

    /// Adds a sample of a counter or a gauge.
    pub fn sample(&mut self, labels: &str, value: impl Into<Number>) {
        let value = value.into();
        match &mut self.0 {
            Writer::Text(lines) => lines.sample(labels, value),
            Writer::Protobuf(families) => families.sample(labels, value),
        }
    }

    /// Adds a histogram.
    pub fn histogram(&mut self, labels: &str, histogram: &HistogramSample<'_>) {
        match &mut self.0 {
            Writer::Text(lines) => lines.histogram(labels, histogram),
            Writer::Protobuf(families) => families.histogram(labels, histogram),
        }
    }

    /// Adds a histogram of seconds, classic and native, with the exemplars of its classic buckets.
    pub fn durations(
        &mut self,
        labels: &str,
        totals: &Totals,
        exemplars: &[Option<Exemplar>; CLASSIC_BUCKETS],
    ) {
        self.histogram(
            labels,
            &HistogramSample {
                bounds: &BOUNDS_S,
                counts: &totals.classic(),
                sum: totals.sum_us as f64 / 1e6,
                native: matches!(self.0, Writer::Protobuf(_)).then(|| totals.native()),
                exemplars,
            },
        );
    }

    /// Number of bytes that can be taken.
    pub fn len(&self) -> usize {
        match &self.0 {
            Writer::Text(lines) => lines.len(),
            Writer::Protobuf(families) => families.len(),
        }
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Takes the bytes written so far. Samples of the same metric may follow.
    pub fn take(&mut self) -> Vec<u8> {
        match &mut self.0 {
            Writer::Text(lines) => lines.take(),
            Writer::Protobuf(families) => families.take(),
        }
    }

    /// The rest of the page.
    pub fn finish(mut self) -> Vec<u8> {
        if let Writer::Text(lines) = &mut self.0 {
            lines.finish();
        }
        self.take()
    }
}

/// Appends a label value with escaping; invalid UTF-8 becomes the replacement character.
pub fn push_escaped(text: &mut String, value: &[u8]) {
    for character in String::from_utf8_lossy(value).chars() {
        match character {
            '\\' => text.push_str("\\\\"),
            '"' => text.push_str("\\\""),
            '\n' => text.push_str("\\n"),
            other => text.push(other),
        }
    }
}

/// Labels in text form, with escaping.
pub fn labels<const N: usize>(pairs: [(&str, &str); N]) -> String {
    let mut text = String::new();
    for (name, value) in pairs {
        if !text.is_empty() {
            text.push(',');
        }
        text.push_str(name);
        text.push_str("=\"");
        push_escaped(&mut text, value.as_bytes());
        text.push('"');
    }
    text
}

/// Splits labels in text form into names and values.
fn label_pairs(mut labels: &str) -> Vec<(String, String)> {
    let mut pairs = Vec::new();
    while let Some((name, rest)) = labels.split_once("=\"") {
        let mut value = String::new();
        let mut characters = rest.char_indices();
        let mut end = rest.len();
        while let Some((at, character)) = characters.next() {
            match character {
                '"' => {
                    end = at + 1;
                    break;
                }
                '\\' => match characters.next() {
                    Some((_, 'n')) => value.push('\n'),
                    Some((_, other)) => value.push(other),
                    None => {}
                },
                other => value.push(other),
            }
        }
        pairs.push((name.to_owned(), value));
        labels = rest[end..].trim_start_matches(',');
    }
    pairs
}

#[cfg(test)]
mod tests;
