//! Route matching, and the next step that a route prescribes.

use std::sync::Arc;

use tollhouse_http::BodyLength;
use tollhouse_router::MatchRequest;
use tollhouse_telemetry::ErrorCode;

use super::trace;
use crate::answer::server_options;
use crate::error::GatewayError;
use crate::exchange::Exchange;
use crate::exchange::state::RequestState;
use crate::snapshot::upstream::UpstreamEntry;
use crate::snapshot::{Reference, RouteEntry, ShenyuTable, Snapshot, Target};

pub(crate) enum Next<'s> {
    /// Send the request to a node.
    Node(Way<'s>),
    /// Send the response that a plugin or an error has prepared.
    Answer,
}

/// Route and upstream of a request.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Way<'s> {
    pub route: &'s RouteEntry,
    /// Upstream from which the node is picked.
    pub upstream: &'s UpstreamEntry,
}

impl Way<'_> {
    /// Whether the node is asked to switch protocols.
    #[inline]
    pub(crate) fn asks_upgrade(self, state: &RequestState) -> bool {
        // HTTP/2 nodes would need an extended CONNECT (RFC 8441), which is not sent.
        state.head.upgrade && self.route.websocket && !self.upstream.terms.speaks_http2
    }

    /// Returns the timeouts of this request: the route's, else the upstream's.
    #[inline]
    pub(crate) fn timeouts(self) -> tollhouse_model::Timeouts {
        self.route.terms().timeout.unwrap_or(self.upstream.terms.timeouts)
    }
}

/// Matches the request against the routes of `snapshot`. `OPTIONS *` matches none.
#[inline]
pub(crate) fn find<'s>(
    cx: &mut Exchange<'_>,
    snapshot: &'s Snapshot,
) -> Option<&'s Arc<RouteEntry>> {
    if cx.asks_server() {
        return None;
    }
    if let Some(shenyu) = snapshot.shenyu.as_deref().filter(|shenyu| shenyu.comes_first)
        && shenyu.chain.knows(cx)
    {
        return Some(in_shenyu(cx, shenyu));
    }
    let has_body = cx.state.head.body != BodyLength::None;
    if has_body && !snapshot.body_variables.is_empty() {
        cx.state.held_body.want(&snapshot.body_variables);
    }
    // Moved out while the router fills it in, because conditions borrow the rest.
    let mut captures = std::mem::take(&mut cx.state.captures);
    let found = {
        let cx = &*cx;
        snapshot.router.find(
            &MatchRequest {
                path: cx.matched_path(),
                host: &cx.state.host[..cx.state.host_bytes],
                host_with_port: &cx.state.host,
                method: cx.client_method(),
                remote_addr: cx.client_address(),
                variables: cx,
            },
            &mut captures,
        )
    };
    cx.state.captures = captures;
    let Some(found) = found else {
        // Where they come first, unknown paths are theirs before the first selector too.
        let takes = |table: &&ShenyuTable| table.comes_first || table.chain.takes(cx);
        let shenyu = snapshot.shenyu.as_deref().filter(takes);
        return shenyu.map(|shenyu| in_shenyu(cx, shenyu));
    };
    cx.state.matched = found.pattern_indexes();
    Some(found.value)
}

/// Returns the route of a request that ShenYu's objects handle: directly to nodes, or through the
/// plugin chain.
#[inline(never)]
fn in_shenyu<'s>(cx: &mut Exchange<'_>, shenyu: &'s ShenyuTable) -> &'s Arc<RouteEntry> {
    cx.state.matched = (0, None);
    match shenyu.chain.plain_target(cx) {
        Some(target) => &shenyu.targets[target],
        None => &shenyu.entry,
    }
}

/// Moves a request to the route that a plugin has chosen.
pub(crate) fn move_to<'s>(cx: &mut Exchange<'s>, entry: &'s Arc<RouteEntry>) {
    cx.route = Some(entry);
    let id = &mut cx.state.record.route_id;
    id.clear();
    id.push_str(entry.id.as_str());
    // `UNCOUNTED` is the largest number, so it wraps to 0, which means none.
    cx.state.record.route_count = entry.number.wrapping_add(1);
    if cx.state.is_recorded() {
        trace::note_route(cx.state, entry);
    }
    note_shenyu(cx, entry);
}

/// Records ShenYu's request type, if a ShenYu object routed the request.
#[inline]
fn note_shenyu(cx: &mut Exchange<'_>, entry: &RouteEntry) {
    if let Some(terms) = &entry.terms().shenyu {
        cx.state.record.shenyu_type = Some(terms.counted_as);
    }
}

/// Records the route for log and metrics, and refuses the request if the route is incomplete.
///
/// # Errors
/// If the route references a service or plugin config that does not exist.
#[inline]
pub(crate) fn enter(cx: &mut Exchange<'_>) -> Result<(), GatewayError> {
    let Some(entry) = cx.route else { return Ok(()) };
    note_shenyu(cx, entry);
    let record = &mut cx.state.record;
    record.route_id.push_str(entry.id.as_str());
    record.route_count = entry.number.wrapping_add(1);
    if cx.state.is_recorded() {
        trace::note_route(cx.state, entry);
    }
    let record = &mut cx.state.record;
    let terms = entry.terms();
    match &terms.service {
        Reference::Unnamed => {}
        Reference::Found(service) => record.service_id.push_str(service.id.as_str()),
        Reference::Missing => {
            let named = entry.route.service_id.as_ref().map_or("", |id| id.as_str());
            record.service_id.push_str(named);
            return Err(ErrorCode::ServiceNotFound.into());
        }
    }
    if terms.plugin_config == Reference::Missing {
        return Err(ErrorCode::PluginConfigNotFound.into());
    }
    Ok(())
}

/// Returns the next step for the request, if no plugin has chosen another.
///
/// # Errors
/// If no route matched, or the upstream does not exist.
#[inline]
pub(crate) fn next<'s>(
    cx: &mut Exchange<'s>,
    snapshot: &'s Snapshot,
) -> Result<Next<'s>, GatewayError> {
    let Some(route) = cx.route else {
        if cx.asks_server() {
            server_options::prepare(&mut cx.state.plugins);
            return Ok(Next::Answer);
        }
        return Err(ErrorCode::RouteNotFound.into());
    };
    Ok(Next::Node(Way { route, upstream: upstream(snapshot, route)? }))
}

/// Returns the upstream of `route`, with APISIX's precedence: inline, by id, the service's.
#[inline]
fn upstream<'s>(
    snapshot: &'s Snapshot,
    route: &'s RouteEntry,
) -> Result<&'s UpstreamEntry, GatewayError> {
    match &route.target {
        Target::Inline(upstream) => Ok(upstream),
        Target::Slot(slot) => {
            snapshot.upstream(*slot).ok_or_else(|| ErrorCode::UpstreamNotFound.into())
        }
        Target::None => Err(ErrorCode::NoNodes.into()),
    }
}
