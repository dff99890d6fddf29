//! Create, read, list, update, patch and delete for all resources.
//!
//! This module dispatches by method. Shared parts are in `request`, `checks` and `guards`.

use hyper::{Method, StatusCode};

use crate::body;
use crate::context::Admin;
use crate::problems;
use crate::reply::Reply;
use crate::resource::{Resource, Verb};

mod checks;
mod delete;
mod guards;
pub(crate) mod many;
mod patch;
mod precondition;
mod read;
mod record;
mod request;
pub(crate) mod undo;
mod undo_import;
mod write;

pub(crate) use record::way_of;
pub(crate) use request::Request;

/// Answers a call about objects of one collection.
pub(crate) async fn run(admin: &Admin, request: Request<'_>) -> Result<Reply, Reply> {
    let resource = request.resource;
    let value = body::decode(&request.body)?;
    // An invalid `ttl` is refused for every method.
    request.ttl()?;
    match request.call.method {
        Method::POST if !resource.has(Verb::Post) => return Err(unsupported("POST", resource)),
        Method::PATCH if !resource.has(Verb::Patch) => return Err(unsupported("PATCH", resource)),
        _ => {}
    }
    let warned = |reply| problems::with_warnings(admin, reply);
    match request.call.method {
        Method::GET => read::run(admin, &request).await,
        Method::PUT => write::put(admin, &request, value).await.map(warned),
        Method::POST => write::post(admin, &request, value).await.map(warned),
        Method::PATCH => patch::run(admin, &request, value).await.map(warned),
        Method::DELETE => delete::run(admin, &request).await,
        _ => Err(Reply::page(StatusCode::NOT_FOUND)),
    }
}

fn unsupported(method: &str, resource: &Resource) -> Reply {
    let text = format!("not supported `{method}` method for {}", resource.kind);
    Reply::refusal(StatusCode::METHOD_NOT_ALLOWED, text)
}
