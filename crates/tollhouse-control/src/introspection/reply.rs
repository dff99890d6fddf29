//! The forms of answers: JSON with a newline at its end, refusals, and the page of unknown paths.

use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{Html, IntoResponse, Response};
use serde_json::{Value, json};

use super::state::Introspection;

/// A document.
pub(super) fn json_reply(status: StatusCode, value: &Value) -> Response {
    let mut text = value.to_string();
    text.push('\n');
    (status, [(header::CONTENT_TYPE, "application/json")], text).into_response()
}

/// A document, with status 200.
pub(super) fn found(value: &Value) -> Response {
    json_reply(StatusCode::OK, value)
}

/// Why there is no document.
pub(super) fn refusal(status: StatusCode, text: impl Into<String>) -> Response {
    json_reply(status, &json!({ "error_msg": text.into() }))
}

/// Answers a path or a method that nobody registered.
pub(super) async fn no_such_page(State(introspection): State<Introspection>) -> Response {
    let page = introspection.brand.page("404 Not Found");
    (StatusCode::NOT_FOUND, Html(page)).into_response()
}
