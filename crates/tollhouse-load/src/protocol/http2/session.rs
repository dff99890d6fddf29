//! A connection as its exchanges share it: the codec, what each exchange has received and has still to
//! send, and who is to be woken when that changes.
//!
//! All of it lives on one thread. Nobody holds a borrow across an await, and waking a task only queues it.
//! The bytes are moved by [`super::driver`].

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::io;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use http::HeaderMap;
use tokio::sync::Notify;
use tollhouse_h2::{
    Connection, ConnectionError, ErrorCode, Event, Field, Limits, Rate, RequestLine, SendError,
    StreamId,
};
use tollhouse_stdx::MemoryBudget;

use super::failure::{Broken, closed};
use super::fields::{Fields, Sink};
use crate::failure::Failure;

/// The largest window that HTTP/2 knows: flow control must not throttle what is measured. What arrives is
/// dealt with at once and not kept, so that no window stands for memory.
const WINDOW_BYTES: u32 = (1 << 31) - 1;

/// Resets, pings and window updates that the peer may send: as many as an honest server at full speed, each
/// of which costs no more than an answer.
const FRAME_RATE: Rate = Rate { burst: 1_000_000, per_second: 1_000_000 };

/// Streams before the peer has said how many it takes: the least that RFC 9113 §6.5.2 recommends, so that
/// few of them are refused.
const STREAMS_AT_FIRST: u32 = 100;

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

struct State {
    codec: Connection,
    /// By slot.
    held: Vec<Option<Held>>,
    fields: Fields,
    /// What the peer said in its GOAWAY.
    goodbye: Option<ErrorCode>,
    /// How the connection ended.
    end: Option<Failure>,
    /// Whether nobody opens streams any more.
    is_left: bool,
}

/// What one exchange has on the connection.
pub(super) struct Held {
    stream: StreamId,
    pub(super) intake: Rc<RefCell<dyn Intake>>,
    /// Bytes that windows or output had no room for.
    unsent: Bytes,
    ends_behind_unsent: bool,
    outcome: Option<Result<(), Broken>>,
    first_byte_ns: u64,
    task: Option<Waker>,
}

/// Takes an answer in as it arrives, piece by piece.
pub(in crate::protocol) trait Intake {
    /// Forgets the answer before.
    fn begin(&mut self);

    /// Whether the fields of heads and trailers are looked at.
    fn wants_fields(&self) -> bool;

    /// The final head.
    ///
    /// # Errors
    /// The answer cannot be used.
    fn head(&mut self, status: u16, fields: &Fields) -> Result<Flow, Failure>;

    /// A piece of the body.
    ///
    /// # Errors
    /// The answer cannot be used.
    fn data(&mut self, data: &[u8]) -> Result<Flow, Failure>;

    /// The end of the message, with its trailers where it has them.
    ///
    /// # Errors
    /// The answer cannot be used.
    fn end(&mut self, trailers: Option<&Fields>) -> Result<(), Failure>;
}

/// What an intake wants next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::protocol) enum Flow {
    /// More.
    More,
    /// More, and that its exchange looks at what is there.
    Look,
    /// Nothing: the exchange is over.
    Enough,
}

/// The head of a request.
#[derive(Clone, Copy)]
pub(in crate::protocol) struct RequestHead<'a> {
    /// The number of a head that is the same every time; `None` for one that was filled in.
    pub(in crate::protocol) number: Option<u64>,
    pub(in crate::protocol) line: RequestLine<'a>,
    pub(in crate::protocol) headers: &'a HeaderMap,
}

/// What a peer may make a connection hold: the defaults for strangers, with windows and rates that do not
/// slow an honest server down. Deadlines are none of the codec's: an exchange has its time-out.
fn limits() -> Limits {
    Limits {
        stream_window_bytes: WINDOW_BYTES,
        stream_window_bytes_max: WINDOW_BYTES,
        window_growth_bytes: 0,
        connection_window_bytes: WINDOW_BYTES,
        resets: FRAME_RATE,
        pings: FRAME_RATE,
        window_updates: FRAME_RATE,
        ..Limits::default()
    }
}

