//! How a call ends: the codes of gRPC, and a status as header fields.
//!
//! A message that cannot be decoded ends with `INTERNAL`, not `INVALID_ARGUMENT`: gRPC's own list of
//! codes says so, the reference server does so, and clients tell the two apart ("my stub is wrong"
//! against "my value is wrong", which travels in the message's own code).

use std::borrow::Cow;

use tollhouse_h2::Field;

use super::limits::STATUS_MESSAGE_BYTES_MAX;

/// What answers are; the part after `+` is left out, as other servers do.
const CONTENT_TYPE: &[u8] = b"application/grpc";

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

    /// The fields that end a call with this status.
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
    /// The fields, as many as there are.
    pub(super) fn iter(&self) -> impl Iterator<Item = Field<'_>> {
        let message = (!self.message.is_empty())
            .then(|| Field::new(b"grpc-message", self.message.as_bytes()));
        // Tells a client that compressed its message what to do instead; true in any case.
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

/// The field of the head of every answer.
pub(super) fn head() -> [Field<'static>; 1] {
    [Field::new(b"content-type", CONTENT_TYPE)]
}

/// A message as the field takes it: printable ASCII, the rest and `%` as `%XX`.
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
