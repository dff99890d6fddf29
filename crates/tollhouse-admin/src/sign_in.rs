//! `/console/v1/login`: identity of the caller, sign-in and sign-out. `provider` signs people in at
//! an identity provider.

pub(crate) mod accounts;
pub(crate) mod ended;
pub(crate) mod pending;
pub(crate) mod provider;
pub(crate) mod wrong_keys;

use std::sync::Arc;

use bytes::Bytes;
use hyper::header::{HeaderValue, SET_COOKIE};
use hyper::{Method, StatusCode};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::Semaphore;

use crate::auth;
use crate::call::Call;
use crate::context::Admin;
use crate::options::{KeyCheck, Mode, Role};
use crate::people::Person;
use crate::reply::Reply;
use crate::session::{self, KeyHolder, Sessions, SignedIn};

/// Maximum size in bytes of the body of a sign-in, which contains a key, or the code of an identity
/// provider. Codes have up to two thousand bytes.
pub(crate) const BODY_BYTES_MAX: usize = 8192;

/// A key, the name and password of a user, or what an identity provider answered.
#[derive(Deserialize)]
#[serde(untagged, deny_unknown_fields)]
enum SignIn {
    Key { key: String },
    User { name: String, password: String },
    Provider(provider::Return),
}

/// Number of passwords that are checked at the same time, each in 19 MiB of memory.
const PASSWORDS_AT_ONCE: usize = 2;

static PASSWORD_CHECKS: Semaphore = Semaphore::const_new(PASSWORDS_AT_ONCE);

