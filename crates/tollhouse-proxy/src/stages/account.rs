//! Last stage of every request: counters and the access log.

use tollhouse_telemetry::histogram::Observation;
use tollhouse_telemetry::labels::ShenyuType;
use tollhouse_telemetry::object_counts::RequestOutcome;
use tollhouse_telemetry::route_series::RouteRequest;
use tollhouse_telemetry::{ConnectionRefusal, ErrorCode, StatusClass};

use super::access_log;
use super::recent::{self, Finished, Head};
use crate::exchange::Exchange;
use crate::worker::{Worker, failures};

/// Accounts for a request that was served by a node or by the gateway.
#[inline]
pub(crate) fn served(cx: &Exchange<'_>) {
    count(cx, Head::Read);
    access_log::write_served(cx);
}

/// Accounts for invalid requests and for connections that were not admitted.
pub(crate) fn refused(cx: &Exchange<'_>) {
    count(cx, Head::Refused);
    if let Some(code) = cx.state.record.code {
        count_refusal(cx.worker, code);
    }
    access_log::write_refused(cx);
}

/// Counts a refused connection, if `code` is such a refusal.
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

/// Counts a request routed by ShenYu objects, under ShenYu's metric names.
#[inline(never)]
fn count_shenyu(cx: &Exchange<'_>, carried_as: ShenyuType, duration: Observation) {
    let metrics = cx.worker.metrics.shenyu();
    metrics.requests.increment();
    metrics.request_types.increment(carried_as);
    metrics.latency.observe(duration);
    if cx.state.record.code.is_some() {
        metrics.requests_thrown.increment();
    }
    let refusals = match cx.state.plugins.edits.refused_by {
        Some("rateLimiter") => &metrics.rate_limited,
        Some("sentinel limit") => &metrics.sentinel_limited,
        Some("sentinel open") => &metrics.sentinel_broken,
        Some("resilience4j limit") => &metrics.resilience_limited,
        Some("resilience4j open") => &metrics.resilience_broken,
        Some("hystrix open") => &metrics.hystrix_broken,
        _ => return,
    };
    refusals.increment();
}

#[inline]
fn count(cx: &Exchange<'_>, head: Head) {
    let (worker, record) = (cx.worker, &cx.state.record);
    let metrics = &worker.metrics;
    let class = StatusClass::from_status(record.status);
    metrics.requests.increment(class);
    let outcome = match record.code.is_some() || record.status >= 500 {
        true => RequestOutcome::Failed,
        false => RequestOutcome::Succeeded,
    };
    if let Some(code) = record.code {
        count_failure(cx, code);
    }
    let duration_ms = worker.clock.now_ms().saturating_sub(record.started_ms);
    let duration = Observation::from_ms(duration_ms);
    metrics.request_duration.observe(duration);
    // Numbers are stored plus one, so that 0 means none without making the record larger.
    if let Some(number) = record.route_count.checked_sub(1) {
        metrics.routes().count(number, RouteRequest { class, outcome, duration });
    }
    if let Some(number) = record.upstream_count.checked_sub(1) {
        metrics.upstreams().count(number, outcome);
    }
    if let Some(number) = cx.state.plugins.consumer_count.checked_sub(1) {
        metrics.consumers().count(number, outcome);
    }
    recent::keep(cx, Finished { head, outcome, duration });
    if let Some(carried_as) = record.shenyu_type {
        count_shenyu(cx, carried_as, duration);
    }
    metrics.downstream_received_bytes.add(cx.state.head.head_bytes as u64 + cx.body.received);
    metrics.downstream_sent_bytes.add(record.bytes_sent);
}

/// Counts a request that was refused or failed, by its code and by the plugin that refused it.
#[cold]
fn count_failure(cx: &Exchange<'_>, code: ErrorCode) {
    let metrics = &cx.worker.metrics;
    metrics.requests_failed.increment(code);
    let plugin = &cx.state.plugins.prepared.refused_by;
    if !plugin.is_empty() {
        metrics.plugin_refusals().count(plugin, code);
        if let Some(number) = cx.state.record.route_count.checked_sub(1) {
            metrics.route_refusals().count(number, plugin);
        }
    }
    if failures::is_reported(code) {
        cx.worker.failures.report(code, &cx.state.record);
    }
}
