//! The resources of the Admin API, one module each. `definition` describes a resource, and `crud`
//! implements the operations that all share.

use serde_json::Value;
use tollhouse_model::Kind;

use crate::plugin_confs;
use crate::reply::Reply;
use crate::scripts;

mod certificate_pair;
pub(crate) mod definition;

pub(crate) use definition::{Candidate, Layout, ReferenceCheck, Resource, Verb, check_shape};

macro_rules! resources {
    ($($module:ident,)*) => {
        $(pub(crate) mod $module;)*

        pub(crate) const ALL: &[Resource] = &[$($module::RESOURCE),*];
    };
}

resources! {
    routes,
    services,
    upstreams,
    consumers,
    credentials,
    consumer_groups,
    plugin_configs,
    global_rules,
    plugin_metadata,
    ssls,
    protos,
    stream_routes,
    secrets,
    graphql_cost_decorations,
}

/// Returns the resource with this collection name.
pub(crate) fn find(name: &str) -> Option<&'static Resource> {
    ALL.iter().find(|resource| resource.name == name)
}

/// Validates an object: schema, rules, plugins and references.
///
/// # Errors
/// Returns the first fault as a reply.
pub(crate) fn validate(resource: &Resource, candidate: &Candidate<'_>) -> Result<(), Reply> {
    if resource.has_one_schema() {
        check_shape(resource.schema, candidate.value)?;
    }
    (resource.check)(candidate)?;
    if resource.object_kind() == Some(Kind::Route) {
        scripts::check_route(candidate)?;
    }
    let confs = candidate.value.get("plugins").and_then(Value::as_object);
    let (Some(confs), Some(owner)) = (confs, resource.plugins) else { return Ok(()) };
    plugin_confs::check(confs, owner, candidate).map_err(|error| {
        let prefix = if resource.layout == Layout::Username {
            "invalid plugins configuration: "
        } else {
            ""
        };
        Reply::bad(format!("{prefix}{error}"))
    })
}
