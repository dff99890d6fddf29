//! The resources of the Admin API, one file each; what they have in common is done in `crud`. What a
//! resource is stands in `definition`.

use serde_json::Value;

use crate::plugin_confs;
use crate::reply::Reply;

mod certificate_pair;
pub(crate) mod definition;

pub(crate) use definition::{Candidate, Layout, ReferenceCheck, Resource, Verb, check_shape};

macro_rules! resources {
    ($($module:ident,)*) => {
        $(pub(crate) mod $module;)*

        /// All resources.
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

/// The resource of that collection.
pub(crate) fn find(name: &str) -> Option<&'static Resource> {
    ALL.iter().find(|resource| resource.name == name)
}

/// Validates an object in full: schema, rules, plugins, references.
///
/// # Errors
/// What is wrong with it.
pub(crate) fn validate(resource: &Resource, candidate: &Candidate<'_>) -> Result<(), Reply> {
    if resource.has_one_schema() {
        check_shape(resource.schema, candidate.value)?;
    }
    (resource.check)(candidate)?;
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
