//! The process: its log, and calls of Polaris that have no meaning here.

use super::{read_body, read_query, refused};
use crate::http::HttpApi;
use crate::http::language::Language;
use crate::http::reply::{RESPONSE, Reply, plain};
use axum::body::Body;
use axum::extract::Request;
use axum::http::{Response, StatusCode};
use serde::Deserialize;
use serde_json::{Value, json};

/// The only scope of the log.
const SCOPE: &str = "default";

#[derive(Debug, Deserialize)]
struct LevelChange {
    #[serde(default)]
    scope: String,
    level: String,
}

#[derive(Debug, Deserialize)]
struct Election {
    #[serde(rename = "electKey", default)]
    key: String,
}

/// Returns the level of the log.
pub(super) async fn log_level(api: HttpApi, request: Request) -> Response<Body> {
    let language = Language::wanted(request.uri(), request.headers());
    if let Err(failure) = read_query(&api, &request, "DescribeGetLogOutputLevel", &[]) {
        return Reply::failure(RESPONSE, &failure).print(language);
    }
    let scopes: Vec<Value> =
        api.log.iter().map(|log| json!({"Name": SCOPE, "Level": log.level()})).collect();
    plain(StatusCode::OK, Value::from(scopes).to_string())
}

/// Changes the level of the log.
pub(super) async fn set_log_level(api: HttpApi, request: Request) -> Response<Body> {
    let change: LevelChange = match read_body(&api, request, "UpdateLogOutputLevel").await {
        Ok(change) => change,
        Err(response) => return *response,
    };
    if !change.scope.is_empty() && change.scope != SCOPE {
        return refused(format!(
            "unknown scope {:?}; the log has the scope {SCOPE:?}",
            change.scope
        ));
    }
    let Some(log) = &api.log else { return refused("this process has no log") };
    match log.set_level(&change.level) {
        Ok(()) => plain(StatusCode::OK, "\"ok\""),
        Err(text) => refused(text),
    }
}

/// Refuses to release a leader, because the nodes have no leader.
pub(super) async fn release_leader(api: HttpApi, request: Request) -> Response<Body> {
    match read_body::<Election>(&api, request, "ReleaseLeaderElection").await {
        Ok(election) => {
            refused(format!("no election {:?}: the nodes have no leader", election.key))
        }
        Err(response) => *response,
    }
}

/// Refuses to free memory, because the allocator returns it without a call.
pub(super) async fn free_memory(api: HttpApi, request: Request) -> Response<Body> {
    without_effect(&api, &request, "FreeOSMemory", "unused memory is returned without a call")
}

/// Refuses to switch Go's profiles on.
pub(super) async fn enable_profiles(api: HttpApi, request: Request) -> Response<Body> {
    without_effect(&api, &request, "EnablePprof", "this server has no pprof")
}

fn without_effect(
    api: &HttpApi,
    request: &Request,
    function: &'static str,
    text: &'static str,
) -> Response<Body> {
    let language = Language::wanted(request.uri(), request.headers());
    match read_query(api, request, function, &[]) {
        Ok(_) => refused(text),
        Err(failure) => Reply::failure(RESPONSE, &failure).print(language),
    }
}
