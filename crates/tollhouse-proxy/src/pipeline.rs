//! The life of a request, top to bottom. Each step is one call; its comment says why it stands
//! where it stands.

use std::sync::Arc;

use tollhouse_http::BodyLength;
use tollhouse_router::MatchRequest;
use tollhouse_telemetry::ErrorCode;

use crate::client::Client;
use crate::error::GatewayError;
use crate::exchange::{PumpError, RequestPump};
use crate::forward::Forward;
use crate::kept::Kept;
use crate::plugins::Chains;
use crate::request::{Request, Work, is_idempotent};
use crate::serve::After;
use crate::snapshot::{Reference, RouteEntry, Snapshot, Target, UpstreamEntry};
use crate::worker::Worker;
use crate::{client_address, normalise, plugged, request_body, server_options};

/// Serves one request whose head has been read.
///
/// # Errors
/// When nothing has been sent to the client; `rescue` answers.
pub(crate) async fn serve(
    worker: &Worker,
    client: &mut Client,
    work: &mut Work,
    body: &mut RequestPump,
) -> Result<After, GatewayError> {
    // Limits come first: a request that is too large costs nothing further.
    check_limits(worker, work)?;
    body.admit(&mut client.link.buffer).map_err(|error| match error {
        PumpError::BodyTooLarge => ErrorCode::BodyTooLarge,
        _ => ErrorCode::BadFraming,
    })?;

    // Normalised once, before anything looks at the path, the host or the client's address, so
    // that every later step sees the same.
    describe(worker, client, work)?;

    // The snapshot taken here is the one the request keeps: one revision answers all of it.
    let snapshot = worker.snapshot.take();
    if work.head.body != BodyLength::None && !snapshot.body_variables.is_empty() {
        work.body.want(&snapshot.body_variables);
    }

    // Which route, with every condition checked. `OPTIONS *` asks about the server as a whole: no
    // route can be meant, and global rules have their say all the same. Where a condition on the way
    // asks for the body, it is read, and asked again; requests that meet none such stream on.
    let asks_server = work.head.parts.is_asterisk(client.link.buffer.filled());
    let mut found = if asks_server { None } else { find_route(worker, &snapshot, client, work) };
    if work.body.is_asked() {
        Box::pin(request_body::read_for_variables(worker, client, work, body)).await?;
        found = find_route(worker, &snapshot, client, work);
    }
    let route = found.map(|route| &**route);

    // Plugins, if there are any, see the request before a node does: one may answer it, or send it
    // elsewhere.
    let mut chains = Chains::of(&snapshot, route);
    let way = match &mut chains {
        None if asks_server => {
            return Ok(Box::pin(server_options::answer(worker, client, work, body)).await);
        }
        None => way_of(&snapshot, route, work)?,
        Some(chains) => {
            let asked = plugged::ask(worker, client, work, body, &snapshot, route, chains);
            // Its room is lent for as long as plugins are asked, and not kept by idle connections.
            match Box::pin(asked).await {
                Ok(way) => way,
                Err(after) => return Ok(after),
            }
        }
    };

    // A tunnel may last for days, during which the configuration changes a thousand times.
    if let Some(route) = found.filter(|route| route.websocket && work.head.upgrade) {
        let kept = Kept::new(route, way.upstream, chains);
        drop(snapshot);
        return Box::pin(kept.forward(worker, client, work, body)).await;
    }
    forward(worker, client, work, body, way, chains.as_ref()).await
}

/// Up to a node and back again; the answer's body is on its way when this returns. Plugins see its
/// head before the client does.
#[inline]
pub(crate) async fn forward(
    worker: &Worker,
    client: &mut Client,
    work: &mut Work,
    body: &mut RequestPump,
    way: Way<'_>,
    chains: Option<&Chains<'_>>,
) -> Result<After, GatewayError> {
    let Way { route, upstream } = way;
    let served = Forward { worker, route, upstream, chains }.run(client, work, body).await;
    match chains {
        None => served,
        Some(chains) => {
            let route = Some(route);
            Ok(plugged::end(served, worker, client, work, body, route, chains).await)
        }
    }
}

