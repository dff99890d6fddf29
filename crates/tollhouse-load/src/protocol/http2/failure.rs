//! What an error of HTTP/2 is as a failure.

use std::io::ErrorKind;

use h2::Reason;

use crate::failure::{Failure, FailureClass};

/// The failure that an error is.
pub(in crate::protocol) fn failure_of(error: &h2::Error) -> Failure {
    if let Some(io) = error.get_io() {
        return match io.kind() {
            // The connection's end is told to its streams as a broken pipe.
            ErrorKind::BrokenPipe => {
                Failure::new(FailureClass::Closed, "the connection ended before the answer did")
            }
            _ => Failure::of_io(io, FailureClass::Closed),
        };
    }
    let Some(reason) = error.reason() else {
        return Failure::new(FailureClass::Write, error.to_string());
    };
    match (error.is_remote(), error.is_go_away()) {
        (true, true) => Failure::new(FailureClass::Reset, format!("GOAWAY: {}", name(reason))),
        (true, false) => {
            Failure::new(FailureClass::Reset, format!("stream reset: {}", name(reason)))
        }
        (false, _) => {
            let message = format!("what came back is not HTTP/2: {}", name(reason));
            Failure::new(FailureClass::Malformed, message)
        }
    }
}

/// Whether the peer says that it has not touched the request.
pub(in crate::protocol) fn is_unprocessed(error: &h2::Error) -> bool {
    let expected = if error.is_go_away() { Reason::NO_ERROR } else { Reason::REFUSED_STREAM };
    error.is_remote() && error.reason() == Some(expected)
}

/// The name of a reason as RFC 9113 writes it.
fn name(reason: Reason) -> String {
    format!("{reason:?}")
}
