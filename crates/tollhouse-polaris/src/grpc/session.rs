//! The HTTP/2 session that the calls of a connection share: codec, received and unsent bytes of
//! each call, and wakers.
//!
//! Everything is on one thread. Borrows end with each function call, and waking a task only queues
//! it.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::poll_fn;
use std::io;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use tollhouse_h2::{Connection, ConnectionError, EndStream, Event, Field, StreamId};

use super::fields::Head;
use super::limits::GATHERED_BYTES;
use super::payload::Payload;
use super::status::Status;

/// Streams and codec of one HTTP/2 connection.
pub(super) struct Session {
    state: RefCell<State>,
    /// Waker of the task that drives the connection.
    task: RefCell<Option<Waker>>,
    /// Whether that task runs now; it then looks for output itself before it rests.
    is_driving: Cell<bool>,
}

struct State {
    codec: Connection,
    /// Call states, by stream slot.
    streams: Vec<Option<CallState>>,
    head: Head,
    /// Buffer for a frame whose bytes are in two places.
    scratch: Vec<u8>,
}

/// State of a call.
struct CallState {
    stream: StreamId,
    received: VecDeque<Bytes>,
    /// Whether the client has ended its side.
    has_ended: bool,
    /// Whether the client has cancelled the call or disconnected.
    is_gone: bool,
    /// Answers that the client's window has not taken yet.
    unsent: VecDeque<Payload>,
    /// End of the call after these answers.
    last: Option<CallEnd>,
    /// Whether the call's `CallStream` was dropped.
    is_left: bool,
    task: Option<Waker>,
}

#[derive(Debug)]
enum CallEnd {
    /// Trailers with a status.
    Status(Status),
    Body,
}

/// The client has cancelled the call or disconnected.
#[derive(Debug)]
pub(super) struct ClientGone;

/// Handle of a call on its connection; releases the stream on drop.
pub(super) struct CallStream {
    session: Rc<Session>,
    id: StreamId,
}

impl Session {
    /// Creates the session of a new connection.
    pub(super) fn new(codec: Connection) -> Rc<Self> {
        let state =
            State { codec, streams: Vec::new(), head: Head::default(), scratch: Vec::new() };
        Rc::new(Self {
            state: RefCell::new(state),
            task: RefCell::default(),
            is_driving: Cell::new(false),
        })
    }

    /// Starts a turn of the driving task.
    pub(super) fn begin_turn(&self, cx: &Context<'_>) {
        self.is_driving.set(true);
        let mut task = self.task.borrow_mut();
        if !task.as_ref().is_some_and(|task| task.will_wake(cx.waker())) {
            *task = Some(cx.waker().clone());
        }
    }

    /// Ends the turn: from now on, calls with output wake the task.
    pub(super) fn end_turn(&self) {
        self.is_driving.set(false);
    }

    fn wake(&self) {
        if !self.is_driving.get()
            && let Some(task) = &*self.task.borrow()
        {
            task.wake_by_ref();
        }
    }

    /// Runs a function on the codec.
    pub(super) fn with_codec<T>(&self, act: impl FnOnce(&mut Connection) -> T) -> T {
        act(&mut self.state.borrow_mut().codec)
    }

    /// Processes bytes from the client. `begin` is called for each new call, with its head.
    ///
    /// # Errors
    /// If the connection must be closed; pending output should still be written.
    pub(super) fn receive(
        &self,
        mut input: &[u8],
        now_ms: u64,
        mut begin: impl FnMut(StreamId, &mut Head),
    ) -> Result<(), ConnectionError> {
        let mut state = self.state.borrow_mut();
        let State { codec, streams, head, .. } = &mut *state;
        while let Some(event) = codec.receive(&mut input, now_ms, head)? {
            match event {
                Event::Request { stream, ends } => {
                    put(streams, CallState { has_ended: ends, ..CallState::new(stream) });
                    begin(stream, head);
                }
                Event::Data { stream, data, ends } => {
                    // The call may have ended on this side already; its remaining input is ignored.
                    let Some(call) = find(streams, stream) else { continue };
                    if !data.is_empty() {
                        call.received.push_back(Bytes::copy_from_slice(data));
                    }
                    call.has_ended |= ends;
                    call.wake();
                }
                Event::Trailers { stream } => {
                    let Some(call) = find(streams, stream) else { continue };
                    call.has_ended = true;
                    call.wake();
                }
                Event::Reset { stream, .. } => give_up(codec, streams, stream),
                _ => {}
            }
        }
        Ok(())
    }

    /// Checks the deadlines of the protocol.
    ///
    /// # Errors
    /// If a deadline has passed that closes the connection.
    pub(super) fn tick(&self, now_ms: u64) -> Result<(), ConnectionError> {
        let mut state = self.state.borrow_mut();
        let State { codec, streams, .. } = &mut *state;
        while let Some(event) = codec.tick(now_ms)? {
            if let Event::Reset { stream, .. } = event {
                give_up(codec, streams, stream);
            }
        }
        Ok(())
    }

