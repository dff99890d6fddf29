//! A request over HTTP/2 and its response; `grpc.rs` holds the parts for gRPC calls.

use bytes::Bytes;
use tollhouse_h2::{Connection, EndStream, ErrorCode, Field, SendError, StreamId};

use super::head::Head;
use crate::answers::Answer;
use crate::choice::Verdict;
use crate::grpc::{self, Call, Step};
use crate::worker::{ECHO_BYTES_MAX, Outcome, Standing, Worker};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Progress {
    /// Waits for the client, for room, or for its deadline.
    Waiting,
    /// Answered, reset, or cancelled by the client; the stream can be released.
    Over,
}

/// A request being received or answered.
pub(super) struct Exchange {
    is_head_method: bool,
    is_other_path: bool,
    content_type: Option<Vec<u8>>,
    kept: Kept,
    call: Option<Box<Call>>,
    outgoing: Outgoing,
    has_begun: bool,
    /// Received bytes not yet returned to the client's window.
    unread_bytes: usize,
    pub(super) is_due: bool,
    pub(super) has_ended: bool,
}

/// Request body, buffered for an echo.
#[derive(Debug, Default)]
struct Kept {
    body: Vec<u8>,
    is_too_large: bool,
}

/// Bytes that are sent several times in sequence.
#[derive(Debug, Default)]
struct Outgoing {
    bytes: Bytes,
    sent_bytes: usize,
    times: u32,
}

impl Outgoing {
    fn new(bytes: Bytes, times: u32) -> Self {
        Self { bytes, sent_bytes: 0, times }
    }

    /// Sends as much as possible; returns whether everything was sent.
    fn send(
        &mut self,
        codec: &mut Connection,
        stream: StreamId,
        ends: bool,
    ) -> Result<bool, SendError> {
        while self.times > 0 {
            let rest = &self.bytes[self.sent_bytes..];
            let sent = codec.send_data(stream, rest, (ends && self.times == 1).into())?;
            if sent < rest.len() {
                self.sent_bytes += sent;
                return Ok(false);
            }
            self.sent_bytes = 0;
            self.times -= 1;
        }
        self.bytes = Bytes::new();
        Ok(true)
    }
}

impl Exchange {
    pub(super) fn new(worker: &Worker, head: &Head, has_ended: bool) -> Self {
        let shared = &*worker.shared;
        let is_call = grpc::is_call(head.content_type.as_deref());
        let call = is_call.then(|| Box::new(Call::new(worker, head.grpc_encoding.clone())));
        let keeps_type = shared.is_echo || is_call;
        let path = head.path();
        Self {
            is_head_method: head.is_head_method,
            is_other_path: shared.path.as_ref().is_some_and(|only| only.as_bytes() != path),
            content_type: head.content_type.clone().filter(|_| keeps_type),
            kept: Kept::default(),
            call,
            outgoing: Outgoing::default(),
            has_begun: false,
            unread_bytes: 0,
            is_due: false,
            has_ended,
        }
    }

    /// Whether the latency counts from the head; otherwise from the end of the body.
    pub(super) fn is_timed_from_head(&self) -> bool {
        self.call.is_some()
    }

    /// Receives a piece of the body.
    pub(super) fn feed(
        &mut self,
        worker: &Worker,
        codec: &mut Connection,
        stream: StreamId,
        data: &[u8],
    ) {
        if let Some(call) = &mut self.call {
            // The window is not replenished until the received messages are sent back.
            call.messages.feed(data);
            self.unread_bytes += data.len();
            return;
        }
        codec.consume(stream, data.len());
        if !worker.shared.is_echo || self.kept.is_too_large {
            return;
        }
        if self.kept.body.len() + data.len() > ECHO_BYTES_MAX {
            self.kept = Kept { body: Vec::new(), is_too_large: true };
        } else {
            self.kept.body.extend_from_slice(data);
        }
    }

    /// Makes all possible progress. An error of sending means that the client has cancelled the
    /// stream.
    pub(super) fn advance(
        &mut self,
        worker: &Worker,
        codec: &mut Connection,
        stream: StreamId,
    ) -> Progress {
        if !self.is_due {
            return Progress::Waiting;
        }
        let progress = if self.call.is_some() {
            self.advance_call(worker, codec, stream)
        } else {
            self.advance_plain(worker, codec, stream)
        };
        progress.unwrap_or(Progress::Over)
    }

