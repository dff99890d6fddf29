//! Sends an answer of the gateway's own: a plugin's, or the page for an error.

use std::borrow::Cow;

use tollhouse_http::Version;
use tollhouse_plugin::response::{ResponseFacts, Source};
use tollhouse_plugin::{Effect, HeaderEdits, Phases};
use tollhouse_telemetry::ErrorCode;

use crate::client::Client;
use crate::exchange::RequestPump;
use crate::head::response::{ConnectionNote, LocalResponse};
use crate::plugins::Chains;
use crate::plugins::lent::Lent;
use crate::plugins::overlay::{self, Framing};
use crate::plugins::response_phase::{self, OwnHead};
use crate::request::Work;
use crate::rescue;
use crate::serve::After;
use crate::worker::Worker;

/// An answer of the gateway's own.
#[derive(Debug)]
pub(crate) struct Local<'a> {
    /// The status.
    pub status: u16,
    /// `Content-Type`; empty where `headers` has it, or there is none.
    pub content_type: &'a str,
    /// Further header lines.
    pub headers: &'a HeaderEdits,
    /// The body.
    pub body: &'a [u8],
    /// Whether the connection may go on afterwards.
    pub may_keep: bool,
}

/// Sends it, after plugins have seen it, and tells what becomes of the client's connection.
pub(crate) async fn send(
    worker: &Worker,
    client: &mut Client,
    work: &mut Work,
    pump: &mut RequestPump,
    chains: Option<&Chains<'_>>,
    local: Local<'_>,
) -> After {
    let received = pump.admit(client.link.buffer.filled()).is_ok() && pump.is_received();
    let keep = received
        && local.may_keep
        && work.head.keep_alive
        && !worker.is_draining()
        && client.requests < worker.settings.limits.requests_per_connection;
    let sends_body = work.head.method.of_buffer(client.link.buffer.filled()) != b"HEAD";
    let (status, body) = match chains.filter(|chains| chains.has(Phases::RESPONSE)) {
        Some(chains) => shown_to_plugins(worker, client, work, pump, chains, &local, sends_body),
        None => (local.status, Cow::Borrowed(local.body)),
    };
    work.record.status = status;
    let note = match (keep, work.head.version) {
        (true, Version::Http11) => ConnectionNote::None,
        (true, Version::Http10) => ConnectionNote::KeepAlive,
        (false, _) => ConnectionNote::Close,
    };
    let date = worker.clock.http_date();
    let response = LocalResponse {
        status,
        content_type: local.content_type,
        headers: &[],
        body_bytes: body.len(),
        facts: rescue::facts(worker, note, &date),
    };
    let mut out = std::mem::take(&mut work.out_down);
    out.clear();
    response.write(&mut out);
    for edits in [local.headers, &work.plugins.response_edits] {
        if !edits.is_empty() {
            overlay::apply(&mut out, 0, edits, Framing::Keep);
        }
    }
    let body: &[u8] = if sends_body { &body } else { &[] };
    out.extend_from_slice(body);
    work.record.body_bytes_sent = body.len() as u64;
    work.record.bytes_sent = out.len() as u64;
    if client.write_all(worker, &out).await.is_err() {
        work.record.code = Some(ErrorCode::DownstreamGone);
    }
    work.out_down = out;
    if keep { After::KeepAlive } else { After::Linger }
}

/// Runs the response phase over it; returns status and body as they go out.
fn shown_to_plugins<'a>(
    worker: &Worker,
    client: &mut Client,
    work: &mut Work,
    pump: &mut RequestPump,
    chains: &Chains<'_>,
    local: &Local<'a>,
    sends_body: bool,
) -> (u16, Cow<'a, [u8]>) {
    let facts = ResponseFacts {
        status: local.status,
        source: Source::Gateway,
        has_body: sends_body && !matches!(local.status, 204 | 304),
        content_length: Some(local.body.len() as u64),
        client_is_http11: work.head.version == Version::Http11,
    };
    let head = OwnHead { content_type: local.content_type, headers: local.headers };
    work.record.status = local.status;
    let mut lent = Lent { worker, client, work, body: pump, route: None };
    let facts = response_phase::run(&mut lent, chains, &head, facts);
    let mut body = Cow::Borrowed(local.body);
    if facts.has_body {
        for (effect, filter) in &mut work.plugins.filters {
            let mut out = Vec::new();
            filter.filter(&body, true, &mut out);
            if *effect == Effect::Rewrites {
                body = Cow::Owned(out);
            }
        }
    }
    (facts.status, body)
}
