//! Answers on their way out: the status that is in the code, JSON, and the headers that repeat the
//! code for those who do not read bodies.

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

/// What every answer of the API says it is, JSON or not; clients go by it.
const PLAIN: HeaderValue = HeaderValue::from_static("text/plain; charset=utf-8");
const CODE_HEADER: HeaderName = HeaderName::from_static("x-polaris-code");
const MESSAGE_HEADER: HeaderName = HeaderName::from_static("x-polaris-message");

/// The text of the code, in every answer.
const INFO: u32 = 2;

/// An answer: a message and the code that is in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Reply {
    pub(super) code: Code,
    pub(super) info: String,
    /// Full name of the message's type.
    pub(super) message: &'static str,
    pub(super) bytes: Vec<u8>,
}

/// One answer to one request.
pub(super) const RESPONSE: &str = "v1.Response";
/// One answer to a list of requests.
pub(super) const BATCH_WRITE: &str = "v1.BatchWriteResponse";
/// A page of a list.
pub(super) const BATCH_QUERY: &str = "v1.BatchQueryResponse";
/// What is known of a service.
pub(super) const DISCOVER: &str = "v1.DiscoverResponse";

impl Reply {
    /// An answer whose message has its code already.
    pub(super) fn from_bytes(code: Code, message: &'static str, bytes: Vec<u8>) -> Self {
        Self { code, info: code.info().to_owned(), message, bytes }
    }

    /// A success, whose other fields `write` adds.
    pub(super) fn success(message: &'static str, write: impl FnOnce(&mut Vec<u8>)) -> Self {
        let mut bytes = Vec::new();
        put_outcome(&mut bytes, Code::ExecuteSuccess);
        write(&mut bytes);
        Self::from_bytes(Code::ExecuteSuccess, message, bytes)
    }

    /// A failure, with nothing else.
    pub(super) fn failure(message: &'static str, failure: &Failure) -> Self {
        let mut bytes = Vec::new();
        match &failure.detail {
            Some(detail) => put_outcome_with(&mut bytes, failure.code, detail),
            None => put_outcome(&mut bytes, failure.code),
        }
        Self { code: failure.code, info: failure.info().into_owned(), message, bytes }
    }

    /// As it goes over the wire; long ones are printed elsewhere.
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

    /// A short one as it goes over the wire.
    pub(super) fn print(self, language: Language) -> Response<Body> {
        let Self { code, info, message, bytes } = self.in_language(language);
        let descriptor = descriptors()
            .get_message_by_name(message)
            .expect("every type of answer is in the schema");
        match json::print(&descriptor, &bytes) {
            Ok(text) => responding(code, &info, text),
            // What a client stored may be no message after all; it hears so, and no more.
            Err(_) => plain(StatusCode::INTERNAL_SERVER_ERROR, "the answer cannot be shown"),
        }
    }

    /// The text of a code that went wrong is translated; what there is to say beyond it is not.
    fn in_language(mut self, language: Language) -> Self {
        let is_plain = self.code != Code::ExecuteSuccess && self.info == self.code.info();
        if let (true, Language::Chinese) = (is_plain, language)
            && let Some(text) = self.code.chinese_info()
        {
            // Of two fields of one number the last counts.
            put_text_value(&mut self.bytes, INFO, text);
        }
        self
    }
}

/// A text with the status that is in its code, and the headers that repeat the code.
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

/// An answer of text.
pub(super) fn plain(status: StatusCode, text: impl Into<Body>) -> Response<Body> {
    let mut response = Response::new(text.into());
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, PLAIN);
    response
}
