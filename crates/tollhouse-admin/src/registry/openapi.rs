//! The registry's part of the OpenAPI document: operations from a table, and schemas from the
//! request and response types.

mod calls;

use schemars::generate::{Contract, SchemaSettings};
use schemars::{JsonSchema, Schema};
use serde_json::{Map, Value, json};
use tollhouse_registry::RuleKind;

use self::calls::{Answer, CALLS, Call, FILTERS};
use super::bulk::{BulkIn, BulkOut};
use super::clients::ClientOut;
use super::incoming::{AliasIn, InstanceIn, NamespaceIn, RuleText, ServiceIn, SwitchIn};
use super::instances::BeatOut;
use super::listing::{List as ListOut, PAGE_SIZE_MAX};
use super::objects::PutOut;
use super::outgoing::{AliasOut, InstanceOut, NamespaceOut, RuleOut, ServiceOut};
use super::status::Status;
use super::watch::Line as WatchLine;
use Answer::{Beat, Created, Lines, List, Nothing, One, Put};

/// Adds the registry's operations to the OpenAPI document.
pub(crate) fn add_paths(paths: &mut Map<String, Value>) {
    for call in CALLS {
        let path = format!("/registry/v1/{}", call.1);
        let methods = paths.entry(path).or_insert_with(|| json!({}));
        methods[call.0] = operation(call);
    }
    paths.insert("/registry/v1/polaris/{path}".to_owned(), polaris());
}

/// Operations that pass calls on to the HTTP API of Polaris, whose own documents describe them.
fn polaris() -> Value {
    let operation = |method: &str| {
        let answer = json!({"description": "The answer of Polaris' API; an export is a zip file."});
        json!({
            "operationId": format!("{method}_polaris"),
            "summary": "Call the HTTP API of Polaris: users, policies, configuration files, naming",
            "tags": ["registry"],
            "parameters": [{
                "name": "path",
                "in": "path",
                "required": true,
                "description": "Path of Polaris' API, such as `config/v1/configfiles`.",
                "schema": {"type": "string"},
            }],
            "responses": {"default": answer},
        })
    };
    ["get", "post", "put", "delete"].map(|method| (method, operation(method))).into_iter().collect()
}

fn operation((method, path, id, summary, takes, answer): &Call) -> Value {
    let mut parameters: Vec<Value> = path
        .split('/')
        .filter_map(|segment| segment.strip_prefix('{')?.strip_suffix('}'))
        .map(|name| json!({"name": name, "in": "path", "required": true, "schema": place(name)}))
        .collect();
    if *method == "get" {
        parameters.extend(query_parameters(path, *answer));
    }
    let mut operation = json!({
        "operationId": id,
        "summary": summary,
        "tags": ["registry"],
        "parameters": parameters,
        "responses": responses(*answer),
    });
    if let Some(schema) = takes {
        operation["requestBody"] = json!({"required": true, "content": content(&named(schema))});
    }
    operation
}

fn query_parameters(path: &str, answer: Answer) -> Vec<Value> {
    let filters = FILTERS.iter().filter(|(filtered, _)| *filtered == path);
    let filters = filters.flat_map(|(_, filters)| *filters);
    let mut parameters: Vec<Value> =
        filters.map(|(name, text)| query(name, text, json!({"type": "string"}))).collect();
    if matches!(answer, List(_) | Lines) {
        let number = |most: Option<usize>| {
            let mut schema = json!({"type": "integer", "minimum": 1});
            if let Some(most) = most {
                schema["maximum"] = most.into();
            }
            schema
        };
        parameters.push(query("page", "Page number, from 1.", number(None)));
        let size = number(Some(PAGE_SIZE_MAX));
        parameters.push(query("page_size", "Objects a page; 500 by default.", size));
    }
    if matches!(answer, Lines) {
        let text = "`true` answers JSON lines: first every instance, then every change.";
        parameters.push(query("watch", text, json!({"type": "string", "enum": ["true"]})));
    }
    parameters
}

fn place(name: &str) -> Value {
    match name {
        "kind" => json!({"type": "string", "enum": RuleKind::ALL.map(RuleKind::name)}),
        _ => json!({"type": "string", "minLength": 1}),
    }
}

