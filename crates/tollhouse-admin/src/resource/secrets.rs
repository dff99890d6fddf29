//! Secrets: where values that are not written in objects are fetched from.

use serde_json::Value;
use tollhouse_model::{Id, Problems, schema};

use super::definition::{Candidate, Layout, Resource, Verb, no_guard};
use crate::reply::Reply;

pub(crate) const RESOURCE: Resource = Resource {
    name: "secrets",
    kind: "secret",
    summary: "Where values that are not written in objects are fetched from.",
    schema: "secret_vault",
    layout: Layout::Manager,
    further: &[Verb::Patch],
    plugins: None,
    check,
    guard: no_guard,
};

/// The keepers of secrets, each with a schema of its own.
pub(crate) const MANAGERS: [&str; 3] = ["vault", "aws", "gcp"];

/// The object as its keeper's schema describes it: its id is that of the path, in a form that only secrets have.
pub(crate) fn without_id(value: &Value) -> Value {
    let mut bare = value.clone();
    if let Some(fields) = bare.as_object_mut() {
        fields.shift_remove("id");
    }
    bare
}

/// The id among those of one manager is as any other: the object's own is that of the path, which no schema describes.
fn check_id(id: &str) -> Result<(), Reply> {
    let mut problems = Problems::new();
    match Id::parse(&Value::from(id), "id", &mut problems) {
        Some(_) => Ok(()),
        None => Err(Reply::bad(
            "invalid configuration: property \"id\" validation failed: object matches none of the required",
        )),
    }
}

fn check(secret: &Candidate<'_>) -> Result<(), Reply> {
    let manager = secret.path.split('/').nth(1).unwrap_or_default();
    let core = schema::core(&format!("secret_{manager}"))
        .ok_or_else(|| Reply::bad(format!("invalid secret manager: {manager}")))?;
    check_id(secret.path.splitn(3, '/').nth(2).unwrap_or_default())?;
    core.schema()
        .validate(&without_id(secret.value))
        .map_err(|error| Reply::bad(format!("invalid configuration: {error}")))
}
