//! Protocol error codes, and connection errors (RFC 9113 §5.4, §7).

use std::fmt;

/// An error code of RST_STREAM or GOAWAY (RFC 9113 §7). Unknown codes are kept.
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

/// Names of the codes, by number.
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

/// Reason why a connection ended: the code that GOAWAY carries, and a description of the peer's
/// fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConnectionError {
    /// Error code that the GOAWAY frame carries.
    pub code: ErrorCode,
    /// The reason, as a fragment that can follow "the connection ended: ".
    pub reason: &'static str,
}

impl ConnectionError {
    /// Creates an error whose code and reason are sent in the GOAWAY frame.
    pub const fn new(code: ErrorCode, reason: &'static str) -> Self {
        Self { code, reason }
    }

    /// PROTOCOL_ERROR: the peer broke the protocol.
    pub const fn protocol(reason: &'static str) -> Self {
        Self::new(ErrorCode::PROTOCOL_ERROR, reason)
    }

    /// FRAME_SIZE_ERROR: a frame's length is invalid for its type.
    pub const fn frame_size(reason: &'static str) -> Self {
        Self::new(ErrorCode::FRAME_SIZE_ERROR, reason)
    }

    /// FLOW_CONTROL_ERROR: a flow-control window was exceeded, or is above its maximum.
    pub const fn flow_control(reason: &'static str) -> Self {
        Self::new(ErrorCode::FLOW_CONTROL_ERROR, reason)
    }

    /// ENHANCE_YOUR_CALM: a limit of [`crate::Limits`] was exceeded.
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
