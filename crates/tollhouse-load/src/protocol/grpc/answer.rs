//! Takes a call's answer in: its head, its messages, the status at its end; and says what it means when
//! it is not gRPC.

use h2::RecvStream;
use http::{HeaderMap, Response};

use super::frame::{Encoding, FrameError, Frames};
use super::status::{Code, decode_message};
use crate::failure::{Failure, FailureClass};

/// The status of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Status {
    pub(super) code: Code,
    pub(super) message: String,
}

/// When to stop reading.
#[derive(Debug, Clone, Copy)]
pub(super) struct Until {
    /// Stop after this many messages; the rest of the stream is not wanted.
    pub(super) messages: Option<u64>,
}

/// How an answer ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum End {
    /// The peer said so.
    Status(Status),
    /// As many messages as wanted were there.
    Enough,
}

/// Takes the answer in until its end.
///
/// # Errors
/// It is not gRPC, a message is too long, the stream was reset; with the connection's error, when it was
/// one, in [`AnswerError::Transport`].
pub(super) async fn receive(
    response: Response<RecvStream>,
    frames: &mut Frames,
    until: Until,
) -> Result<End, AnswerError> {
    let (head, mut stream) = response.into_parts();
    if let Some(status) = status_of(&head.headers) {
        return Ok(End::Status(status));
    }
    check_head(head.status.as_u16(), &head.headers)?;
    frames.begin(encoding_of(&head.headers)?);
    while let Some(data) = stream.data().await {
        let data = data.map_err(AnswerError::Transport)?;
        // It fails only for a stream that has ended, whose window nobody needs.
        let _ = stream.flow_control().release_capacity(data.len());
        frames.take(&data).map_err(frame_failure)?;
        if until.messages.is_some_and(|enough| frames.messages() >= enough) {
            return Ok(End::Enough);
        }
    }
    let trailers = stream.trailers().await.map_err(AnswerError::Transport)?;
    let Some(status) = trailers.as_ref().and_then(status_of) else {
        let message = "the answer ended without a status (grpc-status)";
        return Err(malformed(Code::INTERNAL, message).into());
    };
    if status.code == Code::OK && !frames.is_whole() {
        return Err(malformed(Code::INTERNAL, "the answer ended inside of a message").into());
    }
    Ok(End::Status(status))
}

/// Why there is no whole answer.
#[derive(Debug)]
pub(super) enum AnswerError {
    /// What came back cannot be used.
    Failure(Failure),
    /// The stream or its connection broke.
    Transport(h2::Error),
}

impl From<Failure> for AnswerError {
    fn from(failure: Failure) -> Self {
        Self::Failure(failure)
    }
}

/// A failure in the words that gRPC clients print.
pub(super) fn with_code(class: FailureClass, code: Code, message: &str) -> Failure {
    let text = format!("rpc error: code = {} desc = {message}", code.name());
    Failure::answered(class, u16::from(code.0), text)
}

fn malformed(code: Code, message: &str) -> Failure {
    with_code(FailureClass::Malformed, code, message)
}

fn frame_failure(error: FrameError) -> AnswerError {
    let failure = match error {
        FrameError::TooLong { bytes, bytes_max } => {
            let message = format!("a message of {bytes} bytes is longer than {bytes_max}");
            with_code(FailureClass::Check, Code::RESOURCE_EXHAUSTED, &message)
        }
        FrameError::Malformed(why) => malformed(Code::INTERNAL, &why),
    };
    AnswerError::Failure(failure)
}

/// The status that headers or trailers hold.
fn status_of(headers: &HeaderMap) -> Option<Status> {
    let code = headers.get("grpc-status")?;
    let code = code.to_str().ok().and_then(|text| text.parse().ok());
    let message = headers.get("grpc-message").map(|value| decode_message(value.as_bytes()));
    Some(Status {
        code: Code(code.unwrap_or(Code::UNKNOWN.0)),
        message: message.unwrap_or_default(),
    })
}

/// An answer without a status in its head has to be one of gRPC.
fn check_head(status: u16, headers: &HeaderMap) -> Result<(), Failure> {
    let content_type = headers.get(http::header::CONTENT_TYPE).map_or(&b""[..], |v| v.as_bytes());
    if status == 200 && content_type.starts_with(b"application/grpc") {
        return Ok(());
    }
    let shown = String::from_utf8_lossy(content_type);
    let what = if shown.is_empty() { "no content-type".into() } else { shown };
    let message = format!("the answer is not gRPC: HTTP status {status}, {what}");
    // A gateway that answers for a service it cannot reach has answered, as far as it can.
    let class = if status == 200 { FailureClass::Malformed } else { FailureClass::Status };
    Err(with_code(class, Code::of_http(status), &message))
}

fn encoding_of(headers: &HeaderMap) -> Result<Encoding, Failure> {
    match headers.get("grpc-encoding").map(|value| value.as_bytes()) {
        None | Some(b"identity") => Ok(Encoding::Identity),
        Some(b"gzip") => Ok(Encoding::Gzip),
        Some(other) => {
            let name = String::from_utf8_lossy(other);
            let message = format!("the answer's encoding `{name}` is not known");
            Err(malformed(Code::UNIMPLEMENTED, &message))
        }
    }
}
