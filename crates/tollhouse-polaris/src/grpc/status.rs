//! Statuses of calls: gRPC codes, and their encoding as header fields.
//!
//! A message that cannot be decoded ends the call with `INTERNAL`, not `INVALID_ARGUMENT`, as
//! gRPC's list of codes and the reference server have it. Clients tell the two apart: `INTERNAL`
//! means a wrong stub; a wrong value is reported by the message's own code.

use std::borrow::Cow;

use tollhouse_h2::Field;

use super::limits::STATUS_MESSAGE_BYTES_MAX;

/// Content type of responses; the part after `+` is left out, as other servers do.
const CONTENT_TYPE: &[u8] = b"application/grpc";

/// Status codes that this server sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Code {
    Ok = 0,
    /// A value in the request is invalid in any state.
    InvalidArgument = 3,
    DeadlineExceeded = 4,
    NotFound = 5,
    ResourceExhausted = 8,
    /// The method does not exist, or a feature is not supported.
    Unimplemented = 12,
    /// A message cannot be decoded, the number of messages does not fit the method, or a handler
    /// failed.
    Internal = 13,
    Unavailable = 14,
    Unauthenticated = 16,
}

/// Status with which a call ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Status {
    pub code: Code,
    /// Message for people; empty with [`Code::Ok`].
    pub message: Cow<'static, str>,
}

impl Status {
    pub const OK: Self = Self { code: Code::Ok, message: Cow::Borrowed("") };

    pub fn new(code: Code, message: impl Into<Cow<'static, str>>) -> Self {
        Self { code, message: message.into() }
    }

    /// Encodes the status as trailer fields.
    pub(super) fn fields(&self) -> StatusFields {
        let message =
            if self.message.is_empty() { String::new() } else { percent_encoded(&self.message) };
        StatusFields { code: self.code, message }
    }
}

pub(super) struct StatusFields {
    code: Code,
    message: String,
}

impl StatusFields {
    pub(super) fn iter(&self) -> impl Iterator<Item = Field<'_>> {
        let message = (!self.message.is_empty())
            .then(|| Field::new(b"grpc-message", self.message.as_bytes()));
        // Tells a client that compressed its message which encoding to use; true for other causes
        // too.
        let encoding = (self.code == Code::Unimplemented)
            .then(|| Field::new(b"grpc-accept-encoding", b"identity"));
        let status = Field::new(b"grpc-status", self.code.digits().as_bytes());
        [Some(status), message, encoding].into_iter().flatten()
    }
}

impl Code {
    fn digits(self) -> &'static str {
        match self {
            Code::Ok => "0",
            Code::InvalidArgument => "3",
            Code::DeadlineExceeded => "4",
            Code::NotFound => "5",
            Code::ResourceExhausted => "8",
            Code::Unimplemented => "12",
            Code::Internal => "13",
            Code::Unavailable => "14",
            Code::Unauthenticated => "16",
        }
    }
}

/// Returns the header field of every response.
pub(super) fn head() -> [Field<'static>; 1] {
    [Field::new(b"content-type", CONTENT_TYPE)]
}

/// Encodes a message for `grpc-message`: printable ASCII except `%`; other bytes as `%XX`.
fn percent_encoded(message: &str) -> String {
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
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listed(status: &Status) -> Vec<(String, String)> {
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).expect("text");
        let fields = status.fields();
        fields.iter().map(|field| (text(field.name), text(field.value))).collect()
    }

    #[test]
    fn messages_are_percent_encoded_and_bounded() {
        for (message, encoded) in [
            ("plain text", "plain text"),
            ("100% \n", "100%25 %0A"),
            ("naïve", "na%C3%AFve"),
            ("\u{7f}", "%7F"),
        ] {
            let fields = listed(&Status::new(Code::Internal, message.to_owned()));
            let expected = [("grpc-status", "13"), ("grpc-message", encoded)];
            assert_eq!(fields, expected.map(|(name, value)| (name.to_owned(), value.to_owned())));
        }
        let long = listed(&Status::new(Code::Internal, "é".repeat(5_000)));
        assert!(long[1].1.len() <= STATUS_MESSAGE_BYTES_MAX);
    }

    #[test]
    fn success_is_one_field_and_unimplemented_tells_what_is_understood() {
        assert_eq!(listed(&Status::OK), [("grpc-status".to_owned(), "0".to_owned())]);
        let fields = listed(&Status::new(Code::Unimplemented, "no"));
        assert_eq!(fields[2], ("grpc-accept-encoding".to_owned(), "identity".to_owned()));
    }

    #[test]
    fn digits_are_those_of_the_code() {
        for code in [Code::Ok, Code::NotFound, Code::Unimplemented, Code::Unauthenticated] {
            assert_eq!(code.digits(), (code as u8).to_string());
        }
    }
}
