//! Sends a request to a node: its head, then the body with the gateway's own framing.
//!
//! The body stays in the client's read buffer until it has been written, behind the head whose
//! spans are still in use. Chunks are decoded in place, and the data received so far is sent as one
//! chunk. As long as no body byte has been overwritten, the request can be replayed to another
//! node.

use std::io::IoSlice;
use std::task::{Context, Poll, ready};

use tollhouse_http::{BodyLength, Expectation};
use tollhouse_telemetry::ErrorCode;

use super::body_source::{Arrived, BodySource};
use super::coding::{Coding, Piece};
use super::{Sides, Waiting};
use crate::connection::buffer::Buffer;
use crate::error::GatewayError;
use crate::grpc::MessageMeter;
use crate::turn::{self, TURN_BYTES};

/// Interim response that invites the client to send the body (RFC 9110 §15.2.1).
const CONTINUE: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";

/// Bytes sent before the client's body: the head, and a body that a plugin set in place of the
/// client's.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Lead<'a> {
    /// Request head as written for the node.
    pub head: &'a [u8],
    /// Body set by a plugin; empty if the client's is sent.
    pub body: &'a [u8],
}

impl<'a> Lead<'a> {
    #[inline]
    fn len(self) -> usize {
        self.head.len() + self.body.len()
    }

    /// Returns the rest of head and body after `sent` bytes, limited to `TURN_BYTES` of body.
    #[inline]
    fn left(self, sent: usize) -> [&'a [u8]; 2] {
        let body = &self.body[sent.saturating_sub(self.head.len()).min(self.body.len())..];
        let body = &body[..body.len().min(TURN_BYTES)];
        [self.head.get(sent..).unwrap_or_default(), body]
    }
}

/// Why a request could not be sent completely.
#[derive(Debug)]
pub(crate) enum PumpError {
    /// The client left, or its stream ended within the body.
    DownstreamGone,
    /// The body is not valid chunked coding.
    BadBody,
    BodyTooLarge,
    /// A gRPC message exceeds the limit.
    MessageTooLarge,
    /// The node accepted no more bytes; it may still have responded.
    Upstream,
}

impl PumpError {
    /// Returns the error code of the failed request.
    pub(crate) fn code(&self) -> ErrorCode {
        match self {
            PumpError::BadBody => ErrorCode::BadFraming,
            PumpError::BodyTooLarge => ErrorCode::BodyTooLarge,
            PumpError::MessageTooLarge => ErrorCode::GrpcMessageTooLarge,
            PumpError::DownstreamGone => ErrorCode::DownstreamGone,
            PumpError::Upstream => ErrorCode::UpstreamReset,
        }
    }
}

impl From<PumpError> for GatewayError {
    fn from(error: PumpError) -> Self {
        error.code().into()
    }
}

/// Progress of sending a request.
#[derive(Debug)]
pub(crate) struct RequestPump {
    /// Bytes of the lead (head and replacement body) that are sent.
    head_sent: usize,
    /// Offset of the body in the client's buffer.
    body_start: usize,
    /// Offset in the client's buffer of the next body byte to send.
    position: usize,
    /// Decoded body bytes from `position` on.
    ready: usize,
    /// Rest of the body to be received from the client.
    source: BodySource,
    coding: Coding,
    /// Framing of the data being sent.
    piece: Piece,
    /// Bytes of [`CONTINUE`] still to be sent to the client.
    continue_left: usize,
    /// Whether body bytes have been overwritten, so that the request cannot be replayed.
    overwritten: bool,
    body_bytes_max: u64,
    /// Check of message lengths, if they are limited.
    meter: Option<Box<MessageMeter>>,
    /// Body bytes received, chunk framing included.
    pub received: u64,
    /// Body bytes received without framing; the limit applies to them.
    data_received: u64,
    /// Count of all progress, for timeouts.
    pub moved: u64,
    /// Side that the pump waits for.
    pub waiting: Waiting,
    done: bool,
}

impl RequestPump {
    /// Creates a pump for a request whose head occupies `head_bytes` of the client's buffer.
    pub(crate) fn new(
        head_bytes: usize,
        body: BodyLength,
        expectation: Expectation,
        body_bytes_max: u64,
    ) -> Self {
        // A request body cannot be delimited by the end of the connection (RFC 9112 §6.3).
        let body = if body == BodyLength::UntilClose { BodyLength::None } else { body };
        Self {
            head_sent: 0,
            body_start: head_bytes,
            position: head_bytes,
            ready: 0,
            source: BodySource::new(body),
            coding: if body == BodyLength::Chunked { Coding::Chunked } else { Coding::Plain },
            piece: Piece::default(),
            continue_left: if expectation == Expectation::Continue { CONTINUE.len() } else { 0 },
            overwritten: false,
            body_bytes_max,
            meter: None,
            received: 0,
            data_received: 0,
            moved: 0,
            waiting: Waiting::UpstreamWrite,
            done: false,
        }
    }

