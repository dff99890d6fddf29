//! Handle of one exchange: waits for the response and sends further data.

use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Context, Poll};

use bytes::Bytes;
use tollhouse_h2::{EndStream, SendError, StreamId};

use super::Session;
use crate::protocol::http2::failure::Broken;

/// Handle of an exchange on a connection. Dropping it cancels an unfinished exchange.
pub(in crate::protocol) struct Call {
    session: Rc<Session>,
    stream: StreamId,
}

impl Call {
    /// Creates the handle for a stream that was just opened.
    pub(super) fn new(session: &Rc<Session>, stream: StreamId) -> Self {
        Self { session: Rc::clone(session), stream }
    }

    /// Waits until the response is complete or has failed; sets `first_byte_ns` as soon as the head
    /// has arrived.
    pub(in crate::protocol) async fn finished(
        &self,
        first_byte_ns: &mut u64,
    ) -> Result<(), Broken> {
        poll_fn(|context| self.poll_finished(context, first_byte_ns)).await
    }

    fn poll_finished(
        &self,
        context: &Context<'_>,
        first_byte_ns: &mut u64,
    ) -> Poll<Result<(), Broken>> {
        self.session.shared.with(|_, exchanges| {
            let Some(exchange) = exchanges.streams.get_mut(self.stream) else {
                return Poll::Ready(Ok(()));
            };
            *first_byte_ns = exchange.first_byte_ns;
            match exchange.outcome.take() {
                Some(outcome) => {
                    // Later data of this stream is ignored.
                    exchange.outcome = Some(Ok(()));
                    Poll::Ready(outcome)
                }
                None => {
                    exchange.task.register(context.waker());
                    Poll::Pending
                }
            }
        })
    }

    /// Waits until `look` returns a value. It is called whenever the intake returns
    /// [`Flow::Look`](crate::protocol::http2::intake::Flow::Look).
    ///
    /// # Errors
    /// If the exchange ends first; holds the failure, if any.
    pub(in crate::protocol) async fn until<T>(
        &self,
        mut look: impl FnMut() -> Option<T>,
    ) -> Result<T, Option<Broken>> {
        poll_fn(|context| {
            if let Some(found) = look() {
                return Poll::Ready(Ok(found));
            }
            self.poll_finished(context, &mut 0).map(|ended| Err(ended.err()))
        })
        .await
    }

    /// Sends a message within the peer's flow-control window; `false` if the stream no longer
    /// accepts data.
    pub(in crate::protocol) async fn send(&self, data: Bytes) -> bool {
        if data.is_empty() {
            return true;
        }
        let sent = self.send_data(&data, EndStream::No);
        let Ok(sent) = sent else { return false };
        if sent == data.len() {
            return true;
        }
        let mut rest = Some(data.slice(sent..));
        poll_fn(|context| {
            self.session.shared.with(|_, exchanges| {
                let Some(exchange) = exchanges.streams.get_mut(self.stream) else {
                    return Poll::Ready(false);
                };
                if let Some(rest) = rest.take() {
                    exchange.unsent = rest;
                }
                // The outcome is checked first, because a reset stream accepts no data regardless
                // of the window.
                match (&exchange.outcome, exchange.unsent.is_empty()) {
                    (Some(_), _) => Poll::Ready(false),
                    (None, true) => Poll::Ready(true),
                    (None, false) => {
                        exchange.task.register(context.waker());
                        Poll::Pending
                    }
                }
            })
        })
        .await
    }

    /// Ends this side of the stream.
    pub(in crate::protocol) fn end(&self) {
        // Fails only if the peer has already ended the stream.
        let _ = self.send_data(&[], EndStream::Yes);
    }

    fn send_data(&self, data: &[u8], ends: EndStream) -> Result<usize, SendError> {
        self.session.shared.with(|codec, _| codec.send_data(self.stream, data, ends))
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        let is_left = self.session.shared.with(|codec, exchanges| {
            exchanges.streams.remove(self.stream);
            codec.release(self.stream);
            exchanges.is_left
        });
        if is_left {
            self.session.shared.wake();
        }
        self.session.room.notify_one();
    }
}
