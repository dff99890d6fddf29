//! Responses for errors: the single place that turns an error into status, headers and body.

use tollhouse_http::Framing;
use tollhouse_model::Id;
use tollhouse_plugin::HeaderEdits;
use tollhouse_shenyu_gateway::{Again, Failure, describe_failure};
use tollhouse_telemetry::ErrorCode;

use super::delivery::final_status;
use super::head::{self, OwnHead};
use super::own::{self, OwnAnswer};
use super::page;
use crate::connection::after::After;
use crate::error::GatewayError;
use crate::exchange::Exchange;
use crate::head::response::ConnectionNote;
use crate::plugins::chains::Chains;
use crate::transfer::pump::RequestPump;

const JSON: &str = "application/json";

/// Answers a request that failed before anything was sent to the client. Plugins see the response.
pub(crate) async fn answer(
    cx: &mut Exchange<'_>,
    chains: Option<&Chains<'_>>,
    error: GatewayError,
) -> After {
    let code = error.code;
    if code == ErrorCode::DownstreamGone || cx.client.link.stream.withdrawn().is_some() {
        note_withdrawn(cx, code);
        return After::Close;
    }
    note(cx, code);
    let (status, content_type, page) = match in_shenyus_words(cx, code) {
        Some((status, body)) => {
            cx.state.record.status = status;
            (status, JSON, body.into_bytes())
        }
        None => {
            let (content_type, page) = page::for_code(cx, code);
            (code.status(), content_type, page)
        }
    };
    // Statuses of the nodes that were tried before the gateway gave up, as in APISIX.
    let statuses = cx.state.record.upstream_statuses();
    let mut headers = HeaderEdits::default();
    if !statuses.is_empty() {
        headers.add("X-APISIX-Upstream-Status", &statuses);
    }
    let answer = OwnAnswer {
        status,
        content_type,
        headers: &headers,
        body: &page,
        declared_bytes: Some(page.len() as u64),
        must_close: leaves_bytes_in_doubt(code),
    };
    own::send(cx, chains, answer).await
}

/// Returns the status and body as ShenYu writes them, if a ShenYu object routed the request and its
/// nodes failed.
fn in_shenyus_words(cx: &Exchange<'_>, code: ErrorCode) -> Option<(u16, String)> {
    let terms = cx.route?.terms().shenyu.as_ref()?;
    let is_late = matches!(
        code,
        ErrorCode::UpstreamReadTimeout
            | ErrorCode::UpstreamConnectTimeout
            | ErrorCode::UpstreamSendTimeout
    );
    let is_nodes = matches!(
        code,
        ErrorCode::UpstreamConnectFailed
            | ErrorCode::UpstreamReset
            | ErrorCode::UpstreamBadResponse
            | ErrorCode::UpstreamResponseHeadTooLarge
            | ErrorCode::RetryBudgetExceeded
    );
    let records = &cx.state.record.attempts;
    let attempts = records.len();
    // An attempt at a node that was asked before does not count, because ShenYu makes none.
    let is_repeated = records.split_last().is_some_and(|(last, earlier)| {
        earlier.iter().any(|earlier| earlier.address == last.address)
    });
    let has_ended = attempts > terms.retries as usize && !is_repeated;
    // Any other code is the gateway's own refusal, which ShenYu does not have. ShenYu distinguishes
    // retries on the same node from failover to another node.
    let failure = match code {
        ErrorCode::NoNodes | ErrorCode::UpstreamUnresolved => Failure::NoNodes,
        ErrorCode::DeadlineExceeded => Failure::CallTimedOut,
        _ if !is_late && !is_nodes => return None,
        // Without a retry left, the last attempt counts; with some left, no other node was there to ask.
        _ if is_late && has_ended && terms.again == Again::Elsewhere => {
            Failure::TimedOut(terms.timeout)
        }
        _ if terms.again == Again::Elsewhere && (attempts > 1 || !has_ended) => {
            Failure::FailoverExhausted
        }
        _ if attempts > 1 => Failure::RetriesExhausted { is_late },
        // ShenYu counts the first attempt as one of the exhausted retries.
        _ if is_late && terms.again != Again::Elsewhere => Failure::RetriesExhausted { is_late },
        _ if is_late => Failure::TimedOut(terms.timeout),
        _ => Failure::Broken,
    };
    Some(describe_failure(failure, terms.statuses))
}

/// Answers a request whose stages panicked, unless a response had already begun.
pub(crate) async fn answer_panic(cx: &mut Exchange<'_>) -> After {
    if cx.state.record.status != 0 {
        cx.state.record.code = Some(ErrorCode::InternalPanic);
        return After::Close;
    }
    // The position in the request body is unknown after a panic, so the rest of the body is
    // ignored.
    let received = cx.body.received;
    *cx.body = RequestPump::none();
    cx.body.received = received;
    answer(cx, None, ErrorCode::InternalPanic.into()).await
}

/// Records that a request ended early, because its client left or its stream was cancelled. A
/// status that was already sent is kept.
pub(crate) fn note_withdrawn(cx: &mut Exchange<'_>, code: ErrorCode) {
    let record = &mut cx.state.record;
    record.code = Some(code);
    if record.status == 0 {
        record.status = code.status();
    }
}

/// Refuses bytes that are not a valid request. The connection closes, because nothing in the head
/// can be relied on.
pub(crate) async fn refuse(cx: &mut Exchange<'_>, error: GatewayError) {
    note(cx, error.code);
    let (content_type, page) = page::for_code(cx, error.code);
    let none = HeaderEdits::default();
    let head = OwnHead {
        status: final_status(error.code.status()),
        content_type,
        framing: Framing::Length(page.len() as u64),
        connection: ConnectionNote::Close,
        edits: [&none, &none, &none],
    };
    let state = &mut *cx.state;
    head::write_own(cx.worker, &mut state.out_down, &head);
    state.out_down.extend_from_slice(&page);
    state.record.body_bytes_sent = page.len() as u64;
    state.record.bytes_sent = state.out_down.len() as u64;
    if cx.client.write_all(cx.worker, &state.out_down).await.is_err() {
        state.record.code = Some(ErrorCode::DownstreamGone);
    }
}

/// Prepares the response to a request that a plugin sends to an upstream that does not exist, in
/// APISIX's words.
pub(crate) fn prepare_missing_upstream(cx: &mut Exchange<'_>, id: &Id) {
    let code = ErrorCode::PluginUpstreamNotFound;
    note(cx, code);
    let text = format!("failed to fetch upstream info by upstream id [{id}]");
    cx.state.plugins.prepared.set(code.status(), text.as_bytes());
}

fn note(cx: &mut Exchange<'_>, code: ErrorCode) {
    cx.state.record.code = Some(code);
    cx.state.record.status = code.status();
}

/// Whether an error leaves the position of the next request unknown, so that the connection must
/// close.
fn leaves_bytes_in_doubt(code: ErrorCode) -> bool {
    matches!(
        code,
        ErrorCode::BadFraming
            | ErrorCode::BodyTooLarge
            | ErrorCode::BodyReadTimeout
            | ErrorCode::InternalPanic
            | ErrorCode::Draining
    )
}
