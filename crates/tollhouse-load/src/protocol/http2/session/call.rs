//! Handle of one exchange: waits for the response and sends further data.

use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Context, Poll};

use bytes::Bytes;
use tollhouse_h2::{EndStream, SendError, StreamId};

use super::Session;
use super::state::{State, find};
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
        let mut state = self.session.state.borrow_mut();
        let Some(held) = find(&mut state.held, self.stream) else { return Poll::Ready(Ok(())) };
        *first_byte_ns = held.first_byte_ns;
        match held.outcome.take() {
            Some(outcome) => {
                // Later data of this stream is ignored.
                held.outcome = Some(Ok(()));
                Poll::Ready(outcome)
            }
            None => {
                held.register(context);
                Poll::Pending
            }
        }
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
            let mut state = self.session.state.borrow_mut();
            let Some(held) = find(&mut state.held, self.stream) else { return Poll::Ready(false) };
            if let Some(rest) = rest.take() {
                held.unsent = rest;
            }
            // The outcome is checked first, because a reset stream accepts no data regardless of
            // the window.
            match (&held.outcome, held.unsent.is_empty()) {
                (Some(_), _) => Poll::Ready(false),
                (None, true) => Poll::Ready(true),
                (None, false) => {
                    held.register(context);
                    Poll::Pending
                }
            }
        })
        .await
    }

    /// Ends this side of the stream.
    pub(in crate::protocol) fn end(&self) {
        // Fails only if the peer has already ended the stream.
        let _ = self.send_data(&[], EndStream::Yes);
    }

    fn send_data(&self, data: &[u8], ends: EndStream) -> Result<usize, SendError> {
        let sent = self.session.state.borrow_mut().codec.send_data(self.stream, data, ends);
        self.session.wake();
        sent
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        let has_more_output = {
            let mut state = self.session.state.borrow_mut();
            let State { codec, held, .. } = &mut *state;
            if find(held, self.stream).is_some() {
                held[self.stream.slot()] = None;
            }
            let waiting = codec.output().len();
            codec.release(self.stream);
            codec.output().len() > waiting || state.is_left
        };
        if has_more_output {
            self.session.wake();
        }
        self.session.notify_one();
    }
}
