//! Answers in ShenYu's wrapper: `{"code":…,"message":…,"data":…}`, with the status of HTTP 200 but for
//! authentication.

use axum::Json;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};

/// Something is wrong with the call.
const ERROR: i64 = 500;

/// There is no such thing.
const NOT_FOUND: i64 = 404;

/// Not allowed to a user who is known.
const NO_PERMISSION: i64 = 601;

/// No token, or one that does not count.
const NO_TOKEN: i64 = 600;

/// What a call has led to.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Success {
    pub(crate) message: &'static str,
    pub(crate) data: Value,
}

/// What a call leads to.
pub(crate) type Outcome = Result<Success, Refusal>;

/// A success of that message.
pub(crate) fn success(message: &'static str, data: impl Into<Value>) -> Outcome {
    Ok(Success { message, data: data.into() })
}

/// Why a call did nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Refusal {
    status: StatusCode,
    code: i64,
    /// The code that scripts are told.
    told: i64,
    message: String,
}

impl Refusal {
    /// Something is wrong with the call.
    pub(crate) fn error(message: impl Into<String>) -> Self {
        Self { status: StatusCode::OK, code: ERROR, told: ERROR, message: message.into() }
    }

    /// A member of the body is missing or wrong, in ShenYu's words.
    pub(crate) fn invalid(field: &str, text: &str) -> Self {
        Self::error(format!("Request error! invalid argument [{field}: {text}]"))
    }

    /// Members of the body are missing: all of them, in one answer.
    pub(crate) fn missing(fields: &[&str]) -> Self {
        let texts: Vec<String> =
            fields.iter().map(|field| format!("{field}: must not be null")).collect();
        Self::error(format!("Request error! invalid argument [{}]", texts.join("| ")))
    }

    /// The path is there, but not for this method.
    pub(crate) fn method(method: &str, supported: &[&str]) -> Self {
        let supported = supported.join(" ");
        Self::error(format!(
            "{method} method is not supported for this request. Supported methods are {supported} "
        ))
    }

    /// Somebody else has this name already.
    pub(crate) fn conflict(name: &str) -> Self {
        Self::error(format!("unique index conflict, please enter again: `{name}` exists already"))
    }

    /// A call names a row that is not there: a broken argument to ShenYu, and told as one.
    pub(crate) fn not_existed(message: impl Into<String>) -> Self {
        Self { told: ERROR, ..Self::not_found(message) }
    }

    /// There is no such object, or no such path.
    pub(crate) fn not_found(message: impl Into<String>) -> Self {
        Self { status: StatusCode::OK, code: NOT_FOUND, told: NOT_FOUND, message: message.into() }
    }

    /// There is no token that counts.
    pub(crate) fn token() -> Self {
        let message = "token is error".to_owned();
        Self { status: StatusCode::UNAUTHORIZED, code: NO_TOKEN, told: NO_TOKEN, message }
    }

    /// The user may not do this.
    pub(crate) fn permission() -> Self {
        let message = "token no permission".to_owned();
        Self { status: StatusCode::OK, code: NO_PERMISSION, told: NO_PERMISSION, message }
    }

    /// What kind of refusal it is, by ShenYu's codes; [`NOT_FOUND`] of every row that is not there.
    pub(crate) const fn code(&self) -> i64 {
        self.code
    }

    /// The text, for callers that are not answered in a wrapper.
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
        Json(json!({"code": 200, "message": self.message, "data": self.data})).into_response()
    }
}
