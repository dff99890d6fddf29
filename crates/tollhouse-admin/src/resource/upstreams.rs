//! Upstreams: nodes, with the algorithm that selects one.

use super::definition::{Candidate, Layout, Resource, Verb, user_text};
use crate::index::Contents;
use crate::reply::Reply;

pub(crate) const RESOURCE: Resource = Resource {
    name: "upstreams",
    kind: "upstream",
    summary: "Nodes, and how one of them is chosen.",
    schema: "upstream",
    layout: Layout::Id,
    further: &[Verb::Post, Verb::Patch],
    plugins: None,
    check,
    guard,
};

/// Collections whose references prevent the deletion of an upstream; stream routes do not.
const USERS: [&str; 6] =
    ["routes", "services", "plugin_configs", "consumers", "consumer_groups", "global_rules"];

fn check(upstream: &Candidate<'_>) -> Result<(), Reply> {
    upstream.check_upstream_tls(Some(upstream.value))
}

fn guard(path: &str, contents: &Contents) -> Option<String> {
    let (place, user) = contents.user_of(path, &USERS)?;
    let user = user_text(place, user);
    Some(format!("can not delete this upstream, {user} is still using it now"))
}
