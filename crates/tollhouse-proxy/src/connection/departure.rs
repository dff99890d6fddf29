//! Serves a request for as long as its client is there.
//!
//! Most requests end before the first look: until then the socket is not watched, which costs nothing beside the
//! request itself.

use std::pin::Pin;
use std::task::{Context, Poll};

use tollhouse_net::Departure;

use crate::exchange::Exchange;
use crate::worker::Worker;

/// Time that a request may be pending before its client is watched, in milliseconds. A client that leaves earlier is
/// noticed then.
const LOOK_AFTER_MS: u64 = 200;

/// A client has left before its request was served.
#[derive(Debug)]
pub(crate) struct Gone;

/// A request's client, and the time from which it is watched.
pub(crate) struct Watch<'e> {
    worker: &'e Worker,
    departure: Option<&'e Departure>,
    from_ms: u64,
    /// Begun at the first look.
    noticed: Option<Pin<Box<dyn Future<Output = ()> + 'e>>>,
}

impl<'e> Watch<'e> {
    /// Has the connection's task woken for the first look. Streams of HTTP/2 are watched by their connection.
    #[inline]
    pub(crate) fn begin(cx: &Exchange<'e>) -> Self {
        let mut from_ms = u64::MAX;
        if cx.departure.is_some() {
            from_ms = cx.worker.clock.now_ms() + LOOK_AFTER_MS;
            cx.client.timer.nudge(from_ms);
        }
        Self { worker: cx.worker, departure: cx.departure, from_ms, noticed: None }
    }

    /// Outcome of a request that was just polled. Looked at after it, so that an answer that is there already is sent.
    #[inline]
    pub(crate) fn check<T>(
        &mut self,
        context: &mut Context<'_>,
        polled: Poll<T>,
    ) -> Poll<Result<T, Gone>> {
        match polled {
            Poll::Ready(served) => Poll::Ready(Ok(served)),
            Poll::Pending if self.worker.clock.now_ms() < self.from_ms => Poll::Pending,
            Poll::Pending => self.look(context).map(|()| Err(Gone)),
        }
    }

    #[cold]
    fn look(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let Some(departure) = self.departure else { return Poll::Pending };
        let noticed = self.noticed.get_or_insert_with(|| Box::pin(departure.noticed()));
        noticed.as_mut().poll(context)
    }
}
