//! `/registry/v1`: objects of the service registry. Keys, roles and errors are those of the Admin
//! API.
//!
//! This module routes by path. [`RegistryDialect`](part::RegistryDialect) contains the few
//! functions that depend on the wire protocol of the registry's clients.

mod aliases;
mod body_budget;
mod bulk;
pub(crate) mod change_queue;
mod clients;
mod incoming;
mod instances;
mod listing;
mod namespaces;
mod noted;
mod objects;
pub(crate) mod openapi;
mod outgoing;
pub(crate) mod part;
mod polaris;
mod refused;
mod request;
mod rules;
mod search;
mod services;
mod status;
mod watch;

use hyper::StatusCode;
use serde_json::Value;
use tollhouse_registry::{RuleKind, ServiceRef};

use crate::auth;
use crate::body::{self, RequestBody};
use crate::call::Call;
use crate::context::Admin;
use crate::limits::BODY_BYTES_MAX;
use crate::reply::Reply;
use part::RegistryPart;
use request::Request;

/// Answers a call about the registry below [`prefix::REGISTRY`](crate::prefix::REGISTRY).
pub(crate) async fn answer<B>(admin: &Admin, call: &Call, body: B) -> Result<Reply, Reply>
where
    B: RequestBody,
{
    if let Some(rest) = call.whole_segments.get(3..)
        && call.whole_segments[2] == polaris::SEGMENT
    {
        return polaris::answer(admin, call, rest, body).await;
    }
    auth::check_key(&admin.parts.options, call)?;
    let part = part(admin)?;
    let body = body::read(body, BODY_BYTES_MAX).await?;
    let segments: Vec<&str> = call.whole_segments.iter().skip(2).map(String::as_str).collect();
    let request = Request { part, call, body };
    let before = noted::look(&request, &segments).await;
    let reply = route(&request, &segments).await?;
    if let Some(before) = before {
        noted::keep(admin, &request, &segments, before, &reply).await;
    }
    Ok(reply)
}

fn part(admin: &Admin) -> Result<&RegistryPart, Reply> {
    admin.parts.registry.as_ref().ok_or_else(|| {
        Reply::refusal(StatusCode::NOT_FOUND, "the registry is off; see listen.registry_grpc")
    })
}

/// Returns the JSON schema of governance rules of a kind.
pub(crate) fn rule_schema(admin: &Admin, kind: &str) -> Result<Value, Reply> {
    Ok(part(admin)?.dialect.rule_schema(rules::kind_of(kind)?))
}

/// Routes a call by its path.
async fn route(request: &Request<'_>, segments: &[&str]) -> Result<Reply, Reply> {
    match *segments {
        ["status"] => request.only_get(|| Ok(status::read(request.part))),
        ["clients"] => request.only_get(|| clients::list(request)),
        ["namespaces"] => namespaces::collection(request).await,
        ["namespaces", name] => namespaces::one(request, name).await,
        ["services"] => services::collection(request).await,
        ["services", namespace, name] => {
            services::one(request, ServiceRef { namespace, name }).await
        }
        ["services", namespace, name, "instances"] => {
            instances::service_instances(request, ServiceRef { namespace, name }).await
        }
        ["instances"] => instances::collection(request).await,
        ["instances", id] => instances::one(request, id).await,
        ["instances", id, "heartbeat"] => instances::heartbeat(request, id),
        ["aliases"] => aliases::collection(request).await,
        ["aliases", namespace, name] => aliases::one(request, ServiceRef { namespace, name }).await,
        ["objects"] => objects::collection(request).await,
        ["rules"] => request.only_get(|| rules::list(request, &RuleKind::ALL)),
        ["rules", kind] => rules::collection(request, rules::kind_of(kind)?).await,
        ["rules", kind, id] => rules::one(request, rules::kind_of(kind)?, id).await,
        _ => Err(Reply::refusal(StatusCode::NOT_FOUND, "not found")),
    }
}