/// Handles a call about the session.
pub(crate) async fn answer(
    admin: &Admin,
    call: &Call,
    segments: &[&str],
    body: &Bytes,
) -> Result<Reply, Reply> {
    match (segments, &call.method) {
        ([], &Method::GET) => Ok(Reply::json(StatusCode::OK, &who(admin, call))),
        ([], &Method::POST) => sign_in(admin, call, body).await,
        ([], &Method::DELETE) => sign_out(admin, call).await,
        (["openid"], &Method::POST) => provider::begin(admin, call).await,
        (["openid"], _) => Err(Reply::refusal(StatusCode::METHOD_NOT_ALLOWED, "use POST")),
        ([_, ..], _) => Err(Reply::refusal(StatusCode::NOT_FOUND, "not found")),
        ([], _) => Err(Reply::refusal(StatusCode::METHOD_NOT_ALLOWED, "use GET, POST or DELETE")),
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
    // Users without a right to the gateway's objects may have some to the registry's.
    let name = auth::holder_name(options, call);
    let is_known = is_open || name.is_some();
    json!({
        "signed_in": is_known,
        "key_required": !is_open,
        "name": name,
        "role": match (is_open, key.as_ref().map(|key| key.role)) {
            (true, _) | (_, Some(Role::Admin)) => Some("admin"),
            (_, Some(Role::Operator)) => Some("operator"),
            (_, Some(Role::Viewer)) => Some("viewer"),
            (_, None) => None,
        },
        // The mode is shown to authenticated callers only.
        "mode": is_known.then_some(mode),
        "reason": file.filter(|_| is_known),
        // Name of the identity provider at which people may log in.
        "openid": options.log_in.as_ref().map(|log_in| &log_in.name),
        "build": tollhouse_console::build_id(),
    })
}

async fn sign_in(admin: &Admin, call: &Call, body: &Bytes) -> Result<Reply, Reply> {
    let Some(sessions) = &admin.parts.options.sessions else {
        return Err(Reply::refusal(StatusCode::NOT_FOUND, "not found"));
    };
    check_page(call)?;
    let sent: SignIn = serde_json::from_slice(body)
        .map_err(|error| Reply::bad(format!("invalid request body: {error}")))?;
    if let SignIn::Provider(sent) = &sent {
        let done = match provider::complete(admin, call, sent).await {
            Ok(holder) => {
                admin.failures.succeeded(call.peer.ip());
                signed_in(sessions, &holder, call)
            }
            Err(refusal) => Err(refusal),
        };
        let Some(line) = provider::end_line(admin, call) else { return done };
        let line = value(&line)?;
        return done
            .map(|reply| reply.with(SET_COOKIE, line.clone()))
            .map_err(|refusal| refusal.with(SET_COOKIE, line));
    }
    let is_user = matches!(sent, SignIn::User { .. });
    if is_user && !admin.failures.may_try(call.peer.ip()) {
        return Err(too_many());
    }
    let Some(found) = holder_of(admin, sent).await else {
        // The limit does not apply to valid keys, because another client behind the same proxy may
        // be guessing keys.
        if !is_user && !admin.failures.may_try(call.peer.ip()) {
            return Err(too_many());
        }
        admin.failures.failed(call.peer.ip());
        if is_user {
            let text = "the name or the password is wrong";
            return Err(Reply::refusal(StatusCode::UNAUTHORIZED, text));
        }
        let text = "no key of this gateway is this one; see admin.key in the bootstrap file, or the \
                    file admin.key in the data folder";
        return Err(Reply::refusal(StatusCode::UNAUTHORIZED, text));
    };
    admin.failures.succeeded(call.peer.ip());
    signed_in(sessions, &found, call)
}

/// Begins a session, and returns its cookie and proof.
fn signed_in(sessions: &Sessions, holder: &KeyHolder<'_>, call: &Call) -> Result<Reply, Reply> {
    let SignedIn { line, proof } = sessions
        .begin(holder, call, auth::now_s())
        .map_err(|_| Reply::unavailable("no random numbers are available"))?;
    let body = json!({ "name": holder.name(), "proof": proof });
    Ok(Reply::json(StatusCode::OK, &body).with(SET_COOKIE, value(&line)?))
}

fn too_many() -> Reply {
    let text = "too many wrong keys from this address; wait a minute";
    Reply::refusal(StatusCode::TOO_MANY_REQUESTS, text)
}

/// Returns the holder of a key, or the user of a name and password.
async fn holder_of(admin: &Admin, sent: SignIn) -> Option<KeyHolder<'_>> {
    let options = &admin.parts.options;
    let (name, password) = match sent {
        SignIn::Key { key } => {
            let configured = auth::find(&options.keys, &key).map(KeyHolder::Configured);
            return configured.or_else(|| auth::person(options, &key).map(KeyHolder::Person));
        }
        SignIn::User { name, password } => (name, password),
        // Completed by `provider`.
        SignIn::Provider(_) => return None,
    };
    let part = admin.parts.registry.as_ref()?;
    let user = options.people.as_ref()?.state().user_named(&name).cloned();
    let dialect = Arc::clone(&part.dialect);
    // Users of an identity provider have no password.
    let user = user.filter(|user| !user.password.0.is_empty());
    let hash = user.as_ref().map(|user| user.password.clone());
    let _permit = PASSWORD_CHECKS.acquire().await.ok()?;
    let check = move || dialect.is_password(&password, hash.as_ref());
    let is_right = tokio::task::spawn_blocking(check).await.ok()?;
    user.filter(|_| is_right).and_then(|user| Person::from_user(&user)).map(KeyHolder::Person)
}

async fn sign_out(admin: &Admin, call: &Call) -> Result<Reply, Reply> {
    check_page(call)?;
    let Some(sessions) = &admin.parts.options.sessions else {
        return Err(Reply::refusal(StatusCode::NOT_FOUND, "not found"));
    };
    let line = value(&sessions.end_line(call))?;
    // Also for the audit, which sees the call after the session has ended.
    let name = auth::holder_name(&admin.parts.options, call);
    let ended = match sessions.end(&admin.parts.options, call, auth::now_s()) {
        Some(id) => ended::keep(admin, &id).await,
        None => Ok(()),
    };
    let reply = match ended {
        Ok(()) => Reply::json(StatusCode::OK, &json!({ "name": name })),
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
