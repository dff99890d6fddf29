//! Conversion of gRPC answers to JSON.

use std::sync::Arc;

use tollhouse_plugin::{BodyFilter, Piece};
use tollhouse_stdx::Reservation;
use tollhouse_transcode::{JsonForm, Method, Status, WriteError};

use super::Terms;
use crate::shared::auth::base64::decode_base64;
use crate::shared::grpc::frames::{Deframer, FrameError};
use crate::shared::grpc::outcome::Outcome;

/// Memory per message byte while JSON is written. In a list of small numbers, each byte on the wire
/// becomes a value of up to 64 bytes.
const TREE_BYTES_PER_BYTE: u64 = 64;

/// gRPC status `INTERNAL`, for answers that the gateway cannot read.
const INTERNAL: i32 = 13;

/// gRPC status `UNKNOWN`, for a status that is not a number.
const UNKNOWN: i32 = 2;

/// APISIX's answer to an undecodable message.
const UNDECODABLE: &str = "failed to decode response data by protobuf";

/// Why an answer cannot be converted to JSON any further.
#[derive(Debug, thiserror::Error)]
enum AnswerFault {
    /// The body is not a sequence of gRPC frames.
    #[error(transparent)]
    Frame(#[from] FrameError),
    /// Several messages from a method that returns one.
    #[error("the method returned more than one message")]
    Several,
    /// Bytes that are not a message of the method's type.
    #[error("{UNDECODABLE}")]
    Undecodable,
}

/// Filter that writes messages as JSON: a single one as it is, streamed ones line by line.
pub(super) struct Transcoding {
    terms: Arc<Terms>,
    frames: Deframer,
    streams: bool,
    method: Method,
    messages: u64,
    /// Memory of the text written last, which waits for the client.
    written: Option<Reservation>,
    /// Whether an error has occurred; the rest of the body is then ignored.
    has_failed: bool,
    outcome: Option<Outcome>,
}

impl Transcoding {
    pub(super) fn new(terms: &Arc<Terms>, method: &Method) -> Self {
        Self {
            frames: Deframer::new(terms.message_bytes_max, Arc::clone(&terms.memory)),
            streams: method.streams_out,
            method: method.clone(),
            terms: Arc::clone(terms),
            messages: 0,
            written: None,
            has_failed: false,
            outcome: None,
        }
    }

    /// Converts the next piece of the body.
    fn take(&mut self, input: &[u8], piece: Piece, out: &mut Vec<u8>) -> Result<(), AnswerFault> {
        self.written = None;
        self.frames.push(input)?;
        while let Some(message) = self.frames.message()? {
            if self.messages > 0 && !self.streams {
                return Err(AnswerFault::Several);
            }
            self.messages += 1;
            let tree = TREE_BYTES_PER_BYTE.saturating_mul(message.len() as u64);
            let held = self.terms.memory.take(tree.saturating_add(out.len() as u64));
            let mut held = held.ok_or(FrameError::NoMemory)?;
            let mut may_grow = |text: usize| held.resize(tree.saturating_add(text as u64));
            let form = &self.terms.form;
            match form.write(&self.method.output, message, out, &mut may_grow) {
                Ok(()) => {}
                Err(WriteError::NoMessage(_)) => return Err(AnswerFault::Undecodable),
                Err(WriteError::NoRoom) => return Err(FrameError::NoMemory.into()),
            }
            // Shrinking a reservation cannot fail.
            let _ = held.resize(out.len() as u64);
            self.written = Some(held);
            if self.streams {
                out.push(b'\n');
            }
        }
        if piece.is_last() { Ok(self.frames.finish()?) } else { Ok(()) }
    }
}

impl BodyFilter for Transcoding {
    fn filter(&mut self, input: &[u8], piece: Piece, out: &mut Vec<u8>) {
        if self.has_failed {
            return;
        }
        let start = out.len();
        if let Err(fault) = self.take(input, piece, out) {
            let problem = fault.to_string();
            self.has_failed = true;
            if self.streams {
                // Half a line would make the next line unreadable as well.
                let end = out[start..].iter().rposition(|&byte| byte == b'\n');
                out.truncate(end.map_or(start, |end| start + end + 1));
                let status = Status { code: INTERNAL, message: problem, details: Vec::new() };
                write_status(&status, out);
                out.push(b'\n');
            } else if self.messages <= 1 {
                out.truncate(start);
                out.extend_from_slice(problem.as_bytes());
            }
            return;
        }
        // The status line has been sent, so that a failure after messages can only go into the
        // body.
        let failed = self.outcome.take().filter(|outcome| piece.is_last() && !outcome.is_ok());
        if let Some(outcome) = failed.filter(|_| self.streams || self.messages == 0) {
            out.extend_from_slice(&error_body(&self.terms, &outcome));
            if self.streams {
                out.push(b'\n');
            }
        }
    }

    fn work_bytes(&self, input_bytes: usize, _piece: Piece) -> usize {
        self.frames.bytes_with(input_bytes).filter(|_| !self.has_failed).unwrap_or_default()
    }

    fn trailers(&mut self, section: &mut Vec<u8>) {
        self.outcome = Outcome::from_trailers(section);
    }
}

/// Filter that replaces the body with the status of a failed call.
pub(super) struct ErrorBody(Vec<u8>);

impl ErrorBody {
    pub(super) fn new(terms: &Terms, outcome: &Outcome) -> Self {
        Self(error_body(terms, outcome))
    }
}

impl BodyFilter for ErrorBody {
    fn filter(&mut self, _input: &[u8], piece: Piece, out: &mut Vec<u8>) {
        if piece.is_last() {
            out.append(&mut self.0);
        }
    }
}

/// Returns `{"error": …}`, or APISIX's message if the details of the status are invalid.
fn error_body(terms: &Terms, outcome: &Outcome) -> Vec<u8> {
    let plain = || {
        let code = outcome.code.and_then(|code| i32::try_from(code).ok()).unwrap_or(UNKNOWN);
        Status { code, message: outcome.message.clone(), details: Vec::new() }
    };
    let details = outcome.details.as_deref().filter(|_| terms.shows_status);
    let status = match details.map(decode_base64) {
        None => Ok(plain()),
        Some(None) => return b"grpc-status-details-bin is not base64 format".to_vec(),
        Some(Some(bytes)) => Status::parse(&bytes),
    };
    let detail_type = terms.detail_type.as_deref().map(|name| (&*terms.definition, name));
    let mut out = Vec::new();
    let written = status.and_then(|status| status.write(&terms.form, detail_type, &mut out));
    match written {
        Ok(()) => out,
        Err(error) => error.to_string().into_bytes(),
    }
}

fn write_status(status: &Status, out: &mut Vec<u8>) {
    // Without details, writing cannot fail.
    let _ = status.write(&JsonForm::default(), None, out);
}
