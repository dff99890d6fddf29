//! Ends a request when its client leaves.
//!
//! Most requests finish before the first check. Until then the socket is not watched, which adds no
//! cost to the request.

use std::pin::Pin;
use std::task::{Context, Poll};

use tollhouse_net::Departure;

use crate::exchange::Exchange;
use crate::worker::Worker;

/// Delay in milliseconds before the client of a pending request is watched. A client that leaves
/// earlier is noticed then.
const LOOK_AFTER_MS: u64 = 200;

/// The client left before its request was served.
#[derive(Debug)]
pub(crate) struct Gone;

/// Watch of a request's client, active from a point in time.
pub(crate) struct Watch<'e> {
    worker: &'e Worker,
    departure: Option<&'e Departure>,
    from_ms: u64,
    /// Future that resolves when the client leaves; created at the first check.
    noticed: Option<Pin<Box<dyn Future<Output = ()> + 'e>>>,
}

impl<'e> Watch<'e> {
    /// Schedules a wake-up of the connection's task for the first check. HTTP/2 streams are watched
    /// by their connection.
    #[inline]
    pub(crate) fn begin(cx: &Exchange<'e>) -> Self {
        let mut from_ms = u64::MAX;
        if cx.departure.is_some() {
            from_ms = cx.worker.clock.now_ms() + LOOK_AFTER_MS;
            cx.client.timer.nudge(from_ms);
        }
        Self { worker: cx.worker, departure: cx.departure, from_ms, noticed: None }
    }

    /// Returns the outcome of a request after a poll. The client is checked after the request, so
    /// that a response that is ready is still sent.
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
