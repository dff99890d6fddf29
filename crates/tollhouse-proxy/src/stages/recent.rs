//! Keeps what people may want to see of a request that has ended: every failure, and few of the rest.

use tollhouse_telemetry::recent::{
    ATTEMPTS_MAX, RecentAttempt, RecentRequest, SAMPLE_INTERVAL_MS, ShortText,
};

use crate::exchange::Exchange;

/// Whether the head of a request can be shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Head {
    Read,
    /// There was none, or it was refused: what the state holds is of another request.
    Refused,
}

/// Keeps the request if it has failed, or if none was kept for a while. The plain path pays a look at both.
#[inline]
pub(crate) fn keep(cx: &Exchange<'_>, head: Head, duration_ms: u64) {
    let (worker, record) = (cx.worker, &cx.state.record);
    let has_failed = record.code.is_some() || record.status >= 500;
    let now_ms = worker.clock.now_ms();
    if has_failed || now_ms >= worker.next_sample_ms.get() {
        if !has_failed {
            worker.next_sample_ms.set(now_ms + SAMPLE_INTERVAL_MS);
        }
        write(cx, head, duration_ms);
    }
}

#[cold]
fn write(cx: &Exchange<'_>, head: Head, duration_ms: u64) {
    let (state, record) = (&*cx.state, &cx.state.record);
    let host = &state.host[..state.host_bytes.min(state.host.len())];
    // Of a refused head the state says nothing; what stands there is the request's before it.
    let (method, host, path) = match head {
        Head::Read => (cx.client_method(), host, cx.matched_path()),
        Head::Refused => (&b""[..], &b""[..], &b""[..]),
    };
    let mut attempts = [None; ATTEMPTS_MAX];
    for (place, attempt) in attempts.iter_mut().zip(&record.attempts) {
        *place = Some(RecentAttempt { node: attempt.address, status: attempt.status });
    }
    cx.worker.metrics.recent().keep(RecentRequest {
        unix_ms: cx.worker.clock.unix_ms(),
        duration_ms,
        upstream_ms: record.upstream_response_ms,
        status: record.status,
        code: record.code,
        method: ShortText::new(method),
        host: ShortText::new(host),
        path: ShortText::new(path),
        route: ShortText::new(record.route_id.as_bytes()),
        consumer: ShortText::new(state.plugins.consumer.as_bytes()),
        client: cx.client_address(),
        attempts,
        attempt_count: u32::try_from(record.attempts.len()).unwrap_or(u32::MAX),
    });
}
