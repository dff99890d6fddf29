//! Trace of one request while it is served. The memory is reused for the next request.

use std::cell::RefCell;
use std::sync::Arc;

use smallvec::SmallVec;
use tollhouse_stdx::Endpoint;

use crate::clock::unix_ns;
use crate::context::{SpanContext, SpanId};
use crate::propagation::Propagators;
use crate::span::{Attributes, SpanSink, SpanWriter};
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

/// Attempt at a node.
#[derive(Debug, Clone, Copy)]
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
#[derive(Debug, Clone, Copy)]
pub struct InnerSpan {
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
    parent: Option<SpanId>,
    propagators: Propagators,
    names: SpanNames,
    has_inner_spans: bool,
    sink: Option<Arc<dyn SpanSink>>,
    started_ns: u64,
    traceparent: Traceparent,
    attempts: SmallVec<[AttemptSpan; ATTEMPTS_INLINE]>,
    inner: RefCell<Vec<InnerSpan>>,
    route: Vec<u8>,
    attributes: RefCell<Attributes>,
}

/// `traceparent` of the request's own span.
#[derive(Debug)]
struct Traceparent([u8; w3c::TRACEPARENT_BYTES]);

impl Default for Traceparent {
    fn default() -> Self {
        Self([b'0'; w3c::TRACEPARENT_BYTES])
    }
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
    #[inline]
    pub fn begin(&mut self, start: TraceStart) {
        let TraceStart { context, parent, propagators, names, has_inner_spans, sink } = start;
        if context.is_sampled && self.started_ns == 0 {
            self.started_ns = unix_ns();
        }
        self.context = Some(context);
        self.parent = parent;
        self.propagators = propagators;
        self.names = names;
        self.has_inner_spans = has_inner_spans;
        self.sink = sink;
        self.traceparent.0 = w3c::write(&context);
    }

    /// Releases what the request held.
    #[inline]
    pub fn finish(&mut self) {
        if self.context.take().is_some() {
            self.started_ns = 0;
            self.sink = None;
            self.attempts.clear();
            self.inner.get_mut().clear();
            self.route.clear();
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
        &self.propagators
    }

    #[inline]
    pub fn names(&self) -> SpanNames {
        self.names
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
        if self.is_active() { &self.traceparent.0 } else { b"" }
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
        let attempt = self.attempts.last();
        Some(SpanContext { span_id: attempt.map_or(context.span_id, |it| it.span_id), ..context })
    }

    /// `traceparent` that nodes receive.
    #[inline]
    pub fn outgoing_traceparent(&self) -> [u8; w3c::TRACEPARENT_BYTES] {
        let mut value = self.traceparent.0;
        if let Some(attempt) = self.attempts.last() {
            w3c::set_span(&mut value, attempt.span_id);
        }
        value
    }

    /// Begins the span of an attempt at a node.
    pub fn begin_attempt(&mut self, attempt: AttemptSpan) {
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
        self.has_inner_spans && self.is_recorded()
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

    /// Writes the attributes of [`Self::add_attributes`].
    #[inline]
    pub fn write_attributes(&self, writer: &mut SpanWriter<'_>) {
        writer.append(&self.attributes.borrow());
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
        assert_eq!(trace.outgoing_traceparent(), trace.traceparent());
        trace.begin_attempt(attempt(100));
        let first = trace.outgoing_traceparent();
        assert_eq!(w3c::parse(&first), trace.outgoing());
        assert_eq!(w3c::parse(&first).expect("valid").span_id, SpanId::from_random(100));
        trace.end_attempt();
        trace.begin_attempt(attempt(200));
        assert_ne!(trace.outgoing_traceparent(), first);
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
        trace.finish();
        assert_eq!((trace.is_active(), trace.attempts().len()), (false, 0));
        trace.begin(start(false));
        assert_eq!((trace.is_recorded(), trace.started_ns(), trace.route()), (false, 0, &b""[..]));
    }
}
