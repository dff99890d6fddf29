//! Sends a request to a node: selection, retries, and the conditions for a retry.
//!
//! `attempt.rs` is a single attempt; this file is the loop around it.

use std::time::Duration;

use tollhouse_http::BodyLength;
use tollhouse_shenyu_gateway::Again;
use tollhouse_telemetry::ErrorCode;
use tollhouse_telemetry::histogram::Observation;
use tollhouse_upstream::{Outcome, Pick, PickRequest, Picked, Tried, WhenUnresolved};

use super::attempt::error::{AttemptError, Blame};
use super::attempt::{Answer, Attempt};
use super::route::Way;
use super::trace;
use crate::error::GatewayError;
use crate::exchange::Exchange;
use crate::exchange::record::AttemptRecord;

/// Forwards the request until a node responds.
///
/// # Errors
/// If no node responded; nothing has been sent to the client then.
pub(crate) async fn run(cx: &mut Exchange<'_>, way: Way<'_>) -> Result<Answer, GatewayError> {
    // After a switch, it would be unclear to which protocol the body's bytes belong.
    if way.asks_upgrade(cx.state) && cx.state.head.body != BodyLength::None {
        return Err(ErrorCode::BadFraming.into());
    }
    // A WebSocket over HTTP/2 uses an extended CONNECT, which cannot be forwarded on a route
    // without upgrades.
    if cx.state.head.upgrade
        && !way.asks_upgrade(cx.state)
        && cx.client.link.stream.websocket().is_some()
    {
        return Err(ErrorCode::MethodNotImplemented.into());
    }
    // `UNCOUNTED` is the largest number, so it wraps to 0, which means none.
    cx.state.record.upstream_count = way.upstream.number.wrapping_add(1);
    cx.begin_call()?;
    let started_ms = cx.worker.clock.now_ms();
    let mut tried = Tried::default();
    let mut attempts_repeated = 0;
    // Node of the next attempt, if it is already chosen.
    let mut same = None;
    loop {
        let picked = match same.take() {
            Some(picked) => picked,
            None => pick(cx, way, &tried).await?,
        };
        if cx.state.is_recorded() {
            trace::begin_attempt(cx, way, &picked);
        }
        let error = match (Attempt { way, picked: &picked }).run(cx).await {
            Ok(answer) => {
                note_answer(cx, way, &picked, &answer);
                let repeat = Repeat { way, attempts_repeated, started_ms };
                let Some(next) = next_after_status(cx, &repeat, &picked, &mut tried) else {
                    return Ok(answer);
                };
                // Closes the connection, because the body is not read.
                drop(answer);
                attempts_repeated += 1;
                cx.body.replay();
                cx.worker.metrics.upstream_retries.increment();
                same = Some(next);
                continue;
            }
            Err(error) => error,
        };
        // The node received nothing.
        if error.code == ErrorCode::RewriteInvalid {
            return Err(error.code.into());
        }
        if cx.state.is_recorded() {
            cx.state.trace.end_attempt();
        }
        tried.insert(&picked);
        report_failure(cx, way, &picked, &error);
        let now_ms = cx.worker.clock.refresh();
        cx.state.record.fail_attempt(picked.address(), error.code, now_ms);
        // The number of retries is computed again, because discovered nodes may have disappeared.
        if !error.may_retry || attempts_repeated >= retries(way) || !cx.body.is_replayable() {
            return Err(error.code.into());
        }
        check_budget(cx, way, started_ms)?;
        attempts_repeated += 1;
        cx.body.replay();
        cx.worker.metrics.upstream_retries.increment();
        if let Some(Again::Same { .. }) = way.route.terms().shenyu.as_ref().map(|it| it.again) {
            Box::pin(pause(cx, way, attempts_repeated - 1)).await;
            same = Some(picked);
        }
    }
}

/// Attempts of a request so far.
struct Repeat<'w> {
    way: Way<'w>,
    attempts_repeated: u32,
    started_ms: u64,
}

/// Returns the node that the request is sent to after an answer whose status a plugin wants to be
/// retried. `None` if the answer is the final one, also because no other node is left.
#[inline]
fn next_after_status<'s>(
    cx: &mut Exchange<'_>,
    repeat: &Repeat<'s>,
    picked: &Picked<'_>,
    tried: &mut Tried,
) -> Option<Picked<'s>> {
    let rule = cx.state.plugins.edits.retried_statuses.as_ref()?;
    let edited = cx.state.plugins.edits.method.map(str::as_bytes);
    let method = edited.unwrap_or_else(|| cx.client_method());
    if !rule.apply_to(method, cx.state.response.status)
        || repeat.attempts_repeated >= retries(repeat.way)
        || repeat.way.asks_upgrade(cx.state)
        || !cx.body.is_replayable()
        || check_budget(cx, repeat.way, repeat.started_ms).is_err()
    {
        return None;
    }
    tried.insert(picked);
    match pick_now(cx, repeat.way, tried, WhenUnresolved::Skip) {
        Pick::Node(next) => {
            if cx.state.is_recorded() {
                cx.state.trace.end_attempt();
            }
            Some(next)
        }
        Pick::NoNodes | Pick::AllTried | Pick::Unresolved => None,
    }
}

