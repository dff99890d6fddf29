//! Time of plugins: counted for some of the requests, and also recorded as spans for those whose
//! trace has spans within the request.

use tollhouse_plugin::Phases;
use tollhouse_trace::{InnerSpan, RequestTrace, SpanId, unix_ns};

use super::chain::PluginStep;
use crate::exchange::Exchange;
use crate::worker::Worker;

/// Timing of the plugins of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Timing {
    None,
    Counted,
    WithSpans,
}

impl Timing {
    #[inline]
    pub(super) fn new(exchange: &Exchange<'_>) -> Self {
        let state = &exchange.state;
        if state.is_recorded() && state.trace.has_inner_spans() {
            return Self::WithSpans;
        }
        match exchange.worker.timing_turns.take() {
            true => Self::Counted,
            false => Self::None,
        }
    }

    /// Begins a phase of a plugin; `None` without timing.
    #[inline]
    pub(super) fn begin(self, phase: Phases) -> Option<TimedPhase> {
        (self != Self::None).then(|| TimedPhase { timing: self, phase, start_ns: unix_ns() })
    }
}

/// Phase of a plugin that has begun.
#[derive(Debug, Clone, Copy)]
pub(super) struct TimedPhase {
    timing: Timing,
    phase: Phases,
    /// Nanoseconds of Unix time.
    start_ns: u64,
}

impl TimedPhase {
    /// Counts the time, and adds a span to the trace if it has such.
    #[cold]
    pub(super) fn end(self, worker: &Worker, step: &PluginStep, trace: Option<&RequestTrace>) {
        let Self { timing, phase, start_ns } = self;
        let end_ns = unix_ns();
        worker.metrics.plugin_times().observe(step.name(), end_ns.saturating_sub(start_ns));
        if let Some(trace) = trace.filter(|_| timing == Timing::WithSpans) {
            let span_id = SpanId::from_random(worker.random_u64());
            let (name, plugin) = (phase.names().first().copied(), step.handler.name());
            let name = name.unwrap_or_default();
            trace.add_inner(InnerSpan { span_id, name, plugin, start_ns, end_ns });
        }
    }
}
