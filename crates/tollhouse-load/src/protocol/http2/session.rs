//! A connection as its exchanges share it: the codec, what each exchange has received and has still to
//! send, and who is to be woken when that changes.
//!
//! All of it lives on one thread. Nobody holds a borrow across an await, and waking a task only queues it.
//! The bytes are moved by [`super::driver`].

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

/// One connection.
pub(in crate::protocol) struct Session {
    state: RefCell<State>,
    /// The task that moves the bytes.
    driver: RefCell<Option<Waker>>,
    /// Whether that task runs, or will: it looks at what there is to be sent before it rests.
    is_awake: Cell<bool>,
    /// Exchanges that wait until they may open a stream.
    waiting: Cell<usize>,
    room: Notify,
    sent_bytes: Cell<u64>,
    received_bytes: Cell<u64>,
}

#[derive(Clone, Copy)]
pub(in crate::protocol) struct RequestHead<'a> {
    /// The number of a head that is the same every time; `None` for one that was filled in.
    pub(in crate::protocol) number: Option<u64>,
    pub(in crate::protocol) line: RequestLine<'a>,
    pub(in crate::protocol) headers: &'a HeaderMap,
}

impl Session {
    /// A connection whose first bytes are still to be sent.
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

    /// Whether it takes new requests, as far as is known.
    pub(in crate::protocol) fn is_usable(&self) -> bool {
        self.state.borrow().is_usable()
    }

    /// Bytes sent and received since the last call.
    pub(in crate::protocol) fn take_traffic(&self) -> (u64, u64) {
        (self.sent_bytes.take(), self.received_bytes.take())
    }

    /// Opens no more streams; the connection ends when those under way have.
    pub(in crate::protocol) fn leave(&self) {
        {
            let mut state = self.state.borrow_mut();
            state.is_left = true;
            state.codec.drain();
        }
        self.wake();
    }

    /// Opens a stream with a head, and sends the body behind it; without one the stream stays open for
    /// [`Call::send`]. Waits while the peer takes no more streams.
    ///
    /// # Errors
    /// Nothing was sent.
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

    /// Lets those go on that wait for a stream, when `all` everybody.
    fn make_room(&self, all: bool) {
        match (self.waiting.get(), all) {
            (0, _) => {}
            (_, false) => self.room.notify_one(),
            (_, true) => self.room.notify_waiters(),
        }
    }
}

/// The driver's side.
impl Session {
    /// Begins a turn of the task that moves the bytes.
    pub(super) fn begin_turn(&self, context: &Context<'_>) {
        self.is_awake.set(true);
        let mut driver = self.driver.borrow_mut();
        if !driver.as_ref().is_some_and(|known| known.will_wake(context.waker())) {
            *driver = Some(context.waker().clone());
        }
    }

    /// Ends that turn: whoever has something to send from now on wakes the task.
    pub(super) fn end_turn(&self) {
        self.is_awake.set(false);
    }

    /// Hands out what is to be written until there is nothing left; `write` says how much was.
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

    /// Whether bytes are to be read: not where the peer takes no answers to what it asks for.
    pub(super) fn wants_input(&self) -> bool {
        self.state.borrow().codec.wants_input()
    }

    /// Whether nobody needs the connection any longer.
    pub(super) fn is_finished(&self) -> bool {
        let state = self.state.borrow();
        state.codec.is_finished() || (state.is_left && state.codec.open_streams() == 0)
    }

    /// Takes bytes from the peer, which were there at `now_ns`.
    ///
    /// # Errors
    /// The connection is over once its output has been written.
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
                    // What has ended needs no window.
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
            self.make_room(true);
        }
        Ok(())
    }

    /// What the peer said in its GOAWAY.
    pub(super) fn goodbye(&self) -> Option<ErrorCode> {
        self.state.borrow().goodbye
    }

    /// The connection is over: nobody is kept waiting for an answer.
    pub(super) fn lose(&self, failure: &Failure) {
        let mut state = self.state.borrow_mut();
        for held in state.held.iter_mut().flatten() {
            held.finish(Err(failure.clone().into()));
        }
        state.end = Some(failure.clone());
        drop(state);
        self.make_room(true);
    }
}

/// Counts an exchange that waits for a stream until it is dropped.
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
