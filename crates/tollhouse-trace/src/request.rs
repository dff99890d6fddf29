//! Trace of one request while it is served. The memory is reused for the next request.

use std::cell::{OnceCell, RefCell};
use std::sync::Arc;

use smallvec::SmallVec;
use tollhouse_stdx::Endpoint;
use tollhouse_stdx::clock::unix_ns;

use crate::context::{SpanContext, SpanId};
use crate::propagation::Propagators;
use crate::request_spans::AddedAttributes;
use crate::span::{Attribute, Attributes, SpanSink, SpanWriter};
use crate::w3c;

/// Attempts stored without an allocation; more than two are rare.
const ATTEMPTS_INLINE: usize = 2;

/// Largest number of spans within a request. A chain of plugins has some dozens of phases.
const INNER_SPANS_MAX: usize = 128;

/// Longest pattern of a route in a span's name, in bytes.
const ROUTE_BYTES_MAX: usize = 256;

/// Names of a span's attributes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SpanNames {
    /// Stable names of OpenTelemetry's semantic conventions.
    #[default]
    Stable,
    /// Names that APISIX's plugin writes.
    Apisix,
}

/// Beginning of a trace in this process.
#[derive(Debug, Clone)]
pub struct TraceStart {
    pub context: SpanContext,
    /// Span of the caller, if the request carried one.
    pub parent: Option<SpanId>,
    pub propagators: Propagators,
    pub names: SpanNames,
    pub has_inner_spans: bool,
    /// Destination of the spans; `None` for that of the process.
    pub sink: Option<Arc<dyn SpanSink>>,
}

/// Extent of a request's trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TraceExtent {
    /// No trace.
    #[default]
    None,
    /// Nodes receive a context, and nothing is recorded.
    Context,
    /// Spans are recorded.
    Spans,
}

/// Terms of a trace that do not change from request to request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct TraceTerms {
    pub(crate) propagators: Propagators,
    pub(crate) names: SpanNames,
    pub(crate) has_inner_spans: bool,
}

/// Attempt at a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AttemptSpan {
    pub span_id: SpanId,
    pub node: Endpoint,
    /// Whether the node is reached over TLS.
    pub is_encrypted: bool,
    pub start_ns: u64,
    /// 0 until the attempt has ended; then nanoseconds since 1970.
    pub end_ns: u64,
}

/// Work within the request that has a span of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InnerSpan {
    pub span_id: SpanId,
    /// Name, such as `rewrite`.
    pub name: &'static str,
    /// Plugin that worked; empty for a phase as a whole.
    pub plugin: &'static str,
    pub start_ns: u64,
    pub end_ns: u64,
}

/// Trace of a request; inactive between requests and without tracing.
#[derive(Debug, Default)]
pub struct RequestTrace {
    context: Option<SpanContext>,
    /// Span of the current attempt, which nodes receive.
    attempt: Option<SpanId>,
    parent: Option<SpanId>,
    terms: TraceTerms,
    /// `traceparent` of the request's own span, written at first use.
    traceparent: OnceCell<[u8; w3c::TRACEPARENT_BYTES]>,
    sink: Option<Arc<dyn SpanSink>>,
    route: Vec<u8>,
    /// Nanoseconds since 1970; 0 unless spans are or were recorded. The fields below are empty then.
    started_ns: u64,
    attempts: SmallVec<[AttemptSpan; ATTEMPTS_INLINE]>,
    inner: RefCell<Vec<InnerSpan>>,
    attributes: RefCell<Attributes>,
}

impl RequestTrace {
    /// Whether the request belongs to a trace, recorded or not.
    #[inline]
    pub fn is_active(&self) -> bool {
        self.context.is_some()
    }

    /// Whether spans of this request are exported.
    #[inline]
    pub fn is_recorded(&self) -> bool {
        self.context.is_some_and(|context| context.is_sampled)
    }

    /// Begins a trace, in the place of another that was begun for the same request. The time of the
    /// first beginning counts.
    pub fn begin(&mut self, start: TraceStart) -> TraceExtent {
        let TraceStart { context, parent, propagators, names, has_inner_spans, sink } = start;
        self.sink = sink;
        self.begin_context(context, parent, TraceTerms { propagators, names, has_inner_spans })
    }

