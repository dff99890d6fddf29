//! `/registry/v1/objects`: import of an exported registry, one object per line. The objects keep
//! their ids, times, tokens and revisions. The answer has one result per line, in order.

use hyper::{Method, StatusCode};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tollhouse_registry::{Command, Effect, Object, Outcome, Refusal};

use super::listing::reply;
use super::refused;
use super::request::Request;
use crate::body;
use crate::reply::Reply;

/// Line of the import: key and value of an entry in the registry's store.
#[derive(Deserialize)]
pub(super) struct ObjectLine {
    key: String,
    value: Value,
}

/// Results of all lines.
#[derive(Serialize, JsonSchema)]
pub(super) struct PutOut {
    /// Result of each line, in order.
    effects: Vec<EffectOut>,
}

/// Result of one line.
#[derive(Serialize, JsonSchema)]
pub(super) struct EffectOut {
    /// Effect of the line; missing if it was refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    effect: Option<EffectName>,
    /// Reason of a refusal.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
}

/// Effect of a line.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum EffectName {
    /// The object was created.
    Created,
    /// An existing object was changed.
    Changed,
    /// The object existed already, unchanged.
    Unchanged,
}

impl From<Effect> for EffectOut {
    fn from(effect: Effect) -> Self {
        let effect = match effect {
            Effect::Created => EffectName::Created,
            Effect::Changed => EffectName::Changed,
            Effect::Unchanged => EffectName::Unchanged,
        };
        Self { effect: Some(effect), reason: None }
    }
}

impl EffectOut {
    fn refused(reason: &impl ToString) -> Self {
        Self { effect: None, reason: Some(reason.to_string()) }
    }
}

pub(super) async fn collection(request: &Request<'_>) -> Result<Reply, Reply> {
    if request.call.method != Method::POST {
        return Err(request.wrong_method("POST"));
    }
    let lines = request.body.split(|byte| *byte == b'\n');
    let lines = lines.filter(|line| !line.trim_ascii().is_empty());
    // All lines are parsed before the first is applied, so that an invalid body changes nothing.
    let read: Vec<ObjectLine> = lines
        .map(serde_json::from_slice)
        .collect::<Result<_, _>>()
        .map_err(|error| body::invalid(&error.to_string()))?;
    // The objects are submitted concurrently, so that they share commits. The size limit of the
    // body bounds their number.
    let mut waiting = Vec::with_capacity(read.len());
    for ObjectLine { key, value } in read {
        waiting.push(match Object::from_entry(&key, value.to_string().as_bytes()) {
            Ok(object) => {
                let registry = request.part.registry.clone();
                let put = async move { registry.submit(Command::Put(object)).await };
                Ok(tokio::spawn(put))
            }
            Err(foreign) => Err(EffectOut::refused(&foreign)),
        });
    }
    let mut effects = Vec::with_capacity(waiting.len());
    for put in waiting {
        effects.push(match put {
            Ok(put) => to_effect(put.await.unwrap_or(Err(Refusal::Closed)))?,
            Err(refused) => refused,
        });
    }
    Ok(reply(StatusCode::OK, &PutOut { effects }))
}

/// Converts the outcome for one object. If the registry can no longer write, the whole call is
/// refused, and can be repeated later.
fn to_effect(outcome: Result<Outcome, Refusal>) -> Result<EffectOut, Reply> {
    match outcome {
        Ok(Outcome::Put(effect)) => Ok(effect.into()),
        Ok(_) | Err(Refusal::NoChange) => Ok(Effect::Unchanged.into()),
        Err(refusal @ (Refusal::Store(_) | Refusal::Closed | Refusal::Busy)) => {
            Err(refused::reply(&refusal))
        }
        Err(refusal) => Ok(EffectOut::refused(&refusal)),
    }
}