impl Session {
    /// A connection whose first bytes are still to be sent.
    pub(in crate::protocol) fn new() -> Rc<Self> {
        let codec = Connection::client(limits(), &MemoryBudget::new(0), 0);
        let state = State {
            codec,
            held: Vec::new(),
            fields: Fields::default(),
            goodbye: None,
            end: None,
            is_left: false,
        };
        Rc::new(Self {
            state: RefCell::new(state),
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
                return Ok(Call { stream: opened?, session: Rc::clone(self) });
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

impl State {
    fn is_usable(&self) -> bool {
        self.end.is_none() && self.goodbye.is_none() && !self.is_left
    }

    /// How it ended, or why it takes nothing more.
    fn end(&self) -> Failure {
        self.end.clone().unwrap_or_else(|| closed(self.goodbye))
    }

    fn has_room(&self) -> bool {
        let is_early = !self.codec.has_peer_settings();
        self.codec.can_open() && !(is_early && self.codec.open_streams() >= STREAMS_AT_FIRST)
    }

    fn open(
        &mut self,
        head: &RequestHead<'_>,
        body: Option<&Bytes>,
        intake: &Rc<RefCell<dyn Intake>>,
    ) -> Result<StreamId, Broken> {
        let ends = body.is_some_and(Bytes::is_empty);
        let fields = head.headers.iter();
        let fields =
            fields.map(|(name, value)| Field::new(name.as_str().as_bytes(), value.as_bytes()));
        let opened = match head.number {
            Some(number) => self.codec.open_repeated(number, &head.line, fields, ends),
            None => self.codec.open(&head.line, fields, ends),
        };
        let stream = opened.map_err(Broken::unsendable)?;
        intake.borrow_mut().begin();
        let slot = stream.slot();
        if self.held.len() <= slot {
            self.held.resize_with(slot + 1, || None);
        }
        let held = Held {
            stream,
            intake: Rc::clone(intake),
            unsent: Bytes::new(),
            ends_behind_unsent: false,
            outcome: None,
            first_byte_ns: 0,
            task: None,
        };
        let held = self.held[slot].insert(held);
        if let Some(body) = body.filter(|body| !body.is_empty()) {
            let sent = self.codec.send_data(stream, body, true).map_err(Broken::unsendable)?;
            if sent < body.len() {
                held.unsent = body.slice(sent..);
                held.ends_behind_unsent = true;
            }
        }
        Ok(stream)
    }

    /// Sends what there is room for again.
    fn send_ready(&mut self) {
        let Self { codec, held, .. } = self;
        while let Some(stream) = codec.next_ready() {
            let Some(held) = find(held, stream) else { continue };
            let sent = codec.send_data(stream, &held.unsent, held.ends_behind_unsent);
            // An error means that the peer has ended the stream, which its exchange learns otherwise.
            let sent = sent.unwrap_or(held.unsent.len());
            let _ = held.unsent.split_to(sent);
            if held.unsent.is_empty() {
                held.wake();
            }
        }
    }
}

impl Held {
    /// Gives something to the intake, and notes what it makes of it.
    fn take(&mut self, give: impl FnOnce(&mut dyn Intake) -> Result<Flow, Failure>) {
        if self.outcome.is_some() {
            return;
        }
        let flow = give(&mut *self.intake.borrow_mut());
        match flow {
            Ok(Flow::More) => {}
            Ok(Flow::Look) => self.wake(),
            Ok(Flow::Enough) => self.finish(Ok(())),
            Err(failure) => self.finish(Err(failure.into())),
        }
    }

    fn finish(&mut self, outcome: Result<(), Broken>) {
        if self.outcome.is_none() {
            self.outcome = Some(outcome);
            self.wake();
        }
    }

    fn wake(&self) {
        if let Some(task) = &self.task {
            task.wake_by_ref();
        }
    }

    fn register(&mut self, context: &Context<'_>) {
        if !self.task.as_ref().is_some_and(|task| task.will_wake(context.waker())) {
            self.task = Some(context.waker().clone());
        }
    }
}

fn find(held: &mut [Option<Held>], stream: StreamId) -> Option<&mut Held> {
    let held = held.get_mut(stream.slot())?.as_mut();
    held.filter(|held| held.stream == stream)
}

/// One exchange's part of a connection; let go of when it is dropped, which cancels what is not over.
pub(in crate::protocol) struct Call {
    session: Rc<Session>,
    stream: StreamId,
}

impl Call {
    /// Waits until the answer is there or cannot come any more; `first_byte_ns` is filled in as soon as
    /// its head has come.
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
                // What still arrives is for nobody.
                held.outcome = Some(Ok(()));
                Poll::Ready(outcome)
            }
            None => {
                held.register(context);
                Poll::Pending
            }
        }
    }

    /// Waits until `look` finds something, which it is asked whenever its intake says [`Flow::Look`].
    ///
    /// # Errors
    /// The exchange is over, and there is nothing to be found.
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

    /// Sends a message, as the peer's window allows; `false` when the stream takes nothing any more.
    pub(in crate::protocol) async fn send(&self, data: Bytes) -> bool {
        if data.is_empty() {
            return true;
        }
        let sent = self.send_data(&data, false);
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
        // It fails only when the peer has ended the stream.
        let _ = self.send_data(&[], true);
    }

    fn send_data(&self, data: &[u8], ends: bool) -> Result<usize, SendError> {
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
        self.session.make_room(false);
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
