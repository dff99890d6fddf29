//! gRPC status codes: their names, and which code stands for an answer that is no gRPC answer.

/// A status code of gRPC.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Code(pub u8);

/// The names by number, as Go's gRPC and the tools built on it write them.
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
    /// Success.
    pub const OK: Self = Self(0);
    /// Given up by the caller.
    pub const CANCELED: Self = Self(1);
    /// Nothing better is known.
    pub const UNKNOWN: Self = Self(2);
    /// The caller may not do this.
    pub const PERMISSION_DENIED: Self = Self(7);
    /// A limit was passed.
    pub const RESOURCE_EXHAUSTED: Self = Self(8);
    /// There is no such method.
    pub const UNIMPLEMENTED: Self = Self(12);
    /// Something broke on the way.
    pub const INTERNAL: Self = Self(13);
    /// Nobody is there to answer.
    pub const UNAVAILABLE: Self = Self(14);
    /// The caller is not known.
    pub const UNAUTHENTICATED: Self = Self(16);

    /// Its name; `Code(n)` for numbers that have none.
    pub fn name(self) -> String {
        self.known_name().map_or_else(|| format!("Code({})", self.0), ToOwned::to_owned)
    }

    /// Its name, if the specification gives it one.
    pub fn known_name(self) -> Option<&'static str> {
        NAMES.get(usize::from(self.0)).copied()
    }

    /// What an HTTP answer without a gRPC status means (the mapping of the gRPC specification).
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

/// A `grpc-message` as text: percent-encoding undone, what is no UTF-8 replaced.
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