/// Where a request goes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Way<'s> {
    /// Its route.
    pub route: &'s RouteEntry,
    /// The upstream whose node it goes to.
    pub upstream: &'s Arc<UpstreamEntry>,
}

/// The way of a request without plugins. What its route names must exist; a route whose parts are
/// missing refuses rather than guesses.
#[inline]
fn way_of<'s>(
    snapshot: &'s Snapshot,
    route: Option<&'s RouteEntry>,
    work: &mut Work,
) -> Result<Way<'s>, GatewayError> {
    let route = route.ok_or(ErrorCode::RouteNotFound)?;
    note_route(route, work);
    check_references(route)?;
    Ok(Way { route, upstream: upstream_of(snapshot, route)? })
}

/// Refuses by what the head alone tells.
#[inline]
fn check_limits(worker: &Worker, work: &Work) -> Result<(), GatewayError> {
    match work.head.body {
        BodyLength::Known(bytes) if bytes > worker.settings.limits.body_bytes => {
            Err(ErrorCode::BodyTooLarge.into())
        }
        _ => Ok(()),
    }
}

/// Fills in what matching and forwarding need to know about the request.
#[inline]
fn describe(worker: &Worker, client: &Client, work: &mut Work) -> Result<(), GatewayError> {
    let bytes = client.link.buffer.filled();
    work.is_idempotent = is_idempotent(work.head.method.of_buffer(bytes));
    normalise::host(work, bytes);
    normalise::path(worker, work, bytes)?;
    let settings = &worker.settings;
    work.reported_address =
        client_address::reported(&settings.real_ip, client.peer.ip(), &work.head.fields, bytes)
            .map(|address| (address, crate::head::text::AddressText::new(address)));
    Ok(())
}

#[inline]
fn find_route<'a>(
    worker: &Worker,
    snapshot: &'a Snapshot,
    client: &Client,
    work: &mut Work,
) -> Option<&'a Arc<RouteEntry>> {
    let mut captures = std::mem::take(&mut work.captures);
    let found = {
        let request = Request::new(worker, client, work, None);
        snapshot.router.find(
            &MatchRequest {
                path: work.matched_path(client),
                host: &work.host[..work.host_bytes],
                host_with_port: &work.host,
                method: work.head.method.of_buffer(client.link.buffer.filled()),
                remote_addr: work.remote_address(client),
                variables: &request,
            },
            &mut captures,
        )
    };
    work.captures = captures;
    let found = found?;
    work.matched = found.pattern_indexes();
    Some(found.value)
}

/// Notes the route for log and metrics.
#[inline]
pub(crate) fn note_route(route: &RouteEntry, work: &mut Work) {
    work.record.route_id.push_str(route.route.id.as_str());
    if let Some(service_id) = &route.route.service_id {
        work.record.service_id.push_str(service_id.as_str());
    }
}

/// What `route` names must exist.
#[inline]
pub(crate) fn check_references(route: &RouteEntry) -> Result<(), GatewayError> {
    if route.service == Reference::Missing {
        return Err(ErrorCode::ServiceNotFound.into());
    }
    if route.plugin_config == Reference::Missing {
        return Err(ErrorCode::PluginConfigNotFound.into());
    }
    Ok(())
}

/// The upstream of `route`, by the precedence of apisix.md §2.2: inline, by id, the service's.
#[inline]
pub(crate) fn upstream_of<'a>(
    snapshot: &'a Snapshot,
    route: &'a RouteEntry,
) -> Result<&'a Arc<UpstreamEntry>, GatewayError> {
    match &route.target {
        Target::Inline(upstream) => Ok(upstream),
        Target::Slot(slot) => snapshot
            .upstreams
            .get(*slot)
            .and_then(Option::as_ref)
            .ok_or(ErrorCode::UpstreamNotFound.into()),
        Target::None => Err(ErrorCode::NoNodes.into()),
    }
}
