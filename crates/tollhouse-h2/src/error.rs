//! Error codes of the protocol, and what ends a connection (RFC 9113 §5.4, §7).

use std::fmt;

/// A code of RST_STREAM and GOAWAY (RFC 9113 §7). Unknown ones are kept as they came.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct ErrorCode(pub u32);

#[expect(missing_docs, reason = "each is the code of that name")]
impl ErrorCode {
    pub const NO_ERROR: Self = Self(0x0);
    pub const PROTOCOL_ERROR: Self = Self(0x1);
    pub const INTERNAL_ERROR: Self = Self(0x2);
    pub const FLOW_CONTROL_ERROR: Self = Self(0x3);
    pub const SETTINGS_TIMEOUT: Self = Self(0x4);
    pub const STREAM_CLOSED: Self = Self(0x5);
    pub const FRAME_SIZE_ERROR: Self = Self(0x6);
    pub const REFUSED_STREAM: Self = Self(0x7);
    pub const CANCEL: Self = Self(0x8);
    pub const COMPRESSION_ERROR: Self = Self(0x9);
    pub const CONNECT_ERROR: Self = Self(0xa);
    pub const ENHANCE_YOUR_CALM: Self = Self(0xb);
    pub const INADEQUATE_SECURITY: Self = Self(0xc);
    pub const HTTP_1_1_REQUIRED: Self = Self(0xd);
}

/// Names by number.
const NAMES: [&str; 14] = [
    "NO_ERROR",
    "PROTOCOL_ERROR",
    "INTERNAL_ERROR",
    "FLOW_CONTROL_ERROR",
    "SETTINGS_TIMEOUT",
    "STREAM_CLOSED",
    "FRAME_SIZE_ERROR",
    "REFUSED_STREAM",
    "CANCEL",
    "COMPRESSION_ERROR",
    "CONNECT_ERROR",
    "ENHANCE_YOUR_CALM",
    "INADEQUATE_SECURITY",
    "HTTP_1_1_REQUIRED",
];

impl fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match NAMES.get(self.0 as usize) {
            Some(name) => f.write_str(name),
            None => write!(f, "{:#x}", self.0),
        }
    }
}

impl fmt::Debug for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// What ended a connection: the code that GOAWAY carries, and what the peer did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConnectionError {
    /// The code of the GOAWAY.
    pub code: ErrorCode,
    /// What was wrong, a fragment that reads after "the connection ended: ".
    pub reason: &'static str,
}

impl ConnectionError {
    /// With a code and what was wrong.
    pub const fn new(code: ErrorCode, reason: &'static str) -> Self {
        Self { code, reason }
    }

    /// Something that no conforming peer sends.
    pub const fn protocol(reason: &'static str) -> Self {
        Self::new(ErrorCode::PROTOCOL_ERROR, reason)
    }

    /// A frame of a length that its type does not have.
    pub const fn frame_size(reason: &'static str) -> Self {
        Self::new(ErrorCode::FRAME_SIZE_ERROR, reason)
    }

    /// More than a flow-control window allows, or a window beyond its maximum.
    pub const fn flow_control(reason: &'static str) -> Self {
        Self::new(ErrorCode::FLOW_CONTROL_ERROR, reason)
    }

    /// A bound of [`crate::Limits`] was passed.
    pub const fn calm(reason: &'static str) -> Self {
        Self::new(ErrorCode::ENHANCE_YOUR_CALM, reason)
    }
}

impl fmt::Display for ConnectionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.reason, self.code)
    }
}

impl std::error::Error for ConnectionError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_have_names_and_unknown_ones_their_number() {
        assert_eq!(ErrorCode::HTTP_1_1_REQUIRED.to_string(), "HTTP_1_1_REQUIRED");
        assert_eq!(ErrorCode(0x77).to_string(), "0x77");
        let error = ConnectionError::calm("too many pings");
        assert_eq!(error.to_string(), "too many pings (ENHANCE_YOUR_CALM)");
    }
}
