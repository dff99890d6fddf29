//! Last heartbeat of an instance, and the clean-up of deleted ones.

use super::read_body;
use crate::access::Door;
use crate::code::Code;
use crate::date::DateText;
use crate::dialect::instance_id_of;
use crate::http::HttpApi;
use crate::http::failure::Failure;
use crate::http::intake::request_caller;
use crate::http::language::Language;
use crate::http::query::Query;
use crate::http::reply::{RESPONSE, Reply, plain};
use crate::json;
use crate::schema::descriptors;
use crate::wire::answer::response;
use crate::wire::write::{put_entry, put_nested};
use crate::wire::{InstanceRequest, put_identity};
use axum::body::Body;
use axum::extract::Request;
use axum::http::{Response, StatusCode};
use serde::Deserialize;
use serde_json::{Value, json};

/// Number of the field with the metadata of an instance.
const METADATA: u32 = 14;

#[derive(Debug, Deserialize)]
struct CleanUp {
    #[serde(default)]
    #[expect(dead_code, reason = "nothing is left to clean, whatever the size of a batch")]
    batch_size: u32,
}

/// Returns the last heartbeat of an instance, by its id or its address.
pub(super) async fn last_heartbeat(api: HttpApi, request: Request) -> Response<Body> {
    let language = Language::wanted(request.uri(), request.headers());
    let reply = find_heartbeat(&api, &request);
    reply.unwrap_or_else(|failure| Reply::failure(RESPONSE, &failure)).print(language)
}

fn find_heartbeat(api: &HttpApi, request: &Request) -> Result<Reply, Failure> {
    const FUNCTION: &str = "DescribeInstanceLastHeartbeat";
    let keys = ["id", "namespace", "service", "host", "port", "vpc_id"];
    let state = api.registry().state();
    let caller = request_caller(request);
    let rights = api.dialect.rights(&state, Door::Console, &caller);
    rights.check(FUNCTION, &[])?;
    let query = Query::parse(request.uri().query(), &keys)?;
    let id = id_of(&query)?;
    rights.instance(FUNCTION, &id)?;
    let instance = state.instance(&id).ok_or(Code::NotFoundInstance)?;
    let beat = api.registry().last_heartbeat(&id).ok_or(Code::NotFoundResource)?;
    let beat_seconds = beat.at_ms / 1_000;
    let metadata = [
        ("last-heartbeat-timestamp", beat_seconds.to_string()),
        ("last-heartbeat-time", date(beat_seconds)),
        ("last-heartbeat-count", beat.count.to_string()),
        ("system-time", date(api.registry().now_ms() / 1_000)),
    ];
    Ok(Reply::success(RESPONSE, |out| {
        put_nested(out, response::INSTANCE, |out| {
            put_identity(out, instance);
            for (key, value) in &metadata {
                put_entry(out, METADATA, key, value);
            }
        });
    }))
}

fn date(seconds: u64) -> String {
    DateText::from_unix_seconds(seconds).as_str().to_owned()
}

fn id_of(query: &Query) -> Result<String, Failure> {
    let mut instance = InstanceRequest::default();
    instance.id = query.get("id");
    instance.namespace = query.get("namespace");
    instance.service = query.get("service");
    instance.host = query.get("host");
    instance.vpc_id = query.get("vpc_id");
    instance.port = query.number("port")?;
    Ok(instance_id_of(&instance)?)
}

/// Confirms the clean-up of an instance: deleted instances are not stored, and others stay.
pub(super) async fn clean(api: HttpApi, request: Request) -> Response<Body> {
    let language = Language::wanted(request.uri(), request.headers());
    let sent: Value = match read_body(&api, request, "CleanInstance").await {
        Ok(sent) => sent,
        Err(response) => return *response,
    };
    let descriptor = descriptors().get_message_by_name("v1.Instance").expect("in the schema");
    let reply = match json::read_kept(&descriptor, sent.to_string().as_bytes()) {
        Ok(message) => cleaned(&message),
        Err(_) => Err(Code::ParseException.into()),
    };
    reply.unwrap_or_else(|failure| Reply::failure(RESPONSE, &failure)).print(language)
}

fn cleaned(message: &[u8]) -> Result<Reply, Failure> {
    let instance = InstanceRequest::parse(message).map_err(|_| Code::ParseException)?;
    instance_id_of(&instance)?;
    Ok(Reply::success(RESPONSE, |out| {
        put_nested(out, response::INSTANCE, |out| out.extend_from_slice(message));
    }))
}

/// Answers that no deleted instance was left to clean.
pub(super) async fn clean_many(api: HttpApi, request: Request) -> Response<Body> {
    match read_body::<CleanUp>(&api, request, "BatchCleanInstances").await {
        Ok(_) => plain(StatusCode::OK, json!({"rows_affected": 0}).to_string()),
        Err(response) => *response,
    }
}
