//! `/registry/v1/objects`: objects of another registry, as an export has them, a line each. They come with their
//! ids, times, tokens and revisions; what becomes of each is answered in their order.

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

/// A line: the key of the registry's store, and its value.
#[derive(Deserialize)]
pub(super) struct ObjectLine {
    key: String,
    value: Value,
}

/// What became of all of them.
#[derive(Serialize, JsonSchema)]
pub(super) struct PutOut {
    /// One for each line, in their order.
    effects: Vec<EffectOut>,
}

/// What became of one.
#[derive(Serialize, JsonSchema)]
pub(super) struct EffectOut {
    /// What it changed; missing where it was refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    effect: Option<EffectName>,
    /// Why it was refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
}

/// What an object changed.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum EffectName {
    /// There was none of it.
    Created,
    /// It was another.
    Changed,
    /// It is there as it is.
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
    // All are read before any is put: a body that is none of these changes nothing.
    let read: Vec<ObjectLine> = lines
        .map(serde_json::from_slice)
        .collect::<Result<_, _>>()
        .map_err(|error| body::invalid(&error.to_string()))?;
    // Submitted together, so that they share commits; the body bounds how many they are.
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

/// What became of one; a registry that writes nothing any more refuses the whole call, which may be repeated.
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
