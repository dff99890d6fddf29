//! Scripts in objects: only administrators may write them, and they are checked like plugin
//! configurations.

use hyper::StatusCode;
use serde_json::Value;
use tollhouse_store::Entry;

use crate::encrypt::Author;
use crate::options::Role;
use crate::reply::Reply;
use crate::resource::Candidate;

/// Plugins whose confs contain scripts.
const PLUGINS: [&str; 3] =
    ["serverless-pre-function", "serverless-post-function", "exit-transformer"];

/// Fields that are scripts, wherever they are.
const FIELDS: [&str; 3] = ["filter_func", "script", "pre_function"];

/// Refuses scripts that the caller may not write. Scripts that the object has already may stay in
/// it.
pub(crate) fn check_author(value: &Value, author: &Author<'_>) -> Result<(), Reply> {
    match author.role {
        Role::Admin => return Ok(()),
        Role::Operator | Role::Viewer => {}
    }
    let mut written = Vec::new();
    collect(value, &mut written);
    if written.is_empty() {
        return Ok(());
    }
    let before: Option<Value> =
        author.before.and_then(|entry: &Entry| serde_json::from_slice(&entry.value).ok());
    let mut known = Vec::new();
    if let Some(before) = &before {
        collect(before, &mut known);
    }
    match written.iter().find(|script| !known.contains(script)) {
        None => Ok(()),
        Some((name, _)) => {
            let text = format!("only administrators may write Lua, which is in \"{name}\"");
            Err(Reply::refusal(StatusCode::FORBIDDEN, text))
        }
    }
}

/// Collects all scripts of an object, with the names of their fields or plugins.
fn collect<'v>(value: &'v Value, found: &mut Vec<(&'v str, &'v Value)>) {
    match value {
        Value::Object(fields) => {
            for (name, field) in fields {
                if PLUGINS.contains(&name.as_str()) || FIELDS.contains(&name.as_str()) {
                    found.push((name, field));
                } else {
                    collect(field, found);
                }
            }
        }
        Value::Array(items) => items.iter().for_each(|item| collect(item, found)),
        _ => {}
    }
}

/// Checks the scripts of a route, in APISIX's words.
pub(crate) fn check_route(object: &Candidate<'_>) -> Result<(), Reply> {
    let text = |name: &str| object.value.get(name).and_then(Value::as_str);
    let services = &object.parts.services;
    if let Some(text) = text("filter_func") {
        let made = services.scripting().and_then(|scripting| scripting.route_filter(text));
        made.map_err(|error| Reply::bad(error.to_string()))?;
    }
    if let Some(text) = text("script") {
        let made = services.scripting().and_then(|scripting| scripting.script(text));
        made.map_err(|error| Reply::bad(error.to_string()))?;
    }
    Ok(())
}