fn query(name: &str, description: &str, schema: Value) -> Value {
    json!({"name": name, "in": "query", "description": description, "schema": schema})
}

fn named(schema: &str) -> Value {
    json!({"$ref": format!("#/components/schemas/{schema}")})
}

fn content(schema: &Value) -> Value {
    json!({"application/json": {"schema": schema}})
}

fn responses(answer: Answer) -> Value {
    let failure = |text: &str| json!({"description": text, "content": content(&named("error"))});
    let done =
        |text: &str, schema: &Value| json!({"description": text, "content": content(schema)});
    let mut responses = json!({
        "400": failure("Refused; `error_msg` has the reason."),
        "401": failure("The key is missing, wrong, or does not allow this."),
        "404": failure("It does not exist, or the registry is off."),
        "409": failure("It exists already, or something depends on it."),
        "503": failure("It could not be stored, or a limit is reached; nothing has changed."),
    });
    match answer {
        One(schema) => responses["200"] = done("The object.", &named(schema)),
        Created(schema) => responses["201"] = done("Created.", &named(schema)),
        Put(schema) => {
            responses["200"] = done("Replaced.", &named(schema));
            responses["201"] = done("Created.", &named(schema));
        }
        List(schema) => responses["200"] = done("A page of objects.", &list_of(schema)),
        Lines => {
            responses["200"] = done("A page of instances, or lines.", &list_of("instance"));
            responses["200"]["content"]["application/x-ndjson"] =
                json!({"schema": named("watch_line")});
        }
        Nothing => responses["204"] = json!({"description": "Deleted."}),
        Beat => responses["200"] = done("Recorded.", &named("beat")),
    }
    responses
}

/// Returns the schema of a page of objects of the named schema.
fn list_of(schema: &str) -> Value {
    let mut list = answered::<ListOut<Value>>();
    list["properties"]["list"]["items"] = named(schema);
    list
}

pub(crate) fn schemas() -> Vec<(&'static str, Value)> {
    vec![
        ("namespace", answered::<NamespaceOut<'_>>()),
        ("namespace_write", sent::<NamespaceIn>()),
        ("registry_service", answered::<ServiceOut<'_>>()),
        ("registry_service_write", sent::<ServiceIn>()),
        ("instance", answered::<InstanceOut<'_>>()),
        ("instance_write", sent::<InstanceIn>()),
        ("instances_patch", sent::<BulkIn>()),
        ("instances_patched", answered::<BulkOut<'_>>()),
        ("alias", answered::<AliasOut<'_>>()),
        ("alias_write", sent::<AliasIn>()),
        ("rule", answered::<RuleOut<'_>>()),
        ("rule_text", sent::<RuleText>()),
        ("rule_switch", sent::<SwitchIn>()),
        ("registry_client", answered::<ClientOut<'_>>()),
        ("watch_line", answered::<WatchLine<'_>>()),
        ("beat", answered::<BeatOut<'_>>()),
        ("registry_status", answered::<Status<'_>>()),
        ("objects_put", answered::<PutOut>()),
        ("object_line", line()),
    ]
}

/// Returns the schema of a line of an exported registry. It is written by hand, because the values
/// have the format of the registry's store and no Rust type.
fn line() -> Value {
    json!({
        "type": "object",
        "description": "A line of what `tollhouse export registry` writes; a body has any number of them.",
        "properties": {"key": {"type": "string"}, "value": {}},
        "required": ["key", "value"],
    })
}

fn sent<T: JsonSchema>() -> Value {
    schema_of::<T>(Contract::Deserialize)
}

fn answered<T: JsonSchema>() -> Value {
    schema_of::<T>(Contract::Serialize)
}

fn schema_of<T: JsonSchema>(contract: Contract) -> Value {
    let settings = SchemaSettings::draft2020_12().with(|settings| {
        settings.contract = contract;
        // Single schemas name no JSON Schema dialect and have no definitions, because the OpenAPI
        // document contains both once.
        settings.meta_schema = None;
        settings.inline_subschemas = true;
    });
    let mut schema: Schema = settings.into_generator().into_root_schema_for::<T>();
    // Names of Rust types mean nothing to readers of the document.
    schema.remove("title");
    schema.to_value()
}
