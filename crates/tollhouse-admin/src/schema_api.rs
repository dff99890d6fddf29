//! `/schema`: the schemas of objects, and whether a body satisfies one of them.

use hyper::StatusCode;
use serde_json::Value;
use tollhouse_model::schema::{self, Schema};

use crate::body;
use crate::reply::Reply;
use crate::resource;
use crate::resource::graphql_cost_decorations;

/// The schema of one kind of objects.
pub(crate) fn one(name: &str) -> Result<Reply, Reply> {
    if name == graphql_cost_decorations::RESOURCE.schema {
        return Ok(Reply::json(StatusCode::OK, &graphql_cost_decorations::document()));
    }
    let core = schema::core(name).ok_or_else(|| Reply::bad(format!("not found schema: {name}")))?;
    Ok(Reply::json(StatusCode::OK, core.document()))
}

/// Judges a body by a schema alone: neither plugins nor other objects are looked at. The resource
/// may be named as in paths or as in messages.
pub(crate) fn validate(name: &str, body: &[u8]) -> Result<Reply, Reply> {
    let resource = resource::find(name).map_or(name, |resource| resource.schema);
    let core = schema::core(resource).ok_or_else(|| {
        let text = format!("Unsupported resource type: {name}");
        Reply::refusal(StatusCode::NOT_FOUND, text)
    })?;
    match body::decode(body)? {
        Some(value) => validate_with(core.schema(), &value),
        None => Err(Reply::bad("wrong type: expected object, got nil")),
    }
}

fn validate_with(schema: &Schema, value: &Value) -> Result<Reply, Reply> {
    match schema.validate(value) {
        Ok(()) => Ok(Reply::empty(StatusCode::OK)),
        Err(error) => Err(Reply::bad(error)),
    }
}
