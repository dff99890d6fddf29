//! OpenAPI document, generated from the list of resources and the schemas of their objects.

use std::sync::LazyLock;

use bytes::Bytes;
use serde_json::{Map, Value, json};
use tollhouse_model::schema;

use crate::resource::{self, Layout, Resource, Verb, graphql_cost_decorations, secrets};

/// Returns the document as text. It is generated at the first call, which takes milliseconds, and
/// then kept.
pub(crate) fn text() -> Bytes {
    static TEXT: LazyLock<Bytes> = LazyLock::new(|| format!("{}\n", document()).into());
    TEXT.clone()
}

pub(crate) fn document() -> Value {
    let mut paths = Map::new();
    for resource in resource::ALL {
        add_resource(&mut paths, resource);
    }
    add_further(&mut paths);
    crate::registry::openapi::add_paths(&mut paths);
    crate::console::openapi::add_paths(&mut paths);
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Tollhouse Admin API",
            "description": "Objects of the gateway's configuration, in APISIX's dialect, and those of the \
                            service registry below `/registry/v1`.",
            "version": "3.18.0",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "http://127.0.0.1:9180"}],
        "security": [{"key": []}],
        "paths": paths,
        "components": {
            "securitySchemes": {
                "key": {"type": "apiKey", "in": "header", "name": "X-API-KEY"},
            },
            "parameters": parameters(),
            "schemas": schemas(),
        },
    })
}

/// Returns the path template of a resource's collection, and the parameters in it.
fn places(resource: &Resource) -> (String, Vec<&'static str>) {
    match resource.layout {
        Layout::Child(above) => {
            (format!("/apisix/admin/{above}/{{parent}}/{}", resource.name), vec!["parent"])
        }
        Layout::Manager => ("/apisix/admin/secrets/{manager}".to_owned(), vec!["manager"]),
        Layout::Id | Layout::Username | Layout::PluginName => {
            (format!("/apisix/admin/{}", resource.name), Vec::new())
        }
    }
}

fn add_resource(paths: &mut Map<String, Value>, resource: &Resource) {
    let (collection, parameters) = places(resource);
    let mut list = Map::new();
    list.insert("get".into(), list_operation(resource, &parameters));
    if resource.has(Verb::Post) {
        list.insert("post".into(), write_operation(resource, "Create", &parameters));
    }
    // Consumers can be written without an id in the path.
    if resource.layout == Layout::Username {
        list.insert("put".into(), write_operation(resource, "Write", &parameters));
    }
    paths.insert(collection.clone(), Value::Object(list));
    let one_parameters: Vec<&str> = parameters.iter().copied().chain(["id"]).collect();
    let mut one = Map::new();
    one.insert("get".into(), one_operation(resource, "Read", &one_parameters));
    one.insert("put".into(), write_operation(resource, "Write", &one_parameters));
    if resource.has(Verb::Patch) {
        one.insert("patch".into(), patch_operation(resource, &one_parameters));
    }
    one.insert("delete".into(), delete_operation(resource, &one_parameters));
    paths.insert(format!("{collection}/{{id}}"), Value::Object(one));
    if resource.has(Verb::Patch) {
        let parameters: Vec<&str> = one_parameters.iter().copied().chain(["place"]).collect();
        let mut operation = patch_operation(resource, &parameters);
        operation["operationId"] = format!("patchPartOf_{}", resource.name).into();
        operation["summary"] = format!("Replace one place in a {}", resource.kind).into();
        operation["requestBody"] = body(&json!({}));
        paths.insert(format!("{collection}/{{id}}/{{place}}"), json!({"patch": operation}));
    }
}

fn operation(resource: &Resource, verb: &str, parameters: &[&str], responses: Value) -> Value {
    let references: Vec<Value> = parameters.iter().map(|name| parameter(name)).collect();
    let identifier = format!("{}_{}", verb.to_lowercase(), resource.name);
    let summary = if verb == "List" {
        format!("List {}", resource.name.replace('_', " "))
    } else {
        format!("{verb} a {}", resource.kind)
    };
    json!({
        "operationId": identifier,
        "summary": summary,
        "description": resource.summary,
        "tags": [resource.name],
        "parameters": references,
        "responses": responses,
    })
}

fn parameter(name: &str) -> Value {
    json!({"$ref": format!("#/components/parameters/{name}")})
}

