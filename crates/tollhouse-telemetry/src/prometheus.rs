//! The text exposition format 0.0.4 of Prometheus.
//!
//! Label values are closed sets without characters to escape, and help texts come from the
//! catalogue. No text from outside occurs.

use crate::counters::{Counter, Family, Gauge, Label, SharedCounter, SharedGauge};
use crate::histogram::{BOUNDS_MS, Histogram, SharedHistogram, Totals};

pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// A metric that can be summed over cores and written as samples.
pub(crate) trait Measure: 'static {
    const KIND: &'static str;
    const LABEL: Option<&'static str> = None;

    fn render<'a>(name: &str, cells: impl Iterator<Item = &'a Self> + Clone, text: &mut String);
}

/// Appends the `HELP` and `TYPE` lines of a metric.
pub(crate) fn heading(name: &str, help: &str, kind: &str, text: &mut String) {
    text.push_str(&format!("# HELP {name} {help}\n# TYPE {name} {kind}\n"));
}

macro_rules! number {
    ($cell:ty, $kind:literal, $sum:ty) => {
        impl Measure for $cell {
            const KIND: &'static str = $kind;

            fn render<'a>(name: &str, cells: impl Iterator<Item = &'a Self>, text: &mut String) {
                let sum: $sum = cells.map(Self::value).sum();
                text.push_str(&format!("{name} {sum}\n"));
            }
        }
    };
}

number!(Counter, "counter", u64);
number!(SharedCounter, "counter", u64);
number!(Gauge, "gauge", i64);
number!(SharedGauge, "gauge", i64);

impl<L: Label, const N: usize> Measure for Family<L, N> {
    const KIND: &'static str = "counter";
    const LABEL: Option<&'static str> = Some(L::NAME);

    fn render<'a>(name: &str, cells: impl Iterator<Item = &'a Self> + Clone, text: &mut String) {
        for label in L::ALL {
            let sum: u64 = cells.clone().map(|family| family.get(*label).value()).sum();
            text.push_str(&format!("{name}{{{}=\"{}\"}} {sum}\n", L::NAME, label.text()));
        }
    }
}

impl Measure for Histogram {
    const KIND: &'static str = "histogram";

    fn render<'a>(name: &str, cells: impl Iterator<Item = &'a Self>, text: &mut String) {
        render_histogram(name, cells.map(Self::totals), text);
    }
}

impl Measure for SharedHistogram {
    const KIND: &'static str = "histogram";

    fn render<'a>(name: &str, cells: impl Iterator<Item = &'a Self>, text: &mut String) {
        render_histogram(name, cells.map(Self::totals), text);
    }
}

fn render_histogram(name: &str, parts: impl Iterator<Item = Totals>, text: &mut String) {
    let mut totals = Totals::default();
    for part in parts {
        totals.add(&part);
    }
    let mut cumulative = 0;
    for (index, count) in totals.buckets.iter().enumerate() {
        cumulative += count;
        let bound = BOUNDS_MS.get(index).map_or_else(|| "+Inf".to_owned(), u64::to_string);
        text.push_str(&format!("{name}_bucket{{le=\"{bound}\"}} {cumulative}\n"));
    }
    let (whole_ms, rest_us) = (totals.sum_us / 1_000, totals.sum_us % 1_000);
    text.push_str(&format!("{name}_sum {whole_ms}.{rest_us:03}\n{name}_count {cumulative}\n"));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::labels::ConnectionRefusal;

    fn rendered<M: Measure>(cells: &[M]) -> String {
        let mut text = String::new();
        M::render("m", cells.iter(), &mut text);
        text
    }

    #[test]
    fn numbers_of_all_cores_are_one_sample() {
        let cells = [Counter::default(), Counter::default()];
        cells[0].add(40);
        cells[1].add(2);
        assert_eq!(rendered(&cells), "m 42\n");
        let gauges = [Gauge::default(), Gauge::default()];
        gauges[0].decrement();
        assert_eq!(rendered(&gauges), "m -1\n");
        assert_eq!(rendered::<Counter>(&[]), "m 0\n");
    }

    #[test]
    fn a_family_has_one_sample_a_label_value() {
        let family = Family::<ConnectionRefusal, { ConnectionRefusal::COUNT }>::default();
        family.increment(ConnectionRefusal::Draining);
        assert_eq!(
            rendered(&[family]),
            "m{reason=\"limit\"} 0\nm{reason=\"limit_per_address\"} 0\nm{reason=\"draining\"} 1\n\
             m{reason=\"tls_handshake\"} 0\nm{reason=\"proxy_header\"} 0\n\
             m{reason=\"accept\"} 0\n"
        );
    }

    #[test]
    fn a_histogram_is_cumulative_with_sum_and_count() {
        let histogram = Histogram::default();
        histogram.observe_us(400);
        histogram.observe_us(1_600);
        histogram.observe_us(90_000_005);
        let text = rendered(&[histogram]);
        assert!(text.starts_with("m_bucket{le=\"1\"} 1\nm_bucket{le=\"2\"} 2\n"), "{text}");
        assert!(text.ends_with(
            "m_bucket{le=\"60000\"} 2\nm_bucket{le=\"+Inf\"} 3\nm_sum 90002.005\nm_count 3\n"
        ));
    }
}
