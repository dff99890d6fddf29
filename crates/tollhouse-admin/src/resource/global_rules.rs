//! Global rules: plugins that run for every request. Each plugin can be in one global rule only.

use serde_json::Value;

use super::definition::{Candidate, Layout, Owner, ReferenceCheck, Resource, Verb, no_guard};
use crate::reply::Reply;

pub(crate) const RESOURCE: Resource = Resource {
    name: "global_rules",
    kind: "global rule",
    summary: "Plugins that apply to every request.",
    schema: "global_rule",
    layout: Layout::Id,
    further: &[Verb::Patch],
    plugins: Some(Owner::Route),
    check,
    guard: no_guard,
};

fn check(rule: &Candidate<'_>) -> Result<(), Reply> {
    let confs = rule.value.get("plugins").and_then(Value::as_object);
    if rule.references == ReferenceCheck::Off {
        return Ok(());
    }
    for name in confs.into_iter().flat_map(|confs| confs.keys()) {
        if let Some(other) = rule.contents.other_rule(name, rule.path) {
            return Err(Reply::bad(format!(
                "plugin '{name}' already exists in global rule with id '{other}'"
            )));
        }
    }
    Ok(())
}
