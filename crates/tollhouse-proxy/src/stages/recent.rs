//! Keeps details of finished requests for operators: of every failure, and of a sample of the
//! others. Those that have a trace become exemplars of their route's durations.

use tollhouse_telemetry::exemplars::{Exemplar, TraceId};
use tollhouse_telemetry::histogram::Observation;
use tollhouse_telemetry::object_counts::RequestOutcome;
use tollhouse_telemetry::recent::{
    ATTEMPTS_MAX, RecentAttempt, RecentRequest, SAMPLE_INTERVAL_MS, ShortText,
};

use crate::exchange::Exchange;

/// State of a request's head, which decides whether it can be shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Head {
    Read,
    /// The head is missing or was refused; the state holds that of an earlier request.
    Refused,
}

/// A finished request, as it was counted.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Finished {
    pub(crate) head: Head,
    pub(crate) outcome: RequestOutcome,
    pub(crate) duration: Observation,
}

/// Duration from which each request may become an exemplar, because a sample rarely has slow ones.
const SLOW_MS: u64 = 250;

/// Keeps a failed request, and a successful one once per sample interval. Other requests cost two
/// comparisons.
#[inline]
pub(crate) fn keep(cx: &Exchange<'_>, finished: Finished) {
    let worker = cx.worker;
    let is_due = worker.clock.now_ms() >= worker.next_sample_ms.get();
    let has_failed = finished.outcome == RequestOutcome::Failed;
    if has_failed || is_due || finished.duration.ms() >= SLOW_MS {
        note(cx, finished);
    }
}

#[cold]
fn note(cx: &Exchange<'_>, finished: Finished) {
    let (worker, now_ms) = (cx.worker, cx.worker.clock.now_ms());
    let has_failed = finished.outcome == RequestOutcome::Failed;
    if !has_failed && now_ms >= worker.next_sample_ms.get() {
        worker.next_sample_ms.set(now_ms + SAMPLE_INTERVAL_MS);
        write(cx, finished);
    } else if has_failed {
        write(cx, finished);
    }
    if finished.head == Head::Read
        && let Some(trace) = trace(cx)
    {
        exemplar(cx, trace, finished.duration);
    }
}

/// Trace that can be looked up: the gateway's own, or without tracing that of the client.
fn trace(cx: &Exchange<'_>) -> Option<TraceId> {
    if let Some(context) = cx.state.trace.context() {
        return TraceId::new(context.trace_id.bytes()).filter(|_| context.is_sampled);
    }
    let header = cx.state.head.fields.find(b"traceparent", cx.request_bytes())?;
    TraceId::from_traceparent(header)
}

/// Has a request with a trace stand for requests of its route with a similar duration.
pub(crate) fn exemplar(cx: &Exchange<'_>, trace: TraceId, duration: Observation) {
    let Some(number) = cx.state.record.route_count.checked_sub(1) else { return };
    let unix_ms = cx.worker.clock.unix_ms();
    let exemplar = Exemplar { trace, duration_ms: duration.ms(), unix_ms };
    cx.worker.metrics.routes().exemplar(number, exemplar);
}

fn write(cx: &Exchange<'_>, finished: Finished) {
    let duration_ms = finished.duration.ms();
    let (state, record) = (&*cx.state, &cx.state.record);
    let host = &state.host[..state.host_bytes.min(state.host.len())];
    // After a refused head, the state still holds the previous request.
    let (method, host, path) = match finished.head {
        Head::Read => (cx.client_method(), host, cx.matched_path()),
        Head::Refused => (&b""[..], &b""[..], &b""[..]),
    };
    let mut attempts = [None; ATTEMPTS_MAX];
    for (place, attempt) in attempts.iter_mut().zip(&record.attempts) {
        let ended_ms = match attempt.code {
            Some(_) => attempt.failed_ms.into(),
            None => record.upstream_response_ms.unwrap_or(0),
        };
        let (node, status, code) = (attempt.address, attempt.status, attempt.code);
        *place = Some(RecentAttempt { node, status, code, ended_ms });
    }
    let cause = cx.worker.failures.cause(record).unwrap_or_default();
    cx.worker.metrics.recent().keep(RecentRequest {
        id: 0,
        unix_ms: cx.worker.clock.unix_ms(),
        duration_ms,
        upstream_ms: record.upstream_response_ms,
        status: record.status,
        code: record.code,
        plugin: ShortText::new(state.plugins.prepared.refused_by.as_bytes()),
        cause: ShortText::new(cause.as_bytes()),
        method: ShortText::new(method),
        host: ShortText::new(host),
        path: ShortText::new(path),
        route: ShortText::new(record.route_id.as_bytes()),
        consumer: ShortText::new(state.plugins.consumer.as_bytes()),
        client: cx.client_address(),
        attempts,
        attempt_count: u32::try_from(record.attempts.len()).unwrap_or(u32::MAX),
        trace_id: cx.state.trace.context().map(|context| context.trace_id.bytes()),
        is_trace_recorded: cx.state.trace.is_recorded(),
    });
}
