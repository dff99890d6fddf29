//! Schemas of the configuration objects.
//!
//! Each schema is a file under `schemas/`. Definitions used by several are in `schemas/shared.json`
//! and are inlined on load, so that every published document is self-contained. Rules that a schema
//! cannot express are in `core/rules.rs`.

use std::sync::LazyLock;

use serde_json::{Map, Value};

use super::Schema;
use crate::upstream::{DiscoverySource, Policy};

mod rules;

pub use self::rules::check_core;

/// Schema of one kind of object.
#[derive(Debug)]
pub struct CoreSchema {
    name: &'static str,
    document: Value,
    schema: Schema,
}

impl CoreSchema {
    /// Returns the name of the schema: `route`, `plugin_config`, `secret_vault`, ….
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Returns the self-contained document, with descriptions and defaults of all fields.
    pub fn document(&self) -> &Value {
        &self.document
    }

    pub fn schema(&self) -> &Schema {
        &self.schema
    }
}

pub fn core(name: &str) -> Option<&'static CoreSchema> {
    CORE.iter().find(|core| core.name == name)
}

pub fn core_names() -> impl Iterator<Item = &'static str> {
    TEXTS.iter().map(|(name, _)| *name)
}

const SHARED: &str = include_str!("../../schemas/shared.json");

/// Placeholders in the shared definitions, each with the function that builds its phrase from a
/// table.
const PHRASES: [(&str, fn() -> String); 3] = [
    ("{policies}", Policy::list_names),
    ("{discovery sources}", || DiscoverySource::list_names(", or ")),
    ("{discovery services}", DiscoverySource::list_service_names),
];

/// Prefix of a reference to a shared definition.
const SHARED_PREFIX: &str = "shared.json#/";

const TEXTS: [(&str, &str); 16] = [
    ("route", include_str!("../../schemas/route.json")),
    ("service", include_str!("../../schemas/service.json")),
    ("upstream", include_str!("../../schemas/upstream.json")),
    ("consumer", include_str!("../../schemas/consumer.json")),
    ("credential", include_str!("../../schemas/credential.json")),
    ("consumer_group", include_str!("../../schemas/consumer_group.json")),
    ("ssl", include_str!("../../schemas/ssl.json")),
    ("proto", include_str!("../../schemas/proto.json")),
    ("global_rule", include_str!("../../schemas/global_rule.json")),
    ("stream_route", include_str!("../../schemas/stream_route.json")),
    ("plugin_config", include_str!("../../schemas/plugin_config.json")),
    ("plugin_metadata", include_str!("../../schemas/plugin_metadata.json")),
    ("plugins", include_str!("../../schemas/plugins.json")),
    ("secret_vault", include_str!("../../schemas/secret_vault.json")),
    ("secret_aws", include_str!("../../schemas/secret_aws.json")),
    ("secret_gcp", include_str!("../../schemas/secret_gcp.json")),
];

static CORE: LazyLock<Vec<CoreSchema>> = LazyLock::new(|| {
    let parse = |text: &str| -> Value {
        serde_json::from_str(text).expect("the documents in the binary are JSON")
    };
    let fill = |text: String, (mark, phrase): (&str, fn() -> String)| text.replace(mark, &phrase());
    let shared = parse(&PHRASES.into_iter().fold(SHARED.to_owned(), fill));
    let load = |(name, text): &(&'static str, &str)| {
        let document = complete(&parse(text), &shared);
        let schema = Schema::compile(&document).expect("the documents in the binary are schemas");
        CoreSchema { name, document, schema }
    };
    TEXTS.iter().map(load).collect()
});

/// Inlines every shared definition. Fields beside a reference, such as a description, override the
/// fields of the definition.
fn complete(value: &Value, shared: &Value) -> Value {
    match value {
        Value::Array(items) => items.iter().map(|item| complete(item, shared)).collect(),
        Value::Object(fields) => {
            let reference = fields.get("$ref").and_then(Value::as_str);
            let definition = reference.and_then(|text| text.strip_prefix(SHARED_PREFIX));
            let own = fields.iter().filter(|(name, _)| definition.is_none() || *name != "$ref");
            let mut completed: Map<String, Value> =
                own.map(|(name, field)| (name.clone(), complete(field, shared))).collect();
            if let Some(definition) = definition {
                let Value::Object(referred) = complete(&shared[definition], shared) else {
                    unreachable!("references of the documents in the binary lead to objects");
                };
                for (name, field) in referred {
                    completed.entry(name).or_insert(field);
                }
            }
            Value::Object(completed)
        }
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests;

#[cfg(test)]
mod agreement;
