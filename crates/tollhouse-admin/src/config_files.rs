//! References to files of the configuration centre in objects, `$config://…`. The gateway reads the
//! files with its own right, so that the author of an object must have the right to read them.
//!
//! Holders of configured keys may read all files, so that only users and groups are checked.

use hyper::StatusCode;
use serde_json::Value;
use tollhouse_model::secret::SecretRef;
use tollhouse_registry::State;
use tollhouse_registry::identity::{Attempt, Principal, Resource, ResourceKind, Verdict};

use crate::encrypt::Author;
use crate::reply::Reply;

/// Calls that return the content of a file. The right to one of them suffices.
const READS: [&str; 2] = ["DiscoverConfigFile", "DescribeConfigFileRichInfo"];

/// Refuses references to files that the author may not read, new or not: who changes an object may
/// change where its secrets are sent.
pub(crate) fn check_author(value: &Value, author: &Author<'_>) -> Result<(), Reply> {
    let Some((principal, registry)) = &author.person else { return Ok(()) };
    let mut files = Vec::new();
    collect(value, &mut files);
    if files.is_empty() {
        return Ok(());
    }
    let state = registry.state();
    let refused = files.into_iter().find(|(_, namespace, group)| {
        !READS.iter().any(|function| may(&state, principal, function, [namespace, group]))
    });
    refused.map_or(Ok(()), |(reference, namespace, group)| {
        let text = format!(
            "no policy of this user allows to read files of the group {namespace}/{group}, which \"{reference}\" \
             refers to: it takes {} on this group",
            READS.join(" or ")
        );
        Err(Reply::refusal(StatusCode::FORBIDDEN, text))
    })
}

fn may(state: &State, principal: &Principal, function: &str, group: [&str; 2]) -> bool {
    let [namespace, name] = group;
    let known = state.config_group(namespace, name).map(|view| &view.group);
    let id = known.map(|group| group.id.to_string()).unwrap_or_default();
    let labels = known.map(|group| &group.metadata);
    let kind = ResourceKind::ConfigGroup;
    let resource = Resource { kind, id: &id, namespace, name, labels };
    let attempt = Attempt { function, resources: &[resource] };
    state.decide(principal, &attempt) == Verdict::Allowed
}

/// Collects the references to files with their namespaces and groups. Recursive; the depth is
/// bounded (`limits::DEPTH_MAX`).
fn collect(value: &Value, found: &mut Vec<(String, String, String)>) {
    match value {
        Value::String(text) => {
            if let Some(SecretRef::File { namespace, group, .. }) = SecretRef::parse(text) {
                found.push((text.clone(), namespace, group));
            }
        }
        Value::Array(items) => items.iter().for_each(|item| collect(item, found)),
        Value::Object(fields) => fields.values().for_each(|field| collect(field, found)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}
