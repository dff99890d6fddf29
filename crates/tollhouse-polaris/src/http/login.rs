//! Login, and the query of the console for its access settings before that.

use super::HttpApi;
use super::failure::Failure;
use super::intake::{NoBody, json_body, token};
use super::language::Language;
use super::reply::{RESPONSE, Reply};
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

/// Maximum length of a login's body in bytes.
const BODY_BYTES_MAX: usize = 16 * 1024;
/// Role of the only account, as consoles expect it.
const ROLE: &str = "main";
/// Field number of `v1.Response.optionSwitch`.
const OPTION_SWITCH: u32 = 27;

/// Returns the account's token for its name and password.
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
    let token = match token_of(&api, peer, &name, &password) {
        Ok(token) => token,
        Err(code) => return failed(&code.into()),
    };
    let reply = Reply::success(RESPONSE, |out| {
        put_nested(out, response::LOGIN, |out| {
            put_text_value(out, 1, &name);
            put_text_value(out, 2, &name);
            put_text_value(out, 3, ROLE);
            put_text_value(out, 4, "");
            put_text_value(out, 5, token);
        });
    });
    reply.print(language)
}

/// Returns the token for a name and password, unless the address has failed too recently.
fn token_of<'a>(
    api: &'a HttpApi,
    peer: Option<IpAddr>,
    name: &str,
    password: &str,
) -> Result<&'a str, Code> {
    let Some(address) = peer else { return api.access.log_in(name, password) };
    if !api.logins.may_try(address) {
        return Err(Code::IPRateLimit);
    }
    let token = api.access.log_in(name, password);
    match token {
        Ok(_) => api.logins.succeeded(address),
        Err(_) => api.logins.failed(address),
    }
    token
}

/// Returns whether the console and clients need a token.
pub(super) async fn status(api: HttpApi, request: Request) -> Response<Body> {
    let language = Language::wanted(request.uri(), request.headers());
    let is_locked = |check: Result<(), Code>| if check.is_err() { "true" } else { "false" };
    if let Err(code) = api.access.check_console(token(request.headers())) {
        return Reply::failure(RESPONSE, &code.into()).print(language);
    }
    let reply = Reply::success(RESPONSE, |out| {
        put_nested(out, OPTION_SWITCH, |out| {
            put_entry(out, 1, "auth", is_locked(api.access.check_console(None)));
            put_entry(out, 1, "clientOpen", is_locked(api.access.check_client(None)));
            put_entry(out, 1, "consoleOpen", is_locked(api.access.check_console(None)));
        });
    });
    reply.print(language)
}
