//! `/console/v1/login`: identity of the caller, sign-in and sign-out.

pub(crate) mod ended;
pub(crate) mod wrong_keys;

use bytes::Bytes;
use hyper::header::{HeaderValue, SET_COOKIE};
use hyper::{Method, StatusCode};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::auth;
use crate::call::Call;
use crate::context::Admin;
use crate::options::{KeyCheck, Mode, Role};
use crate::reply::Reply;
use crate::session::{self, SignedIn};

/// Maximum size in bytes of the body of a sign-in, which contains a key.
pub(crate) const BODY_BYTES_MAX: usize = 4096;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SignIn {
    key: String,
}

/// Handles a call about the session.
pub(crate) async fn answer(admin: &Admin, call: &Call, body: &Bytes) -> Result<Reply, Reply> {
    match call.method {
        Method::GET => Ok(Reply::json(StatusCode::OK, &who(admin, call))),
        Method::POST => sign_in(admin, call, body),
        Method::DELETE => sign_out(admin, call).await,
        _ => Err(Reply::refusal(StatusCode::METHOD_NOT_ALLOWED, "use GET, POST or DELETE")),
    }
}

/// Returns identity and role of the caller, and settings that the page needs before all others.
fn who(admin: &Admin, call: &Call) -> Value {
    let options = &admin.parts.options;
    let key = auth::caller(options, call);
    let (mode, file) = match &options.mode {
        Mode::Store => ("store", None),
        Mode::ReadOnly(file) => ("file", Some(file.as_str())),
        Mode::Away(reason) => ("away", Some(reason.as_str())),
        Mode::Standalone(_) => ("documents", None),
    };
    let is_open = options.key_check == KeyCheck::Off;
    let is_known = is_open || key.is_some();
    json!({
        "signed_in": is_known,
        "key_required": !is_open,
        "name": key.map(|key| key.name.as_str()),
        "role": match (is_open, key.map(|key| key.role)) {
            (true, _) | (_, Some(Role::Admin)) => Some("admin"),
            (_, Some(Role::Operator)) => Some("operator"),
            (_, Some(Role::Viewer)) => Some("viewer"),
            (_, None) => None,
        },
        // The mode is shown to authenticated callers only.
        "mode": is_known.then_some(mode),
        "reason": file.filter(|_| is_known),
        "build": tollhouse_console::build_id(),
    })
}

fn sign_in(admin: &Admin, call: &Call, body: &Bytes) -> Result<Reply, Reply> {
    let Some(sessions) = &admin.parts.options.sessions else {
        return Err(Reply::refusal(StatusCode::NOT_FOUND, "not found"));
    };
    check_page(call)?;
    let SignIn { key } = serde_json::from_slice(body)
        .map_err(|error| Reply::bad(format!("invalid request body: {error}")))?;
    let Some(found) = auth::find(&admin.parts.options.keys, &key) else {
        // The limit does not apply to valid keys, because another client behind the same proxy may
        // be guessing keys.
        if !admin.failures.may_try(call.peer.ip()) {
            let text = "too many wrong keys from this address; wait a minute";
            return Err(Reply::refusal(StatusCode::TOO_MANY_REQUESTS, text));
        }
        admin.failures.failed(call.peer.ip());
        let text = "no key of this gateway is this one; see admin.key in the bootstrap file, or the \
                    file admin.key in the data folder";
        return Err(Reply::refusal(StatusCode::UNAUTHORIZED, text));
    };
    admin.failures.succeeded(call.peer.ip());
    let SignedIn { line, proof } = sessions
        .begin(found, call, auth::now_s())
        .map_err(|_| Reply::unavailable("no random numbers are available"))?;
    let body = json!({ "name": found.name, "proof": proof });
    Ok(Reply::json(StatusCode::OK, &body).with(SET_COOKIE, value(&line)?))
}

async fn sign_out(admin: &Admin, call: &Call) -> Result<Reply, Reply> {
    check_page(call)?;
    let Some(sessions) = &admin.parts.options.sessions else {
        return Err(Reply::refusal(StatusCode::NOT_FOUND, "not found"));
    };
    let line = value(&sessions.end_line(call))?;
    let ended = match sessions.end(&admin.parts.options.keys, call, auth::now_s()) {
        Some(id) => ended::keep(admin, &id).await,
        None => Ok(()),
    };
    let reply = match ended {
        Ok(()) => Reply::json(StatusCode::OK, &json!({})),
        Err(error) => Reply::unavailable(format!(
            "the session has ended here, and the store did not take that ({error}): a copy of the cookie may count at \
             other gateways, and here after a restart; change the key to be sure"
        )),
    };
    Ok(reply.with(SET_COOKIE, line))
}

/// Refuses requests that another website made through the browser.
fn check_page(call: &Call) -> Result<(), Reply> {
    if session::is_own_page(call) {
        return Ok(());
    }
    let text = "only the console's own page signs in and out; it sends X-Tollhouse-Console";
    Err(Reply::refusal(StatusCode::FORBIDDEN, text))
}

fn value(line: &str) -> Result<HeaderValue, Reply> {
    HeaderValue::from_str(line).map_err(|error| Reply::bad(error.to_string()))
}
