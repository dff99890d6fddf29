//! Failures of requests. They are counted by class and reported separately from successful
//! requests.

use std::fmt;

use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FailureClass {
    Connect,
    Tls,
    /// The response was not complete within the timeout.
    Timeout,
    Reset,
    /// The connection ended before the response was complete.
    Closed,
    /// The request could not be written.
    Write,
    Malformed,
    /// The response was complete, but its status is not a success.
    Status,
    /// The response failed a check on its length or content.
    Check,
}

impl FailureClass {
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

    /// Returns the word used in tables and JSON.
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

    /// Whether a complete response arrived despite the failure, so that its time is meaningful.
    pub const fn is_answer(self) -> bool {
        matches!(self, FailureClass::Status | FailureClass::Check)
    }
}

impl fmt::Display for FailureClass {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.as_str())
    }
}

/// A failure: its class and the exact event, in one line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    pub class: FailureClass,
    /// Description, such as `Connection refused (os error 111)`.
    pub message: String,
    /// HTTP or gRPC status, if a complete response arrived.
    pub status: Option<u16>,
}

impl Failure {
    pub fn new(class: FailureClass, message: impl Into<String>) -> Self {
        Self { class, message: message.into(), status: None }
    }

    /// Creates a failure for a complete response with a status.
    pub fn answered(class: FailureClass, status: u16, message: impl Into<String>) -> Self {
        Self { class, message: message.into(), status: Some(status) }
    }

    /// Converts an I/O error; `otherwise` is the class for error kinds without a class here.
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
        // Some messages already begin with their class: `status 429`.
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
