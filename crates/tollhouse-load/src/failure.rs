//! How a request can fail. Failures are counted by class and never vanish into an average.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The class of a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FailureClass {
    /// No connection could be opened.
    Connect,
    /// The TLS handshake failed.
    Tls,
    /// No whole answer within the time-out.
    Timeout,
    /// The peer reset the connection.
    Reset,
    /// The connection ended before the answer did.
    Closed,
    /// The request could not be written.
    Write,
    /// What came back is not of the protocol.
    Malformed,
    /// A status that is no success; the answer itself was whole.
    Status,
    /// The answer failed a check on its length or content.
    Check,
}

impl FailureClass {
    /// All classes, in the order in which they are shown.
    pub const ALL: [FailureClass; 9] = [
        FailureClass::Connect,
        FailureClass::Tls,
        FailureClass::Timeout,
        FailureClass::Reset,
        FailureClass::Closed,
        FailureClass::Write,
        FailureClass::Malformed,
        FailureClass::Status,
        FailureClass::Check,
    ];

    /// The word used in tables and JSON.
    pub const fn as_str(self) -> &'static str {
        match self {
            FailureClass::Connect => "connect",
            FailureClass::Tls => "tls",
            FailureClass::Timeout => "timeout",
            FailureClass::Reset => "reset",
            FailureClass::Closed => "closed",
            FailureClass::Write => "write",
            FailureClass::Malformed => "malformed",
            FailureClass::Status => "status",
            FailureClass::Check => "check",
        }
    }

    /// Whether a whole answer arrived nevertheless, so that its time means something.
    pub const fn is_answer(self) -> bool {
        matches!(self, FailureClass::Status | FailureClass::Check)
    }
}

impl fmt::Display for FailureClass {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.as_str())
    }
}

/// One failure: its class and what exactly happened, in one line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// The class it is counted under.
    pub class: FailureClass,
    /// What happened, such as `Connection refused (os error 111)`.
    pub message: String,
    /// The HTTP or gRPC status, when a whole answer arrived.
    pub status: Option<u16>,
}

impl Failure {
    /// A failure of a class, with its message.
    pub fn new(class: FailureClass, message: impl Into<String>) -> Self {
        Self { class, message: message.into(), status: None }
    }

    /// A failure that a whole answer with a status is.
    pub fn answered(class: FailureClass, status: u16, message: impl Into<String>) -> Self {
        Self { class, message: message.into(), status: Some(status) }
    }

    /// The failure that an error of the operating system is; `otherwise` when the error itself does not tell.
    pub fn from_io(error: &std::io::Error, otherwise: FailureClass) -> Self {
        use std::io::ErrorKind;
        let class = match error.kind() {
            ErrorKind::ConnectionReset | ErrorKind::BrokenPipe | ErrorKind::ConnectionAborted => {
                FailureClass::Reset
            }
            ErrorKind::UnexpectedEof => FailureClass::Closed,
            ErrorKind::TimedOut => FailureClass::Timeout,
            _ => otherwise,
        };
        Self::new(class, error.to_string())
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Some messages begin with their class: `status 429`.
        let class = self.class.as_str();
        match self.message.strip_prefix(class) {
            Some(rest) if rest.starts_with(' ') => out.write_str(&self.message),
            _ => write!(out, "{class}: {}", self.message),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_class_is_said_once() {
        let table = [
            (FailureClass::Status, "status 429", "status 429"),
            (FailureClass::Status, "statusless", "status: statusless"),
            (FailureClass::Connect, "Connection refused", "connect: Connection refused"),
        ];
        for (class, message, expected) in table {
            assert_eq!(Failure::new(class, message).to_string(), expected);
        }
    }
}
