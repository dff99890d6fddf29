//! Plugin stages of a request: before a node is selected, and after it has responded. The log phase
//! is in `plugins/log_phase.rs`.

use tollhouse_http::element::{Authority, OriginForm};
use tollhouse_http::{BodyLength, Version};
use tollhouse_plugin::response::{ResponseFacts, Source};
use tollhouse_plugin::{HeaderEdits, Phases, RefusalKind, RequestEdits};
use tollhouse_stdx::duration::to_ms;
use tollhouse_telemetry::ErrorCode;
use tollhouse_telemetry::codes::Origin;

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
use crate::plugins::response_phase::{self, HeadView, PreparedHead};
use crate::snapshot::Snapshot;

/// Runs the request phases; returns the next step for the request.
///
/// # Errors
/// If the route refuses, a plugin that may protect cannot run, or an edit of a plugin is invalid.
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
    // Applied even if a plugin answered, so that the log shows the client address set by plugins.
    if let Some((address, _)) = cx.state.plugins.edits.remote {
        cx.state.reported_address = Some((address, AddressText::new(address)));
    }
    let Verdict::Forward(chosen) = verdict? else {
        cx.state.record.code = cx.state.plugins.prepared.refusal.map(code_of);
        return Ok(Next::Answer);
    };
    // Without a route, only global rules have run, and edits have no effect.
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

/// Returns the error code of a plugin's refusal.
fn code_of(refusal: RefusalKind) -> ErrorCode {
    match refusal {
        RefusalKind::AuthMissing => ErrorCode::AuthMissing,
        RefusalKind::AuthInvalid => ErrorCode::AuthInvalid,
        RefusalKind::ClockDiffers => ErrorCode::ClockSkew,
        RefusalKind::LimitExceeded => ErrorCode::LimitExceeded,
        RefusalKind::DeniedByRule => ErrorCode::DeniedByRule,
        RefusalKind::RequestInvalid => ErrorCode::RequestInvalid,
        RefusalKind::FaultInjected => ErrorCode::FaultInjected,
        RefusalKind::CircuitOpen => ErrorCode::CircuitOpen,
        RefusalKind::PluginFailed => ErrorCode::PluginFailed,
        RefusalKind::NotFound => ErrorCode::RouteNotFound,
        RefusalKind::NoNodes => ErrorCode::NoNodes,
        RefusalKind::UpstreamFailed => ErrorCode::UpstreamBadResponse,
        RefusalKind::UpstreamTimedOut => ErrorCode::UpstreamReadTimeout,
    }
}

/// Applies the edits of plugins that concern the whole request.
fn apply_edits(cx: &mut Exchange<'_>) -> Result<(), GatewayError> {
    let edits = &mut cx.state.plugins.edits;
    check_rewrite(edits)?;
    if let Some(method) = edits.method {
        cx.state.is_idempotent = is_idempotent(method.as_bytes());
    }
    if let Some(time) = edits.time_max {
        let time_ms = to_ms(time);
        let deadline_ms = cx.worker.clock.now_ms().saturating_add(time_ms);
        let earlier = cx.state.call_deadline_ms.map_or(deadline_ms, |own| own.min(deadline_ms));
        cx.state.call_deadline_ms = Some(earlier);
    }
    if edits.body.is_some() {
        cx.body.leave_out();
    }
    if let Some(bytes) = edits.body_bytes_max {
        cx.body.limit(bytes);
        // Refused by the declared length, before more of the body is read.
        let declares_more =
            matches!(cx.state.head.body, BodyLength::Known(declared) if declared > bytes);
        if declares_more || cx.body.is_over_limit() {
            return Err(ErrorCode::BodyTooLarge.into());
        }
    }
    Ok(())
}

/// Checks that the path, query and host set by plugins contain no bytes that a reader could take
/// for a delimiter. An edited `Host` header counts as the host.
fn check_rewrite(edits: &mut RequestEdits) -> Result<(), GatewayError> {
    if edits.host.is_none() && !edits.headers.is_empty() {
        edits.host = edits.headers.find(b"host").map(<[u8]>::to_vec);
    }
    let is_host = edits.host.as_ref().is_none_or(|host| Authority::parse(host).is_some());
    let is_target = edits.upstream_uri().is_none_or(|uri| OriginForm::parse(uri).is_some());
    if is_host && is_target { Ok(()) } else { Err(ErrorCode::RewriteInvalid.into()) }
}

/// Whether a plugin gives an answer in the place of a node's, or of a node's failure; it is prepared then.
pub(crate) fn replaces(
    cx: &mut Exchange<'_>,
    chains: &Chains<'_>,
    forwarded: &Result<Answer, GatewayError>,
) -> bool {
    if !chains.has(Phases::REPLACE) {
        return false;
    }
    let none = HeaderEdits::default();
    let prepared = PreparedHead { content_type: "", headers: &none };
    let (head, facts) = match forwarded {
        // A switch of protocols has happened.
        Ok(_) if cx.state.response.status == 101 => return false,
        Ok(answer) => (HeadView::OfNode(answer.connection.link.buffer.filled()), facts_of_node(cx)),
        Err(error) if is_of_nodes(error.code) => {
            let facts = ResponseFacts {
                status: error.code.status(),
                source: Source::Gateway,
                has_body: false,
                content_length: None,
                client_is_http11: cx.state.head.version == Version::Http11,
            };
            (HeadView::Other(&prepared), facts)
        }
        Err(_) => return false,
    };
    response_phase::replace(cx, chains, head, facts)
}

/// Whether an error is a failure of nodes, and not of the request or of the gateway.
fn is_of_nodes(code: ErrorCode) -> bool {
    code.origin() == Origin::Upstream
        || matches!(code, ErrorCode::NoNodes | ErrorCode::RetryBudgetExceeded)
}

fn facts_of_node(cx: &Exchange<'_>) -> ResponseFacts {
    let status = final_status(cx.state.response.status);
    ResponseFacts {
        status: cx.state.response.status,
        source: Source::Upstream,
        has_body: Outgoing::from_node(cx, status).delivery().has_body,
        content_length: cx.state.response.declared_length,
        client_is_http11: cx.state.head.version == Version::Http11,
    }
}

/// Runs the response phase of plugins. Their edits are left in the exchange's state and in
/// `answer`.
///
/// # Errors
/// If a plugin has to read the body and cannot, or declares an open WebSocket for an answer that
/// does not open one.
pub(crate) fn on_answer(
    cx: &mut Exchange<'_>,
    chains: &Chains<'_>,
    answer: &mut Answer,
) -> Result<(), GatewayError> {
    if !chains.see_answers() {
        return Ok(());
    }
    answer.is_seen_by_plugins = true;
    let sent = cx.state.response.status;
    let facts = facts_of_node(cx);
    let head = HeadView::OfNode(answer.connection.link.buffer.filled());
    let facts = response_phase::run(cx, chains, head, facts)?;
    // The status of a switch of protocols (101) cannot be changed.
    if facts.status != sent && sent != 101 {
        if seems_open(cx, facts.status) {
            return Err(ErrorCode::MethodNotImplemented.into());
        }
        answer.status = Some(final_status(facts.status));
    }
    Ok(())
}
