//! The registry's part of the OpenAPI document: a table of calls, and the schemas of their objects.

use serde_json::{Map, Value, json};
use tollhouse_registry::RuleKind;
use tollhouse_registry::limits::{TTL_SECONDS_MAX, WEIGHT_MAX};

/// A call: method, path below the prefix, name, what it does, the schema it takes, the schema it gives.
type Line = (&'static str, &'static str, &'static str, &'static str, Option<&'static str>, Answer);

/// What a call is answered with when it succeeds.
#[derive(Debug, Clone, Copy)]
enum Answer {
    One(&'static str),
    Created(&'static str),
    Put(&'static str),
    List(&'static str),
    Lines,
    Nothing,
    Beat,
}

use Answer::{Beat, Created, Lines, List, Nothing, One, Put};

const LINES: &[Line] = &[
    ("get", "status", "registry_status", "How the registry is", None, One("registry_status")),
    (
        "get",
        "clients",
        "list_registry_clients",
        "Clients that reported themselves",
        None,
        List("registry_client"),
    ),
    ("get", "namespaces", "list_namespaces", "List namespaces", None, List("namespace")),
    (
        "post",
        "namespaces",
        "create_namespace",
        "Create a namespace",
        Some("namespace"),
        Created("namespace"),
    ),
    ("get", "namespaces/{name}", "read_namespace", "Read a namespace", None, One("namespace")),
    (
        "put",
        "namespaces/{name}",
        "write_namespace",
        "Write a namespace",
        Some("namespace"),
        Put("namespace"),
    ),
    (
        "patch",
        "namespaces/{name}",
        "patch_namespace",
        "Change a namespace",
        Some("namespace"),
        One("namespace"),
    ),
    ("delete", "namespaces/{name}", "delete_namespace", "Delete an empty namespace", None, Nothing),
    ("get", "services", "list_registry_services", "List services", None, List("registry_service")),
    (
        "post",
        "services",
        "create_registry_service",
        "Create a service",
        Some("registry_service"),
        Created("registry_service"),
    ),
    (
        "get",
        "services/{namespace}/{name}",
        "read_registry_service",
        "Read a service",
        None,
        One("registry_service"),
    ),
    (
        "put",
        "services/{namespace}/{name}",
        "write_registry_service",
        "Write a service",
        Some("registry_service"),
        Put("registry_service"),
    ),
    (
        "patch",
        "services/{namespace}/{name}",
        "patch_registry_service",
        "Change a service",
        Some("registry_service"),
        One("registry_service"),
    ),
    (
        "delete",
        "services/{namespace}/{name}",
        "delete_registry_service",
        "Delete a service without instances",
        None,
        Nothing,
    ),
    (
        "get",
        "services/{namespace}/{name}/instances",
        "list_instances_of",
        "List the instances of a service or alias, or watch them",
        None,
        Lines,
    ),
    (
        "post",
        "services/{namespace}/{name}/instances",
        "register_instance_of",
        "Register an instance",
        Some("instance"),
        Put("instance"),
    ),
    (
        "get",
        "instances",
        "list_instances",
        "List instances of all services",
        None,
        List("instance"),
    ),
    (
        "post",
        "instances",
        "register_instance",
        "Register an instance",
        Some("instance"),
        Put("instance"),
    ),
    ("get", "instances/{id}", "read_instance", "Read an instance", None, One("instance")),
    (
        "put",
        "instances/{id}",
        "write_instance",
        "Register an instance under this id",
        Some("instance"),
        Put("instance"),
    ),
    (
        "patch",
        "instances/{id}",
        "patch_instance",
        "Change an instance: weight, isolation, health and the like",
        Some("instance"),
        One("instance"),
    ),
    (
        "delete",
        "instances/{id}",
        "deregister_instance",
        "Deregister an instance",
        None,
        One("instance"),
    ),
    (
        "post",
        "instances/{id}/heartbeat",
        "beat_instance",
        "Send a heartbeat for an instance",
        None,
        Beat,
    ),
    ("get", "aliases", "list_aliases", "List aliases", None, List("alias")),
    ("post", "aliases", "create_alias", "Create an alias", Some("alias"), Created("alias")),
    ("get", "aliases/{namespace}/{name}", "read_alias", "Read an alias", None, One("alias")),
    (
        "put",
        "aliases/{namespace}/{name}",
        "write_alias",
        "Write an alias",
        Some("alias"),
        Put("alias"),
    ),
    (
        "patch",
        "aliases/{namespace}/{name}",
        "patch_alias",
        "Change an alias",
        Some("alias"),
        One("alias"),
    ),
    ("delete", "aliases/{namespace}/{name}", "delete_alias", "Delete an alias", None, Nothing),
    ("get", "rules", "list_all_rules", "List governance rules of all kinds", None, List("rule")),
    ("get", "rules/{kind}", "list_rules", "List governance rules of a kind", None, List("rule")),
    (
        "post",
        "rules/{kind}",
        "create_rule",
        "Create a rule, written as clients get it",
        Some("rule_text"),
        Created("rule"),
    ),
    ("get", "rules/{kind}/{id}", "read_rule", "Read a rule", None, One("rule")),
    (
        "put",
        "rules/{kind}/{id}",
        "write_rule",
        "Write a rule, written as clients get it",
        Some("rule_text"),
        Put("rule"),
    ),
    (
        "patch",
        "rules/{kind}/{id}",
        "switch_rule",
        "Switch a rule on or off",
        Some("rule_switch"),
        One("rule"),
    ),
    ("delete", "rules/{kind}/{id}", "delete_rule", "Delete a rule", None, Nothing),
];

/// Filters of lists by path, with what they say.
const FILTERS: &[(&str, &[(&str, &str)])] = &[
    ("namespaces", &[("name", "Regular expression that is found in the name."), ("label", LABEL)]),
    (
        "services",
        &[
            ("namespace", "The namespace."),
            ("name", "Regular expression that is found in the name."),
            ("label", LABEL),
        ],
    ),
    ("instances", INSTANCE_FILTERS),
    ("services/{namespace}/{name}/instances", INSTANCE_FILTERS),
    (
        "aliases",
        &[
            ("namespace", "The namespace of the alias."),
            ("name", "Regular expression that is found in the name."),
            ("target_namespace", "The namespace of its service."),
            ("target", "The name of its service."),
        ],
    ),
    ("rules", RULE_FILTERS),
    ("rules/{kind}", RULE_FILTERS),
    ("clients", &[("name", "Regular expression that is found in the id.")]),
];

const LABEL: &str = "A key of metadata, or `key:value`.";

const INSTANCE_FILTERS: &[(&str, &str)] = &[
    ("namespace", "The namespace."),
    ("service", "The name of the service."),
    ("host", "The host."),
    ("port", "The port."),
    ("protocol", "The protocol."),
    ("version", "The version."),
    ("healthy", "`true` or `false`."),
    ("isolated", "`true` or `false`."),
    ("label", LABEL),
];

const RULE_FILTERS: &[(&str, &str)] = &[
    ("namespace", "The namespace it is listed under."),
    ("name", "Regular expression that is found in the name."),
    ("service", "The name of a service that it is for."),
    ("enabled", "`true` or `false`."),
];

/// Adds the paths of the registry.
pub(crate) fn add_paths(paths: &mut Map<String, Value>) {
    for line in LINES {
        let path = format!("/registry/v1/{}", line.1);
        let methods = paths.entry(path).or_insert_with(|| json!({}));
        methods[line.0] = operation(line);
    }
}

fn operation((method, path, id, summary, takes, answer): &Line) -> Value {
    let mut parameters: Vec<Value> = path
        .split('/')
        .filter_map(|segment| segment.strip_prefix('{')?.strip_suffix('}'))
        .map(|name| json!({"name": name, "in": "path", "required": true, "schema": place(name)}))
        .collect();
    if *method == "get" {
        let filters = FILTERS.iter().filter(|(of, _)| of == path).flat_map(|(_, filters)| *filters);
        parameters.extend(filters.map(|(name, text)| query(name, text, json!({"type": "string"}))));
        if matches!(answer, List(_) | Lines) {
            let count = |most: u32| json!({"type": "integer", "minimum": 1, "maximum": most});
            parameters.push(query(
                "page",
                "Which page, from 1.",
                json!({"type": "integer", "minimum": 1}),
            ));
            parameters.push(query("page_size", "Objects a page; 500 by default.", count(5_000)));
        }
        if matches!(answer, Lines) {
            let text = "`true` answers JSON lines: first every instance, then every change.";
            parameters.push(query("watch", text, json!({"type": "string", "enum": ["true"]})));
        }
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
        "400": failure("It is refused; `error_msg` says why."),
        "401": failure("The key is missing, wrong, or does not allow this."),
        "404": failure("There is none, or the registry is off."),
        "409": failure("There is one already, or something depends on it."),
        "503": failure("It could not be made durable, or a bound is reached; nothing has changed."),
    });
    match answer {
        One(schema) => responses["200"] = done("The object.", &named(schema)),
        Created(schema) => responses["201"] = done("It is new.", &named(schema)),
        Put(schema) => {
            responses["200"] = done("It replaced another.", &named(schema));
            responses["201"] = done("It is new.", &named(schema));
        }
        List(schema) => responses["200"] = done("A page of what there is.", &list_of(schema)),
        Lines => {
            responses["200"] = done("A page of what there is, or lines.", &list_of("instance"));
            responses["200"]["content"]["application/x-ndjson"] =
                json!({"schema": named("watch_line")});
        }
        Nothing => responses["204"] = json!({"description": "It is gone."}),
        Beat => {
            let schema = object(&[("id", text()), ("at_ms", count())]);
            responses["200"] = done("It was taken.", &schema);
        }
    }
    responses
}

fn list_of(schema: &str) -> Value {
    object(&[
        ("list", json!({"type": "array", "items": named(schema)})),
        ("total", count()),
        ("page", count()),
        ("page_size", count()),
        ("version", count()),
    ])
}

fn object(fields: &[(&str, Value)]) -> Value {
    let properties: Map<String, Value> =
        fields.iter().map(|(name, schema)| ((*name).to_owned(), schema.clone())).collect();
    json!({"type": "object", "properties": properties})
}

fn text() -> Value {
    json!({"type": "string"})
}

fn count() -> Value {
    json!({"type": "integer", "minimum": 0})
}

fn flag() -> Value {
    json!({"type": "boolean"})
}

fn texts() -> Value {
    json!({"type": "array", "items": {"type": "string"}})
}

fn pairs() -> Value {
    json!({"type": "object", "additionalProperties": {"type": "string"}, "maxProperties": 64})
}

fn optional(mut schema: Value) -> Value {
    schema["type"] = json!([schema["type"], "null"]);
    schema
}

fn counted() -> Value {
    let fields = ["total", "healthy", "unhealthy", "isolated"].map(|name| (name, count()));
    object(&fields)
}

/// What every object has that is set here; it may come along and has no effect.
fn with_times(fields: &[(&str, Value)]) -> Value {
    let read_only = |mut schema: Value| {
        schema["readOnly"] = true.into();
        schema
    };
    let times = [
        ("create_time", read_only(count())),
        ("update_time", read_only(count())),
        ("revision", read_only(text())),
    ];
    let all: Vec<(&str, Value)> = fields.iter().cloned().chain(times).collect();
    object(&all)
}

/// The schemas of the registry's objects.
pub(crate) fn schemas() -> Vec<(&'static str, Value)> {
    let name = || object(&[("namespace", text()), ("name", text())]);
    let line_kinds = json!({"enum": ["added", "changed", "removed", "synced", "alive"]});
    vec![
        ("namespace", namespace()),
        ("registry_service", service()),
        ("instance", instance()),
        (
            "alias",
            with_times(&[
                ("namespace", text()),
                ("name", text()),
                ("id", text()),
                ("target", name()),
                ("comment", text()),
                ("owners", text()),
                ("metadata", pairs()),
            ]),
        ),
        (
            "rule",
            with_times(&[
                ("kind", place("kind")),
                ("id", text()),
                ("name", text()),
                ("namespace", text()),
                ("targets", json!({"type": "array", "items": name()})),
                ("priority", count()),
                ("enabled", flag()),
                ("rule", named("rule_text")),
            ]),
        ),
        ("rule_text", json!({"type": "object", "description": "The rule in Polaris' JSON."})),
        ("rule_switch", object(&[("enabled", flag())])),
        (
            "registry_client",
            object(&[
                ("id", text()),
                ("first_seen_ms", count()),
                ("last_seen_ms", count()),
                ("client", json!({"type": "object"})),
            ]),
        ),
        (
            "watch_line",
            object(&[
                ("type", line_kinds),
                ("instance", named("instance")),
                ("exists", flag()),
                ("revision", text()),
                ("total", count()),
            ]),
        ),
        ("registry_status", status()),
    ]
}

fn namespace() -> Value {
    with_times(&[
        ("name", text()),
        ("comment", text()),
        ("owners", text()),
        ("metadata", pairs()),
        ("export_to", texts()),
        ("services", count()),
        ("instances", counted()),
    ])
}

fn service() -> Value {
    let expiry = object(&[("since_ms", count()), ("kept", count())]);
    let mut fields = vec![("namespace", text()), ("name", text()), ("id", text())];
    fields.extend(["ports", "business", "department"].map(|name| (name, text())));
    fields.extend(["comment", "owners", "platform_id"].map(|name| (name, text())));
    fields.extend([
        ("metadata", pairs()),
        ("cmdb", json!({"type": "array", "items": text(), "minItems": 3, "maxItems": 3})),
        ("export_to", texts()),
        ("instances", counted()),
        ("mass_expiry", optional(expiry)),
    ]);
    with_times(&fields)
}

fn instance() -> Value {
    let bounded =
        |least: u32, most: u32| json!({"type": "integer", "minimum": least, "maximum": most});
    let beat = object(&[("at_ms", count()), ("count", count())]);
    let location = object(&["region", "zone", "campus"].map(|name| (name, text())));
    let mut fields = vec![("id", text()), ("namespace", text()), ("service", text())];
    fields.extend(["host", "protocol", "version", "logic_set", "vpc_id"].map(|it| (it, text())));
    fields.extend([
        ("port", bounded(0, 65_535)),
        ("weight", bounded(0, WEIGHT_MAX)),
        ("priority", count()),
        ("healthy", flag()),
        ("isolated", flag()),
        ("ttl_seconds", optional(bounded(1, TTL_SECONDS_MAX.into()))),
        ("last_beat", optional(beat)),
        ("metadata", pairs()),
        ("location", optional(location)),
    ]);
    with_times(&fields)
}

fn status() -> Value {
    let listeners = object(&[("grpc", texts()), ("http", texts())]);
    let expiry =
        [("namespace", text()), ("service", text()), ("since_ms", count()), ("kept", count())];
    let mut fields = vec![("listeners", listeners), ("instances", counted())];
    let numbers = ["version", "now_ms", "started_at_ms", "namespaces", "services", "aliases"];
    fields.extend(numbers.map(|name| (name, count())));
    let numbers = ["rules", "contracts", "clients", "watches", "mass_expiries"];
    fields.extend(numbers.map(|name| (name, count())));
    let numbers = ["expired", "recovered", "beats", "stranger_beats", "commands", "refused"];
    let counted: Vec<_> = numbers.into_iter().chain(["commits", "commit_us"]).collect();
    let counted: Vec<_> = counted.into_iter().map(|name| (name, count())).collect();
    fields.push(("mass_expiry", json!({"type": "array", "items": object(&expiry)})));
    fields.push(("counted", object(&counted)));
    object(&fields)
}
