//! Services: settings that several routes share.

use super::definition::{Candidate, Layout, Owner, Resource, Verb, user_text};
use crate::index::Contents;
use crate::reply::Reply;

pub(crate) const RESOURCE: Resource = Resource {
    name: "services",
    kind: "service",
    summary: "Settings that several routes share.",
    schema: "service",
    layout: Layout::Id,
    further: &[Verb::Post, Verb::Patch],
    plugins: Some(Owner::Route),
    check,
    guard,
};

fn check(service: &Candidate<'_>) -> Result<(), Reply> {
    service.check_upstream_tls(service.value.get("upstream"))?;
    service.check_reference("upstream_id", "upstreams", "upstream")
}

fn guard(path: &str, contents: &Contents) -> Option<String> {
    let (place, user) = contents.user_of(path, &["routes", "stream_routes"])?;
    let user = user_text(place, user);
    Some(format!("can not delete this service directly, {user} is still using it now"))
}
