//! Tracing as the whole process is told to do it, and the part of it that belongs to one core.

use std::cell::RefCell;
use std::sync::Arc;

use tollhouse_stdx::Random;

use crate::context::{SpanContext, SpanId, TraceId};
use crate::propagation::{Incoming, Propagators};
use crate::request::{RequestTrace, SpanNames, TraceExtent, TraceStart, TraceTerms};
use crate::sampler::{Ratio, Sampler};
use crate::span::{SpanBlock, SpanSink};

/// Number of requests for which a block has room from its beginning.
const BLOCK_REQUESTS: usize = 32;

/// Size in bytes at which a core hands its block over: some thirty requests, so that the hand-over
/// costs little and a burst loses little.
const BLOCK_BYTES: usize = 16 * 1024;

/// Tracing of the process.
#[derive(Debug)]
pub struct Tracer {
    pub sampler: Sampler,
    pub propagators: Propagators,
    /// Whether plugins and phases get spans of their own.
    pub has_inner_spans: bool,
    pub sink: Arc<dyn SpanSink>,
}

impl Tracer {
    /// Begins a trace, or continues that of the caller.
    #[inline]
    pub fn start(&self, incoming: Incoming, random: &mut impl FnMut() -> u64) -> TraceStart {
        let (trace_id, parent) = match incoming.parent {
            Some((trace_id, span_id)) => (trace_id, Some(span_id)),
            None => (TraceId::from_random(random(), random()), None),
        };
        let is_sampled = self.sampler.records(trace_id, incoming.verdict);
        let span_id = SpanId::from_random(random());
        TraceStart {
            context: SpanContext { trace_id, span_id, is_sampled },
            parent,
            propagators: self.propagators,
            names: SpanNames::Stable,
            has_inner_spans: self.has_inner_spans,
            sink: None,
        }
    }
}

/// Tracing of one core, with the block that it fills.
#[derive(Debug)]
pub struct CoreTracer {
    tracer: Arc<Tracer>,
    terms: TraceTerms,
    /// Share of the traces that begin here and are recorded.
    root_share: Ratio,
    random: RefCell<Random>,
    /// Random part of ids, so that cores whose generators pass through the same state make
    /// different ids.
    salt: u64,
    block: RefCell<SpanBlock>,
}

impl CoreTracer {
    pub fn new(tracer: Arc<Tracer>) -> Self {
        Self {
            terms: TraceTerms {
                propagators: tracer.propagators,
                names: SpanNames::Stable,
                has_inner_spans: tracer.has_inner_spans,
            },
            root_share: tracer.sampler.root_share(),
            random: RefCell::new(Random::from_process_entropy()),
            salt: Random::from_process_entropy().next_u64(),
            block: RefCell::default(),
            tracer,
        }
    }

    /// Begins a trace with the request. One that is not recorded costs two random numbers and a
    /// copy of its ids.
    #[inline]
    pub fn begin(&self, trace: &mut RequestTrace) -> TraceExtent {
        let (trace_id, span_id) = self.draw();
        let is_sampled = self.root_share.takes(trace_id);
        trace.begin_context(SpanContext { trace_id, span_id, is_sampled }, None, self.terms)
    }

    /// Continues the trace of the request's caller, or begins one, if it has none.
    pub fn continue_from(&self, incoming: Incoming, trace: &mut RequestTrace) -> TraceExtent {
        let (own, span_id) = self.draw();
        let (trace_id, parent) = match incoming.parent {
            Some((trace_id, span_id)) => (trace_id, Some(span_id)),
            None => (own, None),
        };
        let is_sampled = self.tracer.sampler.records(trace_id, incoming.verdict);
        trace.begin_context(SpanContext { trace_id, span_id, is_sampled }, parent, self.terms)
    }

    /// Draws the ids of a trace and of its first span.
    #[inline]
    fn draw(&self) -> (TraceId, SpanId) {
        let mut random = self.random.borrow_mut();
        let (high, low) = (random.next_u64() ^ self.salt, random.next_u64());
        // Both halves are random, so that one number less is drawn.
        (TraceId::from_random(high, low), SpanId::from_random(high ^ low))
    }

    #[inline]
    pub fn propagators(&self) -> &Propagators {
        &self.terms.propagators
    }

    /// Adds the spans that `write` writes, and hands the block over when it is full.
    pub fn write(&self, write: impl FnOnce(&mut SpanBlock)) {
        let block = &mut *self.block.borrow_mut();
        if block.bytes() == 0 {
            *block = SpanBlock::for_requests(BLOCK_REQUESTS);
        }
        write(block);
        if block.bytes() >= BLOCK_BYTES {
            self.tracer.sink.take(std::mem::take(block));
        }
    }

    /// Hands over the block even if it is not full; called once a second.
    pub fn flush(&self) {
        let block = &mut *self.block.borrow_mut();
        if !block.is_empty() {
            self.tracer.sink.take(std::mem::take(block));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;
    use crate::propagation::Verdict;
    use crate::span::{SpanHead, SpanKind, SpanStatus};

    #[derive(Debug, Default)]
    struct Blocks(Mutex<Vec<usize>>);

    impl SpanSink for Blocks {
        fn take(&self, block: SpanBlock) {
            self.0.lock().expect("no test panicked here").push(block.spans());
        }
    }

    fn tracer(sampler: Sampler) -> (Tracer, Arc<Blocks>) {
        let blocks = Arc::<Blocks>::default();
        let sink = Arc::<Blocks>::clone(&blocks);
        let propagators = Propagators::default();
        (Tracer { sampler, propagators, has_inner_spans: false, sink }, blocks)
    }

    #[test]
    fn a_trace_is_continued_with_a_new_span() {
        let (tracer, _) = tracer(Sampler::Never.after_parent());
        let mut next = 0;
        let mut random = || {
            next += 2;
            next
        };
        let trace_id = TraceId::from_random(7, 7);
        let parent = Some((trace_id, SpanId::from_random(9)));
        let start = tracer.start(Incoming { parent, verdict: Verdict::Record }, &mut random);
        assert_eq!(
            (start.context.trace_id, start.parent),
            (trace_id, Some(SpanId::from_random(9)))
        );
        assert!(start.context.is_sampled);
        let start = tracer.start(Incoming::default(), &mut random);
        assert_eq!((start.parent, start.context.is_sampled), (None, false));
        assert_ne!(start.context.trace_id, trace_id);
    }

    #[test]
    fn a_core_hands_whole_blocks_over() {
        let (tracer, blocks) = tracer(Sampler::Always);
        let core = CoreTracer::new(Arc::new(tracer));
        core.flush();
        let mut random = || 3;
        let head = SpanHead {
            context: SpanContext::random(&mut random, true),
            parent: None,
            is_parent_remote: false,
            kind: SpanKind::Server,
            name: &[b'x'; 1000],
            start_ns: 1,
            end_ns: 2,
            status: SpanStatus::Unset,
            trace_state: b"",
        };
        (0..20).for_each(|_| core.write(|block| drop(block.add(&head))));
        core.flush();
        core.flush();
        let seen = blocks.0.lock().expect("no test panicked here").clone();
        assert_eq!((seen.len(), seen.iter().sum::<usize>()), (2, 20));
    }
}
