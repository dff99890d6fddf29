//! `/plugins`: list of plugins, and the schemas of their configurations.

use hyper::{Method, StatusCode};
use serde_json::{Map, Value, json};
use tollhouse_plugin::{Catalogue, PluginType};

use crate::arguments::Arguments;
use crate::context::Admin;
use crate::plugin_confs::meta_document;
use crate::reply::Reply;

/// Plugins that are configured for the process and not in objects.
const GLOBAL: [&str; 6] =
    ["batch-requests", "error-log-logger", "log-rotate", "node-status", "server-info", "inspect"];

/// Kind of traffic that a plugin serves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Subsystem {
    Http,
    /// TCP and UDP connections of stream routes.
    Stream,
}

impl Subsystem {
    fn parse(arguments: &Arguments) -> Result<Self, Reply> {
        match arguments.get("subsystem") {
            None | Some("http") => Ok(Self::Http),
            Some("stream") => Ok(Self::Stream),
            Some(other) => Err(Reply::bad(format!("unsupported subsystem: {other}"))),
        }
    }

    fn has(self, plugin: &PluginType) -> bool {
        match self {
            Self::Http => plugin.serves_requests,
            Self::Stream => plugin.serves_connections,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Stream => "stream",
        }
    }
}

/// Returns the names of all plugins, by descending priority.
pub(crate) fn list(admin: &Admin, arguments: &Arguments) -> Result<Reply, Reply> {
    let subsystem = Subsystem::parse(arguments)?;
    let plugins = admin.parts.catalogue.iter().filter(|plugin| subsystem.has(plugin));
    let names: Vec<&str> = plugins.map(|plugin| plugin.name).collect();
    Ok(Reply::json(StatusCode::OK, &json!(names)))
}

/// Answers a call to reload the plugins. The call is accepted without effect, because plugins are
/// compiled into the gateway.
pub(crate) fn reload(method: &Method) -> Result<Reply, Reply> {
    if method == Method::PUT {
        return Ok(Reply::text(StatusCode::OK, "done"));
    }
    let text =
        format!("please use PUT method to reload the plugins, {method} method is not allowed.");
    Err(Reply::refusal(StatusCode::METHOD_NOT_ALLOWED, text))
}

/// Returns the schema of one plugin, or with `all=true` the schemas of all.
pub(crate) fn one(admin: &Admin, name: &str, arguments: &Arguments) -> Result<Reply, Reply> {
    let subsystem = Subsystem::parse(arguments)?;
    let catalogue = &admin.parts.catalogue;
    if arguments.is("all", "true") {
        let all = plugin_documents(catalogue, subsystem);
        return Ok(Reply::json(StatusCode::OK, &Value::Object(all)));
    }
    let plugin = catalogue.get(name).filter(|plugin| subsystem.has(plugin)).ok_or_else(|| {
        let text = format!("plugin not found in subsystem {}", subsystem.name());
        Reply::refusal(StatusCode::NOT_FOUND, text)
    })?;
    let schema = match arguments.get("schema_type") {
        Some("consumer") => identity_schema(plugin),
        Some("metadata") => plugin.metadata_schema().cloned(),
        _ => Some(conf_schema(plugin)),
    };
    let schema = schema.ok_or_else(|| Reply::bad("not found schema"))?;
    Ok(Reply::json(StatusCode::OK, &schema))
}

/// Marker that tells clients that a schema includes the fields common to all plugins.
const INJECTED: &str = "this is a mark for our injected plugin schema";

/// Returns the schema of a plugin's configuration, with the fields that all plugins share.
fn conf_schema(plugin: &PluginType) -> Value {
    let mut schema = with_encrypted(plugin.schema().clone(), plugin.encrypted);
    if let Some(fields) = schema.as_object_mut() {
        fields.insert("$comment".into(), INJECTED.into());
        let properties = fields.entry("properties").or_insert_with(|| json!({}));
        if let Some(properties) = properties.as_object_mut() {
            properties.insert("_meta".into(), meta_document());
        }
    }
    schema
}

/// Returns the schema of a plugin's configuration in consumers.
fn identity_schema(plugin: &PluginType) -> Option<Value> {
    let encrypted = plugin.consumer.as_ref().map_or(&[][..], |spec| spec.encrypted);
    plugin.consumer_schema().map(|schema| with_encrypted(schema.clone(), encrypted))
}

/// Adds the names of encrypted fields to a schema.
fn with_encrypted(mut schema: Value, encrypted: &[&str]) -> Value {
    if let Some(fields) = schema.as_object_mut()
        && !encrypted.is_empty()
    {
        fields.insert("encrypt_fields".into(), json!(encrypted));
    }
    schema
}

/// Returns the schemas and properties of all plugins of a subsystem, by name.
pub fn plugin_documents(catalogue: &Catalogue, subsystem: Subsystem) -> Map<String, Value> {
    let plugins = catalogue.iter().filter(|plugin| subsystem.has(plugin));
    plugins.map(|plugin| (plugin.name.to_owned(), facts(plugin))).collect()
}

/// Returns version, priority, schemas and type of a plugin.
pub(crate) fn facts(plugin: &PluginType) -> Value {
    // Rounded, because the conversion from `f32` adds digits.
    let version = (f64::from(plugin.version) * 1000.0).round() / 1000.0;
    let mut facts = json!({
        "version": version,
        "priority": plugin.priority,
        "schema": conf_schema(plugin),
    });
    let further = [
        ("metadata_schema", plugin.metadata_schema().cloned()),
        ("consumer_schema", identity_schema(plugin)),
        ("type", plugin.type_name().map(Value::from)),
        ("scope", GLOBAL.contains(&plugin.name).then(|| "global".into())),
    ];
    for (name, value) in further {
        if let (Some(value), Some(fields)) = (value, facts.as_object_mut()) {
            fields.insert(name.into(), value);
        }
    }
    facts
}