    /// Sends the output of streams whose window has opened, in order of priority.
    pub(super) fn send_ready(&self) {
        let mut state = self.state.borrow_mut();
        while let Some(stream) = state.codec.next_ready() {
            state.send_unsent(stream);
        }
    }

    /// Writes pending output with `write`, which returns the number of bytes written.
    pub(super) fn write_out(
        &self,
        write: impl FnOnce(&[u8]) -> Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        let mut state = self.state.borrow_mut();
        let output = state.codec.output();
        if output.is_empty() {
            return Poll::Ready(Ok(0));
        }
        let written = write(output);
        match written {
            Poll::Ready(Ok(0)) => Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
            Poll::Ready(Ok(bytes)) => {
                state.codec.written(bytes);
                written
            }
            other => other,
        }
    }

    pub(super) fn is_idle(&self) -> bool {
        self.state.borrow().codec.open_streams() == 0
    }

    /// Releases memory that an idle connection does not need.
    pub(super) fn release_memory(&self) {
        let mut state = self.state.borrow_mut();
        state.codec.release_memory();
        state.streams = Vec::new();
        state.scratch = Vec::new();
        state.head = Head::default();
    }

    /// Ends all calls, because the client has disconnected.
    pub(super) fn lose(&self) {
        let mut state = self.state.borrow_mut();
        let State { codec, streams, .. } = &mut *state;
        let ids: Vec<_> = streams.iter().flatten().map(|call| call.stream).collect();
        for stream in ids {
            give_up(codec, streams, stream);
        }
    }
}

impl State {
    /// Sends the output of a call as far as the windows allow.
    fn send_unsent(&mut self, stream: StreamId) {
        let Self { codec, streams, scratch, .. } = self;
        let Some(call) = find(streams, stream) else { return };
        while let Some(payload) = call.unsent.front_mut() {
            let (prefix, piece) = payload.front();
            let data = match (prefix, piece) {
                ([], piece) => piece,
                (prefix, []) => prefix,
                (prefix, piece) => {
                    // Joined, so that prefix and message are in one frame.
                    scratch.clear();
                    scratch.extend_from_slice(prefix);
                    scratch.extend_from_slice(&piece[..piece.len().min(GATHERED_BYTES)]);
                    scratch.as_slice()
                }
            };
            let length = data.len();
            let Ok(sent) = codec.send_data(stream, data, EndStream::No) else {
                return give_up(codec, streams, stream);
            };
            payload.advance(sent);
            if sent < length {
                return;
            }
            if payload.remaining_bytes() == 0 {
                call.unsent.pop_front();
            }
        }
        // Fails only if the client has gone; the end is not needed then.
        match call.last.take() {
            Some(CallEnd::Status(status)) => {
                let _ = codec.send_trailers(stream, status.fields().iter());
            }
            Some(CallEnd::Body) => drop(codec.send_data(stream, &[], EndStream::Yes)),
            None => {}
        }
        if call.is_left {
            release(codec, streams, stream);
        } else {
            call.wake();
        }
    }
}

impl CallState {
    fn new(stream: StreamId) -> Self {
        Self {
            stream,
            received: VecDeque::new(),
            has_ended: false,
            is_gone: false,
            unsent: VecDeque::new(),
            last: None,
            is_left: false,
            task: None,
        }
    }

    fn wake(&self) {
        if let Some(task) = &self.task {
            task.wake_by_ref();
        }
    }

    fn register(&mut self, cx: &Context<'_>) {
        if !self.task.as_ref().is_some_and(|task| task.will_wake(cx.waker())) {
            self.task = Some(cx.waker().clone());
        }
    }
}

impl CallStream {
    /// Creates the handle of the call on `stream`, which has just begun.
    pub(super) fn new(session: &Rc<Session>, stream: StreamId) -> Self {
        Self { session: Rc::clone(session), id: stream }
    }

    fn with<T>(&self, act: impl FnOnce(&mut State, StreamId) -> T) -> T {
        let done = act(&mut self.session.state.borrow_mut(), self.id);
        self.session.wake();
        done
    }

    /// Returns the next piece of the request body; `None` at its end.
    pub(super) fn poll_data(&self, cx: &Context<'_>) -> Poll<Option<Result<Bytes, ClientGone>>> {
        let mut state = self.session.state.borrow_mut();
        let State { codec, streams, .. } = &mut *state;
        let Some(call) = find(streams, self.id) else { return Poll::Ready(Some(Err(ClientGone))) };
        if let Some(piece) = call.received.pop_front() {
            let waiting = codec.output().len();
            codec.consume(self.id, piece.len());
            let has_more = codec.output().len() > waiting;
            drop(state);
            if has_more {
                self.session.wake();
            }
            return Poll::Ready(Some(Ok(piece)));
        }
        if call.has_ended {
            return Poll::Ready(None);
        }
        if call.is_gone {
            return Poll::Ready(Some(Err(ClientGone)));
        }
        call.register(cx);
        Poll::Pending
    }