    /// Creates a pump that sends nothing, for a request that could not be parsed.
    pub(crate) fn none() -> Self {
        Self::new(0, BodyLength::None, Expectation::None, 0)
    }

    /// Whether the whole request has been sent.
    #[inline]
    pub(crate) fn is_done(&self) -> bool {
        self.done
    }

    /// Whether the whole request has been received from the client.
    #[inline]
    pub(crate) fn is_received(&self) -> bool {
        self.source.is_ended()
    }

    /// Whether any byte has been sent to a node since the last [`Self::replay`].
    #[inline]
    pub(crate) fn has_sent(&self) -> bool {
        self.head_sent > 0
    }

    /// Whether the request can be sent again from its first byte.
    #[inline]
    pub(crate) fn is_replayable(&self) -> bool {
        !self.overwritten
    }

    /// Restarts the request for another node; requires [`Self::is_replayable`].
    pub(crate) fn replay(&mut self) {
        self.ready += self.position - self.body_start;
        self.position = self.body_start;
        self.head_sent = 0;
        self.piece = Piece::default();
        self.done = false;
    }

    /// Changes the limit of body bytes from now on.
    pub(crate) fn limit(&mut self, body_bytes_max: u64) {
        self.body_bytes_max = body_bytes_max;
    }

    /// Checks message lengths from now on, starting with the bytes already received.
    ///
    /// # Errors
    /// [`PumpError::MessageTooLarge`].
    pub(crate) fn meter(
        &mut self,
        mut meter: Box<MessageMeter>,
        buffer: &Buffer,
    ) -> Result<(), PumpError> {
        let arrived = &buffer.filled()[self.position..self.position + self.ready];
        if !meter.admits(arrived) {
            return Err(PumpError::MessageTooLarge);
        }
        self.meter = Some(meter);
        Ok(())
    }

    /// Whether more bytes were received than are allowed.
    pub(crate) fn is_over_limit(&self) -> bool {
        self.data_received > self.body_bytes_max
    }

    /// Sends a chunked body without chunks, because the whole body has been received and its length
    /// is known.
    pub(crate) fn send_plainly(&mut self) {
        debug_assert!(
            self.is_received() && !self.has_sent(),
            "all of the body stands in the buffer"
        );
        self.coding = Coding::Plain;
    }

    /// Skips the client's body, because another one replaces it.
    pub(crate) fn leave_out(&mut self) {
        self.position += self.ready;
        self.ready = 0;
        self.body_start = self.position;
        self.coding = Coding::Plain;
    }

    /// Cancels a pending 100 Continue, because the response is about to begin.
    pub(crate) fn withhold_continue(&mut self) {
        if self.continue_left == CONTINUE.len() {
            self.continue_left = 0;
        }
    }

