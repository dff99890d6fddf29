//! What gRPC over HTTP/2 asks of whoever stands between client and server: its content type, what an
//! answer without a call's status means, and how long a call may take (PROTOCOL-HTTP2 of gRPC,
//! edge.md gRPC).

use std::fmt;

use tollhouse_telemetry::ErrorCode;

/// `Content-Type` of answers.
pub(crate) const CONTENT_TYPE: &str = "application/grpc";

/// What came of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Status(u8);

impl Status {
    const UNKNOWN: Self = Self(2);
    const DEADLINE_EXCEEDED: Self = Self(4);
    const PERMISSION_DENIED: Self = Self(7);
    const UNIMPLEMENTED: Self = Self(12);
    const INTERNAL: Self = Self(13);
    /// Nobody who could answer is there.
    pub(crate) const UNAVAILABLE: Self = Self(14);
    const UNAUTHENTICATED: Self = Self(16);

    /// What an answer of HTTP means that says nothing of gRPC.
    pub(crate) fn from_http(status: u16) -> Self {
        match status {
            400 | 431 => Self::INTERNAL,
            401 => Self::UNAUTHENTICATED,
            403 => Self::PERMISSION_DENIED,
            404 => Self::UNIMPLEMENTED,
            429 | 502 | 503 | 504 => Self::UNAVAILABLE,
            _ => Self::UNKNOWN,
        }
    }

    /// What the gateway's own reason means, with the HTTP status that goes with it.
    pub(crate) fn from_code(code: Option<ErrorCode>, status: u16) -> Self {
        match code {
            Some(ErrorCode::DeadlineExceeded) => Self::DEADLINE_EXCEEDED,
            _ => Self::from_http(status),
        }
    }
}

impl fmt::Display for Status {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(out)
    }
}

/// Whether a `Content-Type` is one of gRPC: that of grpc-web is not.
#[inline]
pub(crate) fn is_content_type(value: &[u8]) -> bool {
    let base = CONTENT_TYPE.len();
    value.len() >= base
        && value[..base].eq_ignore_ascii_case(CONTENT_TYPE.as_bytes())
        && matches!(value.get(base), None | Some(b'+' | b';' | b' '))
}

/// A text as `grpc-message` has it: what is not printable ASCII, and `%`, percent-encoded.
pub(crate) fn encode_message(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b' '..=b'~' if byte != b'%' => encoded.push(char::from(byte)),
            _ => {
                let digit = |nibble: u8| char::from(b"0123456789ABCDEF"[usize::from(nibble)]);
                encoded.extend(['%', digit(byte >> 4), digit(byte & 15)]);
            }
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_types_of_grpc_are_told_from_others() {
        for (value, expected) in [
            ("application/grpc", true),
            ("application/grpc+proto", true),
            ("application/grpc;charset=utf-8", true),
            ("Application/GRPC", true),
            ("application/grpc-web", false),
            ("application/grpc-web+proto", false),
            ("application/grpcx", false),
            ("application/json", false),
            ("", false),
        ] {
            assert_eq!(is_content_type(value.as_bytes()), expected, "{value}");
        }
    }

    #[test]
    fn answers_of_http_have_a_meaning() {
        for (http, grpc) in [
            (400, 13),
            (401, 16),
            (403, 7),
            (404, 12),
            (413, 2),
            (429, 14),
            (431, 13),
            (500, 2),
            (502, 14),
            (503, 14),
            (504, 14),
        ] {
            assert_eq!(Status::from_http(http), Status(grpc), "{http}");
        }
        let late = Status::from_code(Some(ErrorCode::DeadlineExceeded), 504);
        assert_eq!(late.to_string(), "4");
        assert_eq!(Status::from_code(Some(ErrorCode::RouteNotFound), 404).to_string(), "12");
    }

    #[test]
    fn messages_are_printable() {
        assert_eq!(encode_message("a b~"), "a b~");
        assert_eq!(encode_message("100%\n"), "100%25%0A");
        assert_eq!(encode_message("é"), "%C3%A9");
    }
}
