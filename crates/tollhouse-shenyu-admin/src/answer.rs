//! Answers in ShenYu's wrapper `{"code":…,"message":…,"data":…}`. Their HTTP status is 200, except
//! where authentication fails.

use axum::Json;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};

use crate::warnings::{WARNINGS, Warnings};

/// Code for an invalid call or a failure.
const ERROR: i64 = 500;

/// Code for a missing object or path.
const NOT_FOUND: i64 = 404;

/// Code for a user without permission.
const NO_PERMISSION: i64 = 601;

/// Code for a missing or invalid token.
const NO_TOKEN: i64 = 600;

/// Message and data of a call that succeeded.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Success {
    pub(crate) message: &'static str,
    pub(crate) data: Value,
    /// Problems of the data plane with what the call has written.
    pub(crate) warnings: Warnings,
}

pub(crate) type Outcome = Result<Success, Refusal>;

pub(crate) fn success(message: &'static str, data: impl Into<Value>) -> Outcome {
    Ok(Success { message, data: data.into(), warnings: Warnings::default() })
}

/// Why a call failed. A refused call changes nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Refusal {
    status: StatusCode,
    code: i64,
    /// Code in the answer; differs from `code` where ShenYu reports a missing row as an error.
    told: i64,
    message: String,
}

impl Refusal {
    /// Refuses an invalid call, or reports a failure.
    pub(crate) fn error(message: impl Into<String>) -> Self {
        Self { status: StatusCode::OK, code: ERROR, told: ERROR, message: message.into() }
    }

    /// Refuses a body with an invalid or missing member, in ShenYu's words.
    pub(crate) fn invalid(field: &str, text: &str) -> Self {
        Self::error(format!("Request error! invalid argument [{field}: {text}]"))
    }

    /// Refuses a body that lacks the members `fields`; one answer names all of them.
    pub(crate) fn missing(fields: &[&str]) -> Self {
        let texts: Vec<String> =
            fields.iter().map(|field| format!("{field}: must not be null")).collect();
        Self::error(format!("Request error! invalid argument [{}]", texts.join("| ")))
    }

    /// Refuses a method that the path does not support.
    pub(crate) fn method(method: &str, supported: &[&str]) -> Self {
        let supported = supported.join(" ");
        Self::error(format!(
            "{method} method is not supported for this request. Supported methods are {supported} "
        ))
    }

    /// Refuses a name that is already taken.
    pub(crate) fn conflict(name: &str) -> Self {
        Self::error(format!("unique index conflict, please enter again: `{name}` exists already"))
    }

    /// Refuses a call that names a missing row. ShenYu treats this as an invalid argument, so the
    /// answer carries [`ERROR`].
    pub(crate) fn not_existed(message: impl Into<String>) -> Self {
        Self { told: ERROR, ..Self::not_found(message) }
    }

    /// Refuses a call for a missing object or path.
    pub(crate) fn not_found(message: impl Into<String>) -> Self {
        Self { status: StatusCode::OK, code: NOT_FOUND, told: NOT_FOUND, message: message.into() }
    }

    /// Refuses a call without a valid token.
    pub(crate) fn token() -> Self {
        let message = "token is error".to_owned();
        Self { status: StatusCode::UNAUTHORIZED, code: NO_TOKEN, told: NO_TOKEN, message }
    }

    /// Refuses a call that the user has no permission for.
    pub(crate) fn permission() -> Self {
        let message = "token no permission".to_owned();
        Self { status: StatusCode::OK, code: NO_PERMISSION, told: NO_PERMISSION, message }
    }

    /// Returns the kind of the refusal, by ShenYu's codes. Every missing row has [`NOT_FOUND`],
    /// whatever the answer carries.
    pub(crate) const fn code(&self) -> i64 {
        self.code
    }

    /// Returns the text of the refusal, for callers that expect no wrapper.
    pub(crate) fn message(&self) -> &str {
        &self.message
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let body = json!({"code": self.told, "message": self.message, "data": null});
        (self.status, Json(body)).into_response()
    }
}

impl IntoResponse for Success {
    fn into_response(self) -> Response {
        let header = self.warnings.header();
        let mut body = json!({"code": 200, "message": self.message, "data": self.data});
        if let Some(line) = self.warnings.line() {
            body["message"] = format!("{}; {line}", self.message).into();
            body[WARNINGS] = self.warnings.into_json();
        }
        (header, Json(body)).into_response()
    }
}