    /// Waits for the end of the request body, and discards it.
    pub(super) async fn until_end(&self) -> Result<(), ClientGone> {
        while let Some(piece) = poll_fn(|cx| self.poll_data(cx)).await {
            piece?;
        }
        Ok(())
    }

    /// Whether the whole request body was consumed.
    pub(super) fn is_at_end(&self) -> bool {
        let mut state = self.session.state.borrow_mut();
        let call = find(&mut state.streams, self.id);
        call.is_none_or(|call| call.has_ended && call.received.is_empty())
    }

    /// Sends a response head; `ends` if nothing follows.
    pub(super) fn respond<'f>(
        &self,
        status: u16,
        fields: impl IntoIterator<Item = Field<'f>>,
        ends: EndStream,
    ) -> Result<(), ClientGone> {
        self.with(|state, id| state.codec.respond(id, status, fields, ends).map_err(|_| ClientGone))
    }

    /// Queues an answer without waiting.
    pub(super) fn send(&self, payload: Payload) -> Result<(), ClientGone> {
        self.with(|state, id| {
            let call =
                find(&mut state.streams, id).filter(|call| !call.is_gone).ok_or(ClientGone)?;
            call.unsent.push_back(payload);
            // Otherwise earlier answers are sent first, when the window opens.
            if call.unsent.len() == 1 {
                state.send_unsent(id);
            }
            Ok(())
        })
    }

    /// Ends the call with a status, after the queued answers.
    pub(super) fn end(&self, status: Status) -> Result<(), ClientGone> {
        self.end_with(CallEnd::Status(status))
    }

    /// Sends a plain HTTP response, for requests other than gRPC calls.
    pub(super) fn answer<'f>(
        &self,
        status: u16,
        fields: impl IntoIterator<Item = Field<'f>>,
        body: Payload,
    ) -> Result<(), ClientGone> {
        self.respond(status, fields, EndStream::No)?;
        self.send(body)?;
        self.end_with(CallEnd::Body)
    }

    fn end_with(&self, last: CallEnd) -> Result<(), ClientGone> {
        self.with(|state, id| {
            let call =
                find(&mut state.streams, id).filter(|call| !call.is_gone).ok_or(ClientGone)?;
            call.last = Some(last);
            if call.unsent.is_empty() {
                state.send_unsent(id);
            }
            Ok(())
        })
    }

    /// Waits until the client's window has taken all queued answers.
    pub(super) fn poll_taken(&self, cx: &Context<'_>) -> Poll<Result<(), ClientGone>> {
        let mut state = self.session.state.borrow_mut();
        let call = find(&mut state.streams, self.id).filter(|call| !call.is_gone);
        let Some(call) = call else { return Poll::Ready(Err(ClientGone)) };
        if call.unsent.is_empty() {
            return Poll::Ready(Ok(()));
        }
        call.register(cx);
        Poll::Pending
    }

    /// Ready when the client has cancelled the call.
    pub(super) fn poll_gone(&self, cx: &Context<'_>) -> Poll<ClientGone> {
        let mut state = self.session.state.borrow_mut();
        let call = find(&mut state.streams, self.id).filter(|call| !call.is_gone);
        let Some(call) = call else { return Poll::Ready(ClientGone) };
        call.register(cx);
        Poll::Pending
    }
}

impl Drop for CallStream {
    fn drop(&mut self) {
        self.with(|state, id| {
            let Some(call) = find(&mut state.streams, id) else { return };
            if call.last.is_some() && !call.is_gone {
                call.is_left = true;
                call.task = None;
            } else {
                release(&mut state.codec, &mut state.streams, id);
            }
        });
    }
}

fn put(streams: &mut Vec<Option<CallState>>, call: CallState) {
    let slot = call.stream.slot();
    if streams.len() <= slot {
        streams.resize_with(slot + 1, || None);
    }
    streams[slot] = Some(call);
}

fn find(streams: &mut [Option<CallState>], stream: StreamId) -> Option<&mut CallState> {
    let call = streams.get_mut(stream.slot())?.as_mut();
    call.filter(|call| call.stream == stream)
}

fn release(codec: &mut Connection, streams: &mut [Option<CallState>], stream: StreamId) {
    if find(streams, stream).is_some() {
        streams[stream.slot()] = None;
    }
    codec.release(stream);
}

/// Marks a call as cancelled, and drops its unsent answers.
fn give_up(codec: &mut Connection, streams: &mut [Option<CallState>], stream: StreamId) {
    let Some(call) = find(streams, stream) else { return };
    call.is_gone = true;
    call.unsent.clear();
    call.wake();
    if call.is_left {
        release(codec, streams, stream);
    }
}
