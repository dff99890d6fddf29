//! Failures of HTTP/2 exchanges and their classification.

use std::io;

use tollhouse_h2::{ConnectionError, ErrorCode, ResetCause, SendError};

use crate::failure::{Failure, FailureClass};

/// Failure of an exchange, and whether the server processed the request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::protocol) struct Broken {
    /// Failure as the result counts it.
    pub(in crate::protocol) failure: Failure,
    /// Whether the peer has not processed the request, so that it may be sent again.
    pub(in crate::protocol) is_unprocessed: bool,
}

impl From<Failure> for Broken {
    fn from(failure: Failure) -> Self {
        Self { failure, is_unprocessed: false }
    }
}

impl Broken {
    pub(super) fn by_reset(code: ErrorCode, cause: ResetCause) -> Self {
        if cause != ResetCause::Peer {
            return malformed("a malformed message", code).into();
        }
        let failure = Failure::new(FailureClass::Reset, format!("stream reset: {code}"));
        Self { failure, is_unprocessed: code == ErrorCode::REFUSED_STREAM }
    }

    /// Returns the failure of a stream above the last one the peer will process.
    pub(super) fn by_go_away(code: ErrorCode) -> Self {
        Self { failure: go_away(code), is_unprocessed: code == ErrorCode::NO_ERROR }
    }

    /// Returns the failure of the connection before the request was sent.
    pub(super) fn before_sending(failure: Failure) -> Self {
        Self { failure, is_unprocessed: true }
    }

    /// Returns the failure of a request that cannot be encoded.
    pub(super) fn unsendable(error: SendError) -> Self {
        Failure::new(FailureClass::Write, format!("the request cannot be sent: {error}")).into()
    }
}

/// Returns the failure of exchanges that a GOAWAY ended.
pub(super) fn go_away(code: ErrorCode) -> Failure {
    Failure::new(FailureClass::Reset, format!("GOAWAY: {code}"))
}

/// Returns the failure caused by the end of the connection, after a GOAWAY with this code if there
/// was one.
pub(super) fn closed(goodbye: Option<ErrorCode>) -> Failure {
    match goodbye {
        Some(code) if code != ErrorCode::NO_ERROR => go_away(code),
        _ => Failure::new(FailureClass::Closed, "the connection ended before the answer did"),
    }
}

/// Returns the failure of exchanges whose socket failed.
pub(super) fn socket(error: &io::Error, goodbye: Option<ErrorCode>) -> Failure {
    match error.kind() {
        io::ErrorKind::BrokenPipe => closed(goodbye),
        _ => Failure::from_io(error, FailureClass::Closed),
    }
}

/// Returns the failure caused by a protocol violation of the peer.
pub(super) fn no_http2(error: &ConnectionError) -> Failure {
    malformed(error.reason, error.code)
}

fn malformed(reason: &str, code: ErrorCode) -> Failure {
    let message = format!("what came back is not HTTP/2: {reason} ({code})");
    Failure::new(FailureClass::Malformed, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_the_peer_has_not_touched_is_sent_again() {
        let (refused, other) = (ErrorCode::REFUSED_STREAM, ErrorCode::CANCEL);
        for (broken, class, is_unprocessed) in [
            (Broken::by_reset(refused, ResetCause::Peer), FailureClass::Reset, true),
            (Broken::by_reset(other, ResetCause::Peer), FailureClass::Reset, false),
            (Broken::by_reset(refused, ResetCause::Fault), FailureClass::Malformed, false),
            (Broken::by_go_away(ErrorCode::NO_ERROR), FailureClass::Reset, true),
            (Broken::by_go_away(other), FailureClass::Reset, false),
        ] {
            assert_eq!((broken.failure.class, broken.is_unprocessed), (class, is_unprocessed));
        }
    }

    #[test]
    fn a_connection_that_ends_says_what_its_goaway_said() {
        for (goodbye, class, part) in [
            (None, FailureClass::Closed, "ended before"),
            (Some(ErrorCode::NO_ERROR), FailureClass::Closed, "ended before"),
            (Some(ErrorCode::ENHANCE_YOUR_CALM), FailureClass::Reset, "ENHANCE_YOUR_CALM"),
        ] {
            let failure = socket(&io::ErrorKind::BrokenPipe.into(), goodbye);
            assert_eq!(failure.class, class);
            assert!(failure.message.contains(part), "{failure}");
        }
        let reset = socket(&io::ErrorKind::ConnectionReset.into(), None);
        assert_eq!(reset.class, FailureClass::Reset);
    }
}
