//! The answers of one call, as the client takes them.

use std::task::{Context, Poll};

use super::budget::Budget;
use super::limits::UNCHECKED_BYTES_MAX;
use super::session::{CallStream, Gone};
use super::status::{Status, head};
use crate::answer::Answer;

/// This side of a call that may have several answers.
pub(super) struct Outbox {
    stream: CallStream,
    is_open: bool,
    budget: Budget,
    /// Sent since the client was last seen to read.
    unchecked_bytes: usize,
}

impl Outbox {
    pub(super) fn new(stream: CallStream, budget: Budget) -> Self {
        Self { stream, is_open: false, budget, unchecked_bytes: 0 }
    }

    /// The call.
    pub(super) fn stream(&self) -> &CallStream {
        &self.stream
    }

    /// Sends the head, if it is not sent yet.
    pub(super) fn open(&mut self) -> Result<(), Gone> {
        if !std::mem::replace(&mut self.is_open, true) {
            self.stream.respond(200, head(), false)?;
        }
        Ok(())
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
        self.open()?;
        self.stream.send(payload)?;
        Ok(Ok(()))
    }

    /// Ends the call.
    pub(super) fn end(self, status: Status) -> Result<(), Gone> {
        if self.is_open {
            return self.stream.end(status);
        }
        let fields = status.fields();
        self.stream.respond(200, head().into_iter().chain(fields.iter()), true)
    }

    /// Whether so much is under way that it is time to see whether the client reads.
    pub(super) fn is_full(&self) -> bool {
        self.unchecked_bytes > UNCHECKED_BYTES_MAX
    }

    /// Waits until the client's window takes what was sent, but for a rest of bounded size.
    pub(super) fn poll_taken(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Gone>> {
        let taken = self.stream.poll_taken(cx);
        if taken.is_ready() {
            self.unchecked_bytes = 0;
        }
        taken
    }

    /// Whether the client has given the call up.
    pub(super) fn poll_gone(&mut self, cx: &mut Context<'_>) -> Poll<Gone> {
        self.stream.poll_gone(cx)
    }
}