/// Waits before a retry on the same node; `number` counts retries from 0.
#[cold]
async fn pause(cx: &Exchange<'_>, way: Way<'_>, number: u32) {
    if let Some(terms) = &way.route.terms().shenyu {
        // Randomised, so that requests that failed together do not return together.
        let longest = terms.again.pause(number);
        let share = 0.5 + (cx.worker.random_u64() % 1024) as f64 / 1024.0;
        tokio::time::sleep(longest.mul_f64(share)).await;
        cx.worker.clock.refresh();
    }
}

/// Returns the number of further attempts allowed: the configured number, or one per other node.
fn retries(way: Way<'_>) -> u32 {
    let others = way.upstream.state.node_count().saturating_sub(1);
    way.upstream.conf.retries.unwrap_or(u32::try_from(others).unwrap_or(u32::MAX))
}

fn check_budget(cx: &Exchange<'_>, way: Way<'_>, started_ms: u64) -> Result<(), GatewayError> {
    let Some(budget) = way.upstream.conf.retry_timeout else { return Ok(()) };
    let spent = Duration::from_millis(cx.worker.clock.refresh() - started_ms);
    if spent >= budget { Err(ErrorCode::RetryBudgetExceeded.into()) } else { Ok(()) }
}

#[inline]
async fn pick<'s>(
    cx: &mut Exchange<'_>,
    way: Way<'s>,
    tried: &Tried,
) -> Result<Picked<'s>, GatewayError> {
    match pick_now(cx, way, tried, WhenUnresolved::Wait) {
        Pick::Node(picked) => Ok(picked),
        Pick::NoNodes => Err(no_nodes(way)),
        // All nodes were tried before the attempts were used up; the last failure is reported.
        Pick::AllTried => Err(cx.state.record.last_code().into()),
        Pick::Unresolved => {
            // The first request for a name waits for its resolution; later ones use the result.
            Box::pin(way.upstream.state.ready(cx.worker.settings.resolve_timeout)).await;
            cx.worker.clock.refresh();
            match pick_now(cx, way, tried, WhenUnresolved::Skip) {
                Pick::Node(picked) => Ok(picked),
                Pick::NoNodes | Pick::Unresolved => Err(no_nodes(way)),
                Pick::AllTried => Err(cx.state.record.last_code().into()),
            }
        }
    }
}

/// Returns the error for an upstream without usable nodes: `NoNodes` if it has none,
/// `UpstreamUnresolved` if none has an address.
#[cold]
fn no_nodes(way: Way<'_>) -> GatewayError {
    let has_weight = way.upstream.conf.nodes.iter().any(|node| node.weight > 0);
    if has_weight || way.upstream.conf.discovery.is_some() {
        ErrorCode::UpstreamUnresolved.into()
    } else {
        ErrorCode::NoNodes.into()
    }
}

#[inline]
fn pick_now<'s>(
    cx: &Exchange<'_>,
    way: Way<'s>,
    tried: &Tried,
    when_unresolved: WhenUnresolved,
) -> Pick<'s> {
    let random = cx.worker.random_u64();
    let now_ms = cx.worker.clock.now_ms();
    let pick = PickRequest { hash_key: None, random, now_ms, when_unresolved };
    let Some(hash_key) = &way.upstream.terms.hash_key else {
        return way.upstream.state.pick(&pick, tried);
    };
    let key = hash_key.value(cx);
    way.upstream.state.pick(&PickRequest { hash_key: Some(&key), ..pick }, tried)
}

/// Records the node's response for its health and for the log.
#[inline]
fn note_answer(cx: &mut Exchange<'_>, way: Way<'_>, picked: &Picked<'_>, answer: &Answer) {
    let now_ms = cx.worker.clock.refresh();
    let status = cx.state.response.status;
    let record = &mut cx.state.record;
    let response_ms = now_ms.saturating_sub(record.started_ms);
    record.upstream_response_ms = Some(response_ms);
    // The time of earlier attempts was that of other nodes.
    let earlier_ms = record.attempts.last().map_or(0, |attempt| u64::from(attempt.failed_ms));
    let time = Observation::from_ms(response_ms.saturating_sub(earlier_ms));
    cx.worker.metrics.upstream_duration.observe(time);
    if let Some(node) = &answer.connection.node {
        node.answered(status, time);
    }
    record.attempts.push(AttemptRecord::answered(picked.address(), status));
    record.status = status;
    let response_time = Duration::from_millis(response_ms);
    way.upstream.state.report(picked, Outcome::Answered { status, response_time }, now_ms);
}

/// Reports a failure of the node to its health.
fn report_failure(cx: &Exchange<'_>, way: Way<'_>, picked: &Picked<'_>, error: &AttemptError) {
    if error.blame == Blame::Nobody {
        return;
    }
    let outcome = match error.code {
        ErrorCode::UpstreamConnectTimeout
        | ErrorCode::UpstreamReadTimeout
        | ErrorCode::UpstreamSendTimeout => Outcome::TimedOut,
        ErrorCode::UpstreamConnectFailed
        | ErrorCode::UpstreamReset
        | ErrorCode::UpstreamBadResponse
        | ErrorCode::UpstreamResponseHeadTooLarge => Outcome::Failed,
        // Errors of the client say nothing about the node.
        _ => return,
    };
    cx.worker.metrics.nodes().counts(picked.address()).fail();
    picked.note_failure(cx.worker.clock.unix_ms());
    way.upstream.state.report(picked, outcome, cx.worker.clock.now_ms());
}
