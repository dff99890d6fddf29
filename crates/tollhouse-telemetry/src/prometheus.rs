//! Writes the cells of the catalogue to the metrics page.
//!
//! Label values are closed sets without characters to escape, and help texts come from the
//! catalogue. No text from outside occurs.

use crate::counters::{Counter, Family, Gauge, Label, SharedCounter, SharedGauge};
use crate::exposition::{Exposition, HistogramSample, labels};
use crate::histogram::{
    BOUNDS_MS, CLASSIC_BUCKETS, Histogram, MillisecondHistogram, SharedHistogram, Totals,
};

/// A metric that can be summed over cores and written as samples.
pub(crate) trait Measure: 'static {
    const KIND: &'static str;
    const LABEL: Option<&'static str> = None;

    fn render<'a>(cells: impl Iterator<Item = &'a Self> + Clone, page: &mut Exposition);
}

macro_rules! number {
    ($cell:ty, $kind:literal, $sum:ty) => {
        impl Measure for $cell {
            const KIND: &'static str = $kind;

            fn render<'a>(cells: impl Iterator<Item = &'a Self>, page: &mut Exposition) {
                let sum: $sum = cells.map(Self::value).sum();
                page.sample("", sum);
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

    fn render<'a>(cells: impl Iterator<Item = &'a Self> + Clone, page: &mut Exposition) {
        for label in L::ALL {
            let sum: u64 = cells.clone().map(|family| family.get(*label).value()).sum();
            page.sample(&labels([(L::NAME, label.text())]), sum);
        }
    }
}

macro_rules! durations {
    ($cell:ty) => {
        impl Measure for $cell {
            const KIND: &'static str = "histogram";

            fn render<'a>(cells: impl Iterator<Item = &'a Self>, page: &mut Exposition) {
                let mut totals = Totals::default();
                cells.for_each(|cell| cell.add_to(&mut totals));
                page.durations("", &totals, &[None; CLASSIC_BUCKETS]);
            }
        }
    };
}

durations!(Histogram);
durations!(SharedHistogram);

impl Measure for MillisecondHistogram {
    const KIND: &'static str = "histogram";

    fn render<'a>(cells: impl Iterator<Item = &'a Self>, page: &mut Exposition) {
        let mut totals = Totals::default();
        cells.for_each(|cell| cell.add_to(&mut totals));
        let bounds = BOUNDS_MS.map(|bound| bound as f64);
        let sum = totals.sum_us as f64 / 1e3;
        let counts = totals.classic();
        let sample =
            HistogramSample { bounds: &bounds, counts: &counts, sum, native: None, exemplars: &[] };
        page.histogram("", &sample);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exposition::Format;
    use crate::histogram::Observation;
    use crate::labels::ConnectionRefusal;

    /// The samples of cells, without the heading.
    fn rendered<M: Measure>(cells: &[M]) -> String {
        let mut page = Exposition::new(Format::Text);
        page.family("m", "", M::KIND);
        page.take();
        M::render(cells.iter(), &mut page);
        String::from_utf8(page.finish()).expect("text")
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
    fn durations_are_seconds_and_shenyus_are_milliseconds() {
        let (seconds, shenyus) = (Histogram::default(), MillisecondHistogram::default());
        for ms in [1, 2, 90_005] {
            seconds.observe_ms(ms);
            shenyus.observe(Observation::from_ms(ms));
        }
        let text = rendered(&[seconds]);
        assert!(text.starts_with("m_bucket{le=\"0.001\"} 1\nm_bucket{le=\"0.002\"} 2\n"), "{text}");
        assert!(text.ends_with("m_bucket{le=\"+Inf\"} 3\nm_count 3\nm_sum 90.008\n"), "{text}");
        let text = rendered(&[shenyus]);
        assert!(text.starts_with("m_bucket{le=\"1\"} 1\nm_bucket{le=\"2\"} 2\n"), "{text}");
        assert!(text.ends_with("m_count 3\nm_sum 90008\n"), "{text}");
    }
}
