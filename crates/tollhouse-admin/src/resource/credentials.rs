//! Credentials of consumers; a consumer may have several.

use serde_json::Value;

use super::definition::{Candidate, Layout, Owner, Resource, no_guard};
use crate::plugin_confs;
use crate::reply::Reply;

pub(crate) const RESOURCE: Resource = Resource {
    name: "credentials",
    kind: "credential",
    summary: "A credential that identifies a consumer.",
    schema: "credential",
    layout: Layout::Child("consumers"),
    further: &[],
    plugins: Some(Owner::Consumer),
    check,
    guard: no_guard,
};

fn check(credential: &Candidate<'_>) -> Result<(), Reply> {
    let Some(confs) = credential.value.get("plugins").and_then(Value::as_object) else {
        return Ok(());
    };
    plugin_confs::check(confs, Owner::Consumer, credential).map_err(Reply::bad)?;
    let catalogue = &credential.parts.catalogue;
    let is_auth = |name: &String| catalogue.get(name).is_some_and(|plugin| plugin.is_auth());
    if confs.keys().all(is_auth) {
        return Ok(());
    }
    Err(Reply::bad("only supports auth type plugins in consumer credential"))
}
