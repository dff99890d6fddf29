//! Passes a response on to the client: the head written for it, then the body as it arrives, in
//! framing of our own: chunks are undone in the node's buffer, and what has arrived goes out as one
//! chunk.
//!
//! Every byte that is read is written before more is read, so memory stays constant however long
//! the body and however slow the client, and an event stream passes chunk by chunk.

use std::io::{self, IoSlice};
use std::task::{Context, Poll, ready};

use tollhouse_http::BodyLength;
use tollhouse_http::chunked::LAST_CHUNK;
use tollhouse_plugin::FilterFailure;
use tollhouse_telemetry::ErrorCode;

use super::body_source::{Arrived, BodySource};
use super::coding::{Coding, Piece};
use super::trailers::TrailerLines;
use super::{Sides, Waiting};
use crate::connection::buffer::BUFFER_BYTES;
use crate::connection::link::Link;
use crate::grpc::MessageMeter;
use crate::turn::{self, TURN_BYTES};

/// Longest piece of a body that is copied behind its head, in bytes: about where the copy begins to
/// cost more than a second piece.
const JOIN_BYTES_MAX: usize = 4 * 1024;

/// Why the response could not be passed on to its end; its head may have been sent already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RelayError {
    /// The client went away.
    DownstreamGone,
    /// The node's stream ended or failed inside of the body.
    UpstreamTruncated,
    /// The node's body breaks the chunked grammar.
    BadBody,
    /// A message of a call passes the limit.
    MessageTooLarge,
    /// A plugin had to hold the body, and there was no memory for it.
    MemoryLimit,
    /// A plugin has to read the body, and cannot.
    AnswerUnreadable,
    /// A plugin has panicked over the body.
    FilterPanicked,
}

impl From<FilterFailure> for RelayError {
    fn from(failure: FilterFailure) -> Self {
        match failure {
            FilterFailure::NoMemory => Self::MemoryLimit,
            FilterFailure::Unreadable => Self::AnswerUnreadable,
        }
    }
}

impl RelayError {
    /// What the log says of it.
    pub(crate) fn code(&self) -> ErrorCode {
        match self {
            RelayError::DownstreamGone => ErrorCode::DownstreamGone,
            RelayError::UpstreamTruncated => ErrorCode::UpstreamReset,
            RelayError::BadBody => ErrorCode::UpstreamBadResponse,
            RelayError::MessageTooLarge => ErrorCode::GrpcMessageTooLarge,
            RelayError::MemoryLimit => ErrorCode::MemoryLimit,
            RelayError::AnswerUnreadable => ErrorCode::AnswerUnreadable,
            RelayError::FilterPanicked => ErrorCode::InternalPanic,
        }
    }
}

/// Moves a response's body to the client.
pub(crate) trait BodyRelay {
    /// Sends `out` (the head), then the body, of which the start may be in the node's buffer.
    ///
    /// # Errors
    /// [`RelayError`]; the client's connection cannot be used further.
    fn poll_send(
        &mut self,
        context: &mut Context<'_>,
        out: &mut Vec<u8>,
        sides: &mut Sides<'_>,
    ) -> Poll<Result<(), RelayError>>;

    /// How far it is.
    fn progress(&self) -> &Progress;
}

/// How far a response is on its way.
#[derive(Debug)]
pub(crate) struct Progress {
    /// Bytes written to the client, head and framing included.
    pub written: u64,
    /// Counts bytes on either side, for time-outs.
    pub moved: u64,
    /// Whom it waits for.
    pub waiting: Waiting,
    /// Whether it waits for nobody: a thread of the gateway has the body.
    pub is_at_work: bool,
}

impl Progress {
    pub(super) fn new() -> Self {
        Self { written: 0, moved: 0, waiting: Waiting::DownstreamWrite, is_at_work: false }
    }

    /// Counts what the client has taken.
    #[inline]
    pub(super) fn count_written(&mut self, bytes: usize) {
        self.moved += bytes as u64;
        self.written += bytes as u64;
    }
}