    fn advance_plain(
        &mut self,
        worker: &Worker,
        codec: &mut Connection,
        stream: StreamId,
    ) -> Result<Progress, SendError> {
        if !self.has_begun {
            self.has_begun = true;
            self.begin(worker, codec, stream)?;
        }
        let is_all = self.outgoing.send(codec, stream, true)?;
        Ok(if is_all { Progress::Over } else { Progress::Waiting })
    }

    /// Sends the head of the response and prepares its body.
    fn begin(
        &mut self,
        worker: &Worker,
        codec: &mut Connection,
        stream: StreamId,
    ) -> Result<(), SendError> {
        let shared = &*worker.shared;
        let standing = match (self.is_other_path, self.kept.is_too_large) {
            (true, _) => Standing::NotFound,
            (false, true) => Standing::TooLarge,
            (false, false) => Standing::Good,
        };
        match shared.outcome(worker, worker.verdict(), standing) {
            Outcome::Reset => {
                codec.reset(stream, ErrorCode::INTERNAL_ERROR);
                Ok(())
            }
            Outcome::Asked(answer) if shared.is_echo => {
                let body = std::mem::take(&mut self.kept.body).into();
                let kind = self.content_type.as_deref();
                let answer = shared.answers.echo(answer.status, kind, body);
                self.respond(&answer, codec, stream)
            }
            Outcome::Asked(answer) | Outcome::Other(answer) => self.respond(answer, codec, stream),
        }
    }

    fn respond(
        &mut self,
        answer: &Answer,
        codec: &mut Connection,
        stream: StreamId,
    ) -> Result<(), SendError> {
        let is_all = self.is_head_method || answer.body.is_empty();
        let fields = answer.fields.iter();
        let fields =
            fields.map(|(name, value)| Field::new(name.as_str().as_bytes(), value.as_bytes()));
        codec.respond(stream, answer.status.as_u16(), fields, is_all.into())?;
        if !is_all {
            self.outgoing = Outgoing::new(answer.body.clone(), 1);
        }
        Ok(())
    }

    fn advance_call(
        &mut self,
        worker: &Worker,
        codec: &mut Connection,
        stream: StreamId,
    ) -> Result<Progress, SendError> {
        let Some(call) = self.call.as_deref_mut() else { return Ok(Progress::Over) };
        if !self.has_begun {
            self.has_begun = true;
            let status = match call.verdict {
                Verdict::Reset => {
                    worker.counts().resets.add_one();
                    codec.reset(stream, ErrorCode::INTERNAL_ERROR);
                    return Ok(Progress::Over);
                }
                Verdict::Error => {
                    worker.counts().errors.add_one();
                    Some(grpc::INTERNAL)
                }
                Verdict::Answer(_) => Some(worker.shared.grpc.status).filter(|status| *status != 0),
            };
            // Content type and compression of the call, because its messages are sent back.
            let kind = self.content_type.as_deref().map(|kind| Field::new(b"content-type", kind));
            let encoding = call.encoding.as_deref();
            let encoding = encoding.map(|encoding| Field::new(b"grpc-encoding", encoding));
            let head = kind.into_iter().chain(encoding);
            if let Some(status) = status {
                let digits = grpc::digits(status);
                codec.respond(
                    stream,
                    200,
                    head.chain(grpc::trailers(&digits, status)),
                    EndStream::Yes,
                )?;
                return Ok(Progress::Over);
            }
            codec.respond(stream, 200, head, EndStream::No)?;
        }
        while self.outgoing.send(codec, stream, false)? {
            match call.next(worker.shared.grpc, self.has_ended) {
                Step::Send(message, times) => self.outgoing = Outgoing::new(message, times),
                Step::Wait => {
                    codec.consume(stream, self.unread_bytes);
                    self.unread_bytes = 0;
                    return Ok(Progress::Waiting);
                }
                Step::End(status) => {
                    codec.send_trailers(stream, grpc::trailers(&grpc::digits(status), status))?;
                    return Ok(Progress::Over);
                }
            }
        }
        Ok(Progress::Waiting)
    }
}
