//! Response helpers: JSON with a trailing newline, error responses, and the 404 page.

use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{Html, IntoResponse, Response};
use serde_json::{Value, json};

use super::state::Introspection;

pub(super) fn json_reply(status: StatusCode, value: &Value) -> Response {
    let mut text = value.to_string();
    text.push('\n');
    (status, [(header::CONTENT_TYPE, "application/json")], text).into_response()
}

/// Returns a JSON response with status 200.
pub(super) fn found(value: &Value) -> Response {
    json_reply(StatusCode::OK, value)
}

/// Returns an error response, with the text as `error_msg`.
pub(super) fn refusal(status: StatusCode, text: impl Into<String>) -> Response {
    json_reply(status, &json!({ "error_msg": text.into() }))
}

/// Returns an HTML page with status 404, for an unknown path or method.
pub(super) async fn no_such_page(State(introspection): State<Introspection>) -> Response {
    let page = introspection.brand.page("404 Not Found");
    (StatusCode::NOT_FOUND, Html(page)).into_response()
}
