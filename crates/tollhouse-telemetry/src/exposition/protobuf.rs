//! The format of protocol buffers: a `MetricFamily` after its length for each metric.

use prost::Message;

use super::messages::{
    Bucket, BucketSpan, ExemplarMessage, FamilyHead, Histogram, LabelPair, METRIC_FIELD, Metric,
    Timestamp, Value, kinds,
};
use super::{HistogramSample, Number, label_pairs};
use crate::exemplars::Exemplar;
use crate::histogram::{SCHEMA, ZERO_THRESHOLD_S};

/// Messages of a page.
#[derive(Debug, Default)]
pub(super) struct Families {
    head: FamilyHead,
    /// Encoded metrics of the current message.
    metrics: Vec<u8>,
    done: Vec<u8>,
}

impl Families {
    pub(super) fn len(&self) -> usize {
        self.done.len() + self.metrics.len()
    }

    /// Ends the current message; further metrics of the same name begin another one.
    pub(super) fn take(&mut self) -> Vec<u8> {
        self.end();
        std::mem::take(&mut self.done)
    }

    pub(super) fn family(&mut self, name: &str, help: &str, kind: &str) {
        self.end();
        let kind = match kind {
            "counter" => kinds::COUNTER,
            "gauge" => kinds::GAUGE,
            "histogram" => kinds::HISTOGRAM,
            _ => kinds::UNTYPED,
        };
        self.head =
            FamilyHead { name: Some(name.into()), help: Some(help.into()), kind: Some(kind) };
    }

    /// Appends the current message, unless it has no metrics: Prometheus refuses such a message.
    fn end(&mut self) {
        if self.metrics.is_empty() {
            return;
        }
        let length = self.head.encoded_len() + self.metrics.len();
        prost::encoding::encode_varint(length as u64, &mut self.done);
        self.done.extend_from_slice(&self.head.encode_to_vec());
        self.done.append(&mut self.metrics);
    }

    pub(super) fn sample(&mut self, labels: &str, value: Number) {
        let value = match value {
            Number::Unsigned(value) => value as f64,
            Number::Signed(value) => value as f64,
            Number::Float(value) => value,
        };
        let value = Some(Value { value: Some(value) });
        let mut metric = Metric { label: pairs(labels), ..Metric::default() };
        match self.head.kind {
            Some(kinds::COUNTER) => metric.counter = value,
            Some(kinds::GAUGE) => metric.gauge = value,
            _ => metric.untyped = value,
        }
        self.push(&metric);
    }

    fn push(&mut self, metric: &Metric) {
        prost::encoding::message::encode(METRIC_FIELD, metric, &mut self.metrics);
    }

    pub(super) fn histogram(&mut self, labels: &str, sample: &HistogramSample<'_>) {
        let mut cumulative = 0u64;
        let buckets = sample.counts.iter().enumerate().map(|(place, count)| {
            cumulative = cumulative.wrapping_add(*count);
            let exemplar = sample.exemplars.get(place).copied().flatten();
            Bucket {
                cumulative_count: Some(cumulative),
                upper_bound: Some(sample.bounds.get(place).copied().unwrap_or(f64::INFINITY)),
                exemplar: exemplar.as_ref().map(exemplar_message),
            }
        });
        let mut histogram = Histogram {
            bucket: buckets.collect(),
            sample_count: Some(cumulative),
            sample_sum: Some(sample.sum),
            ..Histogram::default()
        };
        if let Some(native) = &sample.native {
            histogram.schema = Some(SCHEMA);
            histogram.zero_threshold = Some(ZERO_THRESHOLD_S);
            histogram.zero_count = Some(native.zero_count);
            let spans = native.spans.iter();
            let span = |span: &crate::histogram::Span| BucketSpan {
                offset: Some(span.offset),
                length: Some(span.length),
            };
            histogram.positive_span = spans.map(span).collect();
            histogram.positive_delta = native.deltas.clone();
            histogram.exemplars = sample.exemplars.iter().flatten().map(exemplar_message).collect();
        }
        let metric =
            Metric { label: pairs(labels), histogram: Some(histogram), ..Metric::default() };
        self.push(&metric);
    }
}

fn pairs(labels: &str) -> Vec<LabelPair> {
    let pairs = label_pairs(labels).into_iter();
    pairs.map(|(name, value)| LabelPair { name: Some(name), value: Some(value) }).collect()
}

fn exemplar_message(exemplar: &Exemplar) -> ExemplarMessage {
    let Exemplar { trace, duration_ms, unix_ms } = *exemplar;
    ExemplarMessage {
        label: vec![LabelPair { name: Some("trace_id".into()), value: Some(trace.text()) }],
        value: Some(duration_ms as f64 / 1e3),
        timestamp: Some(Timestamp {
            seconds: (unix_ms / 1000).cast_signed(),
            nanos: i32::try_from(unix_ms % 1000 * 1_000_000).unwrap_or(0),
        }),
    }
}
