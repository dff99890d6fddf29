//! Outgoing messages of one call.

use std::task::{Context, Poll};

use tollhouse_h2::EndStream;

use super::budget::Budget;
use super::limits::UNCHECKED_BYTES_MAX;
use super::session::{CallStream, ClientGone};
use super::status::{Status, head};
use crate::answer::Answer;

/// Sender of a call's answers.
pub(super) struct Outbox {
    stream: CallStream,
    is_open: bool,
    budget: Budget,
    /// Bytes sent since the client was last seen to read.
    unchecked_bytes: usize,
}

impl Outbox {
    pub(super) fn new(stream: CallStream, budget: Budget) -> Self {
        Self { stream, is_open: false, budget, unchecked_bytes: 0 }
    }

    pub(super) fn stream(&self) -> &CallStream {
        &self.stream
    }

    /// Sends the response head, unless it was sent already.
    pub(super) fn open(&mut self) -> Result<(), ClientGone> {
        if !std::mem::replace(&mut self.is_open, true) {
            self.stream.respond(200, head(), EndStream::No)?;
        }
        Ok(())
    }

    /// Queues an answer without waiting.
    ///
    /// # Errors
    /// [`ClientGone`] if the client has gone; inside, the status to end the call with.
    pub(super) fn send(&mut self, answer: Answer) -> Result<Result<(), Status>, ClientGone> {
        let payload = match answer.into_payload(&self.budget) {
            Ok(payload) => payload,
            Err(status) => return Ok(Err(status)),
        };
        self.unchecked_bytes += payload.remaining_bytes();
        self.open()?;
        self.stream.send(payload)?;
        Ok(Ok(()))
    }

    /// Ends the call with a status.
    pub(super) fn end(self, status: Status) -> Result<(), ClientGone> {
        if self.is_open {
            return self.stream.end(status);
        }
        let fields = status.fields();
        self.stream.respond(200, head().into_iter().chain(fields.iter()), EndStream::Yes)
    }

    /// Whether so many bytes were sent that the client must be seen to read.
    pub(super) fn is_full(&self) -> bool {
        self.unchecked_bytes > UNCHECKED_BYTES_MAX
    }

    /// Waits until the client's window has taken all but a bounded rest of the output.
    pub(super) fn poll_taken(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), ClientGone>> {
        let taken = self.stream.poll_taken(cx);
        if taken.is_ready() {
            self.unchecked_bytes = 0;
        }
        taken
    }

    /// Becomes ready when the client has cancelled the call.
    pub(super) fn poll_gone(&mut self, cx: &mut Context<'_>) -> Poll<ClientGone> {
        self.stream.poll_gone(cx)
    }
}
