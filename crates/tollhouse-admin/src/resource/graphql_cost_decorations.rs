//! GraphQL cost decorations: what the fields of a service's GraphQL schema cost a query.

use std::sync::OnceLock;

use serde_json::{Value, json};
use tollhouse_model::schema::Schema;

use super::{Candidate, Layout, Resource, Verb, no_guard};
use crate::reply::Reply;

pub(crate) const RESOURCE: Resource = Resource {
    name: "graphql_cost_decorations",
    kind: "graphql cost decoration",
    summary: "What a field of a service's GraphQL schema costs a query.",
    schema: "graphql_cost_decoration",
    layout: Layout::Child("services"),
    further: &[Verb::Post, Verb::Patch],
    plugins: None,
    check,
    guard: no_guard,
};

fn check(decoration: &Candidate<'_>) -> Result<(), Reply> {
    static SCHEMA: OnceLock<Schema> = OnceLock::new();
    let schema = SCHEMA
        .get_or_init(|| Schema::compile(&document()).expect("the document is a schema"));
    schema
        .validate(decoration.value)
        .map_err(|error| Reply::bad(format!("invalid configuration: {error}")))
}

/// The schema of a decoration.
pub(crate) fn document() -> Value {
    let arguments = json!({"type": "array", "items": {"type": "string", "minLength": 1}});
    json!({
        "description": "What a field of a service's GraphQL schema costs a query.",
        "type": "object",
        "properties": {
            "id": {"anyOf": [
                {"type": "string", "minLength": 1, "maxLength": 64,
                 "pattern": "^[a-zA-Z0-9-_.]+$"},
                {"type": "integer", "minimum": 1},
            ]},
            "field_path": {"type": "string", "minLength": 1,
                "description": "The field, such as Query.users."},
            "add_value": {"type": "number", "default": 1, "description": "What it adds."},
            "add_arguments": arguments.clone(),
            "mul_value": {"type": "number", "default": 1, "description": "What it multiplies by."},
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
