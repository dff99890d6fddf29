//! GraphQL cost decorations: the cost that a field of a service's GraphQL schema adds to a query.

use std::sync::OnceLock;

use serde_json::{Value, json};
use tollhouse_model::schema::Schema;

use super::definition::{
    Candidate, GRAPHQL_COST_DECORATIONS, Layout, Resource, SERVICE, Verb, no_guard,
};
use crate::index::facts;
use crate::reply::Reply;

pub(crate) const RESOURCE: Resource = Resource {
    name: GRAPHQL_COST_DECORATIONS,
    kind: "graphql cost decoration",
    summary: "Cost that a field of a service's GraphQL schema adds to a query.",
    schema: "graphql_cost_decoration",
    layout: Layout::Child("services"),
    further: &[Verb::Post, Verb::Patch],
    plugins: None,
    check,
    guard: no_guard,
};

/// Pattern of a field path: a type, and optionally fields, separated by dots.
const FIELD_PATH: &str = r"^[_A-Za-z][_0-9A-Za-z]*(\.[_A-Za-z][_0-9A-Za-z]*)*$";

fn check(decoration: &Candidate<'_>) -> Result<(), Reply> {
    check_unique(decoration)?;
    static SCHEMA: OnceLock<Schema> = OnceLock::new();
    let schema = SCHEMA
        .get_or_init(|| Schema::compile(&document()).expect("the document is a schema"));
    schema
        .validate(decoration.value)
        .map_err(|error| Reply::bad(format!("invalid configuration: {error}")))
}

/// Refuses a decoration if its field has one already.
fn check_unique(decoration: &Candidate<'_>) -> Result<(), Reply> {
    let (collection, _) = decoration.path.rsplit_once('/').unwrap_or_default();
    let Some(held) = facts::decoration(collection, decoration.value) else { return Ok(()) };
    let Some(other) = decoration.contents.other_owner(&held, decoration.path) else { return Ok(()) };
    let (field, other) = (&held.1, other.rsplit('/').next().unwrap_or_default());
    Err(Reply::bad(format!(
        "field_path {field} is already decorated on this service by [{other}]"
    )))
}

pub(crate) fn document() -> Value {
    let arguments = json!({"type": "array", "items": {"type": "string", "minLength": 1}});
    json!({
        "description": "Cost that a field of a service's GraphQL schema adds to a query.",
        "type": "object",
        "properties": {
            "id": {"anyOf": [
                {"type": "string", "minLength": 1, "maxLength": 64,
                 "pattern": "^[a-zA-Z0-9-_.]+$"},
                {"type": "integer", "minimum": 1},
            ]},
            SERVICE: {"description": "Id of the service; taken from the path.", "anyOf": [
                {"type": "string", "minLength": 1, "maxLength": 64,
                 "pattern": "^[a-zA-Z0-9-_.]+$"},
                {"type": "integer", "minimum": 1},
            ]},
            "field_path": {"type": "string", "minLength": 1, "pattern": FIELD_PATH,
                "description": "The field, such as Query.users, or a type, such as User."},
            "add_value": {"type": "number", "minimum": 0, "default": 1,
                "description": "Value that is added to the cost."},
            "add_arguments": arguments.clone(),
            "mul_value": {"type": "number", "minimum": 0, "default": 1,
                "description": "Factor of the cost."},
            "mul_arguments": arguments,
            "name": {"type": "string", "minLength": 1, "maxLength": 256},
            "desc": {"type": "string", "maxLength": 256},
            "create_time": {"type": "integer"},
            "update_time": {"type": "integer"},
        },
        "required": ["field_path"],
        "additionalProperties": false,
    })
}
