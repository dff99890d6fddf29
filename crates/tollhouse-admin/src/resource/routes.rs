//! Routes: conditions on requests, and the plugins and upstream for those that match.

use super::definition::{Candidate, Layout, Owner, Resource, Verb, no_guard};
use crate::reply::Reply;

pub(crate) const RESOURCE: Resource = Resource {
    name: "routes",
    kind: "route",
    summary: "Conditions on requests, with the plugins and the upstream for those that match.",
    schema: "route",
    layout: Layout::Id,
    further: &[Verb::Post, Verb::Patch],
    plugins: Some(Owner::Route),
    check,
    guard: no_guard,
};

fn check(route: &Candidate<'_>) -> Result<(), Reply> {
    route.check_upstream_tls(route.value.get("upstream"))?;
    route.check_reference("upstream_id", "upstreams", "upstream")?;
    route.check_reference("service_id", "services", "service")?;
    route.check_reference("plugin_config_id", "plugin_configs", "plugin config")
}
