//! The last step of every request: counters and the access log.

use tollhouse_telemetry::{ConnectionRefusal, ErrorCode, StatusClass};

use super::access_log;
use super::recent::{self, Head};
use crate::exchange::Exchange;
use crate::worker::{Worker, failures};

/// Accounts for a request that was served, by a node or by the gateway.
#[inline]
pub(crate) fn served(cx: &Exchange<'_>) {
    count(cx, Head::Read);
    access_log::write_served(cx);
}

/// Accounts for bytes that were no request, and for connections that were not let in.
pub(crate) fn refused(cx: &Exchange<'_>) {
    count(cx, Head::Refused);
    if let Some(code) = cx.state.record.code {
        count_refusal(cx.worker, code);
    }
    access_log::write_refused(cx);
}

/// Counts a connection that was not let in, if `code` says so.
pub(crate) fn count_refusal(worker: &Worker, code: ErrorCode) {
    let refused = &worker.metrics.downstream_connections_refused;
    match code {
        ErrorCode::ConnectionLimit => refused.increment(ConnectionRefusal::Limit),
        ErrorCode::ConnectionLimitPerAddress => {
            refused.increment(ConnectionRefusal::LimitPerAddress)
        }
        ErrorCode::ProxyHeaderRefused | ErrorCode::ProxyHeaderInvalid => {
            refused.increment(ConnectionRefusal::ProxyHeader);
        }
        _ => {}
    }
}

#[inline]
fn count(cx: &Exchange<'_>, head: Head) {
    let (worker, record) = (cx.worker, &cx.state.record);
    let metrics = &worker.metrics;
    metrics.requests.increment(StatusClass::from_status(record.status));
    if let Some(code) = record.code {
        metrics.requests_failed.increment(code);
        if failures::is_reported(code) {
            worker.failures.report(code, record);
        }
    }
    let duration_ms = worker.clock.now_ms().saturating_sub(record.started_ms);
    metrics.request_duration.observe_us(duration_ms * 1000);
    metrics.latencies().observe_ms(duration_ms);
    recent::keep(cx, head, duration_ms);
    if let Some(upstream_ms) = record.upstream_response_ms {
        metrics.upstream_duration.observe_us(upstream_ms * 1000);
    }
    metrics.downstream_received_bytes.add(cx.state.head.head_bytes as u64 + cx.body.received);
    metrics.downstream_sent_bytes.add(record.bytes_sent);
}
