//! Shared state of a connection: the codec, received and pending data of each exchange, and the
//! tasks to wake.
//!
//! Single-threaded. No borrow is held across an await, and waking a task only queues it.
//! [`super::driver`] transfers the bytes.

mod call;
mod state;

use std::cell::{Cell, RefCell};
use std::io;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use http::HeaderMap;
use tokio::sync::Notify;
use tollhouse_h2::{ConnectionError, ErrorCode, Event, RequestLine};

use super::failure::Broken;
use super::fields::Sink;
use super::intake::{Flow, Intake};
use crate::failure::Failure;
use state::{State, find};

pub(in crate::protocol) use call::Call;
pub(super) use state::Held;

/// Connection that several exchanges share.
pub(in crate::protocol) struct Session {
    state: RefCell<State>,
    /// Waker of the driver task, which transfers the bytes.
    driver: RefCell<Option<Waker>>,
    /// Whether the driver runs or is scheduled; it sends pending data before it sleeps.
    is_awake: Cell<bool>,
    /// Number of exchanges that wait to open a stream.
    waiting: Cell<usize>,
    room: Notify,
    sent_bytes: Cell<u64>,
    received_bytes: Cell<u64>,
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
    pub(in crate::protocol) fn new() -> Rc<Self> {
        Rc::new(Self {
            state: RefCell::new(State::new()),
            driver: RefCell::default(),
            is_awake: Cell::new(false),
            waiting: Cell::new(0),
            room: Notify::new(),
            sent_bytes: Cell::new(0),
            received_bytes: Cell::new(0),
        })
    }

    /// Whether the connection accepts new requests, as far as known.
    pub(in crate::protocol) fn is_usable(&self) -> bool {
        self.state.borrow().is_usable()
    }

    /// Returns the bytes sent and received since the last call.
    pub(in crate::protocol) fn take_traffic(&self) -> (u64, u64) {
        (self.sent_bytes.take(), self.received_bytes.take())
    }

    /// Stops opening streams; the connection ends after those in flight.
    pub(in crate::protocol) fn leave(&self) {
        {
            let mut state = self.state.borrow_mut();
            state.is_left = true;
            state.codec.drain();
        }
        self.wake();
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
            let opened = {
                let mut state = self.state.borrow_mut();
                if !state.is_usable() {
                    return Err(Broken::before_sending(state.end()));
                }
                state.has_room().then(|| state.open(head, body.as_ref(), intake))
            };
            if let Some(opened) = opened {
                self.wake();
                return Ok(Call::new(self, opened?));
            }
            let _waiting = Waiting::new(&self.waiting);
            self.room.notified().await;
        }
    }

    fn wake(&self) {
        if !self.is_awake.replace(true)
            && let Some(driver) = &*self.driver.borrow()
        {
            driver.wake_by_ref();
        }
    }

    /// Wakes one exchange that waits for a stream.
    fn notify_one(&self) {
        if self.waiting.get() > 0 {
            self.room.notify_one();
        }
    }

    /// Wakes all exchanges that wait for a stream.
    fn notify_all(&self) {
        if self.waiting.get() > 0 {
            self.room.notify_waiters();
        }
    }
}

impl Session {
    /// Begins a turn of the driver.
    pub(super) fn begin_turn(&self, context: &Context<'_>) {
        self.is_awake.set(true);
        let mut driver = self.driver.borrow_mut();
        if !driver.as_ref().is_some_and(|known| known.will_wake(context.waker())) {
            *driver = Some(context.waker().clone());
        }
    }

    /// Ends the turn; from now on, new data to send wakes the driver.
    pub(super) fn end_turn(&self) {
        self.is_awake.set(false);
    }

