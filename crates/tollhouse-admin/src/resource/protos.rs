//! Protos: definitions of gRPC services.

use serde_json::Value;
use tollhouse_transcode::Definition;

use super::definition::{Candidate, Layout, Resource, Verb, user_text};
use crate::index::Contents;
use crate::reply::Reply;

/// Collections whose plugins can refer to a proto.
const USERS: [&str; 5] =
    ["routes", "services", "plugin_configs", "global_rules", "consumer_groups"];

pub(crate) const RESOURCE: Resource = Resource {
    name: "protos",
    kind: "proto",
    summary: "A definition of gRPC services.",
    schema: "proto",
    layout: Layout::Id,
    further: &[Verb::Post],
    plugins: None,
    check,
    guard,
};

fn check(proto: &Candidate<'_>) -> Result<(), Reply> {
    let Some(content) = proto.value.get("content").and_then(Value::as_str) else { return Ok(()) };
    Definition::compile(content).map(drop).map_err(|error| {
        Reply::bad(format!(
            "invalid configuration: property \"content\" validation failed: {error}"
        ))
    })
}

fn guard(path: &str, contents: &Contents) -> Option<String> {
    let (place, user) = contents.user_of(path, &USERS)?;
    let user = user_text(place, user);
    Some(format!("can not delete this proto, {user} is still using it now"))
}
