//! How a call ends: the codes of gRPC, and a status as header fields.
//!
//! A message that cannot be decoded ends with `INTERNAL`, not `INVALID_ARGUMENT`: gRPC's own list of
//! codes says so, the reference server does so, and clients tell the two apart ("my stub is wrong"
//! against "my value is wrong", which travels in the message's own code).

use std::borrow::Cow;

use http::{HeaderMap, HeaderName, HeaderValue, Response, header};

use super::limits::STATUS_MESSAGE_BYTES_MAX;

const GRPC_STATUS: HeaderName = HeaderName::from_static("grpc-status");
const GRPC_MESSAGE: HeaderName = HeaderName::from_static("grpc-message");
const GRPC_ACCEPT_ENCODING: HeaderName = HeaderName::from_static("grpc-accept-encoding");

/// What answers are; the part after `+` is left out, as other servers do.
const CONTENT_TYPE: HeaderValue = HeaderValue::from_static("application/grpc");

/// The codes that this side sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Code {
    /// Done.
    Ok = 0,
    /// A value in the request makes no sense whatever the state.
    InvalidArgument = 3,
    /// The time that the client gave is over.
    DeadlineExceeded = 4,
    /// There is no such thing.
    NotFound = 5,
    /// A limit is met.
    ResourceExhausted = 8,
    /// No such method, or not in this form.
    Unimplemented = 12,
    /// A message cannot be decoded, the call has another shape than the method, or a handler failed.
    Internal = 13,
    /// Not now: this side is stopping.
    Unavailable = 14,
    /// No credentials, or wrong ones.
    Unauthenticated = 16,
}

/// How a call ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Status {
    /// The code.
    pub code: Code,
    /// A sentence for people; empty with [`Code::Ok`].
    pub message: Cow<'static, str>,
}

impl Status {
    /// All went well.
    pub const OK: Self = Self { code: Code::Ok, message: Cow::Borrowed("") };

    /// A status with a message.
    pub fn new(code: Code, message: impl Into<Cow<'static, str>>) -> Self {
        Self { code, message: message.into() }
    }

    /// The trailers that end a call with this status.
    pub(super) fn trailers(&self) -> HeaderMap {
        let mut trailers = HeaderMap::with_capacity(2);
        self.write(&mut trailers);
        trailers
    }

    /// The head of an answer that has nothing but this status.
    pub(super) fn alone(&self) -> Response<()> {
        let mut response = head();
        self.write(response.headers_mut());
        response
    }

    fn write(&self, fields: &mut HeaderMap) {
        fields.insert(GRPC_STATUS, self.code.value());
        if !self.message.is_empty() {
            fields.insert(GRPC_MESSAGE, percent_encoded(&self.message));
        }
        if self.code == Code::Unimplemented {
            // Tells a client that compressed its message what to do instead; true in any case.
            fields.insert(GRPC_ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        }
    }
}

impl Code {
    fn value(self) -> HeaderValue {
        match self {
            Code::Ok => HeaderValue::from_static("0"),
            other => HeaderValue::from(u16::from(other as u8)),
        }
    }
}

/// The head of an answer with messages.
pub(super) fn head() -> Response<()> {
    let mut response = Response::new(());
    response.headers_mut().insert(header::CONTENT_TYPE, CONTENT_TYPE);
    response
}

/// A message as the field takes it: printable ASCII, the rest and `%` as `%XX`.
fn percent_encoded(message: &str) -> HeaderValue {
    let mut text = String::with_capacity(message.len());
    for byte in message.bytes() {
        if text.len() + 3 > STATUS_MESSAGE_BYTES_MAX {
            break;
        }
        match byte {
            b'%' | ..=0x1f | 0x7f.. => {
                const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
                text.push('%');
                text.push(char::from(DIGITS[usize::from(byte >> 4)]));
                text.push(char::from(DIGITS[usize::from(byte & 15)]));
            }
            plain => text.push(char::from(plain)),
        }
    }
    HeaderValue::try_from(text).expect("printable ASCII makes a field value")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_percent_encoded_and_bounded() {
        for (message, encoded) in [
            ("plain text", "plain text"),
            ("100% \n", "100%25 %0A"),
            ("naïve", "na%C3%AFve"),
            ("\u{7f}", "%7F"),
        ] {
            let trailers = Status::new(Code::Internal, message.to_owned()).trailers();
            assert_eq!(trailers["grpc-message"], encoded);
            assert_eq!(trailers["grpc-status"], "13");
        }
        let long = Status::new(Code::Internal, "é".repeat(5_000)).trailers();
        assert!(long["grpc-message"].len() <= STATUS_MESSAGE_BYTES_MAX);
    }

    #[test]
    fn success_is_one_field_and_unimplemented_tells_what_is_understood() {
        let trailers = Status::OK.trailers();
        assert_eq!((trailers.len(), &trailers["grpc-status"]), (1, &HeaderValue::from_static("0")));
        let alone = Status::new(Code::Unimplemented, "no").alone();
        assert_eq!(alone.headers()["grpc-accept-encoding"], "identity");
        assert_eq!(alone.headers()["content-type"], "application/grpc");
    }
}
