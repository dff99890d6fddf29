//! Sends an answer of the gateway's own: a plugin's, or the page for an error.

use std::borrow::Cow;

use tollhouse_http::element::FieldValue;
use tollhouse_http::{BodyLength, Version};
use tollhouse_plugin::response::{ResponseFacts, Source};
use tollhouse_plugin::{Effect, HeaderEdits, Phases};
use tollhouse_telemetry::ErrorCode;

use crate::client::Client;
use crate::delivery::{Outgoing, final_status};
use crate::exchange::RequestPump;
use crate::head::response::{ConnectionNote, LocalResponse};
use crate::plugins::Chains;
use crate::plugins::lent::Lent;
use crate::plugins::overlay::{self, Side};
use crate::plugins::response_phase::{self, OwnHead};
use crate::request::Work;
use crate::rescue;
use crate::serve::After;
use crate::worker::Worker;

/// Longest body that is copied behind its head.
const COPIED_BYTES_MAX: usize = 4 * 1024;

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
    /// Its length as the head tells it; `None` where nobody knows what HEAD leaves out.
    pub declared_bytes: Option<u64>,
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
    let received = pump.admit(&mut client.link.buffer).is_ok() && pump.is_received();
    let keep = received
        && local.may_keep
        && work.head.keep_alive
        && !worker.is_draining()
        && client.requests < worker.settings.limits.requests_per_connection;
    let (status, body) = match chains.filter(|chains| chains.has(Phases::RESPONSE)) {
        Some(chains) => shown_to_plugins(worker, client, work, pump, chains, &local),
        None => (local.status, Cow::Borrowed(local.body)),
    };
    let declared = match &body {
        Cow::Borrowed(_) => local.declared_bytes,
        Cow::Owned(body) => Some(body.len() as u64),
    };
    let outgoing = outgoing(client, work, status, (body.len(), declared));
    let (status, delivery) = (outgoing.status, outgoing.delivery());
    work.record.status = status.number();
    let note = match (keep, work.head.version) {
        (true, Version::Http11) => ConnectionNote::None,
        (true, Version::Http10) => ConnectionNote::KeepAlive,
        (false, _) => ConnectionNote::Close,
    };
    let date = worker.clock.http_date();
    let content_type = if status.is_lengthless() { "" } else { local.content_type };
    let response = LocalResponse {
        status,
        content_type: FieldValue::parse(content_type.as_bytes()).unwrap_or_default(),
        headers: &[],
        framing: delivery.framing,
        facts: rescue::facts(worker, note, &date),
    };
    let mut out = std::mem::take(&mut work.out_down);
    out.clear();
    response.write(&mut out);
    for edits in [local.headers, &work.plugins.response_edits] {
        if !edits.is_empty() {
            overlay::apply(&mut out, edits, Side::Response);
        }
    }
    let body: &[u8] = if delivery.has_body { &body } else { &[] };
    work.record.body_bytes_sent = body.len() as u64;
    work.record.bytes_sent = (out.len() + body.len()) as u64;
    // A short body is copied behind its head, which costs less than a vector of two pieces; a long
    // one is sent from where it is, be it held by a cache and a hundred other clients.
    let rest = if body.len() <= COPIED_BYTES_MAX { &[] } else { body };
    if rest.is_empty() {
        out.extend_from_slice(body);
    }
    if client.write_both(worker, &out, rest).await.is_err() {
        work.record.code = Some(ErrorCode::DownstreamGone);
    }
    work.out_down = out;
    if keep { After::KeepAlive } else { After::Linger }
}

/// An answer whose whole body is there, or is left out: its length, and what the head says of that.
fn outgoing(
    client: &Client,
    work: &Work,
    status: u16,
    (body_bytes, declared): (usize, Option<u64>),
) -> Outgoing {
    let is_head = work.is_head(client);
    let filters = &work.plugins.filters;
    let bytes = body_bytes as u64;
    Outgoing {
        is_head,
        version: work.head.version,
        status: final_status(status),
        body: if bytes == 0 { BodyLength::None } else { BodyLength::Known(bytes) },
        // To HEAD, the length is what GET would get, unless plugins would have had their say.
        declared: declared.filter(|_| is_head),
        is_rewritten: is_head && filters.iter().any(|(effect, _)| *effect == Effect::Rewrites),
    }
}

/// Runs the response phase over it; returns status and body as they go out.
fn shown_to_plugins<'a>(
    worker: &Worker,
    client: &mut Client,
    work: &mut Work,
    pump: &mut RequestPump,
    chains: &Chains<'_>,
    local: &Local<'a>,
) -> (u16, Cow<'a, [u8]>) {
    let sizes = (local.body.len(), local.declared_bytes);
    let unseen = outgoing(client, work, local.status, sizes);
    let facts = ResponseFacts {
        status: local.status,
        source: Source::Gateway,
        has_body: unseen.delivery().has_body,
        content_length: local.declared_bytes,
        client_is_http11: work.head.version == Version::Http11,
    };
    let head = OwnHead { content_type: local.content_type, headers: local.headers };
    work.record.status = local.status;
    let mut lent = Lent { worker, client, work, body: pump, route: None };
    let facts = response_phase::run(&mut lent, chains, &head, facts);
    let mut body = Cow::Borrowed(local.body);
    if outgoing(client, work, facts.status, sizes).delivery().has_body {
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
