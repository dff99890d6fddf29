//! What plugins add to the life of a request: before a node is asked, and when all is over. The
//! corridor itself is `pipeline.rs`; between the two, `respond_plugged.rs` shows them the answer.

use std::sync::Arc;

use tollhouse_http::element::{Authority, OriginForm};
use tollhouse_plugin::{Phases, RequestEdits};
use tollhouse_telemetry::ErrorCode;

use crate::client::Client;
use crate::error::GatewayError;
use crate::exchange::RequestPump;
use crate::pipeline::{self, Way};
use crate::plugins::chain::StepUpstream;
use crate::plugins::lent::Lent;
use crate::plugins::prepared::Kind;
use crate::plugins::request_phases::{self, Verdict};
use crate::plugins::{Chains, log_phase};
use crate::request::Work;
use crate::serve::After;
use crate::snapshot::{RouteEntry, Snapshot, UpstreamEntry};
use crate::worker::Worker;
use crate::{local, rescue, server_options};

/// Asks the plugins: the way on, or what becomes of the client's connection where one of them has
/// answered, or the request cannot go on.
pub(crate) async fn ask<'s>(
    worker: &Worker,
    client: &mut Client,
    work: &mut Work,
    body: &mut RequestPump,
    snapshot: &'s Snapshot,
    route: Option<&'s RouteEntry>,
    chains: &mut Chains<'s>,
) -> Result<Way<'s>, After> {
    work.plugins.is_active = true;
    let served = match decide(worker, client, work, body, snapshot, route, chains).await {
        Ok(Some(way)) => return Ok(way),
        Ok(None) => Ok(answer(worker, client, work, body, chains).await),
        Err(error) => Err(error),
    };
    Err(end(served, worker, client, work, body, route, chains).await)
}

/// Answers where nothing else has, and lets plugins see how it went.
#[inline]
pub(crate) async fn end(
    served: Result<After, GatewayError>,
    worker: &Worker,
    client: &mut Client,
    work: &mut Work,
    body: &mut RequestPump,
    route: Option<&RouteEntry>,
    chains: &Chains<'_>,
) -> After {
    let after = match served {
        Ok(after) => after,
        Err(error) => {
            let answering = rescue::answer_with(worker, client, work, body, error, Some(chains));
            Box::pin(answering).await
        }
    };
    if chains.has(Phases::LOG) {
        worker.clock.refresh();
        log_phase::run(&mut Lent { worker, client, work, body, route }, chains);
    }
    after
}

/// The way on; `None` when a plugin has prepared an answer.
async fn decide<'s>(
    worker: &Worker,
    client: &mut Client,
    work: &mut Work,
    body: &mut RequestPump,
    snapshot: &'s Snapshot,
    route: Option<&'s RouteEntry>,
    chains: &mut Chains<'s>,
) -> Result<Option<Way<'s>>, GatewayError> {
    if let Some(route) = route {
        pipeline::note_route(route, work);
        pipeline::check_references(route)?;
    }
    let verdict = {
        let mut lent = Lent { worker, client, work, body, route };
        request_phases::run(&mut lent, snapshot, chains).await
    };
    // Also where a plugin has answered: the log tells of the client that plugins have found.
    if let Some((address, _)) = work.plugins.edits.remote {
        work.reported_address = Some((address, crate::head::text::AddressText::new(address)));
    }
    let Verdict::Forward(chosen) = verdict? else { return Ok(None) };
    // Global rules have had their say about requests that no route takes.
    let Some(route) = route else {
        if work.head.parts.is_asterisk(client.link.buffer.filled()) {
            server_options::prepare(&mut work.plugins.prepared);
            return Ok(None);
        }
        return Err(ErrorCode::RouteNotFound.into());
    };
    settle_edits(work, body)?;
    let upstream = match chosen {
        None | Some(StepUpstream::Route) => pipeline::upstream_of(snapshot, route)?,
        Some(StepUpstream::Inline(upstream)) => upstream,
        Some(StepUpstream::Slot(slot, id)) => match slot_of(snapshot, *slot) {
            Some(upstream) => upstream,
            None => {
                let text = format!("failed to fetch upstream info by upstream id [{id}]");
                let code = ErrorCode::PluginUpstreamNotFound;
                work.record.code = Some(code);
                let prepared = &mut work.plugins.prepared;
                prepared.status = code.status();
                prepared.kind = Kind::Text;
                prepared.body.extend_from_slice(text.as_bytes());
                return Ok(None);
            }
        },
    };
    Ok(Some(Way { route, upstream }))
}

fn slot_of(snapshot: &Snapshot, slot: u32) -> Option<&Arc<UpstreamEntry>> {
    snapshot.upstreams.get(slot).and_then(Option::as_ref)
}

/// Puts into effect what plugins have decided about the request as a whole.
fn settle_edits(work: &mut Work, body: &mut RequestPump) -> Result<(), GatewayError> {
    let edits = &mut work.plugins.edits;
    check_rewrite(edits)?;
    if let Some(method) = edits.method {
        work.is_idempotent = crate::request::is_idempotent(method.as_bytes());
    }
    if edits.body.is_some() {
        body.leave_out();
    }
    if let Some(bytes) = edits.body_bytes_max {
        body.limit(bytes);
        let declared = match work.head.body {
            tollhouse_http::BodyLength::Known(declared) => declared,
            _ => 0,
        };
        if declared > bytes || body.is_over_limit() {
            return Err(ErrorCode::BodyTooLarge.into());
        }
    }
    Ok(())
}

/// Path, query and host that plugins ask for must be such that no reader takes them for more. A `Host`
/// among the edited headers is one that they ask for.
fn check_rewrite(edits: &mut RequestEdits) -> Result<(), GatewayError> {
    if edits.host.is_none() && !edits.headers.is_empty() {
        edits.host = edits.headers.find(b"host").map(<[u8]>::to_vec);
    }
    let is_host = edits.host.as_ref().is_none_or(|host| Authority::parse(host).is_some());
    let is_target = edits.upstream_uri().is_none_or(|uri| OriginForm::parse(uri).is_some());
    if is_host && is_target { Ok(()) } else { Err(ErrorCode::RewriteInvalid.into()) }
}

/// Sends the answer that a plugin has given.
async fn answer(
    worker: &Worker,
    client: &mut Client,
    work: &mut Work,
    body: &mut RequestPump,
    chains: &Chains<'_>,
) -> After {
    let mut prepared = std::mem::take(&mut work.plugins.prepared);
    if prepared.kind == Kind::Unsaid && prepared.status >= 400 {
        prepared.body = rescue::html_page(worker, prepared.status);
    }
    let is_page = prepared.kind == Kind::Unsaid && prepared.status >= 400;
    let content_type = if is_page { rescue::HTML } else { prepared.content_type() };
    let answer = local::Local {
        status: prepared.status,
        content_type,
        headers: &prepared.headers,
        body: prepared.bytes(),
        declared_bytes: prepared.declared_bytes(),
        may_keep: true,
    };
    let after = local::send(worker, client, work, body, Some(chains), answer).await;
    work.plugins.prepared = prepared;
    after
}
