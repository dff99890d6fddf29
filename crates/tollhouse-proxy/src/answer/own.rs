//! Sends a response of the gateway's own: a plugin's, or the page for an error.

use std::borrow::Cow;

use tollhouse_http::{BodyLength, Version};
use tollhouse_plugin::response::{ResponseFacts, Source};
use tollhouse_plugin::{Effect, HeaderEdits, Piece};
use tollhouse_telemetry::ErrorCode;

use super::call::{self, Refusal};
use super::delivery::{Outgoing, final_status, seems_open};
use super::head::{self, OwnHead};
use super::{keep_alive, page, trace_line};
use crate::connection::after::After;
use crate::exchange::Exchange;
use crate::grpc;
use crate::plugins::chains::Chains;
use crate::plugins::prepared::Kind;
use crate::plugins::response_phase::{self, HeadView, PreparedHead};
use crate::transfer::relay::RelayError;

/// Maximum length in bytes of a body that is copied behind its head; a longer one is sent from a
/// separate buffer.
const COPIED_BYTES_MAX: usize = 4 * 1024;

/// Status of nginx for a connection that closes without an answer; of HTTP/2, the stream is reset.
const NO_ANSWER: u16 = 444;

/// A response that the gateway generates itself.
#[derive(Debug)]
pub(crate) struct OwnAnswer<'a> {
    pub status: u16,
    /// `Content-Type`; empty if `headers` contains it or none is sent.
    pub content_type: &'a str,
    pub headers: &'a HeaderEdits,
    pub body: &'a [u8],
    /// Length declared in the head; `None` if the length that HEAD leaves out is unknown.
    pub declared_bytes: Option<u64>,
    /// Whether the connection closes after this response, even if the client asked to keep it.
    pub must_close: bool,
}

/// Sends the response that is prepared in the exchange's state; with status 444 and no body, closes
/// the connection instead.
pub(crate) async fn send_prepared(cx: &mut Exchange<'_>, chains: Option<&Chains<'_>>) -> After {
    let prepared = &cx.state.plugins.prepared;
    if prepared.status == NO_ANSWER && prepared.kind != Kind::Text {
        cx.state.record.status = NO_ANSWER;
        return After::Close;
    }
    // Moved out of `cx` while it is sent, and put back afterwards so that its buffers are reused.
    let mut prepared = std::mem::take(&mut cx.state.plugins.prepared);
    // An error with only a status gets the gateway's error page.
    let is_page = prepared.kind == Kind::StatusOnly && prepared.status >= 400;
    if is_page {
        prepared.body = page::html(cx, prepared.status);
    }
    let content_type = if is_page { page::HTML } else { prepared.content_type() };
    let answer = OwnAnswer {
        status: prepared.status,
        content_type,
        headers: &prepared.headers,
        body: prepared.bytes(),
        declared_bytes: prepared.declared_bytes(),
        must_close: false,
    };
    let after = send(cx, chains, answer).await;
    cx.state.plugins.prepared = prepared;
    after
}

/// Sends `answer` after plugins have seen and possibly changed it.
pub(crate) async fn send(
    cx: &mut Exchange<'_>,
    chains: Option<&Chains<'_>>,
    answer: OwnAnswer<'_>,
) -> After {
    // Body bytes already received belong to this request, whether they were read or not.
    let is_framed = cx.body.admit(&mut cx.client.link.buffer).is_ok();
    // Decided before plugins run: they neither see nor influence whether the connection is kept.
    let after = keep_alive::after(cx, answer.must_close || !is_framed);
    // Plugins see one response per request: if they saw a node's response that then broke before it
    // was sent, they do not see this one.
    let seen_by = chains.filter(|chains| chains.see_answers());
    let asked = match seen_by.filter(|_| !cx.state.plugins.has_seen_answer) {
        Some(chains) => ask_plugins(cx, chains, &answer),
        None => Ok((answer.status, Cow::Borrowed(answer.body))),
    };
    let (none, refusal);
    let asked = match asked {
        Ok((status, _)) if seems_open(cx, status) => {
            cx.state.plugins.forget_answer();
            Err(ErrorCode::MethodNotImplemented)
        }
        asked => asked,
    };
    let (answer, status, body) = match asked {
        Ok((status, body)) => (answer, status, body),
        Err(code) => {
            cx.state.record.code = Some(code);
            (none, refusal) = (HeaderEdits::default(), page::for_code(cx, code));
            let (content_type, page) = (refusal.0, &refusal.1[..]);
            let (status, declared_bytes) = (code.status(), Some(page.len() as u64));
            let refused = OwnAnswer {
                status,
                content_type,
                headers: &none,
                body: page,
                declared_bytes,
                ..answer
            };
            (refused, status, Cow::Borrowed(page))
        }
    };
    let trace = trace_line::line(cx, status);
    if call::is_to_be_translated(cx, status, answer.headers) {
        let refusal = Refusal { status, content_type: answer.content_type, body: &body };
        let headers = call::lines(cx, answer.headers, refusal);
        let translated = OwnAnswer {
            status: 200,
            content_type: grpc::CONTENT_TYPE,
            headers: &headers,
            body: &[],
            declared_bytes: Some(0),
            must_close: answer.must_close,
        };
        write(cx, after, &trace, &translated, 200, Cow::Borrowed(&[])).await;
        // Logs and metrics keep the HTTP status, because it tells the kind of failure.
        cx.state.record.status = status;
    } else {
        write(cx, after, &trace, &answer, status, body).await;
    }
    after
}

