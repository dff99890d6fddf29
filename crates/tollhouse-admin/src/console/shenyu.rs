//! `/console/v1/shenyu`: ShenYu's plugins, selectors, rules, metadata and applications, in the
//! format of ShenYu's admin. Callers authenticate with a key of this gateway's Admin API.

use hyper::{Method, StatusCode};
use serde_json::{Value, json};

use crate::auth;
use crate::body::{self, RequestBody};
use crate::call::Call;
use crate::context::Admin;
use crate::limits::BODY_BYTES_MAX;
use crate::options::Role;
use crate::problems;
use crate::reply::Reply;
use crate::shenyu::{ShenyuCall, ShenyuSource};

/// Error text for calls while the gateway keeps no ShenYu objects.
const OFF: &str = "ShenYu's objects are off here; set listen.shenyu to keep them";

/// Returns the source of ShenYu's objects.
///
/// # Errors
/// If the gateway keeps no ShenYu objects.
pub(super) fn source(admin: &Admin) -> Result<&dyn ShenyuSource, Reply> {
    let off = || Reply::refusal(StatusCode::NOT_FOUND, OFF);
    admin.parts.shenyu.as_deref().ok_or_else(off)
}

/// Handles a call from an authenticated caller.
pub(super) async fn answer<B>(
    admin: &Admin,
    call: &Call,
    segments: &[&str],
    body: B,
) -> Result<Reply, Reply>
where
    B: RequestBody,
{
    let source = source(admin)?;
    let body = body::read(body, BODY_BYTES_MAX).await?;
    if segments == ["forms"] && call.method == Method::GET {
        return Ok(Reply::json(StatusCode::OK, source.forms()));
    }
    // `updateSk`, of ShenYu before 2.7, changes a secret although its method is GET.
    if call.method != Method::GET || segments.ends_with(&["updateSk"]) {
        auth::check_key(&admin.parts.options, call)?;
        admin.parts.options.mode.check_writable()?;
    }
    let role = auth::caller_role(&admin.parts.options, call);
    if segments.ends_with(&["updateSk"]) && role == Role::Viewer {
        let text = "this takes a key of the role admin or operator";
        return Err(Reply::refusal(StatusCode::FORBIDDEN, text));
    }
    let operator = auth::caller(&admin.parts.options, call);
    let shenyu_call = ShenyuCall {
        operator: operator.map(|key| key.name.clone()).unwrap_or_default(),
        sees_secrets: auth::reader_role(&admin.parts.options, call) == Role::Admin,
        method: call.method.clone(),
        segments: segments.iter().map(|segment| (*segment).to_owned()).collect(),
        arguments: call.arguments.to_pairs(),
        body: body::decode(&body)?.unwrap_or(Value::Null),
    };
    let answered = source.call(shenyu_call).await;
    let (status, value) = answered.unwrap_or_else(|| (404, json!({ "error_msg": OFF })));
    let status = StatusCode::from_u16(status).unwrap_or(StatusCode::BAD_REQUEST);
    let reply = Reply::json(status, &value);
    if !status.is_success() {
        return Err(reply);
    }
    let warnings = value["warnings"].as_array().cloned().unwrap_or_default();
    Ok(problems::with_problems(reply, warnings))
}
