//! The last step of every request: counters and the access log.

use tollhouse_telemetry::{ConnectionRefusal, ErrorCode, StatusClass};

use crate::client::Client;
use crate::failures;
use crate::log;
use crate::request::Work;
use crate::worker::Worker;

/// Accounts for a request that was served, by a node or by the gateway.
#[inline]
pub(crate) fn served(worker: &Worker, client: &Client, work: &Work) {
    count(worker, work);
    log::served(worker, client, work);
}

/// Accounts for bytes that were no request, and for connections that were not let in.
pub(crate) fn refused(worker: &Worker, client: &Client, work: &Work) {
    count(worker, work);
    if let Some(code) = work.record.code {
        count_refusal(worker, code);
    }
    log::refused(worker, client, work);
}

/// Counts a connection that was not let in, if `code` says so.
pub(crate) fn count_refusal(worker: &Worker, code: ErrorCode) {
    let refused = &worker.metrics.downstream_connections_refused;
    match code {
        ErrorCode::ConnectionLimit => refused.increment(ConnectionRefusal::Limit),
        ErrorCode::ConnectionLimitPerAddress => {
            refused.increment(ConnectionRefusal::LimitPerAddress)
        }
        _ => {}
    }
}

#[inline]
fn count(worker: &Worker, work: &Work) {
    let (metrics, record) = (&worker.metrics, &work.record);
    metrics.requests.increment(StatusClass::of(record.status));
    if let Some(code) = record.code {
        metrics.requests_failed.increment(code);
        if failures::is_told(code) {
            worker.failures.tell(code, work);
        }
    }
    let duration_ms = worker.clock.now_ms().saturating_sub(record.started_ms);
    metrics.request_duration.observe_us(duration_ms * 1000);
    if let Some(upstream_ms) = record.upstream_response_ms {
        metrics.upstream_duration.observe_us(upstream_ms * 1000);
    }
    metrics.downstream_received_bytes.add(work.head.head_bytes as u64 + record.bytes_received);
    metrics.downstream_sent_bytes.add(record.bytes_sent);
}
