//! Log phase: plugins see the outcome of an exchange.

use tollhouse_plugin::{LogContext, Phases, Transfer};

use super::chains::Chains;
use crate::exchange::Exchange;
use crate::head::text::write_endpoint;

/// Runs the phase. The state of plugins is dropped afterwards, with the request.
pub(crate) fn run(exchange: &mut Exchange<'_>, chains: &Chains<'_>) {
    if !chains.has(Phases::LOG) {
        return;
    }
    // The duration of the exchange is read only here.
    exchange.worker.clock.refresh();
    let mut memory = std::mem::take(&mut exchange.state.plugins.memory);
    let masked = {
        let record = &exchange.state.record;
        let clock = &exchange.worker.clock;
        let mut upstream = Vec::new();
        if let Some(attempt) = record.attempts.last() {
            write_endpoint(&mut upstream, attempt.address);
        }
        let request_ms = clock.now_ms().saturating_sub(record.started_ms);
        let text = |bytes| std::str::from_utf8(bytes).unwrap_or_default();
        let transfer = Transfer {
            status: record.status,
            upstream_status: record.attempts.last().map(|attempt| attempt.status),
            is_upstream_answer: record.upstream_response_ms.is_some() && record.code.is_none(),
            bytes_received: exchange.state.head.head_bytes as u64 + exchange.body.received,
            bytes_sent: record.bytes_sent,
            body_bytes_sent: record.body_bytes_sent,
            started_unix_ms: clock.unix_ms().saturating_sub(request_ms),
            request_ms,
            upstream_ms: record.upstream_response_ms,
            upstream: text(&upstream),
            route_id: &record.route_id,
            service_id: &record.service_id,
            consumer: &exchange.state.plugins.consumer,
            error_code: record.code.map(|code| code.text()),
        };
        let mut cx = LogContext::new(exchange, &mut memory, transfer);
        let mut index = 0;
        while let Some(step) = chains.step(index) {
            if step.phases.intersects(Phases::LOG) && chains.runs(step, index, cx.variables()) {
                cx.enter(step.instance());
                step.handler.log(&mut cx);
            }
            index += 1;
        }
        cx.into_masked()
    };
    exchange.state.plugins.memory = memory;
    exchange.state.plugins.masked = masked;
}
