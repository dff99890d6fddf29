//! Incoming messages of one call.

use std::task::{Context, Poll, ready};

use super::budget::Budget;
use super::messages::{Message, Messages};
use super::session::CallStream;
use super::status::{Code, Status};

/// Receiver of a call's messages.
#[derive(Debug)]
pub(super) struct Inbox {
    messages: Messages,
    /// The message of a unary call, while the end of the stream is awaited.
    only: Option<Message>,
    budget: Budget,
}

/// Reason for which no further message can be received.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum InboxFailure {
    /// The call must end with this status.
    Refused(Status),
    /// The client has cancelled the call or disconnected.
    Gone,
}

impl Inbox {
    pub(super) fn new(budget: &Budget, message_bytes_max: usize) -> Self {
        let messages = Messages::new(budget, message_bytes_max);
        Self { messages, only: None, budget: budget.clone() }
    }

    /// Returns the next message; `None` after the last.
    pub(super) fn poll_next(
        &mut self,
        stream: &CallStream,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Option<Message>, InboxFailure>> {
        loop {
            match self.messages.next() {
                Ok(None) => {}
                Ok(message) => return Poll::Ready(Ok(message)),
                Err(status) => return Poll::Ready(Err(InboxFailure::Refused(status))),
            }
            match ready!(stream.poll_data(cx)) {
                Some(Ok(piece)) => self.messages.feed(piece),
                Some(Err(_)) => return Poll::Ready(Err(InboxFailure::Gone)),
                None => return Poll::Ready(self.at_end()),
            }
        }
    }

    /// Returns the message of a unary call, after the client has ended its stream.
    pub(super) fn poll_only(
        &mut self,
        stream: &CallStream,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Message, InboxFailure>> {
        let refuse = |message| Err(InboxFailure::Refused(Status::new(Code::Internal, message)));
        loop {
            let message = match ready!(self.poll_next(stream, cx)) {
                Ok(message) => message,
                Err(broken) => return Poll::Ready(Err(broken)),
            };
            match (message, self.only.is_some()) {
                (Some(message), false) => match self.reserved(message, stream) {
                    Ok(message) => self.only = Some(message),
                    Err(status) => return Poll::Ready(Err(InboxFailure::Refused(status))),
                },
                (Some(_), true) => {
                    return Poll::Ready(refuse("a unary call has one message, not several"));
                }
                (None, _) => {
                    let only = self.only.take().map(Ok);
                    return Poll::Ready(
                        only.unwrap_or_else(|| refuse("the call ended without a message")),
                    );
                }
            }
        }
    }

    /// Charges a message to the budget, because it is kept until the stream ends; not needed if the
    /// stream has ended already.
    fn reserved(&self, message: Message, stream: &CallStream) -> Result<Message, Status> {
        if stream.is_at_end() { Ok(message) } else { message.counted(&self.budget) }
    }

    /// Whether a message has arrived in part.
    pub(super) fn is_within_message(&self) -> bool {
        !self.messages.is_between()
    }

    fn at_end(&self) -> Result<Option<Message>, InboxFailure> {
        if self.messages.is_between() {
            return Ok(None);
        }
        let status = Status::new(Code::Internal, "the call ended within a message");
        Err(InboxFailure::Refused(status))
    }
}
