//! `/console/v1/plugins`: catalogue of plugins for the console, with schemas and manual pages.

use hyper::StatusCode;
use serde_json::{Value, json};
use tollhouse_plugin::PluginType;

use crate::context::Admin;
use crate::index::Contents;
use crate::plugins_api;
use crate::reply::Reply;

pub(super) fn list(admin: &Admin) -> Value {
    let contents = admin.index.contents();
    let rows = admin.parts.catalogue.iter().map(|plugin| row(admin, plugin, &contents));
    json!({ "rows": rows.collect::<Value>() })
}

/// Returns one plugin, with its schemas and its manual page.
pub(super) fn one(admin: &Admin, name: &str) -> Result<Value, Reply> {
    let plugin =
        admin.parts.catalogue.get(name).ok_or_else(|| {
            Reply::refusal(StatusCode::NOT_FOUND, format!("unknown plugin {name}"))
        })?;
    let mut value = row(admin, plugin, &admin.index.contents());
    let facts = plugins_api::facts(plugin);
    for field in ["schema", "consumer_schema", "metadata_schema"] {
        value[field] = facts.get(field).cloned().unwrap_or_default();
    }
    value["manual"] = manual(admin, name).into();
    Ok(value)
}

fn row(admin: &Admin, plugin: &PluginType, contents: &Contents) -> Value {
    let sealed = plugin.consumer.as_ref().map_or(&[][..], |spec| spec.encrypted);
    json!({
        "name": plugin.name,
        "category": format!("{:?}", plugin.category).to_lowercase(),
        "summary": manual(admin, plugin.name).map(|page| summary(&page)),
        "priority": plugin.priority,
        "phases": plugin.phases.names(),
        "serves_connections": plugin.serves_connections,
        "is_auth": plugin.is_auth(),
        "has_metadata": plugin.metadata_schema().is_some(),
        "secret_fields": plugin.encrypted,
        "consumer_secret_fields": sealed,
        "used_by": contents.uses_of_plugin(plugin.name),
    })
}

fn manual(admin: &Admin, name: &str) -> Option<String> {
    admin.parts.console.as_ref().and_then(|source| source.manual(name))
}

/// Returns the first sentence of a manual page after its heading.
fn summary(page: &str) -> String {
    let is_text = |line: &&str| !line.trim().is_empty() && !line.starts_with('#');
    let paragraph = page.lines().skip_while(|line| !is_text(line)).take_while(is_text);
    let text = paragraph.collect::<Vec<_>>().join(" ");
    let end = text.find(". ").map_or(text.len(), |at| at + 1);
    text[..end].to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_sentence_of_a_manual_stands_for_it() {
        let page = "# cors\n\nLets pages of other\norigins call. And more.\n\nAnother.";
        assert_eq!(summary(page), "Lets pages of other origins call.");
        assert_eq!(summary(""), "");
    }
}
