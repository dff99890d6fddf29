//! Login, and the query of the console for its access settings before that.

use super::HttpApi;
use super::failure::Failure;
use super::intake::{NoBody, json_body};
use super::language::Language;
use super::reply::{RESPONSE, Reply};
use crate::access::{Door, Gate, PASSWORD_MEMORY_BYTES, is_password};
use crate::code::Code;
use crate::json;
use crate::schema::descriptors;
use crate::v1;
use crate::wire::answer::response;
use crate::wire::write::{put_entry, put_nested, put_text_value};
use axum::body::Body;
use axum::extract::Request;
use axum::http::Response;
use prost::Message;
use std::net::IpAddr;
use tollhouse_web::Peer;

/// Path of the log-in.
pub(super) const LOG_IN: &str = "/core/v1/user/login";
/// Maximum length of a login's body in bytes.
const BODY_BYTES_MAX: usize = 16 * 1024;
/// Role of the account of the bootstrap file, as consoles expect it.
const ACCOUNT_ROLE: &str = "main";
/// Role of all other users.
const USER_ROLE: &str = "sub";
/// Text of a refused login, which does not tell whether the user exists.
const WRONG: &str = "name or password is wrong";
/// Field number of `v1.Response.optionSwitch`.
const OPTION_SWITCH: u32 = 27;

/// A user after a login.
struct LoggedIn {
    id: String,
    owner: String,
    role: &'static str,
    token: String,
}

/// Returns a user's token for name and password.
pub(super) async fn log_in(api: HttpApi, request: Request) -> Response<Body> {
    let (head, body) = request.into_parts();
    let language = Language::from_request(&head);
    let failed = |failure: &Failure| Reply::failure(RESPONSE, failure).print(language);
    let body = match json_body(&api.capacity, &head.headers, body, BODY_BYTES_MAX).await {
        Ok(body) => body,
        Err(NoBody::Refused(response)) => return response,
        Err(NoBody::Failed(failure)) => return failed(&failure),
    };
    let descriptor =
        descriptors().get_message_by_name("v1.LoginRequest").expect("the type is in the schema");
    let read = json::read(&descriptor, &body.bytes).ok();
    let Some(login) = read.and_then(|bytes| v1::LoginRequest::decode(&bytes[..]).ok()) else {
        return failed(&Code::ParseException.into());
    };
    // Limited by address: after a failure an address must wait, whichever account it tries next.
    let peer = head.extensions.get::<Peer>().map(|peer| peer.address.ip());
    let (name, password) = (login.name.unwrap_or_default(), login.password.unwrap_or_default());
    let user = match log_in_user(&api, peer, &name, password).await {
        Ok(user) => user,
        Err(failure) => return failed(&failure),
    };
    let reply = Reply::success(RESPONSE, |out| {
        put_nested(out, response::LOGIN, |out| {
            put_text_value(out, 1, &user.id);
            put_text_value(out, 2, &name);
            put_text_value(out, 3, user.role);
            put_text_value(out, 4, &user.owner);
            put_text_value(out, 5, &user.token);
        });
    });
    reply.print(language)
}

/// Returns the user of a name and password, unless the address has failed too recently.
async fn log_in_user(
    api: &HttpApi,
    peer: Option<IpAddr>,
    name: &str,
    password: String,
) -> Result<LoggedIn, Failure> {
    if peer.is_some_and(|address| !api.logins.may_try(address)) {
        return Err(Code::IPRateLimit.into());
    }
    let user = match api.access.log_in(name, &password) {
        Ok(token) => Some(LoggedIn {
            id: name.to_owned(),
            owner: String::new(),
            role: ACCOUNT_ROLE,
            token: token.to_owned(),
        }),
        Err(_) => stored_user(api, name, password).await?,
    };
    if let Some(address) = peer {
        match user {
            Some(_) => api.logins.succeeded(address),
            None => api.logins.failed(address),
        }
    }
    user.ok_or_else(|| Failure::with(Code::NotAllowedAccess, WRONG))
}

/// Returns the stored user of a name and password; takes as long for an unknown user.
async fn stored_user(
    api: &HttpApi,
    name: &str,
    password: String,
) -> Result<Option<LoggedIn>, Failure> {
    let user = api.registry().state().user_named(name).cloned();
    let hash = user.as_ref().map(|user| user.password.clone());
    let held = api.capacity.hold(PASSWORD_MEMORY_BYTES).await?;
    let is_right = api.capacity.work(move || is_password(&password, hash.as_ref())).await?;
    drop(held);
    Ok(user.filter(|_| is_right).map(|user| LoggedIn {
        id: user.head.id.to_string(),
        owner: user.head.owner.to_string(),
        role: USER_ROLE,
        token: user.token.text.to_string(),
    }))
}

/// Returns whether the console and clients need a token. Needs none itself: Polaris' console asks
/// before the log-in.
pub(super) async fn status(api: HttpApi, request: Request) -> Response<Body> {
    let language = Language::wanted(request.uri(), request.headers());
    let is_locked = |door| match api.access.gate(door) {
        Gate::Locked => "true",
        Gate::Open | Gate::Rehearsed => "false",
    };
    let reply = Reply::success(RESPONSE, |out| {
        put_nested(out, OPTION_SWITCH, |out| {
            put_entry(out, 1, "auth", is_locked(Door::Console));
            put_entry(out, 1, "clientOpen", is_locked(Door::Client));
            put_entry(out, 1, "consoleOpen", is_locked(Door::Console));
        });
    });
    reply.print(language)
}
