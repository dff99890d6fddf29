//! The answers of one call, as the client takes them.

use std::task::{Context, Poll, ready};

use h2::server::SendResponse;
use h2::{Reason, SendStream};

use super::budget::Budget;
use super::limits::UNCHECKED_BYTES_MAX;
use super::payload::Payload;
use super::status::{Status, head};
use crate::answer::Answer;

/// This side of a call that may have several answers.
pub(super) struct Outbox {
    respond: SendResponse<Payload>,
    /// There once the head is sent.
    stream: Option<SendStream<Payload>>,
    budget: Budget,
    /// Sent since the client was last seen to read.
    unchecked_bytes: usize,
}

/// The client has given the call up, or is gone.
#[derive(Debug)]
pub(super) struct Gone;

impl From<h2::Error> for Gone {
    fn from(_: h2::Error) -> Self {
        Self
    }
}

impl Outbox {
    pub(super) fn new(respond: SendResponse<Payload>, budget: Budget) -> Self {
        Self { respond, stream: None, budget, unchecked_bytes: 0 }
    }

    /// Sends the head, if it is not sent yet.
    pub(super) fn open(&mut self) -> Result<&mut SendStream<Payload>, Gone> {
        match &mut self.stream {
            Some(stream) => Ok(stream),
            none => Ok(none.insert(self.respond.send_response(head(), false)?)),
        }
    }

    /// Puts an answer on its way; does not wait.
    ///
    /// # Errors
    /// [`Gone`], or the status that the call has to end with.
    pub(super) fn send(&mut self, answer: Answer) -> Result<Result<(), Status>, Gone> {
        let payload = match answer.into_payload(&self.budget) {
            Ok(payload) => payload,
            Err(status) => return Ok(Err(status)),
        };
        self.unchecked_bytes += payload.remaining_bytes();
        self.open()?.send_data(payload, false)?;
        Ok(Ok(()))
    }

    /// Ends the call.
    pub(super) fn end(mut self, status: &Status) -> Result<(), Gone> {
        match &mut self.stream {
            Some(stream) => stream.send_trailers(status.trailers())?,
            None => drop(self.respond.send_response(status.alone(), true)?),
        }
        Ok(())
    }

    /// Whether so much is under way that it is time to see whether the client reads.
    pub(super) fn is_full(&self) -> bool {
        self.unchecked_bytes > UNCHECKED_BYTES_MAX
    }

    /// Waits until the client's window takes what was sent, but for a rest of bounded size.
    pub(super) fn poll_taken(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Gone>> {
        let Some(stream) = &mut self.stream else { return Poll::Ready(Ok(())) };
        // Room for one byte beyond what is queued means that the queue fits the window.
        stream.reserve_capacity(1);
        while stream.capacity() == 0 {
            match ready!(stream.poll_capacity(cx)) {
                Some(Ok(_)) => {}
                Some(Err(_)) | None => return Poll::Ready(Err(Gone)),
            }
        }
        stream.reserve_capacity(0);
        self.unchecked_bytes = 0;
        Poll::Ready(Ok(()))
    }

    /// Whether the client has given the call up; needs the head to be sent.
    pub(super) fn poll_gone(&mut self, cx: &mut Context<'_>) -> Poll<Gone> {
        match &mut self.stream {
            Some(stream) => stream.poll_reset(cx).map(|_: Result<Reason, _>| Gone),
            None => self.respond.poll_reset(cx).map(|_: Result<Reason, _>| Gone),
        }
    }
}
