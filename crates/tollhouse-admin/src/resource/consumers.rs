//! Consumers: clients of the gateway's routes. Deleting a consumer deletes its credentials.

use serde_json::Value;

use super::definition::{Candidate, Layout, Owner, Resource, no_guard};
use crate::index::facts;
use crate::reply::Reply;

pub(crate) const RESOURCE: Resource = Resource {
    name: "consumers",
    kind: "consumer",
    summary: "A client of the gateway, identified by its credentials.",
    schema: "consumer",
    layout: Layout::Username,
    further: &[],
    plugins: Some(Owner::Consumer),
    check,
    guard: no_guard,
};

fn check(consumer: &Candidate<'_>) -> Result<(), Reply> {
    consumer.check_reference("group_id", "consumer_groups", "consumer group")
}

/// Refuses a credential value that another consumer has, because requests with it could not be
/// attributed.
pub(crate) fn check_unique(candidate: &Candidate<'_>) -> Result<(), Reply> {
    let Some(confs) = candidate.value.get("plugins").and_then(Value::as_object) else {
        return Ok(());
    };
    let held = facts::identities(
        candidate.path,
        confs,
        &candidate.parts.catalogue,
        &candidate.parts.keyring,
    );
    for identity in &held {
        if let Some(owner) = candidate.contents.other_owner(identity, candidate.path) {
            let (plugin, owner) = (&identity.0, owner_text(owner));
            return Err(Reply::bad(format!("duplicate key of plugin {plugin} found with {owner}")));
        }
    }
    Ok(())
}

/// Returns the owner of a credential value for error texts: `consumer: bob`, or `credential: c1 of
/// consumer: bob`.
fn owner_text(path: &str) -> String {
    let mut parts = path.split('/').skip(1);
    let username = parts.next().unwrap_or_default();
    match parts.nth(1) {
        Some(credential) => format!("credential: {credential} of consumer: {username}"),
        None => format!("consumer: {username}"),
    }
}
