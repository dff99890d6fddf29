//! `PATCH /registry/v1/instances`: changes isolation or weight of many instances in one commit, all
//! or none. Other fields can only be changed per instance.

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

/// Maximum number of instances per call: enough for a large service, but few enough for a small
/// commit.
pub(super) const INSTANCES_MAX: usize = 1000;

/// Change of many instances.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct BulkIn {
    /// Ids of the instances.
    #[schemars(length(min = 1, max = INSTANCES_MAX))]
    ids: Vec<Arc<str>>,
    /// Whether the instances get no traffic; unchanged if absent.
    #[serde(default)]
    isolated: Option<bool>,
    /// Weight of the instances relative to others; unchanged if absent.
    #[serde(default)]
    #[schemars(range(max = WEIGHT_MAX))]
    weight: Option<u32>,
}

/// Changed instances, and the number of instances that needed no change.
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

/// Returns the current state of the instances that a call names, by path, for the change row of the
/// call.
pub(super) fn named(request: &Request<'_>) -> BTreeMap<String, Value> {
    let body: Option<BulkIn> = request.read().ok();
    let state = request.part.registry.state_full();
    let ids = body.map(|body| body.ids).unwrap_or_default();
    let instances = ids.iter().take(INSTANCES_MAX).filter_map(|id| state.instance(id));
    instances.map(|it| (path_of(&it.id), row_value(&InstanceOut::from_instance(it)))).collect()
}

/// Returns the instances that the answer to a bulk call lists as changed, by path.
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

/// Returns the fields of an instance that a change row about several instances contains.
fn short(instance: &Value) -> Value {
    ["namespace", "service", "host", "port", "isolated", "weight"]
        .into_iter()
        .map(|name| (name.to_owned(), instance[name].clone()))
        .collect()
}
