//! Translation of the gateway's own responses for gRPC clients: the status goes into trailers,
//! because a gRPC client cannot read an HTTP error response.

use std::borrow::Cow;

use tollhouse_http::grpc_status;
use tollhouse_plugin::HeaderEdits;
use tollhouse_telemetry::ErrorCode;

use super::page;
use crate::exchange::Exchange;
use crate::grpc::Status;
use crate::head::reason;

/// Maximum length of a `grpc-message` taken from a response body, in bytes.
const MESSAGE_BYTES_MAX: usize = 512;

/// A response that the gateway generated itself.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Refusal<'a> {
    pub status: u16,
    pub content_type: &'a str,
    pub body: &'a [u8],
}

/// Whether a response must be translated into trailers: the client speaks gRPC, the status is an
/// error or a redirect, and the response has no `grpc-status`.
#[inline]
pub(crate) fn is_to_be_translated(cx: &Exchange<'_>, status: u16, headers: &HeaderEdits) -> bool {
    cx.is_grpc() && status >= 300 && headers.find(b"grpc-status").is_none()
}

/// `grpc-status` and `grpc-message` equivalent to this HTTP response, behind the headers that it
/// has.
pub(crate) fn lines(cx: &Exchange<'_>, headers: &HeaderEdits, refusal: Refusal<'_>) -> HeaderEdits {
    let status = Status::from_code(cx.state.record.code, refusal.status);
    let mut lines = HeaderEdits::default();
    for (name, value) in headers.lines() {
        lines.add(&String::from_utf8_lossy(name), value);
    }
    lines.set("grpc-status", status.to_string().as_bytes());
    lines.set("grpc-message", grpc_status::encode_message(&message(refusal)).as_bytes());
    lines
}

/// Returns the last chunk of a gRPC response that is cut off by `code`, with the trailers that
/// report it.
pub(crate) fn last_chunk(code: ErrorCode) -> Vec<u8> {
    let status = match code {
        ErrorCode::DeadlineExceeded | ErrorCode::GrpcMessageTooLarge => {
            Status::from_code(Some(code), code.status())
        }
        _ => Status::UNAVAILABLE,
    };
    let message = grpc_status::encode_message(code.meaning());
    format!("0\r\ngrpc-status: {status}\r\ngrpc-message: {message}\r\n\r\n").into_bytes()
}

/// Returns the body as one line of text: the `message` or `error_msg` of a JSON object, or the text
/// itself. An HTML page or an empty body yields the reason phrase of the status.
fn message(Refusal { status, content_type, body }: Refusal<'_>) -> Cow<'_, str> {
    let is_page = content_type == page::HTML;
    let Some(text) =
        std::str::from_utf8(body).ok().map(str::trim).filter(|text| !is_page && !text.is_empty())
    else {
        return reason(status).into();
    };
    if let Ok(serde_json::Value::Object(fields)) = serde_json::from_str(text) {
        let said = ["message", "error_msg"].iter().find_map(|name| fields.get(*name)?.as_str());
        if let Some(said) = said {
            return said.to_owned().into();
        }
    }
    let end = (0..=text.len().min(MESSAGE_BYTES_MAX)).rev().find(|end| text.is_char_boundary(*end));
    text[..end.unwrap_or(0)].into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_what_the_body_says() {
        let long = "é".repeat(400);
        for (content_type, body, expected) in [
            (
                "application/json",
                r#"{"message":"Missing API key in request"}"#,
                "Missing API key in request",
            ),
            ("text/plain", "{\"error_msg\":\"404 Route Not Found\"}\n", "404 Route Not Found"),
            ("text/plain", "too many\n", "too many"),
            (page::HTML, "<html>", "Service Temporarily Unavailable"),
            ("text/plain", "", "Service Temporarily Unavailable"),
            ("text/plain", &long, &long[..512]),
        ] {
            let refusal = Refusal { status: 503, content_type, body: body.as_bytes() };
            assert_eq!(message(refusal), expected, "{body}");
        }
    }

    #[test]
    fn a_call_that_breaks_off_ends_with_a_status() {
        let chunk = String::from_utf8(last_chunk(ErrorCode::UpstreamReset)).expect("text");
        assert!(
            chunk.starts_with("0\r\ngrpc-status: 14\r\ngrpc-message: The node closed"),
            "{chunk}"
        );
        assert!(chunk.ends_with("\r\n\r\n"));
        let chunk = String::from_utf8(last_chunk(ErrorCode::DeadlineExceeded)).expect("text");
        assert!(chunk.starts_with("0\r\ngrpc-status: 4\r\n"), "{chunk}");
    }
}
