//! Distributed tracing without IO: identity of spans and the headers that carry it, samplers,
//! compact records of finished spans, and their conversion to OTLP messages (feature `otlp`).
//!
//! Cores write records into blocks ([`SpanBlock`]) and hand whole blocks to a [`SpanSink`], which
//! must not block. Delivery to a collector is in `tollhouse-plugins`.

#![forbid(unsafe_code)]

pub mod b3;
mod call_span;
mod context;
mod core_tracer;
mod key;
#[cfg(feature = "otlp")]
pub mod otlp;
mod propagation;
mod request;
mod request_spans;
mod sampler;
mod span;
pub mod w3c;

pub use call_span::CallSpan;
pub use context::{SpanContext, SpanId, TraceId};
pub use core_tracer::{CoreTracer, Tracer};
pub use key::Key;
pub use propagation::{Incoming, Propagator, Propagators, Verdict};
pub use request::{AttemptSpan, InnerSpan, RequestTrace, SpanNames, TraceExtent, TraceStart};
pub use request_spans::{
    AttemptOutcome, RequestFacts, RequestNumbers, RequestTexts, ResponseSource,
};
pub use sampler::{Ratio, Root, Sampler};
pub use span::{
    Attribute, AttributeValue, SpanBlock, SpanHead, SpanKind, SpanSink, SpanStatus, SpanView,
    SpanWriter,
};
pub use tollhouse_stdx::clock::unix_ns;