/// A response on its way to the client.
#[derive(Debug)]
pub(crate) struct ResponseRelay {
    /// Bytes of what is written before the body that are sent.
    out_sent: usize,
    /// Body bytes at the front of the node's buffer to be sent as they stand.
    ready: usize,
    source: BodySource,
    coding: Coding,
    /// Whether our own last chunk is still to be written; then all must have arrived before.
    owes_last_chunk: bool,
    /// The framing around what is being sent.
    piece: Piece,
    /// Lines behind the node's last chunk, where the client asked for them.
    trailers: Option<Box<TrailerLines>>,
    /// How long the messages of a call may be, where that is limited.
    pub meter: Option<Box<MessageMeter>>,
    /// How far it is.
    progress: Progress,
}

impl ResponseRelay {
    /// For a response body delimited as `body` and written as `coding` says.
    pub(crate) fn new(
        body: BodyLength,
        coding: Coding,
        trailers: Option<Box<TrailerLines>>,
    ) -> Self {
        Self {
            out_sent: 0,
            ready: 0,
            source: BodySource::for_answer(body),
            coding,
            owes_last_chunk: coding == Coding::Chunked && body != BodyLength::None,
            piece: Piece::default(),
            trailers,
            meter: None,
            progress: Progress::new(),
        }
    }

    /// Writes everything that is waiting in `out` and ready in the buffer.
    #[inline]
    fn poll_write(
        &mut self,
        context: &mut Context<'_>,
        out: &mut Vec<u8>,
        sides: &mut Sides<'_>,
    ) -> Poll<Result<(), RelayError>> {
        let gone = |_: io::Error| RelayError::DownstreamGone;
        let (upstream, downstream) = (&mut *sides.upstream, &mut sides.downstream.stream);
        self.join_small(out, upstream);
        // One write for head, framing and data: each further one would be a system call, and perhaps a
        // packet, of its own.
        while self.out_sent < out.len() || self.ready > 0 || !self.piece.is_sent() {
            self.progress.waiting = Waiting::DownstreamWrite;
            let body = &upstream.buffer.filled()[..self.ready];
            let (size, end) = self.piece.around();
            let parts = [
                IoSlice::new(&out[self.out_sent..]),
                IoSlice::new(size),
                IoSlice::new(body),
                IoSlice::new(end),
            ];
            let written = ready!(downstream.poll_write(context, &parts)).map_err(gone)?;
            if written == 0 {
                return Poll::Ready(Err(RelayError::DownstreamGone));
            }
            self.progress.count_written(written);
            let of_out = written.min(out.len() - self.out_sent);
            self.out_sent += of_out;
            let of_body = self.piece.count_sent(written - of_out, self.ready);
            self.ready -= of_body;
            upstream.buffer.consume(of_body);
        }
        out.clear();
        self.out_sent = 0;
        Poll::Ready(Ok(()))
    }

    /// Copies a short body behind what is written before it: the copy costs less than handing the
    /// kernel two pieces.
    #[inline]
    fn join_small(&mut self, out: &mut Vec<u8>, upstream: &mut Link) {
        if out.is_empty() || self.ready > JOIN_BYTES_MAX || self.out_sent > 0 {
            return;
        }
        let (size, end) = self.piece.around();
        out.extend_from_slice(size);
        out.extend_from_slice(&upstream.buffer.filled()[..self.ready]);
        out.extend_from_slice(end);
        let joined = size.len() + self.ready + end.len();
        let of_body = self.piece.count_sent(joined, self.ready);
        upstream.buffer.consume(of_body);
        self.ready = 0;
    }

