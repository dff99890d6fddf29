//! `PATCH /registry/v1/instances`: many instances are isolated, taken back in or weighted in one commit, all of them or
//! none. Anything else of an instance is its own, and is changed one by one.

use std::collections::BTreeMap;
use std::sync::Arc;

use hyper::StatusCode;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tollhouse_registry::limits::WEIGHT_MAX;
use tollhouse_registry::{Command, Instance, InstanceChange, Outcome};

use super::listing::reply;
use super::outgoing::InstanceOut;
use super::request::Request;
use crate::body;
use crate::reply::Reply;

/// Most instances of one call: a large service at once, and a commit that stays small.
pub(super) const INSTANCES_MAX: usize = 1000;

/// What is done to which instances.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct BulkIn {
    /// Their ids.
    #[schemars(length(min = 1, max = INSTANCES_MAX))]
    ids: Vec<Arc<str>>,
    /// Whether traffic is kept from them.
    #[serde(default)]
    isolated: Option<bool>,
    /// Their share of the traffic.
    #[serde(default)]
    #[schemars(range(max = WEIGHT_MAX))]
    weight: Option<u32>,
}

/// The instances that have changed, as they now stand, and how many were so already.
#[derive(Debug, JsonSchema, Serialize)]
pub(super) struct BulkOut<'a> {
    changed: usize,
    unchanged: usize,
    list: Vec<InstanceOut<'a>>,
}

pub(super) async fn patch(request: &Request<'_>) -> Result<Reply, Reply> {
    let BulkIn { ids, isolated, weight } = request.read()?;
    if ids.is_empty() || ids.len() > INSTANCES_MAX {
        return Err(body::invalid(&format!("ids must be 1 to {INSTANCES_MAX}")));
    }
    if isolated.is_none() && weight.is_none() {
        return Err(body::invalid("isolated or weight must be said"));
    }
    let named = ids.len();
    let change = Box::new(InstanceChange { isolated, weight, ..InstanceChange::default() });
    let changed: Vec<Arc<Instance>> =
        match request.submit(Command::UpdateInstances(ids, change)).await? {
            Some(Outcome::Instances(changed)) => changed,
            _ => Vec::new(),
        };
    let list = changed.iter().map(|instance| InstanceOut::from_instance(instance)).collect();
    let out = BulkOut { changed: changed.len(), unchanged: named - changed.len(), list };
    Ok(reply(StatusCode::OK, &out))
}

/// The instances that a call names, as they are, by their paths: what a row about it tells.
pub(super) fn named(request: &Request<'_>) -> BTreeMap<String, Value> {
    let asked: Option<BulkIn> = request.read().ok();
    let state = request.part.registry.state_full();
    let ids = asked.map(|asked| asked.ids).unwrap_or_default();
    let found = ids.iter().take(INSTANCES_MAX).filter_map(|id| state.instance(id));
    found.map(|it| (path_of(&it.id), row_value(&InstanceOut::from_instance(it)))).collect()
}

/// Those that have changed, by their paths, of the answer to a call.
pub(super) fn changed(answer: &Value) -> BTreeMap<String, Value> {
    let list = answer["list"].as_array().into_iter().flatten();
    list.filter_map(|it| Some((path_of(it["id"].as_str()?), short(it)))).collect()
}

fn path_of(id: &str) -> String {
    format!("registry/instances/{id}")
}

fn row_value(instance: &InstanceOut<'_>) -> Value {
    short(&serde_json::to_value(instance).unwrap_or_default())
}

/// What of an instance a row about many has room for.
fn short(instance: &Value) -> Value {
    ["namespace", "service", "host", "port", "isolated", "weight"]
        .into_iter()
        .map(|name| (name.to_owned(), instance[name].clone()))
        .collect()
}
