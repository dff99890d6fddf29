//! Connection that exchanges share: its task, its exchanges, and the wait for room for a stream.
//!
//! Single-threaded. [`tollhouse_h2::driver`] transfers the bytes.

mod call;
mod exchanges;

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::HeaderMap;
use tokio::io::AsyncWrite;
use tokio::sync::Notify;
use tollhouse_h2::RequestLine;
use tollhouse_h2::driver::{self, End, Socket};
use tollhouse_net::clock::Clock;

use super::failure::{Broken, closed, no_http2, socket};
use super::intake::Intake;
use crate::connect::Stream;
use crate::failure::Failure;
use exchanges::Exchanges;

pub(in crate::protocol) use call::Call;

/// Connection that several exchanges share.
pub(in crate::protocol) struct Session {
    shared: driver::Session<Exchanges>,
    room: Rc<Room>,
}

#[derive(Clone, Copy)]
pub(in crate::protocol) struct RequestHead<'a> {
    /// Number of a head that is constant for all requests; `None` for a head expanded from
    /// templates.
    pub(in crate::protocol) number: Option<u64>,
    pub(in crate::protocol) line: RequestLine<'a>,
    pub(in crate::protocol) headers: &'a HeaderMap,
}

impl Session {
    /// Creates a connection; its preface is still to be sent.
    pub(in crate::protocol) fn new(clock: Clock) -> Rc<Self> {
        let room = Rc::<Room>::default();
        let exchanges = Exchanges::new(clock, Rc::clone(&room));
        let shared = driver::Session::new(exchanges::codec(), exchanges);
        Rc::new(Self { shared, room })
    }

    /// Serves the connection until it ends or is no longer needed. `buffer` is scratch space for
    /// reads.
    pub(in crate::protocol) async fn drive(
        &self,
        stream: Stream,
        buffer: &RefCell<Vec<u8>>,
    ) -> Failure {
        let mut socket = Socket::new(stream, buffer);
        let failure = poll_fn(|context| self.poll_turn(context, &mut socket)).await;
        self.lose(&failure);
        // Attempts a TLS close notification without waiting for it.
        poll_fn(|context| {
            let _ = Pin::new(&mut socket.stream).poll_shutdown(context);
            Poll::Ready(())
        })
        .await;
        failure
    }

    fn poll_turn(
        &self,
        context: &mut Context<'_>,
        transport: &mut Socket<'_, Stream, Vec<u8>>,
    ) -> Poll<Failure> {
        let end = self.shared.poll_turn(context, transport);
        self.shared.with(|codec, exchanges| match end {
            Poll::Ready(End::Fault(error)) => Poll::Ready(no_http2(&error)),
            Poll::Ready(End::Broken(error)) => Poll::Ready(socket(&error, exchanges.goodbye)),
            Poll::Pending if !exchanges.is_over(codec) => Poll::Pending,
            // A connection that is no longer needed does not wait until its last frame is written.
            Poll::Ready(End::Finished | End::Closed) | Poll::Pending => {
                Poll::Ready(closed(exchanges.goodbye))
            }
        })
    }

    /// Whether the connection accepts new requests, as far as known.
    pub(in crate::protocol) fn is_usable(&self) -> bool {
        self.shared.with(|_, exchanges| exchanges.is_usable())
    }

    /// Returns the bytes sent and received since the last call.
    pub(in crate::protocol) fn take_traffic(&self) -> (u64, u64) {
        self.shared.with(|_, exchanges| std::mem::take(&mut exchanges.traffic))
    }

    /// Stops opening streams; the connection ends after those in flight.
    pub(in crate::protocol) fn leave(&self) {
        self.shared.with(|codec, exchanges| {
            exchanges.is_left = true;
            codec.drain();
        });
        self.shared.wake();
    }

    /// Opens a stream with a head and sends the body. Without a body the stream stays open for
    /// [`Call::send`]. Waits while the peer's stream limit is reached.
    ///
    /// # Errors
    /// If the connection is unusable or the request cannot be encoded; nothing was sent.
    pub(in crate::protocol) async fn open(
        self: &Rc<Self>,
        head: &RequestHead<'_>,
        body: Option<Bytes>,
        intake: &Rc<RefCell<dyn Intake>>,
    ) -> Result<Call, Broken> {
        loop {
            let opened = self.shared.with(|codec, exchanges| {
                if !exchanges.is_usable() {
                    return Some(Err(Broken::before_sending(exchanges.end())));
                }
                let has_room = exchanges::has_room(codec);
                has_room.then(|| exchanges.open(codec, head, body.as_ref(), intake))
            });
            if let Some(opened) = opened {
                return Ok(Call::new(self, opened?));
            }
            self.room.freed().await;
        }
    }

    /// Ends the connection and fails all its exchanges, so that none waits forever.
    fn lose(&self, failure: &Failure) {
        self.shared.with(|_, exchanges| exchanges.lose(failure));
    }
}

/// Exchanges that wait to open a stream.
#[derive(Default)]
struct Room {
    waiting: Cell<usize>,
    freed: Notify,
}

impl Room {
    /// Waits until there may be room for another stream.
    async fn freed(&self) {
        let _waiting = Waiting::new(&self.waiting);
        self.freed.notified().await;
    }

    /// Wakes one exchange that waits.
    fn notify_one(&self) {
        if self.waiting.get() > 0 {
            self.freed.notify_one();
        }
    }

    /// Wakes all exchanges that wait.
    fn notify_all(&self) {
        if self.waiting.get() > 0 {
            self.freed.notify_waiters();
        }
    }
}

/// Counts an exchange as waiting for a stream until dropped.
struct Waiting<'a>(&'a Cell<usize>);

impl<'a> Waiting<'a> {
    fn new(count: &'a Cell<usize>) -> Self {
        count.set(count.get() + 1);
        Self(count)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}

#[cfg(test)]
mod tests;