    /// Passes pending output to `write`, which returns the number of bytes written, until none is
    /// left.
    pub(super) fn write_out(
        &self,
        mut write: impl FnMut(&[u8]) -> Poll<io::Result<usize>>,
    ) -> Poll<io::Result<()>> {
        let mut state = self.state.borrow_mut();
        loop {
            let output = state.codec.output();
            if output.is_empty() {
                return Poll::Ready(Ok(()));
            }
            match write(output) {
                Poll::Ready(Ok(0)) => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                Poll::Ready(Ok(bytes)) => {
                    self.sent_bytes.set(self.sent_bytes.get() + bytes as u64);
                    state.codec.written(bytes);
                    state.send_ready();
                }
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                Poll::Pending => return Poll::Pending,
            }
        }
    }

    /// Whether to read from the socket; false while the peer does not read this side's responses to
    /// control frames.
    pub(super) fn wants_input(&self) -> bool {
        self.state.borrow().codec.wants_input()
    }

    /// Whether the connection is no longer needed.
    pub(super) fn is_finished(&self) -> bool {
        let state = self.state.borrow();
        state.codec.is_finished() || (state.is_left && state.codec.open_streams() == 0)
    }

    /// Processes bytes from the peer, received at `now_ns`.
    ///
    /// # Errors
    /// If the peer violates the protocol; the connection ends after its pending output.
    pub(super) fn receive(&self, mut input: &[u8], now_ns: u64) -> Result<(), ConnectionError> {
        self.received_bytes.set(self.received_bytes.get() + input.len() as u64);
        let mut state = self.state.borrow_mut();
        let State { codec, held, fields, goodbye, .. } = &mut *state;
        let mut has_new_room = false;
        let now_ms = now_ns / 1_000_000;
        loop {
            let event = codec.receive(&mut input, now_ms, &mut Sink::new(fields, held))?;
            match event {
                None => break,
                Some(Event::Response { stream, status, ends }) => {
                    let Some(held) = find(held, stream) else { continue };
                    held.first_byte_ns = now_ns;
                    held.take(|intake| {
                        let flow = intake.head(status, fields)?;
                        if ends && flow != Flow::Enough {
                            intake.end(None)?;
                        }
                        Ok(if ends { Flow::Enough } else { flow })
                    });
                }
                Some(Event::Data { stream, data, ends }) => {
                    let Some(held) = find(held, stream) else { continue };
                    held.take(|intake| {
                        let flow = if data.is_empty() { Flow::More } else { intake.data(data)? };
                        if ends && flow != Flow::Enough {
                            intake.end(None)?;
                        }
                        Ok(if ends { Flow::Enough } else { flow })
                    });
                    // A finished stream needs no window update.
                    if !ends {
                        codec.consume(stream, data.len());
                    }
                }
                Some(Event::Trailers { stream }) => {
                    let Some(held) = find(held, stream) else { continue };
                    held.take(|intake| intake.end(Some(fields)).map(|()| Flow::Enough));
                }
                Some(Event::Reset { stream, code, cause }) => {
                    let Some(held) = find(held, stream) else { continue };
                    held.finish(Err(Broken::by_reset(code, cause)));
                }
                Some(Event::GoAway { last_stream, code }) => {
                    *goodbye = Some(code);
                    has_new_room = true;
                    let beyond = held.iter_mut().flatten();
                    for held in beyond.filter(|held| held.stream.number() > last_stream) {
                        held.finish(Err(Broken::by_go_away(code)));
                    }
                }
                Some(Event::Settings) => has_new_room = true,
                Some(Event::Interim { .. } | Event::Pong { .. } | Event::Request { .. }) => {}
            }
        }
        state.send_ready();
        drop(state);
        if has_new_room {
            self.notify_all();
        }
        Ok(())
    }

    /// Returns the error code of the peer's GOAWAY.
    pub(super) fn goodbye(&self) -> Option<ErrorCode> {
        self.state.borrow().goodbye
    }

    /// Ends the connection and fails all its exchanges, so that none waits forever.
    pub(super) fn lose(&self, failure: &Failure) {
        let mut state = self.state.borrow_mut();
        for held in state.held.iter_mut().flatten() {
            held.finish(Err(failure.clone().into()));
        }
        state.end = Some(failure.clone());
        drop(state);
        self.notify_all();
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
