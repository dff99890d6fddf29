//! Secrets: secret managers, from which the gateway fetches values that objects refer to.

use serde_json::Value;
use tollhouse_model::{Id, Problems, schema};

use super::definition::{Candidate, Layout, Resource, Verb, no_guard};
use crate::reply::Reply;

pub(crate) const RESOURCE: Resource = Resource {
    name: "secrets",
    kind: "secret",
    summary: "A secret manager, from which values are fetched that objects refer to.",
    schema: "secret_vault",
    layout: Layout::Manager,
    further: &[Verb::Patch],
    plugins: None,
    check,
    guard: no_guard,
};

/// Secret managers; each has its own schema.
pub(crate) const MANAGERS: [&str; 3] = ["vault", "aws", "gcp"];

/// Returns the object without its id, because the managers' schemas do not describe the id.
pub(crate) fn without_id(value: &Value) -> Value {
    let mut bare = value.clone();
    if let Some(fields) = bare.as_object_mut() {
        fields.shift_remove("id");
    }
    bare
}

/// Validates the id in the path, because the managers' schemas do not describe the id.
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
