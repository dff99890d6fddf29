//! The text formats: 0.0.4 of Prometheus, and OpenMetrics 1.0.0.

use super::{Format, HistogramSample, Number};
use crate::access_log::number::push_number;
use crate::exemplars::Exemplar;

/// Ending of counters, which is not part of their name in OpenMetrics.
const TOTAL: &str = "_total";

/// Lines of a page.
#[derive(Debug)]
pub(super) struct Lines {
    format: Format,
    /// Name of the current metric, as in its samples.
    name: String,
    text: Vec<u8>,
}

impl Lines {
    pub(super) fn new(format: Format) -> Self {
        Self { format, name: String::new(), text: Vec::new() }
    }

    pub(super) fn len(&self) -> usize {
        self.text.len()
    }

    pub(super) fn take(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.text)
    }

    pub(super) fn finish(&mut self) {
        if self.format == Format::OpenMetrics {
            self.push("# EOF\n");
        }
    }

    fn push(&mut self, text: &str) {
        self.text.extend_from_slice(text.as_bytes());
    }

    pub(super) fn family(&mut self, name: &str, help: &str, kind: &str) {
        self.name.clear();
        self.name.push_str(name);
        let is_open = self.format == Format::OpenMetrics;
        // A counter with another name is not valid in OpenMetrics.
        let (name, kind) = match kind {
            "counter" if is_open => {
                name.strip_suffix(TOTAL).map_or((name, "unknown"), |it| (it, kind))
            }
            _ => (name, kind),
        };
        let mut help = help.replace('\\', "\\\\").replace('\n', "\\n");
        if is_open {
            help = help.replace('"', "\\\"");
        }
        self.push(&format!("# HELP {name} {help}\n# TYPE {name} {kind}\n"));
    }

    pub(super) fn sample(&mut self, labels: &str, value: Number) {
        self.start("", labels);
        self.value(value);
        self.push("\n");
    }

    /// Starts a line, up to the blank before the value.
    fn start(&mut self, suffix: &str, labels: &str) {
        self.text.extend_from_slice(self.name.as_bytes());
        self.push(suffix);
        if !labels.is_empty() {
            self.push("{");
            self.push(labels);
            self.push("}");
        }
        self.push(" ");
    }

    fn value(&mut self, value: Number) {
        match value {
            Number::Unsigned(value) => push_number(value, &mut self.text),
            Number::Signed(value) => self.push(&value.to_string()),
            Number::Float(value) => self.push(&value.to_string()),
        }
    }

    pub(super) fn histogram(&mut self, labels: &str, histogram: &HistogramSample<'_>) {
        let comma = if labels.is_empty() { "" } else { "," };
        let start = [self.name.as_str(), "_bucket{", labels, comma, "le=\""].concat();
        let mut cumulative = 0u64;
        for (place, count) in histogram.counts.iter().enumerate() {
            cumulative = cumulative.wrapping_add(*count);
            self.push(&start);
            match histogram.bounds.get(place) {
                // OpenMetrics requires a fraction.
                Some(bound) if self.format == Format::OpenMetrics => {
                    self.push(&format!("{bound:?}"))
                }
                Some(bound) => self.push(&bound.to_string()),
                None => self.push("+Inf"),
            }
            self.push("\"} ");
            push_number(cumulative, &mut self.text);
            if let Some(Some(exemplar)) = histogram.exemplars.get(place) {
                self.exemplar(exemplar);
            }
            self.push("\n");
        }
        self.start("_count", labels);
        push_number(cumulative, &mut self.text);
        self.push("\n");
        self.start("_sum", labels);
        self.value(Number::Float(histogram.sum));
        self.push("\n");
    }

    fn exemplar(&mut self, exemplar: &Exemplar) {
        if self.format == Format::OpenMetrics {
            let Exemplar { trace, duration_ms, unix_ms } = *exemplar;
            let (trace, seconds) = (trace.text(), duration_ms as f64 / 1e3);
            let at = unix_ms as f64 / 1e3;
            self.push(&format!(" # {{trace_id=\"{trace}\"}} {seconds} {at}"));
        }
    }
}
