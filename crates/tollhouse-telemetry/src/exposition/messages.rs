//! Messages of `io.prometheus.client`, as far as the page has them.
//!
//! Source: `io/prometheus/client/metrics.proto` of Prometheus' `client_model`.

/// Values of `MetricType`.
pub(super) mod kinds {
    pub(in super::super) const COUNTER: i32 = 0;
    pub(in super::super) const GAUGE: i32 = 1;
    pub(in super::super) const UNTYPED: i32 = 3;
    pub(in super::super) const HISTOGRAM: i32 = 4;
}

/// Number of the field `metric` of a `MetricFamily`.
pub(super) const METRIC_FIELD: u32 = 4;

/// A `MetricFamily` without its metrics, which are appended as they come.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct FamilyHead {
    #[prost(string, optional, tag = "1")]
    pub(super) name: Option<String>,
    #[prost(string, optional, tag = "2")]
    pub(super) help: Option<String>,
    #[prost(int32, optional, tag = "3")]
    pub(super) kind: Option<i32>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct Metric {
    #[prost(message, repeated, tag = "1")]
    pub(super) label: Vec<LabelPair>,
    #[prost(message, optional, tag = "2")]
    pub(super) gauge: Option<Value>,
    #[prost(message, optional, tag = "3")]
    pub(super) counter: Option<Value>,
    #[prost(message, optional, tag = "5")]
    pub(super) untyped: Option<Value>,
    #[prost(message, optional, tag = "7")]
    pub(super) histogram: Option<Histogram>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct LabelPair {
    #[prost(string, optional, tag = "1")]
    pub(super) name: Option<String>,
    #[prost(string, optional, tag = "2")]
    pub(super) value: Option<String>,
}

/// A `Gauge`, a `Counter` or an `Untyped`.
#[derive(Clone, Copy, PartialEq, prost::Message)]
pub(super) struct Value {
    #[prost(double, optional, tag = "1")]
    pub(super) value: Option<f64>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct Histogram {
    #[prost(uint64, optional, tag = "1")]
    pub(super) sample_count: Option<u64>,
    #[prost(double, optional, tag = "2")]
    pub(super) sample_sum: Option<f64>,
    #[prost(message, repeated, tag = "3")]
    pub(super) bucket: Vec<Bucket>,
    #[prost(sint32, optional, tag = "5")]
    pub(super) schema: Option<i32>,
    #[prost(double, optional, tag = "6")]
    pub(super) zero_threshold: Option<f64>,
    #[prost(uint64, optional, tag = "7")]
    pub(super) zero_count: Option<u64>,
    #[prost(message, repeated, tag = "12")]
    pub(super) positive_span: Vec<BucketSpan>,
    #[prost(sint64, repeated, packed = "false", tag = "13")]
    pub(super) positive_delta: Vec<i64>,
    #[prost(message, repeated, tag = "16")]
    pub(super) exemplars: Vec<ExemplarMessage>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct Bucket {
    #[prost(uint64, optional, tag = "1")]
    pub(super) cumulative_count: Option<u64>,
    #[prost(double, optional, tag = "2")]
    pub(super) upper_bound: Option<f64>,
    #[prost(message, optional, tag = "3")]
    pub(super) exemplar: Option<ExemplarMessage>,
}

#[derive(Clone, Copy, PartialEq, prost::Message)]
pub(super) struct BucketSpan {
    #[prost(sint32, optional, tag = "1")]
    pub(super) offset: Option<i32>,
    #[prost(uint32, optional, tag = "2")]
    pub(super) length: Option<u32>,
}

/// An `Exemplar`.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct ExemplarMessage {
    #[prost(message, repeated, tag = "1")]
    pub(super) label: Vec<LabelPair>,
    #[prost(double, optional, tag = "2")]
    pub(super) value: Option<f64>,
    #[prost(message, optional, tag = "3")]
    pub(super) timestamp: Option<Timestamp>,
}

/// `google.protobuf.Timestamp`.
#[derive(Clone, Copy, PartialEq, prost::Message)]
pub(super) struct Timestamp {
    #[prost(int64, tag = "1")]
    pub(super) seconds: i64,
    #[prost(int32, tag = "2")]
    pub(super) nanos: i32,
}