    /// Begins a trace whose spans go to the destination of the process.
    #[inline]
    pub(crate) fn begin_context(
        &mut self,
        context: SpanContext,
        parent: Option<SpanId>,
        terms: TraceTerms,
    ) -> TraceExtent {
        self.context = Some(context);
        self.attempt = None;
        self.parent = parent;
        self.terms = terms;
        self.traceparent = OnceCell::new();
        if !context.is_sampled {
            return TraceExtent::Context;
        }
        if self.started_ns == 0 {
            self.started_ns = unix_ns();
        }
        TraceExtent::Spans
    }

    /// Releases what the request held.
    #[inline]
    pub fn finish(&mut self) {
        self.context = None;
        // Also set by a trace that is not recorded.
        self.sink = None;
        self.route.clear();
        if self.started_ns != 0 {
            self.started_ns = 0;
            self.attempts.clear();
            self.inner.get_mut().clear();
            self.attributes.get_mut().clear();
        }
    }

    /// Context of the request's own span.
    #[inline]
    pub fn context(&self) -> Option<&SpanContext> {
        self.context.as_ref()
    }

    /// Span of the caller.
    #[inline]
    pub fn parent(&self) -> Option<SpanId> {
        self.parent
    }

    #[inline]
    pub fn propagators(&self) -> &Propagators {
        &self.terms.propagators
    }

    #[inline]
    pub fn names(&self) -> SpanNames {
        self.terms.names
    }

    #[inline]
    pub fn started_ns(&self) -> u64 {
        self.started_ns
    }

    /// Takes the destination of the spans, if it is not that of the process.
    pub fn take_sink(&mut self) -> Option<Arc<dyn SpanSink>> {
        self.sink.take()
    }

    /// `traceparent` of the request's own span; empty without a trace.
    #[inline]
    pub fn traceparent(&self) -> &[u8] {
        let write = |context| self.traceparent.get_or_init(|| w3c::write(context)).as_slice();
        self.context.as_ref().map_or(b"", write)
    }

    /// Id of the trace as text; empty without a trace.
    #[inline]
    pub fn trace_id_text(&self) -> &[u8] {
        self.traceparent().get(w3c::TRACE_ID_AT).unwrap_or_default()
    }

    /// Id of the request's own span as text; empty without a trace.
    #[inline]
    pub fn span_id_text(&self) -> &[u8] {
        self.traceparent().get(w3c::SPAN_ID_AT).unwrap_or_default()
    }

    /// Context that nodes receive: that of the current attempt, before attempts and without a
    /// recording that of the request.
    #[inline]
    pub fn outgoing(&self) -> Option<SpanContext> {
        let context = self.context?;
        Some(SpanContext { span_id: self.attempt.unwrap_or(context.span_id), ..context })
    }

    /// Span that nodes receive, in the trace of [`Self::context`].
    #[inline]
    pub fn outgoing_span<'s>(&'s self, context: &'s SpanContext) -> &'s SpanId {
        self.attempt.as_ref().unwrap_or(&context.span_id)
    }

    /// Begins the span of an attempt at a node.
    #[inline]
    pub fn begin_attempt(&mut self, attempt: AttemptSpan) {
        self.attempt = Some(attempt.span_id);
        self.attempts.push(attempt);
    }

    /// Ends the span of the current attempt, which failed. An attempt that a node answers ends with
    /// the request.
    pub fn end_attempt(&mut self) {
        if let Some(attempt) = self.attempts.last_mut() {
            attempt.end_ns = unix_ns();
        }
    }

    #[inline]
    pub fn attempts(&self) -> &[AttemptSpan] {
        &self.attempts
    }

    /// Whether phases and plugins get spans.
    #[inline]
    pub fn has_inner_spans(&self) -> bool {
        self.terms.has_inner_spans && self.is_recorded()
    }

    /// Adds the span of a phase or plugin.
    pub fn add_inner(&self, span: InnerSpan) {
        let mut inner = self.inner.borrow_mut();
        if inner.len() < INNER_SPANS_MAX {
            inner.push(span);
        }
    }

    /// Calls `visit` with each span of a phase or plugin.
    pub fn each_inner(&self, visit: impl FnMut(&InnerSpan)) {
        self.inner.borrow().iter().for_each(visit);
    }

