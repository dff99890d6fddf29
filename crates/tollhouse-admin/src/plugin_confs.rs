//! Checks of plugin configurations in objects, with APISIX's error texts.

use std::sync::OnceLock;

use serde_json::{Value, json};
use tollhouse_model::Problems;
use tollhouse_model::expr::Expr;
use tollhouse_model::problem::Severity;
use tollhouse_model::schema::Schema;
use tollhouse_plugin::{Catalogue, PluginType, Scope, Services, absent};
use tollhouse_stdx::nearest;

use crate::object::Fields;
use crate::resource::definition::{Candidate, Owner};

/// Checks all plugin configurations of an object.
pub(crate) fn check(confs: &Fields, owner: Owner, object: &Candidate<'_>) -> Result<(), String> {
    confs.iter().try_for_each(|(name, conf)| {
        check_one(name, conf, owner, object).map_err(|error| match owner {
            Owner::Stream => worded_for_stream(name, &error),
            Owner::Route | Owner::Consumer => error,
        })
    })
}

/// Checks one plugin configuration.
///
/// # Errors
/// Returns the text about the first fault.
pub(crate) fn check_one(
    name: &str,
    conf: &Value,
    owner: Owner,
    object: &Candidate<'_>,
) -> Result<(), String> {
    let nothing = Fields::new();
    let fields = match conf {
        Value::Object(fields) => fields,
        // Clients in Lua or PHP encode an empty object as an empty list.
        Value::Array(items) if items.is_empty() => &nothing,
        _ => return Err(format!("invalid plugin conf {conf} for plugin [{name}]")),
    };
    let catalogue: &Catalogue = &object.parts.catalogue;
    let Some(plugin) = catalogue.get(name).filter(|plugin| serves(plugin, owner)) else {
        return Err(missing_text(catalogue, name));
    };
    let meta = fields.get("_meta");
    if let Some(meta) = meta {
        meta_schema().validate(meta).map_err(|error| {
            refused(name, &format!("property \"_meta\" validation failed: {error}"))
        })?;
    }
    let is_off = |value: Option<&Value>| value == Some(&Value::Bool(true));
    // A disabled plugin may have an invalid configuration, so that it can be fixed later.
    if is_off(meta.and_then(|meta| meta.get("disable"))) || is_off(fields.get("disable")) {
        return Ok(());
    }
    let bare = without_common(conf);
    let services = &object.parts.services;
    if owner == Owner::Consumer && plugin.consumer.is_some() {
        catalogue.check_identity(name, &bare, services)?;
    } else {
        let metadata = object.contents.facts(&format!("plugin_metadata/{name}"));
        let metadata = metadata.and_then(|facts| facts.metadata.as_ref());
        let scope =
            Scope { owner: object.path, conf: &bare, metadata, protos: None, catalogue, services };
        catalogue.check(name, &bare, &scope)?;
    }
    meta.map_or(Ok(()), |meta| check_meta(name, meta, services))
}

/// Returns the error text for an unavailable plugin. It distinguishes APISIX plugins that this
/// build lacks from unknown names.
pub(crate) fn missing_text(catalogue: &Catalogue, name: &str) -> String {
    if catalogue.get(name).is_none() && absent::is_of_apisix(name) {
        return format!("plugin [{name}] is not part of this build");
    }
    format!("unknown plugin [{name}]")
}

/// Whether a plugin can be configured in objects of this kind.
fn serves(plugin: &PluginType, owner: Owner) -> bool {
    match owner {
        Owner::Stream => plugin.serves_connections,
        Owner::Route | Owner::Consumer => plugin.serves_requests,
    }
}

/// Returns the hint for an unknown plugin name: the plugin that was probably meant.
pub(crate) fn similar(catalogue: &Catalogue, name: &str, owner: Owner) -> Option<String> {
    let known = catalogue.iter().filter(|plugin| serves(plugin, owner)).map(|plugin| plugin.name);
    nearest(name, known).map(|near| format!("did you mean \"{near}\"?"))
}

/// Checks of `_meta` that its schema cannot express.
fn check_meta(name: &str, meta: &Value, services: &Services) -> Result<(), String> {
    if let Some(filter) = meta.get("filter") {
        let mut problems = Problems::new();
        Expr::parse(filter, "vars", &mut problems);
        let mut errors = problems.iter().filter(|problem| problem.severity == Severity::Error);
        if let Some(problem) = errors.next() {
            return Err(problem.reason.clone());
        }
    }
    let text = meta.get("pre_function").and_then(Value::as_str);
    let Some(text) = text else { return Ok(()) };
    let made = services.scripting().and_then(|scripting| scripting.check_function(text));
    made.map_err(|error| format!("failed to load _meta.pre_function in plugin {name}: {error}"))
}

/// Returns a plugin configuration without the fields that all plugins share.
pub(crate) fn without_common(conf: &Value) -> Value {
    let mut bare = conf.as_object().cloned().unwrap_or_default();
    bare.shift_remove("_meta");
    bare.shift_remove("disable");
    Value::Object(bare)
}

fn refused(name: &str, error: &str) -> String {
    format!("failed to check the configuration of plugin {name} err: {error}")
}

/// Converts an error text to the form that APISIX uses for stream routes.
fn worded_for_stream(name: &str, error: &str) -> String {
    let start = refused(name, "");
    match error.strip_prefix(&start) {
        Some(reason) => {
            format!("failed to check the configuration of stream plugin [{name}]: {reason}")
        }
        None => error.to_owned(),
    }
}

/// Returns the schema of `_meta`, which is part of every plugin's schema.
pub(crate) fn meta_document() -> Value {
    json!({
        "type": "object",
        "properties": {
            "disable": {"type": "boolean"},
            "error_response": {"oneOf": [{"type": "string"}, {"type": "object"}]},
            "priority": {
                "description": "Runs the plugin as if this were its priority.",
                "type": "integer",
            },
            "filter": {
                "description": "An expression; the plugin runs where it holds.",
                "type": "array",
            },
            "pre_function": {
                "description": "Text in Lua that returns a function, which runs before the plugin.",
                "type": "string",
            },
        },
        "additionalProperties": false,
    })
}

fn meta_schema() -> &'static Schema {
    static SCHEMA: OnceLock<Schema> = OnceLock::new();
    SCHEMA.get_or_init(|| Schema::compile(&meta_document()).expect("the document is a schema"))
}
