//! Rules of gRPC over HTTP/2 for intermediaries: content type, the status implied by an HTTP
//! response without a gRPC status, and message lengths (gRPC's PROTOCOL-HTTP2).

use std::fmt;

use tollhouse_http::grpc_status;
use tollhouse_telemetry::ErrorCode;

/// Value of `Content-Type` in gRPC responses.
pub(crate) const CONTENT_TYPE: &str = "application/grpc";

/// gRPC status code of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Status(u8);

impl Status {
    const DEADLINE_EXCEEDED: Self = Self(4);
    const RESOURCE_EXHAUSTED: Self = Self(8);
    pub(crate) const UNAVAILABLE: Self = Self(14);

    /// Returns the status for an error of the gateway, or for the HTTP status if no gRPC status is
    /// defined for the error.
    pub(crate) fn from_code(code: Option<ErrorCode>, status: u16) -> Self {
        match code {
            Some(ErrorCode::DeadlineExceeded) => Self::DEADLINE_EXCEEDED,
            Some(ErrorCode::GrpcMessageTooLarge) => Self::RESOURCE_EXHAUSTED,
            _ => Self(grpc_status::from_http(status)),
        }
    }
}

impl fmt::Display for Status {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(out)
    }
}

/// Whether a `Content-Type` denotes gRPC; grpc-web does not.
#[inline]
pub(crate) fn is_content_type(value: &[u8]) -> bool {
    let base = CONTENT_TYPE.len();
    value.len() >= base
        && value[..base].eq_ignore_ascii_case(CONTENT_TYPE.as_bytes())
        && matches!(value.get(base), None | Some(b'+' | b';' | b' '))
}

/// Length of a message's prefix: the compression flag and four bytes of length.
const PREFIX_BYTES: usize = 5;

/// Checks the message lengths in one direction of a call as its bytes pass.
#[derive(Debug)]
pub(crate) struct MessageMeter {
    bytes_max: u64,
    /// Bytes of a message prefix that is still incomplete.
    prefix: [u8; PREFIX_BYTES],
    prefix_bytes: usize,
    /// Bytes left in the current message.
    left: u64,
}

impl MessageMeter {
    /// Creates a meter that admits messages of up to `bytes_max` bytes.
    pub(crate) fn new(bytes_max: u64) -> Box<Self> {
        Box::new(Self { bytes_max, prefix: [0; PREFIX_BYTES], prefix_bytes: 0, left: 0 })
    }

    /// Whether all messages that `data`, the next piece of the stream, contains are within the
    /// limit.
    pub(crate) fn admits(&mut self, mut data: &[u8]) -> bool {
        while !data.is_empty() {
            if self.left > 0 {
                let bytes = data.len().min(usize::try_from(self.left).unwrap_or(usize::MAX));
                self.left -= bytes as u64;
                data = &data[bytes..];
                continue;
            }
            self.prefix[self.prefix_bytes] = data[0];
            self.prefix_bytes += 1;
            data = &data[1..];
            if self.prefix_bytes == PREFIX_BYTES {
                let [_, length @ ..] = self.prefix;
                self.prefix_bytes = 0;
                self.left = u64::from(u32::from_be_bytes(length));
                if self.left > self.bytes_max {
                    return false;
                }
            }
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_that_is_too_long_is_found_wherever_its_pieces_end() {
        let message = |length: u32, bytes: usize| {
            [&[0][..], &length.to_be_bytes(), &vec![b'x'; bytes]].concat()
        };
        for (stream, expected) in [
            (message(4, 4), true),
            ([message(4, 4), message(0, 0), message(4, 4)].concat(), true),
            (message(5, 0), false),
            ([message(4, 4), message(5, 1)].concat(), false),
            ([message(4, 4), message(u32::MAX, 0)].concat(), false),
            (vec![0, 0, 0], true),
        ] {
            for step in 1..=stream.len() {
                let mut meter = MessageMeter::new(4);
                let admitted = stream.chunks(step).all(|piece| meter.admits(piece));
                assert_eq!(admitted, expected, "{stream:?} by {step}");
            }
        }
    }

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
            assert_eq!(Status::from_code(None, http), Status(grpc), "{http}");
        }
        let late = Status::from_code(Some(ErrorCode::DeadlineExceeded), 504);
        assert_eq!(late.to_string(), "4");
        assert_eq!(Status::from_code(Some(ErrorCode::RouteNotFound), 404).to_string(), "12");
    }
}