fn list_operation(resource: &Resource, parameters: &[&str]) -> Value {
    let filters = ["page", "page_size", "name", "label", "uri", "filter"];
    let parameters: Vec<&str> = parameters.iter().copied().chain(filters).collect();
    let value = json!({
        "type": "object",
        "properties": {
            "list": {"type": "array", "items": stored()},
            "total": {"type": "integer", "minimum": 0},
        },
        "required": ["list", "total"],
    });
    let mut responses = failures(&["400", "401"]);
    responses["200"] = response("The objects.", &value);
    if matches!(resource.layout, Layout::Child(_)) {
        responses["404"] = response("The collection is empty.", &error());
    }
    operation(resource, "List", &parameters, responses)
}

fn one_operation(resource: &Resource, verb: &str, parameters: &[&str]) -> Value {
    let mut responses = failures(&["400", "401", "404"]);
    responses["200"] = response("The object.", &stored());
    operation(resource, verb, parameters, responses)
}

fn write_operation(resource: &Resource, verb: &str, parameters: &[&str]) -> Value {
    let parameters: Vec<&str> =
        parameters.iter().copied().chain(write_parameters(verb).iter().copied()).collect();
    let mut responses = failures(&["400", "401", "404"]);
    if verb != "Create" {
        responses["412"] = changed_since();
        responses["200"] = response("Replaced.", &stored());
    }
    responses["201"] = response("Created.", &stored());
    let mut operation = operation(resource, verb, &parameters, responses);
    if !parameters.contains(&"id") && verb == "Write" {
        operation["operationId"] = format!("write_named_{}", resource.name).into();
    }
    operation["requestBody"] = body(&json!({
        "$ref": format!("#/components/schemas/{}", resource.schema),
    }));
    operation
}

fn patch_operation(resource: &Resource, parameters: &[&str]) -> Value {
    let parameters: Vec<&str> =
        parameters.iter().copied().chain(write_parameters("Patch").iter().copied()).collect();
    let mut responses = failures(&["400", "401", "404", "503"]);
    responses["412"] = changed_since();
    responses["200"] = response("Changed.", &stored());
    let mut operation = operation(resource, "Patch", &parameters, responses);
    operation["requestBody"] = body(&json!({"type": "object"}));
    operation
}

fn delete_operation(resource: &Resource, parameters: &[&str]) -> Value {
    let parameters: Vec<&str> = parameters.iter().copied().chain(["force", "if_match"]).collect();
    let value = json!({
        "type": "object",
        "properties": {"deleted": {"type": "string"}, "key": {"type": "string"}},
        "required": ["deleted", "key"],
    });
    let mut responses = failures(&["400", "401", "404"]);
    responses["200"] = response("Deleted.", &value);
    responses["412"] = changed_since();
    operation(resource, "Delete", &parameters, responses)
}

/// Returns the parameters of a write, besides those in the path. A creation has no `If-Match`,
/// because the object has no earlier state.
fn write_parameters(verb: &str) -> &'static [&'static str] {
    match verb {
        "Create" => &["ttl"],
        "Write" => &["ttl", "if_match", "if_none_match"],
        _ => &["ttl", "if_match"],
    }
}

fn changed_since() -> Value {
    let schema = json!({
        "type": "object",
        "properties": {"error_msg": {"type": "string"}, "current": stored()},
        "required": ["error_msg"],
    });
    response(
        "The object is not the one that `If-Match` asks for; `current` is what there is.",
        &schema,
    )
}

fn body(schema: &Value) -> Value {
    json!({"required": true, "content": {"application/json": {"schema": schema}}})
}

fn response(description: &str, schema: &Value) -> Value {
    json!({
        "description": description,
        "content": {"application/json": {"schema": schema}},
    })
}

fn error() -> Value {
    json!({"$ref": "#/components/schemas/error"})
}

fn stored() -> Value {
    json!({"$ref": "#/components/schemas/stored"})
}

fn failures(statuses: &[&str]) -> Value {
    let describe = |status: &&str| {
        let description = match *status {
            "400" => "Refused; `error_msg` has the reason.",
            "401" => "The key is missing, wrong, or does not allow this.",
            "404" => "The object does not exist.",
            _ => "The store refused or failed.",
        };
        // An invalid page size is refused in plain text.
        let schema = if *status == "400" { json!({}) } else { error() };
        ((*status).to_owned(), response(description, &schema))
    };
    Value::Object(statuses.iter().map(describe).collect())
}

