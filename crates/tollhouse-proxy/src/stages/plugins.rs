//! What plugins add to the life of a request: before a node is asked, and once it has answered.
//! What they do at its end is `plugins/log_phase.rs`.

use tollhouse_http::element::{Authority, OriginForm};
use tollhouse_http::{BodyLength, Version};
use tollhouse_plugin::RequestEdits;
use tollhouse_plugin::response::{ResponseFacts, Source};
use tollhouse_telemetry::ErrorCode;

use super::attempt::Answer;
use super::route::{self, Next, Way};
use super::{client_certificate, judged_path};
use crate::answer::delivery::{Outgoing, final_status, seems_open};
use crate::answer::error;
use crate::error::GatewayError;
use crate::exchange::Exchange;
use crate::exchange::state::is_idempotent;
use crate::head::text::AddressText;
use crate::plugins::chain::StepUpstream;
use crate::plugins::chains::Chains;
use crate::plugins::request_phases::{self, Verdict};
use crate::plugins::response_phase::{self, HeadView};
use crate::snapshot::Snapshot;

/// Asks the plugins what is to be done with the request.
///
/// # Errors
/// When the route refuses, a plugin that may protect cannot run, or what plugins make of the
/// request cannot be sent.
pub(crate) async fn before_node<'s>(
    cx: &mut Exchange<'s>,
    snapshot: &'s Snapshot,
    chains: &mut Chains<'s>,
) -> Result<Next<'s>, GatewayError> {
    cx.state.plugins.is_active = true;
    client_certificate::note_identity(cx);
    route::enter(cx)?;
    if chains.judges_path() {
        judged_path::apply(cx)?;
    }
    let verdict = request_phases::run(cx, snapshot, chains).await;
    // Also where a plugin has answered: the log shows the client that plugins have found.
    if let Some((address, _)) = cx.state.plugins.edits.remote {
        cx.state.reported_address = Some((address, AddressText::new(address)));
    }
    let Verdict::Forward(chosen) = verdict? else { return Ok(Next::Answer) };
    // Global rules have had their say about a request that no route takes; there is nothing to
    // edit.
    let Some(route) = cx.route else { return route::next(cx, snapshot) };
    apply_edits(cx)?;
    match chosen {
        None | Some(StepUpstream::Route) => route::next(cx, snapshot),
        Some(StepUpstream::Entry(entry)) => {
            route::move_to(cx, entry);
            route::next(cx, snapshot)
        }
        Some(StepUpstream::Inline(upstream)) => Ok(Next::Node(Way { route, upstream })),
        Some(StepUpstream::Slot(slot, id)) => match snapshot.upstream(*slot) {
            Some(upstream) => Ok(Next::Node(Way { route, upstream })),
            None => {
                error::prepare_missing_upstream(cx, id);
                Ok(Next::Answer)
            }
        },
    }
}

/// Puts into effect what plugins have decided about the request as a whole.
fn apply_edits(cx: &mut Exchange<'_>) -> Result<(), GatewayError> {
    let edits = &mut cx.state.plugins.edits;
    check_rewrite(edits)?;
    if let Some(method) = edits.method {
        cx.state.is_idempotent = is_idempotent(method.as_bytes());
    }
    if let Some(time) = edits.time_max {
        let time_ms = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        let deadline_ms = cx.worker.clock.now_ms().saturating_add(time_ms);
        let earlier = cx.state.call_deadline_ms.map_or(deadline_ms, |own| own.min(deadline_ms));
        cx.state.call_deadline_ms = Some(earlier);
    }
    if edits.body.is_some() {
        cx.body.leave_out();
    }
    if let Some(bytes) = edits.body_bytes_max {
        cx.body.limit(bytes);
        // Refused by what the head declares, before more of the body is read than has come along.
        let declares_more =
            matches!(cx.state.head.body, BodyLength::Known(declared) if declared > bytes);
        if declares_more || cx.body.is_over_limit() {
            return Err(ErrorCode::BodyTooLarge.into());
        }
    }
    Ok(())
}

/// Path, query and host that plugins ask for must be such that no reader takes them for more. A
/// `Host` among the edited headers is one that they ask for.
fn check_rewrite(edits: &mut RequestEdits) -> Result<(), GatewayError> {
    if edits.host.is_none() && !edits.headers.is_empty() {
        edits.host = edits.headers.find(b"host").map(<[u8]>::to_vec);
    }
    let is_host = edits.host.as_ref().is_none_or(|host| Authority::parse(host).is_some());
    let is_target = edits.upstream_uri().is_none_or(|uri| OriginForm::parse(uri).is_some());
    if is_host && is_target { Ok(()) } else { Err(ErrorCode::RewriteInvalid.into()) }
}

/// Shows plugins the head of a node's answer. What they change is left in the exchange's state and
/// in
/// `answer`.
///
/// # Errors
/// A plugin has to read the body, and cannot, or makes an open WebSocket of an answer that is none.
pub(crate) fn on_answer(
    cx: &mut Exchange<'_>,
    chains: &Chains<'_>,
    answer: &mut Answer,
) -> Result<(), GatewayError> {
    if !chains.see_answers() {
        return Ok(());
    }
    answer.is_seen_by_plugins = true;
    let status = final_status(cx.state.response.status);
    let has_body = Outgoing::from_node(cx, status).delivery().has_body;
    let sent = cx.state.response.status;
    let facts = ResponseFacts {
        status: sent,
        source: Source::Upstream,
        has_body,
        content_length: cx.state.response.declared_length,
        client_is_http11: cx.state.head.version == Version::Http11,
    };
    let head = HeadView::OfNode(answer.connection.link.buffer.filled());
    let facts = response_phase::run(cx, chains, head, facts)?;
    // A switch of protocols has happened, whatever is said about it.
    if facts.status != sent && sent != 101 {
        if seems_open(cx, facts.status) {
            return Err(ErrorCode::MethodNotImplemented.into());
        }
        answer.status = Some(final_status(facts.status));
    }
    Ok(())
}