    fn poll_receive(
        &mut self,
        context: &mut Context<'_>,
        sides: &mut Sides<'_>,
    ) -> Poll<Result<(), RelayError>> {
        self.progress.waiting = Waiting::UpstreamRead;
        let Sides { upstream, buffers, .. } = sides;
        if self.is_long() && upstream.buffer.size() == BUFFER_BYTES {
            upstream.release_buffer(buffers);
            upstream.buffer = buffers.take_large();
        }
        let read = ready!(upstream.poll_fill(context, buffers));
        match read {
            Ok(0) if self.source.ends_with_stream() => {}
            Ok(0) | Err(_) => return Poll::Ready(Err(RelayError::UpstreamTruncated)),
            Ok(read) => self.progress.moved += read as u64,
        }
        Poll::Ready(Ok(()))
    }

    /// Whether enough is to come to be worth a large buffer.
    fn is_long(&self) -> bool {
        matches!(self.source, BodySource::Remaining(bytes) if bytes > BUFFER_BYTES as u64)
    }

    /// Decides what of the node's buffer may be sent, and frames it.
    #[inline]
    fn admit(&mut self, out: &mut Vec<u8>, upstream: &mut Link) -> Result<(), RelayError> {
        if self.source.is_ended() {
            self.write_last_chunk(out);
            return Ok(());
        }
        match self.source.take(upstream.buffer.len()) {
            Arrived::Data(bytes) => self.ready = bytes,
            Arrived::Chunks(_) => self.undo_chunks(upstream)?,
        }
        if self.coding == Coding::Chunked {
            // Trailers go out by themselves, behind the last of the data.
            let is_last = self.source.is_ended() && self.trailers.is_none();
            self.piece.open(self.ready, is_last);
            self.owes_last_chunk &= !is_last;
        }
        Ok(())
    }

    fn write_last_chunk(&mut self, out: &mut Vec<u8>) {
        if !std::mem::take(&mut self.owes_last_chunk) {
            return;
        }
        match &mut self.trailers {
            Some(trailers) => trailers.write_last_chunk(out),
            None => out.extend_from_slice(LAST_CHUNK),
        }
    }

    fn undo_chunks(&mut self, upstream: &mut Link) -> Result<(), RelayError> {
        let BodySource::Chunked(decoder) = &mut self.source else { return Ok(()) };
        let trailers = &mut self.trailers;
        let undone = decoder.undo(upstream.buffer.filled_mut(), |lines| {
            if let Some(trailers) = trailers {
                trailers.add(lines);
            }
        });
        let undone = undone.map_err(|_| RelayError::BadBody)?;
        let fresh = &upstream.buffer.filled()[..undone.data];
        if self.meter.as_mut().is_some_and(|meter| !meter.admits(fresh)) {
            return Err(RelayError::MessageTooLarge);
        }
        self.ready = undone.data;
        upstream.buffer.cut(undone.data..undone.consumed);
        self.source.look_at_chunks();
        Ok(())
    }
}

impl BodyRelay for ResponseRelay {
    #[inline]
    fn poll_send(
        &mut self,
        context: &mut Context<'_>,
        out: &mut Vec<u8>,
        sides: &mut Sides<'_>,
    ) -> Poll<Result<(), RelayError>> {
        let turn_end = self.progress.moved + TURN_BYTES as u64;
        loop {
            if self.ready == 0 && self.piece.is_sent() {
                self.admit(out, sides.upstream)?;
            }
            ready!(self.poll_write(context, out, sides))?;
            if self.source.is_ended() {
                if !self.owes_last_chunk {
                    let flushed = ready!(sides.downstream.stream.poll_flush(context));
                    return Poll::Ready(flushed.map_err(|_| RelayError::DownstreamGone));
                }
            } else if sides.upstream.buffer.is_empty() {
                // What has been sent so far must not wait in the TLS layer.
                ready!(sides.downstream.stream.poll_flush(context))
                    .map_err(|_| RelayError::DownstreamGone)?;
                // Between a fast node and a fast client a long answer would keep the core from everybody else.
                if self.progress.moved >= turn_end {
                    return turn::give_way(context);
                }
                ready!(self.poll_receive(context, sides))?;
            }
        }
    }

    fn progress(&self) -> &Progress {
        &self.progress
    }
}

#[cfg(test)]
mod tests;
