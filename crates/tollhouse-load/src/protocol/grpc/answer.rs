//! Receives the response of a call: head, messages, final status; and classifies responses that are
//! not gRPC.

use super::frame::{Encoding, FrameError, Frames};
use super::status::{Code, decode_message};
use crate::failure::{Failure, FailureClass};
use crate::protocol::http2::fields::Fields;
use crate::protocol::http2::intake::{Flow, Intake};

/// Status and message with which the server ended a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Status {
    pub(super) code: Code,
    pub(super) message: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum End {
    Status(Status),
    /// The requested number of messages has arrived.
    Enough,
}

/// Response of a call, while it is received.
pub(super) struct Answer {
    pub(super) frames: Frames,
    /// Number of messages after which the rest of the stream is not needed.
    pub(super) enough: Option<u64>,
    end: Option<End>,
}

impl Answer {
    pub(super) fn new(frames: Frames) -> Self {
        Self { frames, enough: None, end: None }
    }

    /// Takes the end of the response; `None` while it continues.
    pub(super) fn take_end(&mut self) -> Option<End> {
        self.end.take()
    }
}

impl Intake for Answer {
    fn begin(&mut self) {
        self.frames.begin(Encoding::Identity);
        self.end = None;
    }

    fn wants_fields(&self) -> bool {
        true
    }

    fn head(&mut self, status: u16, fields: &Fields) -> Result<Flow, Failure> {
        if let Some(status) = status_of(fields) {
            self.end = Some(End::Status(status));
            return Ok(Flow::Enough);
        }
        check_head(status, fields)?;
        self.frames.begin(encoding_of(fields)?);
        Ok(Flow::More)
    }

    fn data(&mut self, data: &[u8]) -> Result<Flow, Failure> {
        self.frames.take(data).map_err(frame_failure)?;
        if self.enough.is_some_and(|enough| self.frames.messages() >= enough) {
            self.end = Some(End::Enough);
            return Ok(Flow::Enough);
        }
        Ok(Flow::More)
    }

    fn end(&mut self, trailers: Option<&Fields>) -> Result<(), Failure> {
        let Some(status) = trailers.and_then(status_of) else {
            let message = "the answer ended without a status (grpc-status)";
            return Err(malformed(Code::INTERNAL, message));
        };
        if status.code == Code::OK && !self.frames.is_whole() {
            return Err(malformed(Code::INTERNAL, "the answer ended inside of a message"));
        }
        self.end = Some(End::Status(status));
        Ok(())
    }
}

/// Creates a failure with the wording of gRPC clients.
pub(super) fn with_code(class: FailureClass, code: Code, message: &str) -> Failure {
    let text = format!("rpc error: code = {} desc = {message}", code.name());
    Failure::answered(class, u16::from(code.0), text)
}

fn malformed(code: Code, message: &str) -> Failure {
    with_code(FailureClass::Malformed, code, message)
}

fn frame_failure(error: FrameError) -> Failure {
    match error {
        FrameError::TooLong { bytes, bytes_max } => {
            let message = format!("a message of {bytes} bytes is longer than {bytes_max}");
            with_code(FailureClass::Check, Code::RESOURCE_EXHAUSTED, &message)
        }
        FrameError::Malformed(why) => malformed(Code::INTERNAL, &why),
    }
}

/// Returns the status in a head or in trailers.
fn status_of(fields: &Fields) -> Option<Status> {
    let code = std::str::from_utf8(fields.get("grpc-status")?).ok();
    let code = code.and_then(|text| text.parse().ok()).unwrap_or(Code::UNKNOWN.0);
    let message = fields.get("grpc-message").map(decode_message).unwrap_or_default();
    Some(Status { code: Code(code), message })
}

/// Checks that a response without a status in its head is a gRPC response.
fn check_head(status: u16, fields: &Fields) -> Result<(), Failure> {
    let content_type = fields.get("content-type").unwrap_or_default();
    if status == 200 && content_type.starts_with(b"application/grpc") {
        return Ok(());
    }
    let shown = String::from_utf8_lossy(content_type);
    let what = if shown.is_empty() { "no content-type".into() } else { shown };
    let message = format!("the answer is not gRPC: HTTP status {status}, {what}");
    // A gateway that responds for an unreachable service has responded with a status, so that this
    // is not malformed.
    let class = if status == 200 { FailureClass::Malformed } else { FailureClass::Status };
    Err(with_code(class, Code::from_http(status), &message))
}

fn encoding_of(fields: &Fields) -> Result<Encoding, Failure> {
    match fields.get("grpc-encoding") {
        None | Some(b"identity") => Ok(Encoding::Identity),
        Some(b"gzip") => Ok(Encoding::Gzip),
        Some(other) => {
            let name = String::from_utf8_lossy(other);
            let message = format!("the answer's encoding `{name}` is not known");
            Err(malformed(Code::UNIMPLEMENTED, &message))
        }
    }
}
