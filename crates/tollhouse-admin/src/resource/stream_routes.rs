//! Stream routes: conditions on TCP, TLS and UDP connections, and their upstream.

use super::definition::{Candidate, Layout, Owner, Resource, Verb};
use crate::index::Contents;
use crate::reply::Reply;

pub(crate) const RESOURCE: Resource = Resource {
    name: "stream_routes",
    kind: "stream route",
    summary: "Conditions on TCP, TLS and UDP connections, with their upstream.",
    schema: "stream_route",
    layout: Layout::Id,
    further: &[Verb::Post],
    plugins: Some(Owner::Stream),
    check,
    guard,
};

fn check(route: &Candidate<'_>) -> Result<(), Reply> {
    route.check_upstream_tls(route.value.get("upstream"))?;
    route.check_reference("upstream_id", "upstreams", "upstream")?;
    route.check_reference("service_id", "services", "service")
}

fn guard(path: &str, contents: &Contents) -> Option<String> {
    let (_, user) = contents.user_of(path, &["stream_routes"])?;
    let id = user.rsplit('/').next().unwrap_or_default();
    Some(format!(
        "can not delete this stream route directly, stream route [{id}] is still using it as \
         superior_id"
    ))
}