async fn write(
    cx: &mut Exchange<'_>,
    after: After,
    trace: &HeaderEdits,
    answer: &OwnAnswer<'_>,
    status: u16,
    body: Cow<'_, [u8]>,
) {
    let declared = match &body {
        Cow::Borrowed(_) => answer.declared_bytes,
        Cow::Owned(body) => Some(body.len() as u64),
    };
    let outgoing = outgoing(cx, status, body.len(), declared);
    let delivery = outgoing.delivery();
    let state = &mut *cx.state;
    let head = OwnHead {
        status: outgoing.status,
        content_type: answer.content_type,
        framing: delivery.framing,
        connection: keep_alive::note(after, state.head.version),
        edits: [trace, answer.headers, &state.plugins.response_edits],
    };
    head::write_own(cx.worker, &mut state.out_down, &head);
    let body: &[u8] = if delivery.has_body { &body } else { &[] };
    state.record.status = outgoing.status.number();
    state.record.body_bytes_sent = body.len() as u64;
    state.record.bytes_sent = (state.out_down.len() + body.len()) as u64;
    // A short body is copied behind its head, which is cheaper than a vectored write. A long one is
    // sent from its own buffer, which a cache and other clients may share.
    let rest = if body.len() <= COPIED_BYTES_MAX { &[] } else { body };
    if rest.is_empty() {
        state.out_down.extend_from_slice(body);
    }
    if cx.client.write_both(cx.worker, &state.out_down, rest).await.is_err() {
        state.record.code = Some(ErrorCode::DownstreamGone);
    }
}

/// Returns the delivery facts of a response whose body is complete, or is left out for HEAD.
fn outgoing(cx: &Exchange<'_>, status: u16, bytes: usize, declared: Option<u64>) -> Outgoing {
    let is_head = cx.is_head();
    let filters = &cx.state.plugins.filters;
    let bytes = bytes as u64;
    Outgoing {
        is_head,
        version: cx.state.head.version,
        status: final_status(status),
        body: if bytes == 0 { BodyLength::None } else { BodyLength::Known(bytes) },
        // HEAD declares the length that GET would get, unless plugins would have changed it.
        declared: declared.filter(|_| is_head),
        is_rewritten: is_head && filters.iter().any(|(effect, _)| *effect == Effect::Rewrites),
    }
}

/// Runs the response phase of plugins; returns status and body to send.
///
/// # Errors
/// If a plugin must read the body and cannot.
fn ask_plugins<'a>(
    cx: &mut Exchange<'_>,
    chains: &Chains<'_>,
    answer: &OwnAnswer<'a>,
) -> Result<(u16, Cow<'a, [u8]>), ErrorCode> {
    let outgoing =
        |cx: &Exchange<'_>, status| outgoing(cx, status, answer.body.len(), answer.declared_bytes);
    let facts = ResponseFacts {
        status: answer.status,
        source: Source::Gateway,
        has_body: outgoing(cx, answer.status).delivery().has_body,
        content_length: answer.declared_bytes,
        client_is_http11: cx.state.head.version == Version::Http11,
    };
    let head = PreparedHead { content_type: answer.content_type, headers: answer.headers };
    // Plugins may read the status as a variable.
    cx.state.record.status = answer.status;
    let facts = response_phase::run(cx, chains, HeadView::Other(&head), facts)?;
    let mut body = Cow::Borrowed(answer.body);
    if outgoing(cx, facts.status).delivery().has_body {
        for (effect, filter) in &mut cx.state.plugins.filters {
            let mut out = Vec::new();
            filter.filter(&body, Piece::Last, &mut out);
            if let Some(failure) = filter.failure() {
                cx.state.plugins.forget_answer();
                return Err(RelayError::from(failure).code());
            }
            if *effect == Effect::Rewrites {
                body = Cow::Owned(out);
            }
        }
    }
    Ok((facts.status, body))
}
