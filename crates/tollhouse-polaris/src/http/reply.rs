//! HTTP answers: the status from the code, a JSON body, and headers that repeat the code for
//! clients that do not read bodies.

use super::capacity::{Capacity, SHORT_BYTES_MAX};
use super::failure::Failure;
use super::language::Language;
use super::printing;
use crate::answer::Answer;
use crate::code::Code;
use crate::json;
use crate::schema::descriptors;
use crate::wire::answer::{put_outcome, put_outcome_with};
use crate::wire::write::put_text_value;
use axum::body::{Body, Bytes};
use axum::http::header::{CONTENT_TYPE, HeaderName, HeaderValue};
use axum::http::{Response, StatusCode};

/// Content type of all answers: `text/plain` even for JSON, because clients rely on it.
const PLAIN: HeaderValue = HeaderValue::from_static("text/plain; charset=utf-8");
const CODE_HEADER: HeaderName = HeaderName::from_static("x-polaris-code");
const MESSAGE_HEADER: HeaderName = HeaderName::from_static("x-polaris-message");

/// Field number of the code's text, in every answer type.
const INFO: u32 = 2;

/// An answer: a message, and the code that it contains.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Reply {
    pub(super) code: Code,
    pub(super) info: String,
    /// Full name of the message type.
    pub(super) message: &'static str,
    pub(super) bytes: Vec<u8>,
}

/// Message type of an answer to a single request.
pub(super) const RESPONSE: &str = "v1.Response";
/// Answer to a list of requests.
pub(super) const BATCH_WRITE: &str = "v1.BatchWriteResponse";
/// Message type of a page of a list.
pub(super) const BATCH_QUERY: &str = "v1.BatchQueryResponse";
/// Message type of an answer to `Discover`.
pub(super) const DISCOVER: &str = "v1.DiscoverResponse";

impl Reply {
    /// Creates an answer from a message that contains its code already.
    pub(super) fn from_bytes(code: Code, message: &'static str, bytes: Vec<u8>) -> Self {
        Self { code, info: code.info().to_owned(), message, bytes }
    }

    /// Creates a successful answer; `write` adds the other fields.
    pub(super) fn success(message: &'static str, write: impl FnOnce(&mut Vec<u8>)) -> Self {
        let mut bytes = Vec::new();
        put_outcome(&mut bytes, Code::ExecuteSuccess);
        write(&mut bytes);
        Self::from_bytes(Code::ExecuteSuccess, message, bytes)
    }

    /// Creates a failure without other fields.
    pub(super) fn failure(message: &'static str, failure: &Failure) -> Self {
        let mut bytes = Vec::new();
        match &failure.detail {
            Some(detail) => put_outcome_with(&mut bytes, failure.code, detail),
            None => put_outcome(&mut bytes, failure.code),
        }
        Self { code: failure.code, info: failure.info().into_owned(), message, bytes }
    }

    /// Converts to an HTTP response; a long answer is printed on a blocking thread.
    pub(super) async fn send(self, capacity: &Capacity, language: Language) -> Response<Body> {
        if self.bytes.len() <= SHORT_BYTES_MAX {
            return self.print(language);
        }
        let Self { code, info, message, bytes } = self.in_language(language);
        match printing::alone(capacity, message, Answer::from(Bytes::from(bytes))).await {
            Ok(text) => responding(code, &info, text),
            Err(failure) => Self::failure(message, &failure).print(language),
        }
    }

    /// Converts a short answer to an HTTP response.
    pub(super) fn print(self, language: Language) -> Response<Body> {
        let Self { code, info, message, bytes } = self.in_language(language);
        let descriptor = descriptors()
            .get_message_by_name(message)
            .expect("every type of answer is in the schema");
        match json::print(&descriptor, &bytes) {
            Ok(text) => responding(code, &info, text),
            // A client may have stored an invalid message; the reader gets this error.
            Err(_) => plain(StatusCode::INTERNAL_SERVER_ERROR, "the answer cannot be shown"),
        }
    }

    /// Translates the text of a failure's code; a detail is not translated.
    fn in_language(mut self, language: Language) -> Self {
        let is_plain = self.code != Code::ExecuteSuccess && self.info == self.code.info();
        if let (true, Language::Chinese) = (is_plain, language)
            && let Some(text) = self.code.chinese_info()
        {
            // Appended, because the last of two fields with equal numbers is valid.
            put_text_value(&mut self.bytes, INFO, text);
        }
        self
    }
}

/// Creates a response with the code's status, and with headers that repeat the code.
pub(super) fn responding(code: Code, info: &str, text: impl Into<Body>) -> Response<Body> {
    let status = StatusCode::from_u16(code.http_status());
    let mut response = plain(status.unwrap_or(StatusCode::INTERNAL_SERVER_ERROR), text);
    if code != Code::ExecuteSuccess {
        let headers = response.headers_mut();
        headers.insert(CODE_HEADER, HeaderValue::from(code.number()));
        let info =
            HeaderValue::from_str(info).unwrap_or_else(|_| HeaderValue::from_static(code.info()));
        headers.insert(MESSAGE_HEADER, info);
    }
    response
}

pub(super) fn plain(status: StatusCode, text: impl Into<Body>) -> Response<Body> {
    let mut response = Response::new(text.into());
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, PLAIN);
    response
}
