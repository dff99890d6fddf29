//! Logging in, and what the console asks about access before it does.

use super::HttpApi;
use super::intake::{NoBody, json_body, token};
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

/// The role of the only account.
const ROLE: &str = "main";
/// `v1.Response.optionSwitch`.
const OPTION_SWITCH: u32 = 27;

/// Gives the token of an account to who knows its password.
pub(super) async fn log_in(api: HttpApi, request: Request) -> Response<Body> {
    let (head, body) = request.into_parts();
    let failed = |code: Code| Reply::failure(RESPONSE, &code.into()).into_response();
    let body = match json_body(&head.headers, body).await {
        Ok(body) => body,
        Err(NoBody::Refused(response)) => return response,
        Err(NoBody::Failed(failure)) => return failed(failure.code),
    };
    let descriptor =
        descriptors().get_message_by_name("v1.LoginRequest").expect("the type is in the schema");
    let read = json::read(&descriptor, &body).ok();
    let Some(login) = read.and_then(|bytes| v1::LoginRequest::decode(&bytes[..]).ok()) else {
        return failed(Code::ParseException);
    };
    let (name, password) = (login.name.unwrap_or_default(), login.password.unwrap_or_default());
    let token = match api.access.log_in(&name, &password) {
        Ok(token) => token,
        Err(code) => return failed(code),
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
    reply.into_response()
}

/// Whether the console and clients need a token.
pub(super) async fn status(api: HttpApi, request: Request) -> Response<Body> {
    let is_locked = |check: Result<(), Code>| if check.is_err() { "true" } else { "false" };
    if let Err(code) = api.access.check_console(token(request.headers())) {
        return Reply::failure(RESPONSE, &code.into()).into_response();
    }
    let reply = Reply::success(RESPONSE, |out| {
        put_nested(out, OPTION_SWITCH, |out| {
            put_entry(out, 1, "auth", is_locked(api.access.check_console(None)));
            put_entry(out, 1, "clientOpen", is_locked(api.access.check_client(None)));
            put_entry(out, 1, "consoleOpen", is_locked(api.access.check_console(None)));
        });
    });
    reply.into_response()
}
