//! `/schema`: schemas of objects, and validation of a body against one.

use hyper::StatusCode;
use serde_json::{Value, json};
use tollhouse_model::Kind;
use tollhouse_model::schema::{self, Schema};
use tollhouse_plugin::sealing;

use crate::body;
use crate::reply::Reply;
use crate::resource;
use crate::resource::graphql_cost_decorations;

/// Returns the schema of one kind of objects.
pub(crate) fn one(name: &str) -> Result<Reply, Reply> {
    if name == graphql_cost_decorations::RESOURCE.schema {
        return Ok(Reply::json(StatusCode::OK, &graphql_cost_decorations::document()));
    }
    let core = schema::core(name).ok_or_else(|| Reply::bad(format!("not found schema: {name}")))?;
    Ok(Reply::json(StatusCode::OK, &with_encrypted(name, core.document())))
}

/// Adds the names of encrypted fields to a schema, as in the schemas of plugins.
fn with_encrypted(name: &str, document: &Value) -> Value {
    let own = resource::ALL.iter().find(|resource| resource.schema == name);
    let kind = match name.starts_with("secret_") {
        true => Some(Kind::Secret),
        false => own.and_then(resource::Resource::object_kind),
    };
    let mut document = document.clone();
    let fields = kind.map_or(&[][..], sealing::fields_of).iter();
    // All secret managers share one list of secret fields. Only the fields that the schema
    // describes are added.
    let fields: Vec<&&str> = fields.filter(|field| has_field(&document, field)).collect();
    if !fields.is_empty() {
        document["encrypt_fields"] = json!(fields);
    }
    document
}

fn has_field(document: &Value, path: &str) -> bool {
    let schema = path.split('.').try_fold(document, |at, name| at.get("properties")?.get(name));
    schema.is_some()
}

/// Validates a body against a schema only, without plugins and references. `name` is the
/// resource's collection or its schema.
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