fn parameters() -> Value {
    let path = |name: &str, schema: Value| json!({"name": name, "in": "path", "required": true, "schema": schema});
    let query = |name: &str, description: &str, schema: Value| json!({"name": name, "in": "query", "description": description, "schema": schema});
    let text = || json!({"type": "string"});
    json!({
        "id": path("id", json!({"type": "string", "minLength": 1})),
        "parent": path("parent", json!({"type": "string", "minLength": 1})),
        "place": path("place", json!({"type": "string", "minLength": 1})),
        "manager": path("manager", json!({"type": "string", "enum": secrets::MANAGERS})),
        "page": query("page", "Page number, from 1; with `page_size`.",
            json!({"type": "integer", "minimum": 1})),
        "page_size": query("page_size", "Objects a page; with `page`.",
            json!({"type": "integer", "minimum": 10, "maximum": 500})),
        "name": query("name", "Regular expression that is found in the name.", text()),
        "label": query("label", "A label that objects have.", text()),
        "uri": query("uri", "Regular expression that is found in a path.", text()),
        "filter": query("filter", "A query in a query: `service_id` and `upstream_id`.", text()),
        "ttl": query("ttl", "Seconds after which the object goes.",
            json!({"type": "number"})),
        "if_match": {
            "name": "If-Match",
            "in": "header",
            "description": "The object's `modifiedIndex` in quotes, as `ETag` has it, several of them, or `*`: \
                            the write happens only while the object is that one.",
            "schema": {"type": "string"},
        },
        "if_none_match": {
            "name": "If-None-Match",
            "in": "header",
            "description": "`*`: the write makes a new object, and replaces none.",
            "schema": {"type": "string", "enum": ["*"]},
        },
        "force": query("force", "`true` deletes what others still use.",
            json!({"type": "string", "enum": ["true", "false"]})),
    })
}

fn schemas() -> Value {
    let mut schemas = Map::new();
    for name in schema::core_names() {
        if let Some(core) = schema::core(name) {
            schemas.insert(name.to_owned(), core.document().clone());
        }
    }
    for (name, schema) in crate::registry::openapi::schemas() {
        schemas.insert(name.to_owned(), schema);
    }
    let decoration = &graphql_cost_decorations::RESOURCE;
    schemas.insert(decoration.schema.to_owned(), graphql_cost_decorations::document());
    schemas.insert(
        "stored".to_owned(),
        json!({
            "type": "object",
            "properties": {
                "key": {"type": "string"},
                "value": {"type": "object"},
                "createdIndex": {"type": "integer"},
                "modifiedIndex": {"type": "integer"},
                "warnings": {
                    "description": "After a write: what of the object does not serve as it is written.",
                    "type": "array",
                    "items": {
                        "type": "object",
                        "properties": {
                            "severity": {"type": "string", "enum": ["error", "warning"]},
                            "path": {"type": "string"},
                            "value": {"type": "string"},
                            "reason": {"type": "string"},
                            "hint": {"type": "string"},
                        },
                    },
                },
            },
            "required": ["key", "value"],
        }),
    );
    schemas.insert(
        "error".to_owned(),
        json!({
            "type": "object",
            "properties": {
                "error_msg": {"type": "string"},
                "hint": {"type": "string"},
                "message": {"type": "string"},
                "description": {"type": "string"},
            },
        }),
    );
    Value::Object(schemas)
}

/// Adds the operations that are not about objects.
fn add_further(paths: &mut Map<String, Value>) {
    let further = [
        ("/apisix/admin/secrets", "get", "list_all_secrets", "List all secrets"),
        ("/apisix/admin/plugins/list", "get", "list_plugins", "Names of all plugins"),
        ("/apisix/admin/plugins/reload", "put", "reload_plugins", "Reload plugins"),
        ("/apisix/admin/plugins/{id}", "get", "read_plugin", "The schema of a plugin"),
        ("/apisix/admin/schema/{id}", "get", "read_schema", "The schema of a kind of objects"),
        ("/apisix/admin/schema/validate/{id}", "post", "validate_one", "Validate an object"),
        ("/apisix/admin/configs/validate", "post", "validate_all", "Validate a document"),
        ("/apisix/admin/openapi.json", "get", "read_openapi", "This document"),
    ];
    for (path, method, identifier, summary) in further {
        let parameters: Vec<Value> =
            if path.contains("{id}") { vec![parameter("id")] } else { Vec::new() };
        let mut responses = failures(&["400", "401", "404"]);
        responses["200"] = json!({"description": "Done."});
        let mut operation = json!({
            "operationId": identifier,
            "summary": summary,
            "parameters": parameters,
            "responses": responses,
        });
        if method == "post" {
            operation["requestBody"] = body(&json!({"type": "object"}));
        }
        let mut methods = Map::new();
        methods.insert(method.to_owned(), operation);
        paths.insert(path.to_owned(), Value::Object(methods));
    }
}