    /// Records the pattern of the route that matched.
    #[inline]
    pub fn note_route(&mut self, pattern: &[u8]) {
        self.route.clear();
        self.route.extend_from_slice(&pattern[..pattern.len().min(ROUTE_BYTES_MAX)]);
    }

    /// Pattern of the route that matched; empty without one.
    #[inline]
    pub fn route(&self) -> &[u8] {
        &self.route
    }

    /// Adds attributes to the request's own span.
    pub fn add_attributes(&self, write: impl FnOnce(&mut SpanWriter<'_>)) {
        self.attributes.borrow_mut().write(write);
    }

    /// Calls `visit` with each attribute of [`Self::add_attributes`].
    pub fn each_attribute(&self, visit: impl FnMut(Attribute<'_>)) {
        self.attributes.borrow().iter().for_each(visit);
    }

    /// Copies the attributes of [`Self::add_attributes`] to `out`.
    #[inline]
    pub(crate) fn copy_attributes(&self, out: &mut Vec<u8>) -> AddedAttributes {
        self.attributes.borrow().copy(out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn start(is_sampled: bool) -> TraceStart {
        let mut next = 0;
        let mut random = || {
            next += 2;
            next
        };
        TraceStart {
            context: SpanContext::random(&mut random, is_sampled),
            parent: None,
            propagators: Propagators::default(),
            names: SpanNames::Stable,
            has_inner_spans: false,
            sink: None,
        }
    }

    fn attempt(number: u64) -> AttemptSpan {
        AttemptSpan {
            span_id: SpanId::from_random(number),
            node: Endpoint::Ip(([127, 0, 0, 1], 80).into()),
            is_encrypted: false,
            start_ns: unix_ns(),
            end_ns: 0,
        }
    }

    #[test]
    fn nodes_see_the_attempt_as_their_parent() {
        let mut trace = RequestTrace::default();
        assert_eq!((trace.is_active(), trace.trace_id_text()), (false, &b""[..]));
        trace.begin(start(true));
        assert_eq!(w3c::parse(trace.traceparent()), trace.outgoing());
        trace.begin_attempt(attempt(100));
        let outgoing = trace.outgoing().expect("a trace");
        assert_eq!(outgoing.span_id, SpanId::from_random(100));
        assert_eq!(trace.context().map(|it| it.trace_id), Some(outgoing.trace_id));
        trace.end_attempt();
        trace.begin_attempt(attempt(200));
        assert_ne!(trace.outgoing(), Some(outgoing));
        assert!(trace.attempts()[0].end_ns >= trace.attempts()[0].start_ns);
        assert_eq!(trace.attempts()[1].end_ns, 0);
    }

    #[test]
    fn nothing_of_a_request_reaches_the_next() {
        let mut trace = RequestTrace::default();
        trace.begin(start(true));
        trace.begin_attempt(attempt(1));
        trace.note_route(b"/a");
        trace.add_attributes(|writer| {
            writer.number(crate::Key::ServerPort, 1);
        });
        let first = trace.traceparent().to_vec();
        // Another that is not recorded takes its place.
        assert_eq!(trace.begin(start(false)), TraceExtent::Context);
        assert_ne!(trace.traceparent(), first);
        trace.finish();
        assert_eq!((trace.is_active(), trace.attempts().len()), (false, 0));
        assert_eq!(trace.begin(start(false)), TraceExtent::Context);
        assert_eq!((trace.is_recorded(), trace.started_ns(), trace.route()), (false, 0, &b""[..]));
        trace.each_attribute(|attribute| panic!("{attribute:?}"));
    }

    #[test]
    fn nothing_of_an_unrecorded_trace_reaches_the_next() {
        #[derive(Debug)]
        struct Sink;
        impl SpanSink for Sink {
            fn take(&self, _block: crate::span::SpanBlock) {}
        }
        let mut trace = RequestTrace::default();
        trace.begin(TraceStart { sink: Some(Arc::new(Sink)), ..start(false) });
        trace.note_route(b"/a");
        trace.finish();
        assert_eq!(trace.route(), b"");
        assert!(trace.take_sink().is_none());
    }
}
