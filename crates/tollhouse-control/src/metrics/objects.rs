//! Names of the objects in service, for the metrics about them.

use tollhouse_model::Id;
use tollhouse_proxy::Snapshot;
use tollhouse_proxy::snapshot::{RouteEntry, Target};
use tollhouse_telemetry::objects_page::{RouteLabels, UpstreamLabels};

/// Routes in service.
pub(super) fn routes(snapshot: &Snapshot) -> impl Iterator<Item = RouteLabels<'_>> {
    snapshot.counted_routes().map(move |entry| RouteLabels {
        number: entry.number,
        route: entry.id.as_str(),
        service: text(entry.route.service_id.as_ref()),
        upstream: upstream_of(snapshot, entry),
    })
}

/// Upstream objects in service.
pub(super) fn upstreams(snapshot: &Snapshot) -> impl Iterator<Item = UpstreamLabels<'_>> {
    snapshot.upstreams.iter().flatten().map(|upstream| UpstreamLabels {
        number: upstream.number,
        upstream: text(upstream.conf.id.as_ref()),
    })
}

/// Id of the upstream object that a route leads to; empty for an inline upstream, which has none.
fn upstream_of<'a>(snapshot: &'a Snapshot, entry: &RouteEntry) -> &'a str {
    let Target::Slot(slot) = entry.target else { return "" };
    let upstream = snapshot.upstreams.get(slot).and_then(Option::as_deref);
    text(upstream.and_then(|upstream| upstream.conf.id.as_ref()))
}

fn text(id: Option<&Id>) -> &str {
    id.map_or("", Id::as_str)
}