    /// Returns the rest of a pending 100 Continue, which the caller must send.
    pub(crate) fn take_invitation(&mut self) -> &'static [u8] {
        let left = std::mem::take(&mut self.continue_left);
        &CONTINUE[CONTINUE.len() - left..]
    }

    /// Returns the offset in the client's buffer directly after this request.
    pub(crate) fn end_in_buffer(&self) -> usize {
        self.position + self.ready
    }

    /// Processes received body bytes without sending them, and decodes their chunks. Used before
    /// the first node is chosen, and for responses that need no node.
    ///
    /// # Errors
    /// As [`Self::poll_send`].
    #[inline]
    pub(crate) fn admit(&mut self, buffer: &mut Buffer) -> Result<(), PumpError> {
        let start = self.position + self.ready;
        if self.source.is_ended() {
            return Ok(());
        }
        let (taken, data) = match self.source.take(buffer.len() - start) {
            Arrived::Data(bytes) => (bytes, bytes),
            Arrived::Chunks(decoder) => {
                let fresh = &mut buffer.filled_mut()[start..];
                // Trailers of requests are dropped, because a node could merge them into the head
                // and take them for the gateway's own fields.
                let undone = decoder.undo(fresh, |_| {}).map_err(|_| PumpError::BadBody)?;
                buffer.cut(start + undone.data..start + undone.consumed);
                (undone.consumed, undone.data)
            }
        };
        self.source.look_at_chunks();
        self.ready += data;
        self.received += taken as u64;
        self.data_received += data as u64;
        if self.is_over_limit() {
            return Err(PumpError::BodyTooLarge);
        }
        let fresh = || &buffer.filled()[start..start + data];
        if self.meter.as_mut().is_some_and(|meter| !meter.admits(fresh())) {
            return Err(PumpError::MessageTooLarge);
        }
        Ok(())
    }

    /// Sends as much as both sides allow; ready once the whole request is sent.
    ///
    /// # Errors
    /// [`PumpError`]; after `Upstream`, the node may still have a response to read.
    pub(crate) fn poll_send(
        &mut self,
        context: &mut Context<'_>,
        lead: Lead<'_>,
        sides: &mut Sides<'_>,
    ) -> Poll<Result<(), PumpError>> {
        let turn_end = self.moved + TURN_BYTES as u64;
        loop {
            if self.coding == Coding::Chunked {
                self.piece.open(self.ready, self.is_received());
            }
            while self.head_sent < lead.len() || self.ready > 0 || !self.piece.is_sent() {
                // Yields, because sending a body that was read whole would otherwise occupy the
                // core as long as the node accepts it.
                if self.moved >= turn_end {
                    return turn::give_way(context);
                }
                self.waiting = Waiting::UpstreamWrite;
                let written = ready!(self.poll_write(context, lead, sides))?;
                self.count_sent(written, lead.len());
            }
            if self.is_received() {
                ready!(sides.upstream.stream.poll_flush(context))
                    .map_err(|_| PumpError::Upstream)?;
                self.done = true;
                self.waiting = Waiting::UpstreamRead;
                return Poll::Ready(Ok(()));
            }
            ready!(self.poll_receive(context, sides))?;
        }
    }

    #[inline]
    fn poll_write(
        &self,
        context: &mut Context<'_>,
        lead: Lead<'_>,
        sides: &mut Sides<'_>,
    ) -> Poll<Result<usize, PumpError>> {
        let length = self.ready.min(TURN_BYTES);
        let body = &sides.downstream.buffer.filled()[self.position..self.position + length];
        let [head, replacement] = lead.left(self.head_sent);
        let (size, end) = self.piece.around();
        // The end of a chunk must follow all of its data.
        let end = if length < self.ready { &[] } else { end };
        let parts = [head, replacement, size, body, end].map(IoSlice::new);
        let written = ready!(sides.upstream.stream.poll_write(context, &parts))
            .map_err(|_| PumpError::Upstream)?;
        Poll::Ready(if written == 0 { Err(PumpError::Upstream) } else { Ok(written) })
    }

    #[inline]
    fn count_sent(&mut self, written: usize, head_len: usize) {
        self.moved += written as u64;
        let of_head = written.min(head_len - self.head_sent);
        self.head_sent += of_head;
        let of_body = self.piece.count_sent(written - of_head, self.ready);
        self.position += of_body;
        self.ready -= of_body;
    }

    /// Reads more of the body; everything received before has been sent.
    fn poll_receive(
        &mut self,
        context: &mut Context<'_>,
        sides: &mut Sides<'_>,
    ) -> Poll<Result<(), PumpError>> {
        let downstream = &mut *sides.downstream;
        let gone = |_| PumpError::DownstreamGone;
        // Sent only when the body is about to be read, so that a refused request never invites its
        // body.
        while self.continue_left > 0 {
            self.waiting = Waiting::DownstreamWrite;
            let left = &CONTINUE[CONTINUE.len() - self.continue_left..];
            let written = ready!(downstream.stream.poll_write(context, &[IoSlice::new(left)]))
                .map_err(gone)?;
            self.continue_left -= written;
        }
        self.waiting = Waiting::DownstreamRead;
        // The buffer is full and sent completely. The body is read over its sent part, after which
        // the request can no longer be replayed.
        if downstream.buffer.room().is_empty() && !downstream.buffer.make_room(0) {
            downstream.buffer.truncate(self.body_start);
            self.position = self.body_start;
            self.overwritten = true;
            if downstream.buffer.room().is_empty() {
                downstream.buffer.make_room(2 * downstream.buffer.size());
            }
        }
        let read = ready!(downstream.poll_fill(context, sides.buffers)).map_err(gone)?;
        if read == 0 {
            return Poll::Ready(Err(PumpError::DownstreamGone));
        }
        self.moved += read as u64;
        Poll::Ready(self.admit(&mut downstream.buffer))
    }
}

#[cfg(test)]
mod tests;
