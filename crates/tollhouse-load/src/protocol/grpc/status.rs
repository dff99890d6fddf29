//! gRPC status codes: names, mapping from HTTP statuses, decoding of messages.

/// gRPC status code, 0 to 16.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Code(pub u8);

/// Names by number, as written by Go's gRPC and tools based on it.
const NAMES: [&str; 17] = [
    "OK",
    "Canceled",
    "Unknown",
    "InvalidArgument",
    "DeadlineExceeded",
    "NotFound",
    "AlreadyExists",
    "PermissionDenied",
    "ResourceExhausted",
    "FailedPrecondition",
    "Aborted",
    "OutOfRange",
    "Unimplemented",
    "Internal",
    "Unavailable",
    "DataLoss",
    "Unauthenticated",
];

impl Code {
    pub const OK: Self = Self(0);
    pub const CANCELED: Self = Self(1);
    pub const UNKNOWN: Self = Self(2);
    pub const PERMISSION_DENIED: Self = Self(7);
    pub const RESOURCE_EXHAUSTED: Self = Self(8);
    /// The method does not exist or is not implemented.
    pub const UNIMPLEMENTED: Self = Self(12);
    /// An invariant was broken on the way.
    pub const INTERNAL: Self = Self(13);
    pub const UNAVAILABLE: Self = Self(14);
    pub const UNAUTHENTICATED: Self = Self(16);

    /// Returns the name; `Code(n)` for numbers without a name.
    pub fn name(self) -> String {
        self.known_name().map_or_else(|| format!("Code({})", self.0), ToOwned::to_owned)
    }

    /// Returns the name from the specification, if the number has one.
    pub fn known_name(self) -> Option<&'static str> {
        NAMES.get(usize::from(self.0)).copied()
    }

    /// Maps an HTTP status without gRPC status to a code, as the gRPC specification defines.
    pub fn from_http(status: u16) -> Self {
        match status {
            400 => Self::INTERNAL,
            401 => Self::UNAUTHENTICATED,
            403 => Self::PERMISSION_DENIED,
            404 => Self::UNIMPLEMENTED,
            429 | 502 | 503 | 504 => Self::UNAVAILABLE,
            _ => Self::UNKNOWN,
        }
    }
}

/// Decodes a `grpc-message`: percent-encoding is decoded, invalid UTF-8 is replaced.
pub fn decode_message(value: &[u8]) -> String {
    let mut bytes = Vec::with_capacity(value.len());
    let mut rest = value;
    while let Some((&first, after)) = rest.split_first() {
        let escaped = after.get(..2).filter(|_| first == b'%').and_then(hex_pair);
        match escaped {
            Some(byte) => {
                bytes.push(byte);
                rest = &after[2..];
            }
            None => {
                bytes.push(first);
                rest = after;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

fn hex_pair(digits: &[u8]) -> Option<u8> {
    let text = std::str::from_utf8(digits).ok().filter(|text| !text.starts_with('+'))?;
    u8::from_str_radix(text, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_have_the_names_of_go() {
        for (code, name) in [(0, "OK"), (1, "Canceled"), (14, "Unavailable"), (99, "Code(99)")] {
            assert_eq!(Code(code).name(), name);
        }
    }

    #[test]
    fn a_message_is_percent_decoded() {
        for (sent, text) in [
            ("no such%20thing", "no such thing"),
            ("100%", "100%"),
            ("%zz%+1", "%zz%+1"),
            ("%E4%BD%A0", "你"),
            ("%ff", "\u{fffd}"),
        ] {
            assert_eq!(decode_message(sent.as_bytes()), text);
        }
    }

    #[test]
    fn answers_that_are_no_grpc_have_a_code() {
        assert_eq!(Code::from_http(404), Code::UNIMPLEMENTED);
        assert_eq!(Code::from_http(502), Code::UNAVAILABLE);
        assert_eq!(Code::from_http(418), Code::UNKNOWN);
    }
}
