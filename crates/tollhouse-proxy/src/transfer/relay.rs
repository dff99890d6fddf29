//! Relays a response to the client: its head, then the body as it arrives, with the gateway's own
//! framing. Chunks are decoded in the node's buffer, and the data received so far is sent as one
//! chunk.
//!
//! Every byte is written before more are read. Memory therefore stays constant for any body length
//! and client speed, and event streams are relayed without delay.

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

/// Maximum length of a piece of a body that is copied behind its head, in bytes; beyond about this
/// size, the copy costs more than a second I/O vector.
const JOIN_BYTES_MAX: usize = 4 * 1024;

/// Why a response could not be relayed completely; its head may have been sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RelayError {
    DownstreamGone,
    /// The node's stream ended or failed within the body.
    UpstreamTruncated,
    /// The node's body is not valid chunked coding.
    BadBody,
    /// A gRPC message exceeds the limit.
    MessageTooLarge,
    /// A plugin must hold the body, and the memory budget is exhausted.
    MemoryLimit,
    /// A plugin must read the body and cannot.
    AnswerUnreadable,
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
    /// Returns the error code that the log shows for the request.
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

/// Moves a response body to the client.
pub(crate) trait BodyRelay {
    /// Sends `out` (the head), then the body, whose first bytes may be in the node's buffer.
    ///
    /// # Errors
    /// [`RelayError`]; the client's connection must be closed.
    fn poll_send(
        &mut self,
        context: &mut Context<'_>,
        out: &mut Vec<u8>,
        sides: &mut Sides<'_>,
    ) -> Poll<Result<(), RelayError>>;

    fn progress(&self) -> &Progress;
}

/// Progress of relaying a response body.
#[derive(Debug)]
pub(crate) struct Progress {
    /// Bytes written to the client, head and framing included.
    pub written: u64,
    /// Count of bytes on either side, for timeouts.
    pub moved: u64,
    /// Side that the relay waits for.
    pub waiting: Waiting,
    /// Whether the relay waits for a thread of the gateway instead of a peer.
    pub is_at_work: bool,
}

impl Progress {
    pub(super) fn new() -> Self {
        Self { written: 0, moved: 0, waiting: Waiting::DownstreamWrite, is_at_work: false }
    }

    /// Counts bytes that the client has accepted.
    #[inline]
    pub(super) fn count_written(&mut self, bytes: usize) {
        self.moved += bytes as u64;
        self.written += bytes as u64;
    }
}

/// Relay of a response to the client.
#[derive(Debug)]
pub(crate) struct ResponseRelay {
    /// Bytes of `out` that are sent.
    out_sent: usize,
    /// Body bytes at the front of the node's buffer that are ready to be sent.
    ready: usize,
    source: BodySource,
    coding: Coding,
    /// Whether the final chunk is still to be written, once the whole body has arrived.
    owes_last_chunk: bool,
    /// Framing of the data being sent.
    piece: Piece,
    /// Trailer lines of the node; `None` if the client did not ask for trailers.
    trailers: Option<Box<TrailerLines>>,
    /// Check of message lengths, if they are limited.
    pub meter: Option<Box<MessageMeter>>,
    progress: Progress,
}

impl ResponseRelay {
    /// Creates a relay for a body delimited by `body` and sent with `coding`.
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

    /// Writes everything pending in `out` and ready in the buffer.
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
        // Head, framing and data go out in a single write, because each further one costs a system
        // call and perhaps a packet.
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

    /// Copies a short body behind the pending head, which costs less than a vectored write.
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

    /// Whether the rest of the body is long enough for a large buffer.
    fn is_long(&self) -> bool {
        matches!(self.source, BodySource::Remaining(bytes) if bytes > BUFFER_BYTES as u64)
    }

    /// Determines the part of the node's buffer that may be sent, and frames it.
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
            // Trailers are written separately after the last data.
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
                // Data sent so far must not stay in the TLS layer.
                ready!(sides.downstream.stream.poll_flush(context))
                    .map_err(|_| RelayError::DownstreamGone)?;
                // Without a bound, a long response between a fast node and a fast client would
                // occupy the core.
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
